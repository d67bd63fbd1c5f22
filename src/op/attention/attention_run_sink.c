/* The gradient of the sink, a score of value 0 that every row of its head sees:
 *
 *     dsink[n] = - sum over rows of exp(sink[n] - max) / sum * delta,  delta = dy . attentionIn
 *
 * It costs one more pass over dy and attentionIn, little beside the products. One head is one task. */
#include "op/attention/attention_run.h"

#include <math.h>

/* The part of rows [begin, begin + rows) of a sequence, at most ATTENTION_STRIP. */
static double sum_rows(const struct attention_job *job, const struct attention_sequence *sequence, int64_t head,
                       int64_t begin, int64_t rows)
{
    const struct attention_problem *p = job->problem;
    const float *max = ag_view_origin(&p->softmax_max), *sum = ag_view_origin(&p->softmax_sum);
    const double sink = ((const float *)ag_view_origin(&p->sink))[head * p->sink.strides[0]];
    const struct ag_matrix dy = attention_head_rows(&p->dy, sequence->query_begin + begin, rows, head);
    const struct ag_matrix out = attention_head_rows(&p->attention_in, sequence->query_begin + begin, rows, head);
    float delta[ATTENTION_STRIP];
    double total = 0;
    job->plan->kernels->attention.row_dots[p->elem](delta, &dy, &out);
    for (int64_t r = 0; r < rows; ++r) {
        const struct attention_columns columns = attention_columns_of_row(p, sequence, head, begin + r);
        if (columns.begin == columns.end) {
            continue; /* its output is 0 whatever the sink is, and its statistics mean nothing */
        }
        const int64_t at = attention_statistics_row(p, job->layout, sequence, head, begin + r);
        total += exp(sink - max[attention_statistics_offset(&p->softmax_max, at)]) /
                 sum[attention_statistics_offset(&p->softmax_sum, at)] * delta[r];
    }
    return total;
}

static void run_head(void *context, int64_t head, int lane)
{
    const struct attention_job *job = context;
    const struct attention_problem *p = job->problem;
    double total = 0;
    for (int64_t s = 0; s < p->sequence_count; ++s) {
        const struct attention_sequence *sequence = &p->sequences[s];
        for (int64_t row = 0; row < sequence->query_len && attention_has_work(p, sequence); row += ATTENTION_STRIP) {
            const int64_t left = sequence->query_len - row;
            total += sum_rows(job, sequence, head, row, left < ATTENTION_STRIP ? left : ATTENTION_STRIP);
        }
    }
    job->workspace.dsink[head] = (float)-total;
    (void)lane;
}

void attention_run_sink(struct attention_job *job)
{
    if (job->problem->dsink.present) {
        ag_parallel_for(job->plan->lanes, job->problem->query_heads, run_head, job);
    }
}

void attention_store_sink(const struct attention_job *job)
{
    const struct ag_view *dsink = &job->problem->dsink;
    for (int64_t head = 0; dsink->present && head < job->problem->query_heads; ++head) {
        ((float *)ag_view_origin(dsink))[head * dsink->strides[0]] = job->workspace.dsink[head];
    }
}
