/* Where the softmax statistics of a row lie, and how the order is found out when nobody says.
 *
 * The declared shape [T1, N1, 8] does not tell the order: the forward operator writes one dense [N1, Sq, 8] block per
 * sequence (CANN), a program that follows the documents literally writes [T1, N1, 8] (TND). With the order AUTO a few
 * rows' log-sum-exp are computed and compared with max + log(sum) under each reading. TND or NTD is chosen only when
 * it fits all of them and CANN does not: statistics that fit nothing locally (merged over key chunks, as ring
 * attention does) are read as CANN. */
#include <assert.h>
#include <inttypes.h>
#include <math.h>

#include "base/elem.h"
#include "base/log.h"
#include "op/attention/attention.h"

enum { LAYOUTS = AG_SOFTMAX_NTD + 1 }; /* AUTO's place stays unused */

/* --- where ----------------------------------------------------------------------------------------------- */

int64_t attention_statistics_row(const struct attention_problem *problem, enum ag_softmax_layout layout,
                                 const struct attention_sequence *sequence, int64_t head, int64_t row)
{
    const int64_t token = sequence->query_begin + row;
    switch (layout) {
    case AG_SOFTMAX_TND:
        return token * problem->query_heads + head;
    case AG_SOFTMAX_NTD:
        return head * problem->query_rows + token;
    default:
        assert(layout == AG_SOFTMAX_CANN);
        return sequence->query_begin * problem->query_heads + head * sequence->query_len + row;
    }
}

int64_t attention_statistics_offset(const struct ag_view *statistics, int64_t statistics_row)
{
    return statistics_row / statistics->dims[1] * statistics->strides[0] +
           statistics_row % statistics->dims[1] * statistics->strides[1];
}

const char *attention_layout_name(enum ag_softmax_layout layout)
{
    static const char *const names[] = {"auto", "cann", "tnd", "ntd"};
    return names[layout];
}

/* --- one row's log-sum-exp, and what the statistics say about it ----------------------------------------- */

struct probe {
    const struct attention_sequence *sequence;
    int64_t head, row;
};

/* sum over d of a[i, n, d] * b[j, h, d]; *magnitude gains the sum of absolute values. */
static double dot(const struct ag_view *a, int64_t i, int64_t n, const struct ag_view *b, int64_t j, int64_t h,
                  double *magnitude)
{
    const enum ag_elem elem = ag_elem_of(a->dtype);
    const int64_t a_row = i * a->strides[0] + n * a->strides[1], b_row = j * b->strides[0] + h * b->strides[1];
    const void *a_origin = ag_view_origin(a), *b_origin = ag_view_origin(b);
    double sum = 0;
    for (int64_t d = 0; d < a->dims[2]; ++d) {
        const double product = (double)ag_elem_load(elem, a_origin, a_row + d * a->strides[2]) *
                               ag_elem_load(elem, b_origin, b_row + d * b->strides[2]);
        sum += product;
        *magnitude += fabs(product);
    }
    return sum;
}

static double score_of(const struct attention_problem *p, const struct probe *at, int64_t column, double *magnitude)
{
    const int64_t t = at->sequence->query_begin + at->row, key = at->sequence->key_begin + column;
    const int64_t h = at->head / p->group;
    double sum = dot(&p->query, t, at->head, &p->key, key, h, magnitude);
    if (p->has_rope) {
        sum += dot(&p->query_rope, t, at->head, &p->key_rope, key, h, magnitude);
    }
    return p->scale * sum;
}

/* The sink's score: one more column of the softmax. */
static double sink_of(const struct attention_problem *p, int64_t head)
{
    return p->sink.present ? ((const float *)ag_view_origin(&p->sink))[head * p->sink.strides[0]] : -INFINITY;
}

/* Log-sum-exp over the row's visible columns; -INFINITY when there are none. *slack: what a right forward in fp32 may
 * be off, and then some. */
static double log_sum_exp(const struct attention_problem *p, const struct probe *at, double *slack)
{
    const struct attention_sequence *s = at->sequence;
    const struct attention_columns columns = attention_visible_columns(s, at->row);
    const struct attention_mask_row mask = attention_mask_row(p, s, at->head, at->row);
    double most = -INFINITY, sum = 0, most_magnitude = 0;
    for (int64_t j = columns.begin; j < columns.end; ++j) {
        double magnitude = 0;
        if (mask.bytes && mask.bytes[j * mask.stride]) {
            continue;
        }
        const double score = score_of(p, at, j, &magnitude);
        sum = score > most ? sum * exp(most - score) + 1 : sum + exp(score - most);
        most = score > most ? score : most;
        most_magnitude = magnitude > most_magnitude ? magnitude : most_magnitude;
    }
    if (isfinite(most) && isfinite(sink_of(p, at->head))) {
        sum += exp(sink_of(p, at->head) - most);
    }
    *slack =
        2e-3 + 1e-4 * fabs(most) + (double)(p->dim + p->rope_dim) * 0x1p-24 * fabs((double)p->scale) * most_magnitude;
    return most + log(sum);
}

static double read_statistics(const struct attention_problem *p, enum ag_softmax_layout layout,
                              const struct probe *at)
{
    const int64_t row = attention_statistics_row(p, layout, at->sequence, at->head, at->row);
    const float *max = ag_view_origin(&p->softmax_max), *sum = ag_view_origin(&p->softmax_sum);
    return max[attention_statistics_offset(&p->softmax_max, row)] +
           log((double)sum[attention_statistics_offset(&p->softmax_sum, row)]);
}

/* --- the choice ------------------------------------------------------------------------------------------ */

enum {
    MOST_PROBES = 16,
    MOST_TRIES = 64,
    NEAR = 256 /* the first columns and their first rows are chosen from: under a causal mask these are cheap */
};

static uint64_t scatter(uint64_t value)
{
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
    return value ^ (value >> 31);
}

static int64_t count_busy(const struct attention_problem *p)
{
    int64_t busy = 0;
    for (int64_t b = 0; b < p->sequence_count; ++b) {
        busy += p->sequences[b].query_len > 0 && p->sequences[b].key_len > 0;
    }
    return busy;
}

/* The n-th sequence that has queries and keys. */
static const struct attention_sequence *find_busy(const struct attention_problem *p, int64_t n)
{
    const struct attention_sequence *s = p->sequences;
    for (;; ++s) {
        if (s->query_len > 0 && s->key_len > 0 && n-- == 0) {
            return s;
        }
    }
}

static uint64_t at_most_near(int64_t count)
{
    return (uint64_t)(count < NEAR ? count : NEAR);
}

/* The k-th row to try: spread over sequences, heads and columns, and one that sees its column (but for mask bytes). */
static struct probe pick_probe(const struct attention_problem *p, int64_t busy, int k)
{
    const uint64_t random = scatter(2 * (uint64_t)k + 1), more = scatter(2 * (uint64_t)k + 2);
    const struct attention_sequence *sequence = find_busy(p, busy > MOST_TRIES ? k * busy / MOST_TRIES : k % busy);
    const struct attention_columns rows =
        attention_visible_rows(sequence, (int64_t)(random % at_most_near(sequence->key_len)));
    const uint64_t seen = at_most_near(rows.end - rows.begin);
    return (struct probe){sequence, (int64_t)(random / 7 % (uint64_t)p->query_heads),
                          seen ? rows.begin + (int64_t)(more % seen)
                               : (int64_t)(more % (uint64_t)sequence->query_len)};
}

static bool readings_differ(const struct attention_problem *p, const struct probe *at)
{
    const int64_t cann = attention_statistics_row(p, AG_SOFTMAX_CANN, at->sequence, at->head, at->row);
    return cann != attention_statistics_row(p, AG_SOFTMAX_TND, at->sequence, at->head, at->row) ||
           cann != attention_statistics_row(p, AG_SOFTMAX_NTD, at->sequence, at->head, at->row);
}

/* fits[layout] stays true while the statistics of every probed row fit under that reading. */
static void probe_layouts(const struct attention_problem *p, int64_t busy, bool fits[LAYOUTS])
{
    int probes = 0;
    for (int k = 0; k < MOST_TRIES && probes < MOST_PROBES && (fits[AG_SOFTMAX_TND] || fits[AG_SOFTMAX_NTD]); ++k) {
        double slack = 0;
        const struct probe at = pick_probe(p, busy, k);
        const double want = readings_differ(p, &at) ? log_sum_exp(p, &at, &slack) : -INFINITY;
        if (!isfinite(want)) {
            continue; /* tells nothing: the same place in every order, nothing visible, or not a number */
        }
        for (int layout = AG_SOFTMAX_CANN; layout < LAYOUTS; ++layout) {
            const double got = read_statistics(p, (enum ag_softmax_layout)layout, &at);
            fits[layout] = fits[layout] && fabs(got - want) <= slack;
        }
        ++probes;
    }
}

static enum ag_softmax_layout decide(const struct attention_problem *p)
{
    /* Orders that are CANN's by another name need no probing. */
    bool fits[LAYOUTS] = {[AG_SOFTMAX_CANN] = true,
                          [AG_SOFTMAX_TND] = p->max_query_len > 1,
                          [AG_SOFTMAX_NTD] = p->max_query_len < p->query_rows};
    const int64_t busy = count_busy(p);
    if (p->softmax_layout != AG_SOFTMAX_AUTO) {
        return p->softmax_layout;
    }
    if (busy == 0) {
        return AG_SOFTMAX_CANN;
    }
    probe_layouts(p, busy, fits);
    if (fits[AG_SOFTMAX_CANN]) {
        return AG_SOFTMAX_CANN;
    }
    return fits[AG_SOFTMAX_TND] ? AG_SOFTMAX_TND : fits[AG_SOFTMAX_NTD] ? AG_SOFTMAX_NTD : AG_SOFTMAX_CANN;
}

/* --- ACLGRAD_DEBUG=1: do the statistics normalise? ------------------------------------------------------- */

enum { MOST_SAMPLES = 256 };

struct survey {
    enum ag_softmax_layout layout; /* the reading in use */
    int64_t samples, bad;
    int64_t misfits[LAYOUTS]; /* bad rows under each reading */
    struct probe first;       /* the first bad row in the order sequence, head, row */
    double first_sum;         /* its sum of P */
};

static void survey_row(const struct attention_problem *p, const struct probe *at, struct survey *survey)
{
    double slack;
    const double want = log_sum_exp(p, at, &slack);
    if (!isfinite(want)) {
        return;
    }
    ++survey->samples;
    for (int layout = AG_SOFTMAX_CANN; layout < LAYOUTS; ++layout) {
        const double got = read_statistics(p, (enum ag_softmax_layout)layout, at);
        const bool is_bad = !(fabs(got - want) <= slack);
        survey->misfits[layout] += is_bad;
        if (is_bad && layout == (int)survey->layout && survey->bad++ == 0) {
            survey->first = *at;
            survey->first_sum = exp(want - got);
        }
    }
}

static const char *other_fit(const struct survey *survey)
{
    for (int layout = AG_SOFTMAX_CANN; layout < LAYOUTS; ++layout) {
        if (survey->misfits[layout] == 0) {
            return attention_layout_name((enum ag_softmax_layout)layout);
        }
    }
    return "none";
}

/* Rows in order, every step-th of them. Statistics merged over key chunks are legal and do not normalise, so this only
 * tells; it never fails the call. */
static void report_statistics(const struct attention_problem *p, enum ag_softmax_layout layout)
{
    struct survey survey = {.layout = layout};
    const int64_t step = 1 + p->query_rows * p->query_heads / MOST_SAMPLES;
    int64_t count = 0;
    for (const struct attention_sequence *s = p->sequences; s < p->sequences + p->sequence_count; ++s) {
        const int64_t rows = s->query_len * p->query_heads; /* numbered head-major */
        for (int64_t at = (step - count % step) % step; s->key_len > 0 && at < rows; at += step) {
            survey_row(p, &(struct probe){s, at / s->query_len, at % s->query_len}, &survey);
        }
        count += rows;
    }
    if (survey.bad > 0) {
        ag_report(p->entry,
                  "softmaxMax/softmaxSum inconsistent, first bad (b,n,s) = (%" PRId64 ",%" PRId64 ",%" PRId64
                  "): sum of P is %.6g, want 1; %" PRId64 " of %" PRId64
                  " sampled rows are bad in the order %s, the order"
                  " that fits all: %s",
                  survey.first.sequence->batch, survey.first.head, survey.first.row, survey.first_sum, survey.bad,
                  survey.samples, attention_layout_name(layout), other_fit(&survey));
    }
}

enum ag_softmax_layout attention_choose_layout(const struct attention_problem *problem)
{
    const enum ag_softmax_layout layout = decide(problem);
    if (problem->is_debug) {
        report_statistics(problem, layout);
    }
    return layout;
}
