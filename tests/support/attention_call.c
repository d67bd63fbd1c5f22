#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "aclnnop/aclnn_flash_attention_score_grad.h"
#include "support/attention_problem.h"

/* --- tensors --------------------------------------------------------------------------------------------- */

/* A [rows, heads, dim] tensor in the memory order of the case. */
static struct test_tensor create_tensor(const struct attention_case *c, int dtype, int64_t rows, int64_t heads,
                                        int64_t dim)
{
    const int64_t dims[3] = {rows, heads, dim};
    switch (c->views) {
    case TEST_VIEWS_PADDED:
        return test_tensor_create_strided(dtype, 3, dims, (int64_t[]){heads * (dim + 3) + 5, dim + 3, 1}, 7);
    case TEST_VIEWS_TRANSPOSED:
        return test_tensor_create_strided(dtype, 3, dims, (int64_t[]){dim, rows * dim, 1}, 0);
    case TEST_VIEWS_SPREAD:
        return test_tensor_create_strided(dtype, 3, dims, (int64_t[]){heads * dim * 3, dim * 3, 3}, 1);
    default:
        return test_tensor_create(dtype, 3, dims);
    }
}

static void create_inputs(struct attention_call *call)
{
    const struct attention_case *c = &call->c;
    call->q = create_tensor(c, c->dtype, call->t1, c->n1, c->d);
    call->k = create_tensor(c, c->dtype, call->t2, c->n2, c->d);
    call->v = create_tensor(c, c->dtype, call->t2, c->n2, c->dv);
    call->dy = create_tensor(c, c->dtype, call->t1, c->n1, c->dv);
    call->out = create_tensor(c, c->dtype, call->t1, c->n1, c->dv);
    call->max = create_tensor(c, AG_FLOAT, call->t1, c->n1, 8);
    call->sum = create_tensor(c, AG_FLOAT, call->t1, c->n1, 8);
    if (c->dr) {
        call->qr = create_tensor(c, c->dtype, call->t1, c->n1, c->dr);
        call->kr = create_tensor(c, c->dtype, call->t2, c->n2, c->dr);
    }
    if (c->has_sink) {
        call->sink = test_tensor_create(AG_FLOAT, 1, &c->n1);
    }
}

static void create_outputs(struct attention_call *call)
{
    const struct attention_case *c = &call->c;
    call->dq = create_tensor(c, c->dtype, call->t1, c->n1, c->d);
    call->dk = create_tensor(c, c->dtype, call->t2, c->n2, c->d);
    call->dv = create_tensor(c, c->dtype, call->t2, c->n2, c->dv);
    if (c->dr) {
        call->dqr = create_tensor(c, c->dtype, call->t1, c->n1, c->dr);
        call->dkr = create_tensor(c, c->dtype, call->t2, c->n2, c->dr);
    }
    if (c->has_sink) {
        call->dsink = test_tensor_create(AG_FLOAT, 1, &c->n1);
    }
}

/* --- the mask -------------------------------------------------------------------------------------------- */

static int mask_byte(const struct attention_case *c, struct test_random *random, int64_t i, int64_t j)
{
    const int nonzero = (int)test_random_between(random, 1, 255);
    switch (c->mask_bytes) {
    case TEST_MASK_RANDOM:
        return test_random_below(random, 3) == 0 ? nonzero : 0;
    case TEST_MASK_CHECKERS:
        return (i + j) % 2 ? nonzero : 0;
    case TEST_MASK_ONES:
        return nonzero;
    case TEST_MASK_HOLES:
        return i % 5 == 2 || j % 7 == 3 ? nonzero : 0;
    default:
        return 0;
    }
}

static int64_t most_rows(const struct attention_case *c, const int64_t *ends)
{
    int64_t most = 0;
    for (int64_t b = 0; b < c->count; ++b) {
        const int64_t rows = attention_case_rows(c, ends, b).count;
        most = rows > most ? rows : most;
    }
    return most;
}

/* Its bytes are never read: the memory cannot be. */
static aclTensor *create_compressed_mask(int64_t rows)
{
    enum { COLUMNS = 2048, MOST_ROWS = 3072 };
    static void *memory;
    if (!memory) {
        memory = mmap(NULL, MOST_ROWS * COLUMNS, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(memory != MAP_FAILED);
    }
    const int64_t dims[2] = {rows, COLUMNS};
    aclTensor *mask = aclCreateTensor(dims, 2, ACL_UINT8, NULL, 0, ACL_FORMAT_ND, dims, 2, memory);
    assert_non_null(mask);
    return mask;
}

static void create_mask(struct attention_call *call, struct test_random *random)
{
    const struct attention_case *c = &call->c;
    int64_t dims[4] = {1, 1, most_rows(c, c->q_ends) + c->mask_extra, most_rows(c, c->kv_ends) + c->mask_extra};
    if (c->mask_shape == TEST_MASK_NONE) {
        return;
    }
    if (c->mask_shape == TEST_MASK_COMPRESSED) {
        call->compressed_mask = create_compressed_mask(c->mode == 6 ? 3072 : 2048);
        return;
    }
    dims[0] = c->mask_shape == TEST_MASK_B1SS || c->mask_shape == TEST_MASK_BNSS ? c->count : 1;
    dims[1] = c->mask_shape == TEST_MASK_BNSS ? c->n1 : 1;
    const int rank = c->mask_shape == TEST_MASK_SS ? 2 : 4;
    call->mask = test_tensor_create(c->seed % 2 ? AG_BOOL : AG_UINT8, rank, rank == 2 ? dims + 2 : dims);
    for (int64_t at = 0; at < test_tensor_elems(&call->mask); ++at) {
        const int64_t i = at / dims[3] % dims[2], j = at % dims[3];
        test_tensor_set(&call->mask, at, mask_byte(c, random, i, j));
    }
}

/* --- statistics ------------------------------------------------------------------------------------------ */

static int64_t statistics_row(const struct attention_call *call, enum ag_softmax_layout layout, int64_t b, int64_t n,
                              int64_t i)
{
    const struct attention_rows rows = attention_case_rows(&call->c, call->c.q_ends, b);
    switch (layout) {
    case AG_SOFTMAX_TND:
        return (rows.begin + i) * call->c.n1 + n;
    case AG_SOFTMAX_NTD:
        return n * call->t1 + rows.begin + i;
    default:
        return rows.begin * call->c.n1 + n * rows.count + i;
    }
}

static void store_row(struct attention_call *call, int64_t row, double max, double sum)
{
    for (int lane = 0; lane < 8; ++lane) {
        test_tensor_set(&call->max, row * 8 + lane, lane == 0 ? max : NAN);
        test_tensor_set(&call->sum, row * 8 + lane, lane == 0 ? sum : NAN);
    }
}

void attention_call_store_statistics(struct attention_call *call, enum ag_softmax_layout layout)
{
    const struct attention_case *c = &call->c;
    for (int64_t row = 0; row < call->t1 * c->n1; ++row) {
        store_row(call, row, NAN, NAN);
    }
    for (int64_t b = 0; b < c->count; ++b) {
        const struct attention_rows rows = attention_case_rows(c, c->q_ends, b);
        for (int64_t n = 0; n < c->n1; ++n) {
            for (int64_t i = 0; i < rows.count; ++i) {
                const int64_t from = (rows.begin + i) * c->n1 + n;
                store_row(call, statistics_row(call, layout, b, n, i), call->doubles.max[from],
                          call->doubles.sum[from]);
            }
        }
    }
    for (int64_t at = 0; at < test_tensor_elems(&call->out); ++at) {
        test_tensor_set(&call->out, at, call->doubles.out[at]);
    }
}

/* --- create, destroy ------------------------------------------------------------------------------------- */

/* Rows from `first` on become NaN. */
static void poison_rows(struct test_tensor *tensor, int64_t first)
{
    const int64_t row = tensor->handle ? tensor->view.dims[1] * tensor->view.dims[2] : 0;
    for (int64_t at = first * row; row && at < test_tensor_elems(tensor); ++at) {
        test_tensor_set(tensor, at, NAN);
    }
}

static void poison_slack(struct attention_call *call)
{
    const int64_t q = call->t1 - call->c.q_slack, kv = call->t2 - call->c.kv_slack;
    poison_rows(&call->q, q);
    poison_rows(&call->qr, q);
    poison_rows(&call->dy, q);
    poison_rows(&call->out, q);
    poison_rows(&call->k, kv);
    poison_rows(&call->kr, kv);
    poison_rows(&call->v, kv);
}

/* A forward pass would take too long: any statistics do, as those of ring attention. */
static void invent_statistics(struct attention_call *call)
{
    for (int64_t at = 0; at < call->t1 * call->c.n1; ++at) {
        call->doubles.max[at] = 2 + (double)(at % 5) / 4;
        call->doubles.sum[at] = 300 + (double)(at % 7);
    }
    for (int64_t at = 0; at < call->t1 * call->c.n1 * call->c.dv; ++at) {
        call->doubles.out[at] = (double)(at % 11 - 5) / 8;
    }
}

static double *doubles_of(const struct test_tensor *tensor)
{
    return tensor->handle ? test_tensor_to_doubles(tensor) : NULL;
}

static void free_doubles(struct attention_doubles *x)
{
    double *all[] = {x->q, x->qr, x->k, x->kr, x->v, x->sink, x->max, x->sum, x->out};
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i) {
        free(all[i]);
    }
}

void attention_call_refresh(struct attention_call *call)
{
    const size_t rows = (size_t)(call->t1 * call->c.n1);
    free_doubles(&call->doubles);
    call->doubles = (struct attention_doubles){doubles_of(&call->q),
                                               doubles_of(&call->qr),
                                               doubles_of(&call->k),
                                               doubles_of(&call->kr),
                                               doubles_of(&call->v),
                                               doubles_of(&call->sink),
                                               calloc(rows + 1, sizeof(double)),
                                               calloc(rows + 1, sizeof(double)),
                                               calloc(rows * (size_t)call->c.dv + 1, sizeof(double))};
    assert_true(call->doubles.max && call->doubles.sum && call->doubles.out);
    if (call->c.invent_statistics) {
        invent_statistics(call);
    } else {
        attention_forward(call, &call->doubles);
    }
    attention_call_store_statistics(call, call->c.layout);
    poison_slack(call);
}

static void fill(struct attention_call *call, struct test_random *random)
{
    test_tensor_fill_normal(&call->q, random, call->c.deviation);
    test_tensor_fill_normal(&call->k, random, call->c.deviation);
    test_tensor_fill_normal(&call->v, random, 1);
    test_tensor_fill_normal(&call->dy, random, 1);
    if (call->c.dr) {
        test_tensor_fill_normal(&call->qr, random, call->c.deviation);
        test_tensor_fill_normal(&call->kr, random, call->c.deviation);
    }
    if (call->c.has_sink) {
        test_tensor_fill_normal(&call->sink, random, 2);
    }
    attention_call_refresh(call);
}

static void set_args(struct attention_call *call)
{
    const struct attention_case *c = &call->c;
    call->args = (struct attention_args){.entry = "test",
                                         .softmax_layout = c->is_as_input ? "same_as_input" : "",
                                         .sink = call->sink.handle,
                                         .dsink = call->dsink.handle,
                                         .query = call->q.handle,
                                         .query_rope = call->qr.handle,
                                         .key = call->k.handle,
                                         .key_rope = call->kr.handle,
                                         .value = call->v.handle,
                                         .dy = call->dy.handle,
                                         .atten_mask = call->mask.handle ? call->mask.handle : call->compressed_mask,
                                         .softmax_max = call->max.handle,
                                         .softmax_sum = call->sum.handle,
                                         .attention_in = call->out.handle,
                                         .prefix = call->prefix,
                                         .actual_seq_q = call->q_list,
                                         .actual_seq_kv = call->kv_list,
                                         .scale = c->scale,
                                         .keep_prob = 1,
                                         .pre_tokens = c->pre,
                                         .next_tokens = c->next,
                                         .head_num = c->n1,
                                         .input_layout = "TND",
                                         .sparse_mode = c->mode,
                                         .pse_type = 1,
                                         .dq = call->dq.handle,
                                         .dq_rope = call->dqr.handle,
                                         .dk = call->dk.handle,
                                         .dk_rope = call->dkr.handle,
                                         .dv = call->dv.handle,
                                         .workspace_size = &call->workspace_size,
                                         .executor = &call->executor};
}

void attention_call_create(struct attention_call *call, const struct attention_case *c)
{
    struct test_random random = test_random_seed(c->seed + 1), mask_random = test_random_seed(~c->seed);
    *call = (struct attention_call){.c = attention_case_with_defaults(*c)};
    call->t1 = attention_case_last_end(call->c.q_ends, call->c.count) + c->q_slack;
    call->t2 = attention_case_last_end(call->c.kv_ends, call->c.count) + c->kv_slack;
    create_inputs(call);
    create_outputs(call);
    create_mask(call, &mask_random);
    call->q_list = aclCreateIntArray(call->c.q_ends, (uint64_t)call->c.count);
    call->kv_list = aclCreateIntArray(call->c.kv_ends, (uint64_t)call->c.count);
    call->prefix = c->mode == 6 ? aclCreateIntArray(call->c.prefix, (uint64_t)call->c.count) : NULL;
    fill(call, &random);
    set_args(call);
}

static void destroy_tensor(struct test_tensor *tensor)
{
    if (tensor->handle) {
        test_tensor_check_gaps(tensor);
        test_tensor_destroy(tensor);
    }
}

void attention_call_destroy(struct attention_call *call)
{
    struct test_tensor *tensors[] = {&call->q,    &call->qr,  &call->k,   &call->kr,   &call->v,    &call->dy,
                                     &call->mask, &call->max, &call->sum, &call->out,  &call->dq,   &call->dqr,
                                     &call->dk,   &call->dkr, &call->dv,  &call->sink, &call->dsink};
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; ++i) {
        destroy_tensor(tensors[i]);
    }
    free_doubles(&call->doubles);
    aclDestroyTensor(call->compressed_mask);
    aclDestroyIntArray(call->q_list);
    aclDestroyIntArray(call->kv_list);
    aclDestroyIntArray(call->prefix);
}

/* --- the call -------------------------------------------------------------------------------------------- */

static aclnnStatus phase1_v1(const struct attention_args *a)
{
    return aclnnFlashAttentionUnpaddingScoreGradGetWorkspaceSize(
        a->query, a->key, a->value, a->dy, a->pse_shift, a->drop_mask, a->padding_mask, a->atten_mask, a->softmax_max,
        a->softmax_sum, a->softmax_in, a->attention_in, a->prefix, a->actual_seq_q, a->actual_seq_kv, a->scale,
        a->keep_prob, a->pre_tokens, a->next_tokens, a->head_num, (char *)a->input_layout, a->inner_precise,
        a->sparse_mode, a->dq, a->dk, a->dv, a->dpse, (uint64_t *)a->workspace_size, (aclOpExecutor **)a->executor);
}

static aclnnStatus phase1_v2(const struct attention_args *a)
{
    return aclnnFlashAttentionUnpaddingScoreGradV2GetWorkspaceSize(
        a->query, a->key, a->value, a->dy, a->pse_shift, a->drop_mask, a->padding_mask, a->atten_mask, a->softmax_max,
        a->softmax_sum, a->softmax_in, a->attention_in, a->prefix, a->actual_seq_q, a->actual_seq_kv, a->q_start,
        a->kv_start, a->scale, a->keep_prob, a->pre_tokens, a->next_tokens, a->head_num, (char *)a->input_layout,
        a->inner_precise, a->sparse_mode, a->pse_type, a->dq, a->dk, a->dv, a->dpse, (uint64_t *)a->workspace_size,
        (aclOpExecutor **)a->executor);
}

static aclnnStatus phase1_v3(const struct attention_args *a)
{
    return aclnnFlashAttentionUnpaddingScoreGradV3GetWorkspaceSize(
        a->query, a->query_rope, a->key, a->key_rope, a->value, a->dy, a->pse_shift, a->drop_mask, a->padding_mask,
        a->atten_mask, a->softmax_max, a->softmax_sum, a->softmax_in, a->attention_in, a->prefix, a->actual_seq_q,
        a->actual_seq_kv, a->q_start, a->kv_start, a->scale, a->keep_prob, a->pre_tokens, a->next_tokens, a->head_num,
        (char *)a->input_layout, a->inner_precise, a->sparse_mode, a->pse_type, a->dq, a->dq_rope, a->dk, a->dk_rope,
        a->dv, a->dpse, (uint64_t *)a->workspace_size, (aclOpExecutor **)a->executor);
}

static aclnnStatus phase1_v4(const struct attention_args *a)
{
    return aclnnFlashAttentionUnpaddingScoreGradV4GetWorkspaceSize(
        a->query, a->key, a->value, a->dy, a->pse_shift, a->drop_mask, a->padding_mask, a->atten_mask, a->softmax_max,
        a->softmax_sum, a->softmax_in, a->attention_in, a->prefix, a->actual_seq_q, a->actual_seq_kv, a->scale,
        a->keep_prob, a->pre_tokens, a->next_tokens, a->head_num, (char *)a->input_layout, a->inner_precise,
        a->sparse_mode, a->dq, a->dk, a->dv, a->dpse, (char *)a->softmax_layout, (uint64_t *)a->workspace_size,
        (aclOpExecutor **)a->executor);
}

static aclnnStatus phase1_v5(const struct attention_args *a)
{
    return aclnnFlashAttentionUnpaddingScoreGradV5GetWorkspaceSize(
        a->query, a->query_rope, a->key, a->key_rope, a->value, a->dy, a->pse_shift, a->drop_mask, a->padding_mask,
        a->atten_mask, a->softmax_max, a->softmax_sum, a->softmax_in, a->attention_in, a->sink, a->prefix,
        a->actual_seq_q, a->actual_seq_kv, a->q_start, a->kv_start, a->scale, a->keep_prob, a->pre_tokens,
        a->next_tokens, a->head_num, (char *)a->input_layout, a->inner_precise, a->sparse_mode, a->pse_type,
        (char *)a->softmax_layout, a->dq, a->dq_rope, a->dk, a->dk_rope, a->dv, a->dpse, a->dsink,
        (uint64_t *)a->workspace_size, (aclOpExecutor **)a->executor);
}

aclnnStatus attention_call_phase1(struct attention_call *call)
{
    static aclnnStatus (*const phase1[])(const struct attention_args *a) = {phase1_v1, phase1_v2, phase1_v3,
                                                                            phase1_v4, phase1_v5};
    return phase1[call->c.version ? call->c.version - 1 : 2](&call->args); /* a call without a case: version 3 */
}

typedef aclnnStatus phase2(void *workspace, uint64_t size, aclOpExecutor *executor, aclrtStream stream);

static phase2 *phase2_of(int version)
{
    static phase2 *const entries[] = {aclnnFlashAttentionUnpaddingScoreGrad, aclnnFlashAttentionUnpaddingScoreGradV2,
                                      aclnnFlashAttentionUnpaddingScoreGradV3,
                                      aclnnFlashAttentionUnpaddingScoreGradV4,
                                      aclnnFlashAttentionUnpaddingScoreGradV5};
    return entries[version - 1];
}

static void poison_outputs(struct attention_call *call)
{
    struct test_tensor *outputs[] = {&call->dq, &call->dqr, &call->dk, &call->dkr, &call->dv, &call->dsink};
    for (int i = 0; i < 6; ++i) {
        if (outputs[i]->handle) {
            test_tensor_fill_bytes(outputs[i], 0xff);
        }
    }
}

void attention_call_run(struct attention_call *call)
{
    poison_outputs(call);
    aclnnStatus status = attention_call_phase1(call);
    if (status != 0) {
        fail_msg("phase 1: %d %s\n%s", status, ag_error_take(), attention_case_text(&call->c));
    }
    struct test_buffer workspace = test_buffer_create(call->workspace_size, 1);
    memset(workspace.data, 0xff, workspace.bytes);
    status = phase2_of(call->c.version)(workspace.data, call->workspace_size, call->executor, NULL);
    if (status != 0) {
        fail_msg("phase 2: %d %s\n%s", status, ag_error_take(), attention_case_text(&call->c));
    }
    test_buffer_destroy(&workspace);
}

/* --- the comparison -------------------------------------------------------------------------------------- */

static double *doubles(int64_t count)
{
    double *values = malloc((size_t)(count + 1) * sizeof *values);
    assert_non_null(values);
    return values;
}

struct attention_ref attention_call_ref(struct attention_call *call, enum ag_softmax_layout layout)
{
    const struct attention_case *c = &call->c;
    const int64_t q = call->t1 * c->n1, k = call->t2 * c->n2;
    struct attention_problem problem;
    struct attention_ref ref = {doubles(q * c->d),  doubles(q * c->d),  doubles(q * c->dr), doubles(q * c->dr),
                                doubles(k * c->d),  doubles(k * c->d),  doubles(k * c->dr), doubles(k * c->dr),
                                doubles(k * c->dv), doubles(k * c->dv), doubles(c->n1),     doubles(c->n1)};
    assert_int_equal(attention_check(&call->args, &problem), AG_OK);
    assert_int_equal(attention_ref(&problem, layout, &ref), AG_OK);
    attention_release(&problem);
    return ref;
}

void attention_call_ref_free(struct attention_ref *ref)
{
    double *all[] = {ref->dq, ref->dq_bound, ref->dq_rope, ref->dq_rope_bound,
                     ref->dk, ref->dk_bound, ref->dk_rope, ref->dk_rope_bound,
                     ref->dv, ref->dv_bound, ref->dsink,   ref->dsink_bound};
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i) {
        free(all[i]);
    }
}

static double compare(const struct attention_call *call, const char *name, const struct test_tensor *got,
                      const double *want, const double *bound)
{
    return got->handle ? test_compare(name, got, want, bound, attention_case_text(&call->c)) : 0;
}

double attention_call_compare_with(const struct attention_call *call, const struct attention_ref *ref)
{
    const double worst[] = {compare(call, "dv", &call->dv, ref->dv, ref->dv_bound),
                            compare(call, "dq", &call->dq, ref->dq, ref->dq_bound),
                            compare(call, "dk", &call->dk, ref->dk, ref->dk_bound),
                            compare(call, "dqRope", &call->dqr, ref->dq_rope, ref->dq_rope_bound),
                            compare(call, "dkRope", &call->dkr, ref->dk_rope, ref->dk_rope_bound),
                            compare(call, "dsink", &call->dsink, ref->dsink, ref->dsink_bound)};
    double most = 0;
    for (int i = 0; i < 6; ++i) {
        most = worst[i] > most ? worst[i] : most;
    }
    return most;
}

double attention_call_verify(struct attention_call *call)
{
    struct attention_ref ref = attention_call_ref(call, call->c.layout);
    attention_call_run(call);
    const double worst = attention_call_compare_with(call, &ref);
    attention_call_ref_free(&ref);
    return worst;
}

void attention_call_verify_each_isa(struct attention_call *call)
{
    struct attention_ref ref = attention_call_ref(call, call->c.layout);
    const struct ag_config before = ag_config_get();
    TEST_EACH_ISA (isa) {
        ag_config_set_isa(isa);
        attention_call_run(call);
        attention_call_compare_with(call, &ref);
    }
    ag_config_set_isa(before.isa);
    attention_call_ref_free(&ref);
}

void attention_call_assert_same(const struct attention_call *a, const struct attention_call *b)
{
    test_assert_same_bits("dv", &a->dv, &b->dv);
    test_assert_same_bits("dq", &a->dq, &b->dq);
    test_assert_same_bits("dk", &a->dk, &b->dk);
    if (a->dqr.handle) {
        test_assert_same_bits("dqRope", &a->dqr, &b->dqr);
        test_assert_same_bits("dkRope", &a->dkr, &b->dkr);
    }
    if (a->dsink.handle) {
        test_assert_same_bits("dsink", &a->dsink, &b->dsink);
    }
}
