/* aclgrad compare A B: two tensors, or two sets of them by name. */
#include <fnmatch.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "comparison.h"
#include "options.h"
#include "recorded.h"
#include "table.h"
#include "verdict.h"
#include "whole_number.h"

enum { KEY_STANDARD = 1000, KEY_TRUSTED, KEY_BOUND, KEY_ONLY, KEY_AXES, KEY_GROUPS, KEY_DTYPE, KEY_SHAPE };

static const struct argp_option options[] = {
    {"standard", KEY_STANDARD, "NAME", 0,
     "Tolerance rule: bound, opbase, ratio:L0, ratio:L1, ratio:L2, dual1000, fa3x, cosine[:LEAST], bits. Default: "
     "opbase "
     "for floating point, bits for integers",
     1},
    {"trusted", KEY_TRUSTED, "C", 0, "The trusted tensors that ratio and fa3x measure A and B against", 1},
    {"bound", KEY_BOUND, "D", 0, "The bounds that the rule bound uses (see `aclgrad run --definition`)", 1},
    {"only", KEY_ONLY, "PATTERN", 0, "Only tensors whose name matches, like 'd?'", 1},
    {"axes", KEY_AXES, "NAMES", 0, "Names of the indices, like token,head,dim", 1},
    {"groups", KEY_GROUPS, "NAME:ENDS", 0, "Rows in groups, like batch:100,128 or expert:3,9,12 (cumulative ends)",
     1},
    OPTIONS_OF_VERDICT,
    {"shape", KEY_SHAPE, "DIMS", 0, "Shape of raw files, like 2,3,128", 1},
    {"dtype", KEY_DTYPE, "TYPE", 0, "Type of raw files: f32 f16 bf16 f64 i32 i64 u8 bool", 1},
    {0}};

static struct {
    const char *standard, *trusted, *bound, *only, *axes, *groups;
    struct tensor_file_hints hints;
    struct verdict_options verdict;
} given = {.verdict = {.worst = 5}};

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    (void)state;
    switch (key) {
    case KEY_STANDARD:
        given.standard = text;
        return 0;
    case KEY_TRUSTED:
        given.trusted = text;
        return 0;
    case KEY_BOUND:
        given.bound = text;
        return 0;
    case KEY_ONLY:
        given.only = text;
        return 0;
    case KEY_AXES:
        given.axes = text;
        return 0;
    case KEY_GROUPS:
        given.groups = text;
        return 0;
    case KEY_SHAPE:
        given.hints.shape = text;
        return 0;
    case KEY_DTYPE:
        given.hints.dtype = text;
        return 0;
    default:
        return parse_verdict_option(key, text, &given.verdict);
    }
}

static const struct argp compare_argp = {options,
                                         parse_option,
                                         "A B",
                                         "Compares the tensors of A with those of B: files (.npy, .npz, "
                                         ".safetensors, raw) or directories of .npy. A is under "
                                         "test, B is right (for ratio and fa3x: the other implementation). Exit code "
                                         "0 when all agree, 1 when not, or when "
                                         "nothing was compared.",
                                         NULL,
                                         NULL,
                                         NULL};

/* --- one pair -------------------------------------------------------------------------------------------- */

struct sides {
    struct tensor_set a, b, trusted, bound;
    struct call call; /* that A or B records: its sequences or experts are the groups of rows */
    bool has_call;
};

/* The tensor of that name; in a set of one that one, whatever its name. */
static const struct tensor *counterpart(const struct tensor_set *set, const char *name, bool is_single)
{
    return is_single && set->count == 1 ? &set->items[0] : tensor_set_find(set, name);
}

static bool parse_groups(struct axes *axes)
{
    static char name[AXIS_NAME];
    static int64_t ends[1 << 16];
    const char *colon = given.groups ? strchr(given.groups, ':') : NULL;
    if (!given.groups) {
        return true;
    }
    if (!colon || colon == given.groups || colon - given.groups >= AXIS_NAME) {
        return cli_fail(CLI_USAGE, "--groups: got '%s', want NAME:END,END,... with a NAME of 1 to %d characters",
                        given.groups, AXIS_NAME - 1);
    }
    snprintf(name, sizeof name, "%.*s", (int)(colon - given.groups), given.groups);
    axes->group = name;
    axes->group_ends = ends;
    axes->group_count = 0;
    for (const char *text = colon; *text;) {
        const int64_t i = axes->group_count++, least = i ? ends[i - 1] : 0;
        const size_t length = strcspn(++text, ",");
        if (i == sizeof ends / sizeof *ends || !whole_number(text, length, &ends[i]) || ends[i] < least) {
            return cli_fail(CLI_USAGE,
                            "--groups: got '%s', want NAME:END,END,... with at most 65536 ends that never fall",
                            given.groups);
        }
        text += length;
    }
    return true;
}

/* Groups that are not those of the tensor would name places wrongly. */
static bool groups_fit(const struct tensor *tensor, const struct axes *axes)
{
    if (!given.groups) {
        return true;
    }
    if (axes->row_axis < 0) {
        return cli_fail(CLI_USAGE, "--groups: %s has no axis called token or row; name it with --axes", tensor->name);
    }
    const int64_t rows = tensor->dims[axes->row_axis], last = axes->group_ends[axes->group_count - 1];
    return last <= rows || cli_fail(CLI_USAGE,
                                    "--groups: the last end is %" PRId64 ", %s has %" PRId64
                                    " rows; choose the tensors that have these groups with --only",
                                    last, tensor->name, rows);
}

static bool choose_axes(struct sides *s, const struct tensor *tensor, struct axes *axes)
{
    *axes = s->has_call && !given.groups ? call_axes(&s->call, tensor) : axes_of_tensor(tensor);
    return (!given.axes || axes_parse(given.axes, tensor, axes)) && parse_groups(axes) && groups_fit(tensor, axes);
}

static bool compare_pair(struct sides *s, const struct tensor *a, const struct tensor *b, struct verdict *verdict)
{
    const bool is_single = s->a.count == 1 && s->b.count == 1;
    struct comparison_sides sides = {.got = a, .want = b};
    struct standard standard;
    struct axes axes;
    sides.trusted = given.trusted ? counterpart(&s->trusted, b->name, is_single) : NULL;
    sides.bound = given.bound ? counterpart(&s->bound, b->name, is_single) : NULL;
    if (given.trusted && !sides.trusted) {
        return cli_fail(CLI_USAGE, "--trusted has no tensor '%s'", b->name);
    }
    const char *fallback = tensor_is_float(a) || tensor_is_float(b) ? "opbase" : "bits";
    if (!standard_parse(given.standard ? given.standard : fallback, &standard) || !choose_axes(s, a, &axes)) {
        return false;
    }
    if (!standard_needs_trusted(&standard)) {
        sides.trusted = NULL;
    }
    if (standard.rule != STANDARD_BOUND) {
        sides.bound = NULL;
    }
    if (a->was_column_major != b->was_column_major) {
        cli_say("aclgrad: %s: the files order elements differently (%s against %s); compared by index", a->name,
                a->was_column_major ? "column-major" : "row-major",
                b->was_column_major ? "column-major" : "row-major");
    }
    return verdict_compare(verdict, &sides, &standard, &axes);
}

/* --- all pairs ------------------------------------------------------------------------------------------- */

static bool is_wanted(const char *name)
{
    return !given.only || fnmatch(given.only, name, 0) == 0;
}

static bool compare_all(struct sides *s, struct verdict *verdict)
{
    const bool is_single = s->a.count == 1 && s->b.count == 1;
    for (int i = 0; i < s->a.count; ++i) {
        const struct tensor *a = &s->a.items[i], *b = counterpart(&s->b, a->name, is_single);
        if (!is_wanted(a->name)) {
            continue;
        }
        if (!b) {
            verdict_missing(verdict, a->name, "only in A");
        } else if (!compare_pair(s, a, b, verdict)) {
            return false;
        }
    }
    for (int i = 0; i < s->b.count && !is_single; ++i) {
        const char *name = s->b.items[i].name;
        if (is_wanted(name) && !tensor_set_find(&s->a, name)) {
            verdict_missing(verdict, name, "only in B");
        }
    }
    return true;
}

/* The shape and type of raw files are those of none here. */
static bool hints_are_used(char **operands)
{
    const char *const paths[] = {operands[0], operands[1], given.trusted, given.bound};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; ++i) {
        if (paths[i] && tensor_path_is_raw(paths[i])) {
            return true;
        }
    }
    const char *unused = given.hints.shape ? "--shape" : given.hints.dtype ? "--dtype" : NULL;
    return !unused || cli_fail(CLI_USAGE, "%s: no file here is raw, each says its own shape and type", unused);
}

/* What the rule does not look at would be believed to have been looked at. */
static bool options_are_used(char **operands)
{
    struct standard standard;
    if (!hints_are_used(operands)) {
        return false;
    }
    if (!standard_parse(given.standard ? given.standard : "opbase", &standard)) {
        return false;
    }
    if (given.trusted && !standard_needs_trusted(&standard)) {
        return cli_fail(CLI_USAGE, "--trusted: the rule %s does not use it, want --standard ratio:L0, L1, L2 or fa3x",
                        standard.name);
    }
    return !given.bound || standard.rule == STANDARD_BOUND ||
           cli_fail(CLI_USAGE, "--bound: the rule %s does not use it, want --standard bound", standard.name);
}

static bool bounds_are_sizes(const struct tensor_set *bounds)
{
    for (int i = 0; i < bounds->count; ++i) {
        for (int64_t at = 0; at < bounds->items[i].elems; ++at) {
            const double bound = tensor_get(&bounds->items[i], at);
            if (bound < 0) {
                return cli_fail(CLI_USAGE, "--bound: element %" PRId64 " of %s is %g, want at least 0", at,
                                bounds->items[i].name, bound);
            }
        }
    }
    return true;
}

static bool read_side(const char *path, struct tensor_set *set, struct sides *s)
{
    char *notes = NULL;
    if (!tensor_path_read(path, &given.hints, set, &notes)) {
        return false;
    }
    if (notes && !s->has_call) {
        s->has_call = recorded_describe(notes, set, &s->call);
        if (!s->has_call) {
            call_destroy(&s->call);
        }
    }
    free(notes);
    return true;
}

static bool read_sides(char **operands, struct sides *s)
{
    return options_are_used(operands) && read_side(operands[0], &s->a, s) && read_side(operands[1], &s->b, s) &&
           (!given.trusted || tensor_path_read(given.trusted, &given.hints, &s->trusted, NULL)) &&
           (!given.bound ||
            (tensor_path_read(given.bound, &given.hints, &s->bound, NULL) && bounds_are_sizes(&s->bound)));
}

int command_compare(int argc, char **argv)
{
    char **operands;
    struct sides sides = {0};
    struct verdict verdict;
    options_parse(&compare_argp, argc, argv, 2, 2, &operands);
    verdict_begin(&verdict, &given.verdict);
    bool is_good = read_sides(operands, &sides);
    if (is_good) {
        progress_begin("compare", 0);
        is_good = compare_all(&sides, &verdict);
        progress_end();
    }
    const int code = is_good ? verdict_end(&verdict, "compare") : cli_report();
    if (!is_good) {
        verdict_discard(&verdict);
    }
    tensor_set_destroy(&sides.a);
    tensor_set_destroy(&sides.b);
    tensor_set_destroy(&sides.trusted);
    tensor_set_destroy(&sides.bound);
    call_destroy(&sides.call);
    free(operands);
    return code;
}
