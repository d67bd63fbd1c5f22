#include "operators_definitions.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "acl/acl.h"
#include "op/attention/attention_forward.h"
#include "op/indexer/indexer.h"
#include "op/indexer/indexer_forward.h"
#include "op/moe/moe.h"
#include "op/moe/moe_permute.h"
#include "op/moe/moe_unpermute.h"
#include "runtime/tensor.h"
#include "support/support.h"

bool definitions_keep_selection;

enum { MOST_TENSORS = 16, MOST_ENDS = 16, CAUSAL_RIGHT = 3, STATISTIC_COPIES = 8 };

/* --- what one call holds: tensors of fp32 and lists, freed together ------------------------------------------------------ */

static struct {
    aclTensor *tensors[MOST_TENSORS];
    void *memory[MOST_TENSORS];
    aclIntArray *list;
    int count;
    uint64_t workspace_size; /* the checks only want to know that there is one */
    aclOpExecutor *executor;
} call;

struct dims {
    int rank;
    int64_t size[3];
};

static int64_t count_of(struct dims dims)
{
    int64_t count = 1;
    for (int d = 0; d < dims.rank; ++d) {
        count *= dims.size[d];
    }
    return count;
}

/* `bytes` of memory with a tensor over it. */
static void *hold(aclTensor **tensor, aclDataType type, struct dims dims)
{
    assert(call.count < MOST_TENSORS);
    void *memory = zeroed(count_of(dims), 8);
    *tensor = aclCreateTensor(dims.size, (uint64_t)dims.rank, type, NULL, 0, ACL_FORMAT_ND, dims.size,
                              (uint64_t)dims.rank, memory);
    assert_non_null(*tensor);
    call.tensors[call.count] = *tensor;
    call.memory[call.count++] = memory;
    return memory;
}

/* An input: rounded to fp32, here and in the caller's array. */
static aclTensor *floats(real *values, struct dims dims)
{
    aclTensor *tensor = NULL;
    float *memory = hold(&tensor, ACL_FLOAT, dims);
    for (int64_t i = 0; i < count_of(dims); ++i) {
        memory[i] = (float)values[i];
        values[i] = memory[i];
    }
    return tensor;
}

static aclTensor *output(aclDataType type, struct dims dims)
{
    aclTensor *tensor = NULL;
    (void)hold(&tensor, type, dims);
    return tensor;
}

static aclTensor *integers(const int32_t *values, struct dims dims)
{
    aclTensor *tensor = NULL;
    memcpy(hold(&tensor, ACL_INT32, dims), values, (size_t)count_of(dims) * sizeof *values);
    return tensor;
}

static aclIntArray *list(const int64_t *items, int64_t count)
{
    call.list = aclCreateIntArray(items, (uint64_t)count);
    return call.list;
}

static void begin(void)
{
    test_configure(1, AG_ISA_SCALAR, AG_LIMITS_EXTENDED);
}

static void end(void)
{
    while (call.count > 0) {
        aclDestroyTensor(call.tensors[--call.count]);
        free(call.memory[call.count]);
    }
    aclDestroyIntArray(call.list);
    call.list = NULL;
}

static void must(ag_status status, const char *what)
{
    if (status != AG_OK) {
        fail_msg("%s: %d: %s", what, (int)status, aclGetRecentErrMsg());
    }
}

/* A bound that nobody asks for here; freed by the caller. */
static double *unused(struct dims dims)
{
    return zeroed(count_of(dims), sizeof(double));
}

static void put(real *to, const double *from, int64_t count)
{
    for (int64_t i = 0; i < count; ++i) {
        to[i] = from[i];
    }
}

static void accumulate(real *to, const double *from, int64_t count)
{
    for (int64_t i = 0; i < count; ++i) {
        to[i] += from[i];
    }
}

/* --- attention ------------------------------------------------------------------------------------------------------------ */

static struct dims by_head(const struct attention *a, int64_t heads, int64_t dim)
{
    return (struct dims){3, {a->documents.tokens, heads, dim}};
}

/* The mask that a rope asks for: of a sparse mode that never reads it. */
static aclTensor *mask(void)
{
    aclTensor *tensor = NULL;
    (void)hold(&tensor, ACL_UINT8, (struct dims){2, {2048, 2048}});
    return tensor;
}

static struct attention_args attention_inputs(struct attention *a)
{
    const aclIntArray *ends = list(a->documents.ends, a->documents.count);
    return (struct attention_args){
        .query = floats(a->query, by_head(a, a->query_heads, a->dim)),
        .query_rope = floats(a->query_rope, by_head(a, a->query_heads, a->rope_dim)),
        .key = floats(a->key, by_head(a, a->key_heads, a->dim)),
        .key_rope = floats(a->key_rope, by_head(a, a->key_heads, a->rope_dim)),
        .value = floats(a->value, by_head(a, a->key_heads, a->dim)),
        .atten_mask = mask(),
        .actual_seq_q = ends,
        .actual_seq_kv = ends,
        .scale = a->scale,
        .keep_prob = 1,
        .head_num = a->query_heads,
        .input_layout = "TND",
        .sparse_mode = CAUSAL_RIGHT,
        .pse_type = 1,
        .workspace_size = &call.workspace_size,
        .executor = &call.executor,
    };
}

void attention_forward(struct attention *a)
{
    begin();
    const struct dims queries = by_head(a, a->query_heads, a->dim);
    const struct dims statistics = by_head(a, a->query_heads, STATISTIC_COPIES);
    const int64_t rows = a->documents.tokens * a->query_heads;
    struct attention_args args = attention_inputs(a);
    struct attention_problem problem;
    args.softmax_max = output(ACL_FLOAT, statistics);
    args.softmax_sum = output(ACL_FLOAT, statistics);
    args.attention_in = output(ACL_FLOAT, queries);
    must(attention_forward_check(&args, ATTENTION_FORWARD_V3, &problem), "attention_forward_check");
    struct attention_forward_ref ref = {unused(queries),    unused(queries),    unused(statistics),
                                        unused(statistics), unused(statistics), unused(statistics)};
    must(attention_forward_ref(&problem, &ref), "attention_forward_ref");
    put(a->output, ref.attention, count_of(queries));
    for (int64_t row = 0; row < rows; ++row) {
        a->maximum[row * STATISTIC_COPIES] = (float)ref.max[row];
        a->sum[row * STATISTIC_COPIES] = (float)ref.sum[row];
    }
    double *const arrays[] = {ref.attention, ref.attention_bound, ref.max, ref.max_bound, ref.sum, ref.sum_bound};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; ++i) {
        free(arrays[i]);
    }
    attention_release(&problem);
    end();
}

static aclTensor *statistic(const float *values, struct dims dims)
{
    aclTensor *tensor = NULL;
    memcpy(hold(&tensor, ACL_FLOAT, dims), values, (size_t)count_of(dims) * sizeof *values);
    return tensor;
}

void attention_backward(struct attention *a, const struct attention_gradients *g)
{
    begin();
    const struct dims queries = by_head(a, a->query_heads, a->dim), keys = by_head(a, a->key_heads, a->dim);
    const struct dims query_ropes = by_head(a, a->query_heads, a->rope_dim);
    const struct dims key_ropes = by_head(a, a->key_heads, a->rope_dim);
    const struct dims statistics = by_head(a, a->query_heads, STATISTIC_COPIES);
    struct attention_args args = attention_inputs(a);
    struct attention_problem problem;
    args.dy = floats(g->output, queries);
    args.attention_in = floats(a->output, queries);
    args.softmax_max = statistic(a->maximum, statistics);
    args.softmax_sum = statistic(a->sum, statistics);
    args.dq = output(ACL_FLOAT, queries);
    args.dq_rope = output(ACL_FLOAT, query_ropes);
    args.dk = output(ACL_FLOAT, keys);
    args.dk_rope = output(ACL_FLOAT, key_ropes);
    args.dv = output(ACL_FLOAT, keys);
    must(attention_check(&args, &problem), "attention_check");
    double *bound = unused(queries); /* as large as any: all may lie in one place */
    const struct attention_ref ref = {
        .dq = g->query,
        .dq_bound = bound,
        .dq_rope = g->query_rope,
        .dq_rope_bound = bound,
        .dk = g->key,
        .dk_bound = bound,
        .dk_rope = g->key_rope,
        .dk_rope_bound = bound,
        .dv = g->value,
        .dv_bound = bound,
    };
    must(attention_ref(&problem, AG_SOFTMAX_CANN, &ref), "attention_ref");
    free(bound);
    attention_release(&problem);
    end();
}

/* --- the indexer ---------------------------------------------------------------------------------------------------------- */

static struct dims by_index_head(const struct indexer *x, int64_t heads)
{
    return (struct dims){3, {x->documents.tokens, heads, INDEXER_DIM}};
}

static struct dims by_index_slot(const struct indexer *x)
{
    return (struct dims){3, {x->documents.tokens, 1, x->selected}};
}

static struct dims by_index_weight(const struct indexer *x)
{
    return (struct dims){2, {x->documents.tokens, x->heads}};
}

static aclTensor *index_ends(const struct indexer *x)
{
    int32_t ends[MOST_ENDS];
    assert(x->documents.count <= MOST_ENDS);
    for (int64_t i = 0; i < x->documents.count; ++i) {
        ends[i] = (int32_t)x->documents.ends[i];
    }
    return integers(ends, (struct dims){1, {x->documents.count}});
}

/* The best of the scores, taken away one after the other. */
static void select_best(const struct indexer *x, int64_t token, double *score, int64_t keys)
{
    for (int64_t j = 0; j < x->selected; ++j) {
        int32_t best = -1;
        for (int32_t k = 0; k < (int32_t)keys; ++k) {
            if (score[k] > -INFINITY && (best < 0 || score[k] > score[best])) {
                best = k;
            }
        }
        x->index[token * x->selected + j] = best;
        x->score[token * x->selected + j] = best < 0 ? -INFINITY : score[best];
        if (best >= 0) {
            score[best] = -INFINITY;
        }
    }
}

static void score_selected(const struct indexer *x, int64_t token, const double *score)
{
    for (int64_t j = token * x->selected; j < (token + 1) * x->selected; ++j) {
        x->score[j] = x->index[j] < 0 ? -INFINITY : score[x->index[j]];
    }
}

void indexer_forward(struct indexer *x)
{
    begin();
    const struct indexer_forward_args args = {
        .query = floats(x->query, by_index_head(x, x->heads)),
        .key = floats(x->key, by_index_head(x, 1)),
        .weights = floats(x->weights, by_index_weight(x)),
        .actual_seq_lengths_query = index_ends(x),
        .actual_seq_lengths_key = index_ends(x),
        .layout_query = "TND",
        .layout_key = "TND",
        .sparse_count = x->selected,
        .sparse_mode = CAUSAL_RIGHT,
        .pre_tokens = INT64_MAX,
        .next_tokens = INT64_MAX,
        .return_values = true,
        .sparse_indices = output(ACL_INT32, by_index_slot(x)),
        .sparse_values = output(ACL_FLOAT, by_index_slot(x)),
        .workspace_size = &call.workspace_size,
        .executor = &call.executor,
    };
    struct indexer_forward_problem problem;
    must(indexer_forward_check(&args, &problem), "indexer_forward_check");
    double *score = zeroed(x->documents.tokens, sizeof *score), *bound = zeroed(x->documents.tokens, sizeof *bound);
    for (int64_t document = 0, first = 0; document < x->documents.count; first = x->documents.ends[document++]) {
        for (int64_t row = 0; first + row < x->documents.ends[document]; ++row) {
            must(indexer_forward_ref(&problem, document, row, score, bound), "indexer_forward_ref");
            if (definitions_keep_selection) {
                score_selected(x, first + row, score);
            } else {
                select_best(x, first + row, score, row + 1);
            }
        }
    }
    free(score);
    free(bound);
    end();
}

void indexer_backward(struct indexer *x, const struct indexer_gradients *g)
{
    begin();
    const struct indexer_args args = {
        .query = floats(x->query, by_index_head(x, x->heads)),
        .key = floats(x->key, by_index_head(x, 1)),
        .dy = floats(g->score, by_index_slot(x)),
        .sparse_indices = integers(x->index, by_index_slot(x)),
        .weights = floats(x->weights, by_index_weight(x)),
        .actual_seq_q_len = index_ends(x),
        .actual_seq_kv_len = index_ends(x),
        .input_layout = "TND",
        .sparse_mode = CAUSAL_RIGHT,
        .dq = output(ACL_FLOAT, by_index_head(x, x->heads)),
        .dk = output(ACL_FLOAT, by_index_head(x, 1)),
        .dweights = output(ACL_FLOAT, by_index_weight(x)),
        .workspace_size = &call.workspace_size,
        .executor = &call.executor,
    };
    struct indexer_problem problem;
    must(indexer_check(&args, &problem), "indexer_check");
    double *bound = unused(by_index_head(x, x->heads));
    const struct indexer_reference reference = {g->query, bound, g->key, bound, g->weights, bound};
    must(indexer_ref(&problem, &reference), "indexer_ref");
    free(bound);
    end();
}

/* --- mixture of experts --------------------------------------------------------------------------------------------------- */

static struct dims by_token(const struct experts *e)
{
    return (struct dims){2, {e->tokens, e->width}};
}

static struct dims by_row(const struct experts *e, struct window window)
{
    return (struct dims){2, {window.end - window.begin, e->width}};
}

static struct dims by_expert(const struct experts *e)
{
    return (struct dims){2, {e->tokens, e->topk}};
}

static struct dims by_slot(const struct experts *e)
{
    return (struct dims){1, {e->tokens * e->topk}};
}

static aclIntArray *range_of(struct window window)
{
    return list((const int64_t[]){window.begin, window.end}, 2);
}

void experts_permute(struct experts *e, struct window window, real *tokens, real *rows)
{
    begin();
    const struct moe_permute_args args = {
        .tokens = floats(tokens, by_token(e)),
        .indices = integers(e->expert, by_expert(e)),
        .range = range_of(window),
        .permuted_tokens = output(ACL_FLOAT, by_row(e, window)),
        .sorted_indices = output(ACL_INT32, by_slot(e)),
        .workspace_size = &call.workspace_size,
        .executor = &call.executor,
    };
    struct moe_permute_problem problem;
    must(moe_permute_check(&args, &problem), "moe_permute_check");
    double *position = unused(by_slot(e));
    moe_permute_ref(&problem, &(struct moe_permute_reference){rows, position, NULL});
    for (int64_t i = 0; i < e->tokens * e->topk; ++i) {
        e->position[i] = (int32_t)position[i];
    }
    free(position);
    end();
}

void experts_permute_backward(struct experts *e, struct window window, real *rows_gradient, real *token_gradient)
{
    begin();
    const struct moe_permute_grad_args args = {
        .permuted_tokens_grad = floats(rows_gradient, by_row(e, window)),
        .sorted_indices = integers(e->position, by_slot(e)),
        .num_topk = e->topk,
        .range = range_of(window),
        .tokens_grad = output(ACL_FLOAT, by_token(e)),
        .workspace_size = &call.workspace_size,
        .executor = &call.executor,
    };
    struct moe_unpermute_problem problem;
    must(moe_permute_grad_check(&args, &problem), "moe_permute_grad_check");
    double *tokens = unused(by_token(e)), *bound = unused(by_token(e));
    moe_unpermute_ref(&problem, &(struct moe_unpermute_reference){tokens, bound, NULL});
    accumulate(token_gradient, tokens, count_of(by_token(e)));
    free(tokens);
    free(bound);
    end();
}

void experts_unpermute(struct experts *e, struct window window, real *rows, real *to)
{
    begin();
    const struct moe_unpermute_args args = {
        .permuted_tokens = floats(rows, by_row(e, window)),
        .sorted_indices = integers(e->position, by_slot(e)),
        .probs = floats(e->probability, by_expert(e)),
        .num_topk = e->topk,
        .range = range_of(window),
        .tokens = output(ACL_FLOAT, by_token(e)),
        .workspace_size = &call.workspace_size,
        .executor = &call.executor,
    };
    struct moe_unpermute_problem problem;
    must(moe_unpermute_check(&args, &problem), "moe_unpermute_check");
    double *tokens = unused(by_token(e)), *bound = unused(by_token(e));
    moe_unpermute_ref(&problem, &(struct moe_unpermute_reference){tokens, bound, NULL});
    accumulate(to, tokens, count_of(by_token(e)));
    free(tokens);
    free(bound);
    end();
}

void experts_unpermute_backward(struct experts *e, struct window window, real *rows, real *output_gradient,
                                real *rows_gradient, real *probability_gradient)
{
    begin();
    const struct moe_args args = {
        .unpermuted_tokens_grad = floats(output_gradient, by_token(e)),
        .sorted_indices = integers(e->position, by_slot(e)),
        .permuted_tokens = floats(rows, by_row(e, window)),
        .probs = floats(e->probability, by_expert(e)),
        .range = range_of(window),
        .topk_num = e->topk,
        .permuted_tokens_grad = output(ACL_FLOAT, by_row(e, window)),
        .probs_grad = output(ACL_FLOAT, by_expert(e)),
        .workspace_size = &call.workspace_size,
        .executor = &call.executor,
    };
    struct moe_problem problem;
    must(moe_check(&args, &problem), "moe_check");
    double *probs = unused(by_expert(e)), *bound = unused(by_expert(e));
    moe_ref(&problem, &(struct moe_reference){rows_gradient, probs, bound});
    accumulate(probability_gradient, probs, e->tokens * e->topk);
    free(probs);
    free(bound);
    end();
}
