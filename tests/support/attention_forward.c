/* The forward pass in double, written from the operator's page alone: every pair is asked whether it is visible. */
#include <float.h>
#include <math.h>

#include "support/attention_problem.h"

struct attention_rows attention_case_rows(const struct attention_case *c, const int64_t *ends, int64_t b)
{
    int64_t begin = 0;
    (void)c;
    for (int64_t before = 0; before < b; ++before) {
        begin = ends[before] > begin ? ends[before] : begin;
    }
    return (struct attention_rows){begin, ends[b] > begin ? ends[b] - begin : 0};
}

static int64_t band_sequence(const struct attention_case *c)
{
    int64_t band = -1;
    for (int64_t b = 0; b < c->count; ++b) {
        if (attention_case_rows(c, c->q_ends, b).count > 0) {
            if (c->mode == 7 || band == -1) {
                band = b;
            }
        }
    }
    return band;
}

static bool byte_hides(const struct attention_call *call, int64_t b, int64_t n, int64_t i, int64_t j)
{
    const struct ag_view *m = &call->mask.view;
    const int64_t rows = m->dims[m->rank - 2], columns = m->dims[m->rank - 1];
    int64_t lead = 0;
    if (m->rank == 4) {
        lead = (m->dims[0] == 1 ? 0 : b) * m->dims[1] + (m->dims[1] == 1 ? 0 : n);
    }
    return test_tensor_get(&call->mask, (lead * rows + i) * columns + j) != 0;
}

bool attention_forward_sees(const struct attention_call *call, int64_t b, int64_t n, int64_t i, int64_t j)
{
    const struct attention_case *c = &call->c;
    const int64_t d = attention_case_rows(c, c->kv_ends, b).count - attention_case_rows(c, c->q_ends, b).count;
    /* Differences of positions are small, so the tokens are compared as doubles: no overflow. */
    const double pre = (double)c->pre, next = (double)c->next;
    const bool band = (double)(i + d - j) <= pre && (double)(j - i - d) <= next;
    if (c->mask_shape == TEST_MASK_NONE) {
        return true;
    }
    switch (c->mode) {
    case 0:
        return !byte_hides(call, b, n, i, j) && (double)(i - j) <= pre && (double)(j - i) <= next;
    case 1:
        return !byte_hides(call, b, n, i, j);
    case 2:
        return j <= i;
    case 3:
        return j <= i + d;
    case 4:
        return band;
    case 6:
        return j <= i + d || j < c->prefix[b];
    case 7:
        return b == band_sequence(c) ? band : j <= i + d;
    default:
        return b == band_sequence(c) ? band : j <= i;
    }
}

static double score(const struct attention_call *call, const struct attention_doubles *x, int64_t t, int64_t n,
                    int64_t key)
{
    const struct attention_case *c = &call->c;
    const int64_t h = n / (c->n1 / c->n2);
    const float scale = (float)c->scale;
    double sum = 0;
    for (int64_t d = 0; d < c->d; ++d) {
        sum += x->q[(t * c->n1 + n) * c->d + d] * x->k[(key * c->n2 + h) * c->d + d];
    }
    for (int64_t r = 0; r < c->dr; ++r) {
        sum += x->qr[(t * c->n1 + n) * c->dr + r] * x->kr[(key * c->n2 + h) * c->dr + r];
    }
    return (double)scale * sum;
}

static void forward_row(const struct attention_call *call, struct attention_doubles *x, int64_t b, int64_t n,
                        int64_t i)
{
    const struct attention_case *c = &call->c;
    const struct attention_rows keys = attention_case_rows(c, c->kv_ends, b);
    const int64_t t = attention_case_rows(c, c->q_ends, b).begin + i, h = n / (c->n1 / c->n2);
    double max = x->sink ? x->sink[n] : -INFINITY, sum = 0;
    double *out = x->out + (t * c->n1 + n) * c->dv;
    for (int64_t e = 0; e < c->dv; ++e) {
        out[e] = 0;
    }
    for (int64_t j = 0; j < keys.count; ++j) {
        if (attention_forward_sees(call, b, n, i, j)) {
            max = fmax(max, score(call, x, t, n, keys.begin + j));
        }
    }
    for (int64_t j = 0; j < keys.count; ++j) {
        if (attention_forward_sees(call, b, n, i, j)) {
            const double weight = exp(score(call, x, t, n, keys.begin + j) - max);
            sum += weight;
            for (int64_t e = 0; e < c->dv; ++e) {
                out[e] += weight * x->v[((keys.begin + j) * c->n2 + h) * c->dv + e];
            }
        }
    }
    sum += x->sink ? exp(x->sink[n] - max) : 0;
    for (int64_t e = 0; e < c->dv && sum > 0; ++e) {
        out[e] /= sum;
    }
    /* What the forward operator stores where nothing is visible. */
    sum = keys.count > 0 ? sum : 0;
    x->max[t * c->n1 + n] = sum > 0 ? max : keys.count > 0 ? -FLT_MAX : 0;
    x->sum[t * c->n1 + n] = sum > 0 ? sum : keys.count > 0 ? FLT_MAX : 0;
}

void attention_forward(const struct attention_call *call, struct attention_doubles *x)
{
    const struct attention_case *c = &call->c;
    for (int64_t b = 0; b < c->count; ++b) {
        for (int64_t n = 0; n < c->n1; ++n) {
            for (int64_t i = 0; i < attention_case_rows(c, c->q_ends, b).count; ++i) {
                forward_row(call, x, b, n, i);
            }
        }
    }
}
