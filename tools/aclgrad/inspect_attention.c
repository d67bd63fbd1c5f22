/* Self-checks of an attention call's inputs. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call_attention.h"
#include "cli.h"
#include "facts.h"
#include "inspect.h"

/* --- which elements are read ----------------------------------------------------------------------------- */

/* Marks query rows that see something, or keys that are seen. */
static char *mark_rows(const struct attention_problem *p, bool is_key)
{
    char *marks = calloc((size_t)(is_key ? p->key_rows : p->query_rows) + 1, 1);
    for (int64_t b = 0; marks && b < p->sequence_count; ++b) {
        const struct attention_sequence *s = &p->sequences[b];
        for (int64_t i = 0; i < s->query_len; ++i) {
            const struct attention_columns c = attention_visible_columns(s, i);
            if (is_key) {
                memset(marks + s->key_begin + c.begin, 1, (size_t)(c.end - c.begin));
            } else {
                marks[s->query_begin + i] = c.begin < c.end;
            }
        }
    }
    return marks;
}

enum { QUERY_SIDE = 4, ALL = 7 };

/* `names`: those of query rows, then those of keys; what the call has not is left out. */
static void inspect_values(struct call *call, const struct attention_problem *p, const char *const names[ALL],
                           const struct findings *findings)
{
    char *marks[2] = {mark_rows(p, false), mark_rows(p, true)};
    for (int i = 0; marks[0] && marks[1] && i < ALL; ++i) {
        const struct tensor *t = tensor_set_find(&call->inputs, names[i]);
        if (t && t->rank == 3 && t->elems > 0) {
            const struct axes axes = call_axes(call, t);
            inspect_numbers(t, &axes, marks[i >= QUERY_SIDE], t->dims[1] * t->dims[2], findings);
        }
    }
    free(marks[0]);
    free(marks[1]);
}

/* --- statistics ------------------------------------------------------------------------------------------ */

enum { ORDERS = 3 };
static const enum ag_softmax_layout orders[ORDERS] = {AG_SOFTMAX_CANN, AG_SOFTMAX_TND, AG_SOFTMAX_NTD};

struct tally {
    int64_t rows, matching[ORDERS];
    int64_t blind;    /* rows that see nothing */
    int64_t bad_sums; /* sum is not a positive number */
    struct row_place {
        int64_t batch, head, token;
    } first_bad, first_blind, first_sum;
    bool has_bad;
    double first_total; /* sum of P of the first bad row, as the data are declared */
};

static double statistic(const struct ag_view *view, int64_t row)
{
    return ((const float *)ag_view_origin(view))[attention_statistics_offset(view, row)];
}

/* P sums to 1 when log-sum-exp of the scores equals max + log(sum). Statistics are floats of scores up to some
 * hundreds, taken from 16-bit matmuls: a thousandth is generous, and another row's statistics are far off. */
static bool normalises(const struct row_statistics *row, double max, double sum, double *total)
{
    *total = fabs(row->sum * exp(row->max - max) / sum); /* of NaN, the sign: not printed */
    return fabs(log(*total)) <= 1e-3 + 1e-5 * fabs(row->max);
}

static void tally_row(const struct attention_problem *p, const struct attention_sequence *s, int64_t n, int64_t i,
                      struct tally *t)
{
    const struct row_statistics row = attention_row_statistics(p, s, n, i);
    const struct row_place place = {s->batch, n, i};
    if (row.visible == 0) {
        t->first_blind = t->blind++ ? t->first_blind : place;
        return;
    }
    ++t->rows;
    for (int k = 0; k < ORDERS; ++k) {
        const int64_t at = attention_statistics_row(p, orders[k], s, n, i);
        const double max = statistic(&p->softmax_max, at), sum = statistic(&p->softmax_sum, at);
        double total;
        const bool is_good = normalises(&row, max, sum, &total);
        t->matching[k] += is_good;
        if (k == 0 && !(sum > 0)) {
            t->first_sum = t->bad_sums++ ? t->first_sum : place;
        }
        if (k == 0 && !is_good && !t->has_bad) {
            t->has_bad = true;
            t->first_bad = place;
            t->first_total = total;
        }
    }
}

/* "(batch 1, head 0, token 17)" */
static const char *place_text(const struct row_place *place, char text[96])
{
    snprintf(text, 96, "(batch %" PRId64 ", head %" PRId64 ", token %" PRId64 ")", place->batch, place->head,
             place->token);
    return text;
}

static void report_statistics(const struct tally *t, const struct findings *findings)
{
    char place[96];
    if (t->blind > 0) {
        add_finding(findings, SEVERITY_NOTE, "attenMask", "blind-rows",
                    "%" PRId64 " %s no key, the first is %s: their gradients are zero", t->blind,
                    word_for(t->blind, "row sees", "rows see"), place_text(&t->first_blind, place));
    }
    if (t->bad_sums > 0) {
        add_finding(findings, SEVERITY_ERROR, "softmaxSum", "statistics",
                    "%" PRId64 " %s not positive, the first at %s", t->bad_sums,
                    word_for(t->bad_sums, "sum is", "sums are"), place_text(&t->first_sum, place));
    }
    if (t->rows == 0 || t->matching[0] == t->rows) {
        return;
    }
    for (int k = 1; k < ORDERS; ++k) {
        if (t->matching[k] == t->rows) {
            add_finding(findings, SEVERITY_ERROR, "softmaxMax", "statistics-order",
                        "softmaxMax/softmaxSum inconsistent, first bad %s: they normalise in the order %s (%" PRId64
                        " of %" PRId64 " rows), not in the device's order cann (%" PRId64 " rows)",
                        place_text(&t->first_bad, place), k == 1 ? "tnd, [T, N, 8]" : "ntd, [N, T, 8]",
                        t->matching[k], t->rows, t->matching[0]);
            return;
        }
    }
    const bool is_all = t->matching[0] == 0;
    add_finding(findings, is_all ? SEVERITY_WARNING : SEVERITY_ERROR, "softmaxMax", "statistics",
                "softmaxMax/softmaxSum inconsistent, first bad %s: its P sum to %.4g, want 1; %" PRId64 " of %" PRId64
                " rows normalise%s",
                place_text(&t->first_bad, place), t->first_total, t->matching[0], t->rows,
                is_all ? " (statistics merged over several chunks of keys, as in ring attention, look like this too)"
                       : "");
}

/* Every row up to a budget of pairs, beyond that every step-th. */
static void inspect_statistics(const struct attention_problem *p, const struct findings *findings)
{
    const double budget = 1e8; /* products: a second or two */
    struct tally tally = {0};
    double pairs = 0;
    for (int64_t b = 0; b < p->sequence_count; ++b) {
        pairs += (double)p->sequences[b].query_len * (double)p->sequences[b].key_len;
    }
    const double work = pairs * (double)p->query_heads * (double)(p->dim + p->rope_dim);
    const int64_t step = work > budget ? (int64_t)(work / budget) + 1 : 1;
    int64_t number = 0;
    progress_begin("statistics", p->query_rows);
    for (int64_t b = 0; b < p->sequence_count; ++b) {
        for (int64_t i = 0; i < p->sequences[b].query_len; ++i) {
            for (int64_t n = 0; n < p->query_heads; ++n) {
                if (number++ % step == 0) {
                    tally_row(p, &p->sequences[b], n, i, &tally);
                }
            }
            progress_step(1);
        }
    }
    progress_end();
    if (step > 1) {
        add_finding(findings, SEVERITY_NOTE, "softmaxMax", "sampled",
                    "of the softmax statistics one row in %" PRId64 " was looked at", step);
    }
    report_statistics(&tally, findings);
}

/* --- mask ------------------------------------------------------------------------------------------------ */

static void inspect_mask(const struct call *call, const struct attention_problem *p, const struct findings *findings)
{
    const struct tensor *mask = tensor_set_find(&call->inputs, "attenMask");
    const uint8_t *bytes = mask ? mask->data : NULL;
    int64_t odd = 0;
    if (!mask || !p->has_mask) {
        return;
    }
    for (int64_t at = 0; at < mask->elems; ++at) {
        odd += bytes[at] > 1;
    }
    if (odd > 0) {
        add_finding(findings, SEVERITY_NOTE, "attenMask", "mask-bytes",
                    "%" PRId64 " %s neither 0 nor 1; any byte but 0 hides", odd,
                    word_for(odd, "byte is", "bytes are"));
    }
    for (int64_t at = 0; !p->has_mask_bytes && mask->rank == 2 && at < mask->elems; ++at) {
        const int64_t i = at / mask->dims[1], j = at % mask->dims[1];
        if ((bytes[at] != 0) != (i < 2048 ? j > i : j >= 1024)) {
            add_finding(findings, SEVERITY_WARNING, "attenMask", "mask-triangle",
                        "the compressed mask is not the triangle, first at [%" PRId64 ", %" PRId64
                        "]: the library goes by sparse mode %" PRId64 " and does not read it, a device does",
                        i, j, p->sparse_mode);
            return;
        }
    }
}

/* --- the whole ------------------------------------------------------------------------------------------- */

bool inspect_attention(struct call *call, const struct findings *findings)
{
    static const char *const names[ALL] = {"query", "queryRope", "dy", "attentionIn", "keyIn", "keyInRope", "value"};
    struct tensor_set outputs = {0};
    struct checked_attention checked = {0};
    if (!operation_of(call)->make_outputs(call, &outputs)) {
        return false;
    }
    if (!check_attention(call, &outputs, &checked)) {
        add_finding(findings, SEVERITY_ERROR, "", "rejected", "%s", cli_failure());
        cli_forgive();
    } else if (!checked.problem.is_nothing) {
        inspect_values(call, &checked.problem, names, findings);
        inspect_mask(call, &checked.problem, findings);
        inspect_statistics(&checked.problem, findings);
    }
    release_attention(&checked);
    tensor_set_destroy(&outputs);
    return true;
}

bool inspect_attention_forward(struct call *call, const struct findings *findings)
{
    static const char *const names[ALL] = {"query", "queryRope", "", "", "key", "keyRope", "value"};
    struct tensor_set outputs = {0};
    struct checked_attention checked = {0};
    if (!operation_of(call)->make_outputs(call, &outputs)) {
        return false;
    }
    if (!check_attention_forward(call, &outputs, &checked)) {
        add_finding(findings, SEVERITY_ERROR, "", "rejected", "%s", cli_failure());
        cli_forgive();
    } else if (!checked.problem.is_nothing) {
        inspect_values(call, &checked.problem, names, findings);
        inspect_mask(call, &checked.problem, findings);
    }
    release_attention(&checked);
    tensor_set_destroy(&outputs);
    return true;
}
