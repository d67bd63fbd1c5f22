#include "verdict.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "diagnosis.h"
#include "error_map.h"
#include "options.h"

error_t parse_verdict_option(int key, char *text, struct verdict_options *options)
{
    int64_t number;
    switch (key) {
    case KEY_SVG:
        options->svg = text;
        return 0;
    case KEY_WORST:
        if (!parse_count("--worst", text, 0, MOST_WORST, &number)) {
            exit(cli_report());
        }
        options->worst = (int)number;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

void verdict_begin(struct verdict *v, const struct verdict_options *options)
{
    memset(v, 0, sizeof *v);
    v->options = options;
    v->passed[0] = v->wrong[0] = ' '; /* names have a space on both sides */
    table_init(&v->results, "results",
               options->has_problems
                   ? "tensor verdict elems bad max_error worst_ratio zero_percent standard worst_at reason problem"
                   : "tensor verdict elems bad max_error worst_ratio zero_percent standard worst_at reason");
    table_init(&v->worst, "worst", "tensor place got want error limit");
    table_init(&v->findings, "findings", "tensor finding text");
}

static void remember(char names[512], const char *name)
{
    const size_t used = strlen(names);
    snprintf(names + used, 512 - used, "%s ", name);
}

/* --- details of one tensor ------------------------------------------------------------------------------- */

/* Text is kept until the table of results has been printed. */
static void note_worst(struct verdict *v, const struct comparison_sides *sides, const struct axes *axes,
                       const struct comparison *c)
{
    for (int i = 0; i < c->worst_count && i < v->options->worst; ++i) {
        const struct worst_element *e = &c->worst[i];
        char place[PLACE_TEXT];
        axes_place(axes, sides->got, e->at, place);
        if (sides->got->dtype == AG_INT64 && sides->want->dtype == AG_INT64) { /* a double would lose digits */
            const int64_t *got = sides->got->data, *want = sides->want->data;
            table_row(&v->worst, "ssddgg", sides->got->name, place, got[e->at], want[e->at], e->error, e->limit);
        } else if (isnan(e->limit)) { /* the rule has none for single elements */
            table_row(&v->worst, "ssgggs", sides->got->name, place, e->got, e->want, e->error, "");
        } else {
            table_row(&v->worst, "ssgggg", sides->got->name, place, e->got, e->want, e->error, e->limit);
        }
    }
}

static void note_findings(struct verdict *v, const struct comparison_sides *sides, const struct standard *standard,
                          const struct axes *axes)
{
    struct diagnosis diagnosis;
    diagnose(sides, standard, axes, &diagnosis);
    for (int i = 0; i < diagnosis.count; ++i) {
        table_row(&v->findings, "sss", sides->got->name, diagnosis.findings[i].code, diagnosis.findings[i].text);
    }
}

/* The map is kept as text: table_line would print it before the table of results. */
struct kept_map {
    struct kept_map *next;
    char *name;
    struct error_map map;
};
static struct kept_map *kept_maps, **kept_maps_end = &kept_maps;

static void keep_map(const char *name, const struct error_map *map)
{
    struct kept_map *kept = malloc(sizeof *kept);
    if (kept) {
        *kept = (struct kept_map){NULL, strdup(name), *map};
        *kept_maps_end = kept;
        kept_maps_end = &kept->next;
    }
}

static bool draw(struct verdict *v, const struct comparison_sides *sides, const struct standard *standard,
                 const struct axes *axes, const struct comparison *c)
{
    const bool draws_picture = v->options->svg && (!v->has_svg || (!c->is_passed && !v->has_failed_svg));
    if (c->is_passed && !draws_picture) {
        return true;
    }
    struct error_map map;
    error_map_fill(sides, standard, axes, c, &map);
    if (!c->is_passed) {
        keep_map(sides->got->name, &map);
    }
    if (!draws_picture) {
        return true;
    }
    char title[200];
    snprintf(title, sizeof title, "%s: %s, %s", sides->got->name, standard->name, c->is_passed ? "passed" : "failed");
    v->has_svg = true;
    v->has_failed_svg = !c->is_passed;
    return error_map_write_svg(v->options->svg, title, &map);
}

/* --- the whole ------------------------------------------------------------------------------------------- */

/* Not comparable is not equal. */
static void note_mismatch(struct verdict *v, const struct comparison_sides *sides, const struct standard *standard,
                          const char *why)
{
    table_row(&v->results, "ssdssssssss", sides->got->name, "FAILED", sides->got->elems, NULL, NULL, NULL, NULL,
              standard->name, "", why, v->problem);
    ++v->compared;
    ++v->failed;
    remember(v->wrong, sides->got->name);
}

bool verdict_compare(struct verdict *v, const struct comparison_sides *sides, const struct standard *standard,
                     const struct axes *axes)
{
    struct comparison c;
    char why[2 * AG_SHAPE_TEXT + 32];
    if (!sides_match(sides, standard, why, sizeof why)) {
        note_mismatch(v, sides, standard, why);
        return true;
    }
    if (!compare_tensors(sides, standard, v->options->worst > 0 ? v->options->worst : 1, &c)) {
        return false;
    }
    const char *word = !c.elems ? "EMPTY" : !c.is_passed ? "FAILED" : c.is_mistrusted ? "MISTRUSTED" : "passed";
    const double zero_percent = c.elems ? 100.0 * (double)c.zeros / (double)c.elems : 0;
    char place[PLACE_TEXT] = "";
    if (c.worst_count > 0) {
        axes_place(axes, sides->got, c.worst[0].at, place);
    }
    if (standard->rule == STANDARD_BITS) { /* it passes equal bytes over without looking for zeros */
        table_row(&v->results, "ssddggsssss", sides->got->name, word, c.elems, c.bad, c.max_error, c.worst_ratio,
                  NULL, standard->name, place, c.reason, v->problem);
    } else {
        table_row(&v->results, "ssddgggssss", sides->got->name, word, c.elems, c.bad, c.max_error, c.worst_ratio,
                  zero_percent, standard->name, place, c.reason, v->problem);
    }
    v->compared += c.elems > 0;
    v->empty += c.elems == 0;
    v->failed += !c.is_passed;
    v->mistrusted += c.is_mistrusted;
    if (c.elems > 0) {
        remember(c.is_passed ? v->passed : v->wrong, sides->got->name);
    }
    if (!c.is_passed) {
        note_worst(v, sides, axes, &c);
        note_findings(v, sides, standard, axes);
    }
    return draw(v, sides, standard, axes, &c);
}

void verdict_missing(struct verdict *v, const char *name, const char *why)
{
    table_row(&v->results, "ssddggsssss", name, "MISSING", (int64_t)0, (int64_t)0, 0.0, 0.0, NULL, "", "", why,
              v->problem);
    ++v->missing;
}

void verdict_note(struct verdict *v, const char *tensor, const char *code, const char *text)
{
    table_row(&v->findings, "sss", tensor, code, text);
}

static bool has_name(const char *names, const char *name)
{
    char padded[64];
    snprintf(padded, sizeof padded, " %s ", name);
    return strstr(names, padded) != NULL;
}

/* What the pattern of right and wrong outputs of attention points at. */
static void note_pattern(struct verdict *v)
{
    if (has_name(v->passed, "dv") && has_name(v->wrong, "dq") && has_name(v->wrong, "dk")) {
        verdict_note(v, NULL, "delta",
                     "dv is right, dq and dk are wrong: suspect attentionIn, or its row sums with dy");
    } else if (has_name(v->passed, "dv") && has_name(v->wrong, "dq") && has_name(v->passed, "dk")) {
        verdict_note(v, NULL, "dq-only",
                     "dv and dk are right, dq is wrong: suspect the sum over keys, or dq's own store");
    }
}

/* The first of the kept maps, now the caller's. */
static struct kept_map *take_map(void)
{
    struct kept_map *kept = kept_maps;
    kept_maps = kept->next;
    kept_maps_end = kept_maps ? kept_maps_end : &kept_maps;
    return kept;
}

static void free_map(struct kept_map *kept)
{
    free(kept->name);
    free(kept);
}

static void print_maps(void)
{
    while (kept_maps) {
        struct kept_map *kept = take_map();
        table_line("\n%s", kept->name ? kept->name : "");
        error_map_print(&kept->map);
        free_map(kept);
    }
}

static void print_part(struct table *table, const char *title)
{
    if (json_array_size(table->rows) > 0 || cli.format == CLI_JSON) {
        table_line("\n%s", title);
        table_print(table);
    } else {
        table_discard(table);
    }
}

void verdict_discard(struct verdict *v)
{
    table_discard(&v->results);
    table_discard(&v->worst);
    table_discard(&v->findings);
    while (kept_maps) {
        free_map(take_map());
    }
}

int verdict_end(struct verdict *v, const char *command)
{
    const bool is_passed = v->failed == 0 && v->missing == 0 && v->compared > 0;
    note_pattern(v);
    table_print(&v->results);
    if (v->extra) {
        print_part(v->extra, v->extra->name);
    }
    print_part(&v->worst, "worst elements");
    print_maps();
    print_part(&v->findings, "findings");
    table_line("\n%s: %d compared, %d failed, %d missing%s%s", is_passed ? "PASSED" : "FAILED", v->compared,
               v->failed, v->missing,
               v->mistrusted ? ", some MISTRUSTED: nearly all of what they were compared with is zero" : "",
               v->compared > 0 ? ""
               : v->empty > 0  ? "; nothing was compared: no tensor has elements"
                               : "; nothing was compared");
    table_set("verdict", json_string(is_passed ? "passed" : "failed"));
    table_set("compared", json_integer(v->compared));
    table_finish(command);
    return is_passed ? CLI_OK : CLI_CHECK_FAILED;
}
