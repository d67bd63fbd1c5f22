/* The three operators through the public API, with every kernel table this CPU has, against loops written out here in
 * double. No test framework, so that it also runs cross-compiled and emulated. Prints one line per table; the exit
 * status is the number of wrong results. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "aclgrad/aclgrad.h"
#include "aclnnop/aclnn_flash_attention_score_grad.h"
#include "aclnnop/aclnn_lightning_indexer_grad.h"
#include "aclnnop/aclnn_moe_token_unpermute_with_ep_grad.h"
#include "base/half.h"

enum { MAX_ELEMS = 4096, MAX_TENSORS = 16 };

static int wrong_results;
static char current[64]; /* table, type and operator, for messages */

/* A tensor on plain host memory, in one of the three types, with its values in double beside it. */
struct array {
    aclTensor *handle;
    int64_t elems;
    aclDataType type;
    double value[MAX_ELEMS];
    unsigned char memory[MAX_ELEMS * 4];
};

static void store(struct array *array, int64_t i, double value)
{
    const float narrow = (float)value;
    const ag_bf16 bf16 = ag_f32_to_bf16(narrow);
    const ag_f16 f16 = ag_f32_to_f16(narrow);
    if (array->type == ACL_FLOAT) {
        memcpy(array->memory + 4 * i, &narrow, 4);
    } else {
        memcpy(array->memory + 2 * i, array->type == ACL_BF16 ? &bf16 : &f16, 2);
    }
}

static double load(const struct array *array, int64_t i)
{
    float value;
    uint16_t half;
    memcpy(&value, array->memory + 4 * i, 4);
    memcpy(&half, array->memory + 2 * i, 2);
    if (array->type == ACL_FLOAT) {
        return (double)value;
    }
    return (double)(array->type == ACL_BF16 ? ag_bf16_to_f32(half) : ag_f16_to_f32(half));
}

static struct array arrays[MAX_TENSORS];
static int array_count;

static struct array *array_create(aclDataType type, int rank, const int64_t *dims)
{
    struct array *array = &arrays[array_count++];
    array->elems = 1;
    for (int d = 0; d < rank; ++d) {
        array->elems *= dims[d];
    }
    if (array->elems > MAX_ELEMS) {
        abort();
    }
    array->type = type;
    memset(array->memory, 0xff, sizeof array->memory); /* NaN: outputs must be written */
    array->handle =
        aclCreateTensor(dims, (uint64_t)rank, type, NULL, 0, ACL_FORMAT_ND, dims, (uint64_t)rank, array->memory);
    return array;
}

/* Small whole numbers, exact in every type: from -range to range. */
static struct array *array_random(aclDataType type, int rank, const int64_t *dims, int range, double unit)
{
    static uint32_t state = 12345;
    struct array *array = array_create(type, rank, dims);
    for (int64_t i = 0; i < array->elems; ++i) {
        state = state * 1664525u + 1013904223u;
        array->value[i] = unit * ((int)(state >> 16) % (2 * range + 1) - range);
        store(array, i, array->value[i]);
    }
    return array;
}

static struct array *indices_create(int rank, const int64_t *dims, const int32_t *values)
{
    struct array *array = array_create(ACL_INT32, rank, dims);
    memcpy(array->memory, values, (size_t)array->elems * sizeof *values);
    return array;
}

static void arrays_destroy(void)
{
    while (array_count > 0) {
        aclDestroyTensor(arrays[--array_count].handle);
    }
}

static void require(int status, const char *call)
{
    if (status != 0) {
        const char *message = aclGetRecentErrMsg();
        printf("%s: %s: %d: %s\n", current, call, status, message ? message : "");
        ++wrong_results;
    }
}

/* got against want (array->value), within `bound` per element. */
static void compare(const char *name, const struct array *array, double bound)
{
    for (int64_t i = 0; i < array->elems; ++i) {
        const double got = load(array, i);
        if (!(fabs(got - array->value[i]) <= bound * (1 + fabs(array->value[i])))) {
            printf("%s: %s[%lld] got %g want %g\n", current, name, (long long)i, got, array->value[i]);
            ++wrong_results;
            return;
        }
    }
}

/* Half a unit in the last place for results that are exact before the one rounding; float32: exact. */
static double rounding(aclDataType type)
{
    return type == ACL_FLOAT ? 0 : type == ACL_BF16 ? 0x1p-9 : 0x1p-12;
}

typedef aclnnStatus (*phase_two)(void *, uint64_t, aclOpExecutor *, aclrtStream);

static void execute(phase_two run, aclnnStatus status, uint64_t workspace_bytes, aclOpExecutor *executor)
{
    require(status, "phase 1");
    if (status == 0) {
        void *workspace = malloc(workspace_bytes + 1);
        require(run(workspace, workspace_bytes, executor, NULL), "phase 2");
        free(workspace);
    }
}

static void check_moe(aclDataType type)
{
    enum { TOKENS = 5, TOPK = 3, HIDDEN = 37, SLOTS = TOKENS * TOPK, BEGIN = 4, END = 11, ROWS = END - BEGIN };
    const int64_t by_token[] = {TOKENS, HIDDEN}, by_slot[] = {SLOTS}, by_row[] = {ROWS, HIDDEN};
    const int64_t by_expert[] = {TOKENS, TOPK}, window[] = {BEGIN, END};
    int32_t position[SLOTS];
    for (int i = 0; i < SLOTS; ++i) {
        position[i] = i * 7 % SLOTS; /* a permutation: 7 and 15 have no common factor */
    }
    struct array *grad = array_random(type, 2, by_token, 3, 1), *permuted = array_random(type, 2, by_row, 3, 1);
    struct array *probs = array_random(type, 2, by_expert, 4, 0.25);
    struct array *indices = indices_create(1, by_slot, position);
    struct array *permuted_grad = array_create(type, 2, by_row), *probs_grad = array_create(type, 2, by_expert);
    for (int i = 0; i < SLOTS; ++i) {
        const int row = position[i] - BEGIN;
        probs_grad->value[i] = 0;
        for (int h = 0; h < HIDDEN && row >= 0 && row < ROWS; ++h) {
            const double g = grad->value[i / TOPK * HIDDEN + h];
            permuted_grad->value[row * HIDDEN + h] = g * probs->value[i];
            probs_grad->value[i] += g * permuted->value[row * HIDDEN + h];
        }
    }
    aclIntArray *range = aclCreateIntArray(window, 2);
    uint64_t bytes = 0;
    aclOpExecutor *executor = NULL;
    const aclnnStatus status = aclnnMoeTokenUnpermuteWithEpGradGetWorkspaceSize(
        grad->handle, indices->handle, permuted->handle, probs->handle, false, NULL, range, TOPK,
        permuted_grad->handle, probs_grad->handle, &bytes, &executor);
    execute(aclnnMoeTokenUnpermuteWithEpGrad, status, bytes, executor);
    compare("permutedTokensGrad", permuted_grad, rounding(type));
    compare("probsGrad", probs_grad, rounding(type));
    aclDestroyIntArray(range);
    arrays_destroy();
}

static void check_indexer(aclDataType type)
{
    enum { QUERIES = 4, KEYS = 9, HEADS = 5, DIM = 128, TOPK = 6 };
    const int64_t q_dims[] = {1, QUERIES, HEADS, DIM}, k_dims[] = {1, KEYS, 1, DIM}, w_dims[] = {1, QUERIES, HEADS};
    const int64_t slot_dims[] = {1, QUERIES, TOPK};
    const int32_t selected[QUERIES * TOPK] = {0, 5, 3, 8, 1, 2, 4, 4, 7, -1, 6, 0,
                                              8, 7, 6, 5, 4, 3, 2, 9, 1, 0,  2, 5};
    struct array *query = array_random(type, 4, q_dims, 1, 1), *key = array_random(type, 4, k_dims, 1, 1);
    struct array *weights = array_random(type, 3, w_dims, 2, 1), *dy = array_random(type, 3, slot_dims, 2, 1);
    struct array *indices = indices_create(3, slot_dims, selected);
    struct array *dq = array_create(type, 4, q_dims), *dk = array_create(type, 4, k_dims),
                 *dw = array_create(type, 3, w_dims);
    memset(dq->value, 0, sizeof dq->value);
    memset(dk->value, 0, sizeof dk->value);
    memset(dw->value, 0, sizeof dw->value);
    for (int r = 0; r < QUERIES * TOPK; ++r) {
        const int row = r / TOPK, t = selected[r];
        for (int h = 0; h < HEADS && t >= 0 && t < KEYS; ++h) {
            const double *q = query->value + (row * HEADS + h) * DIM, *k = key->value + t * DIM;
            double score = 0;
            for (int d = 0; d < DIM; ++d) {
                score += q[d] * k[d];
            }
            const double flow = score > 0 ? weights->value[row * HEADS + h] * dy->value[r] : 0;
            dw->value[row * HEADS + h] += score > 0 ? score * dy->value[r] : 0;
            for (int d = 0; d < DIM; ++d) {
                dq->value[(row * HEADS + h) * DIM + d] += flow * k[d];
                dk->value[t * DIM + d] += flow * q[d];
            }
        }
    }
    char layout[] = "BSND";
    uint64_t bytes = 0;
    aclOpExecutor *executor = NULL;
    const aclnnStatus status = aclnnLightningIndexerGradGetWorkspaceSize(
        query->handle, key->handle, dy->handle, indices->handle, weights->handle, NULL, NULL, 0, layout, 0, 0, 0,
        true, dq->handle, dk->handle, dw->handle, &bytes, &executor);
    execute(aclnnLightningIndexerGrad, status, bytes, executor);
    compare("dq", dq, rounding(type));
    compare("dk", dk, rounding(type));
    compare("dweights", dw, rounding(type));
    arrays_destroy();
}

/* One packed problem of attention: lengths, heads (two query heads per key head), right-down causal. */
enum { SEQUENCES = 2, TOKENS = 16, HEADS = 4, GROUP = 2, KEY_HEADS = HEADS / GROUP, DIM = 40, DIM_V = 24, LANES = 8 };
static const int64_t ends[SEQUENCES] = {5, TOKENS};
static const double scale = 0.125;

static double dot(const double *a, const double *b, int count)
{
    double sum = 0;
    for (int i = 0; i < count; ++i) {
        sum += a[i] * b[i];
    }
    return sum;
}

struct attention {
    struct array *query, *key, *value, *dy, *out, *max, *sum, *dq, *dk, *dv;
};

/* Forward of row i of sequence [begin, end), head n: probabilities of keys begin..begin+i, output, statistics. */
static void attention_forward(const struct attention *a, int begin, int end, int n, int i, double *p)
{
    const int row = (begin + i) * HEADS + n;
    double *out = a->out->value + row * DIM_V, max = -INFINITY, sum = 0;
    for (int j = 0; j <= i; ++j) {
        const int key_row = (begin + j) * KEY_HEADS + n / GROUP;
        p[j] = scale * dot(a->query->value + row * DIM, a->key->value + key_row * DIM, DIM);
        max = fmax(max, p[j]);
    }
    for (int j = 0; j <= i; ++j) {
        p[j] = exp(p[j] - max);
        sum += p[j];
    }
    for (int e = 0; e < DIM_V; ++e) {
        out[e] = 0;
        for (int j = 0; j <= i; ++j) {
            out[e] += p[j] / sum * a->value->value[((begin + j) * KEY_HEADS + n / GROUP) * DIM_V + e];
        }
        store(a->out, row * DIM_V + e, out[e]);
        out[e] = load(a->out, row * DIM_V + e);
    }
    for (int lane = 0; lane < LANES; ++lane) { /* statistics lie per sequence and head */
        const int at = (begin * HEADS + n * (end - begin) + i) * LANES + lane;
        store(a->max, at, max);
        store(a->sum, at, sum);
    }
    for (int j = 0; j <= i; ++j) {
        p[j] /= sum;
    }
}

static void attention_backward(const struct attention *a, int begin, int n, int i, const double *p)
{
    const int row = (begin + i) * HEADS + n;
    const double *dy = a->dy->value + row * DIM_V, *q = a->query->value + row * DIM;
    const double delta = dot(dy, a->out->value + row * DIM_V, DIM_V);
    for (int j = 0; j <= i; ++j) {
        const int key_row = (begin + j) * KEY_HEADS + n / GROUP;
        const double ds = scale * p[j] * (dot(dy, a->value->value + key_row * DIM_V, DIM_V) - delta);
        for (int d = 0; d < DIM; ++d) {
            a->dq->value[row * DIM + d] += ds * a->key->value[key_row * DIM + d];
            a->dk->value[key_row * DIM + d] += ds * q[d];
        }
        for (int e = 0; e < DIM_V; ++e) {
            a->dv->value[key_row * DIM_V + e] += p[j] * dy[e];
        }
    }
}

static void attention_define(const struct attention *a)
{
    memset(a->dq->value, 0, sizeof a->dq->value);
    memset(a->dk->value, 0, sizeof a->dk->value);
    memset(a->dv->value, 0, sizeof a->dv->value);
    for (int b = 0; b < SEQUENCES; ++b) {
        const int begin = b ? (int)ends[b - 1] : 0, end = (int)ends[b];
        for (int n = 0; n < HEADS; ++n) {
            for (int i = 0; i < end - begin; ++i) {
                double p[TOKENS];
                attention_forward(a, begin, end, n, i, p);
                attention_backward(a, begin, n, i, p);
            }
        }
    }
}

static void check_attention(aclDataType type)
{
    const int64_t q_dims[] = {TOKENS, HEADS, DIM}, k_dims[] = {TOKENS, KEY_HEADS, DIM};
    const int64_t v_dims[] = {TOKENS, KEY_HEADS, DIM_V}, dy_dims[] = {TOKENS, HEADS, DIM_V};
    const int64_t stat_dims[] = {TOKENS, HEADS, LANES}, mask_dims[] = {2048, 2048};
    static uint8_t mask_bytes[1]; /* compressed modes take the mask's shape only */
    const int64_t no_strides[] = {0, 0}, one[] = {1};
    struct attention a;
    a.query = array_random(type, 3, q_dims, 4, 0.25);
    a.key = array_random(type, 3, k_dims, 4, 0.25);
    a.value = array_random(type, 3, v_dims, 4, 0.25);
    a.dy = array_random(type, 3, dy_dims, 4, 0.25);
    a.out = array_create(type, 3, dy_dims);
    a.max = array_create(ACL_FLOAT, 3, stat_dims);
    a.sum = array_create(ACL_FLOAT, 3, stat_dims);
    a.dq = array_create(type, 3, q_dims);
    a.dk = array_create(type, 3, k_dims);
    a.dv = array_create(type, 3, v_dims);
    attention_define(&a);
    aclTensor *mask = aclCreateTensor(mask_dims, 2, ACL_UINT8, no_strides, 0, ACL_FORMAT_ND, one, 1, mask_bytes);
    aclIntArray *lengths = aclCreateIntArray(ends, SEQUENCES);
    char layout[] = "TND";
    uint64_t bytes = 0;
    aclOpExecutor *executor = NULL;
    const aclnnStatus status = aclnnFlashAttentionUnpaddingScoreGradV3GetWorkspaceSize(
        a.query->handle, NULL, a.key->handle, NULL, a.value->handle, a.dy->handle, NULL, NULL, NULL, mask,
        a.max->handle, a.sum->handle, NULL, a.out->handle, NULL, lengths, lengths, NULL, NULL, scale, 1.0, 0, 0,
        HEADS, layout, 0, 3, 1, a.dq->handle, NULL, a.dk->handle, NULL, a.dv->handle, NULL, &bytes, &executor);
    execute(aclnnFlashAttentionUnpaddingScoreGradV3, status, bytes, executor);
    const double bound = type == ACL_FLOAT ? 2e-6 : type == ACL_BF16 ? 4e-2 : 5e-3;
    compare("dq", a.dq, bound);
    compare("dk", a.dk, bound);
    compare("dv", a.dv, bound);
    aclDestroyTensor(mask);
    aclDestroyIntArray(lengths);
    arrays_destroy();
}

static void check_table(const char *table)
{
    for (int type = 0; type < 3; ++type) {
        const aclDataType types[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16};
        snprintf(current, sizeof current, "%s, type %d, moe", table, types[type]);
        check_moe(types[type]);
        snprintf(current, sizeof current, "%s, type %d, attention", table, types[type]);
        check_attention(types[type]);
        if (types[type] != ACL_FLOAT) {
            snprintf(current, sizeof current, "%s, type %d, indexer", table, types[type]);
            check_indexer(types[type]);
        }
    }
}

int main(void)
{
    static const char *const tables[] = {"scalar", "avx2", "avx512", "avx512bf16", "amx"};
    int checked = 0;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; ++i) {
        if (aclgrad_set_instruction_set(tables[i]) == 0) {
            check_table(tables[i]);
            printf("%s: checked\n", tables[i]);
            ++checked;
        }
    }
    if (checked == 0) {
        printf("no kernel table runs here\n");
        return 1;
    }
    printf("%d wrong\n", wrong_results);
    return wrong_results < 100 ? wrong_results : 100;
}
