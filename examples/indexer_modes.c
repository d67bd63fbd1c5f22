/* aclnnLightningIndexerGrad on numbers that can be checked by hand: both sparse modes and both layouts.
 *
 * N = 1 head, D = 128. Queries, keys and weights are e0, the first unit vector (weights 1), where a case does not say otherwise;
 * of rows and keys the first element is printed, the others are 0. dy of each row is 1, 10, 100, 1000, so that a sum shows which
 * slots are in it. */
#include "example.h"
#include "aclnnop/aclnn_lightning_indexer_grad.h"

enum { DIM = 128, SLOTS = 4, MOST = 4, ONE = 0x3C00 /* 1.0 as fp16 */ };

struct call {
    const char *title;
    const char *layout;
    int64_t mode, rows, keys, sequences;
    int32_t row_ends[2], key_ends[2]; /* TND; BSND has one sequence of all */
    float query[MOST], key[MOST];     /* first elements */
    int32_t indices[MOST][SLOTS];
};

static const struct call calls[] = {
    {"mode 0: every slot with a key's number counts; -1 does not",
     "BSND",
     0,
     1,
     2,
     1,
     {0},
     {0},
     {1},
     {2, 3},
     {{0, -1, 1, 1}}},
    {"mode 0: a product that is not positive lets nothing through",
     "BSND",
     0,
     1,
     3,
     1,
     {0},
     {0},
     {1},
     {2, -2, 0},
     {{0, 1, 2, -1}}},
    {"mode 3, 4 rows, 4 keys: row s uses s + 1 slots, whatever stands in the others",
     "BSND",
     3,
     4,
     4,
     1,
     {0},
     {0},
     {1, 1, 1, 1},
     {1, 1, 1, 1},
     {{0, 3, 2, 1}, {1, 0, 3, 2}, {2, 0, 1, 3}, {0, 1, 2, 3}}},
    {"mode 3, 4 rows, 2 keys: the first two rows see no key",
     "BSND",
     3,
     4,
     2,
     1,
     {0},
     {0},
     {1, 1, 1, 1},
     {1, 1},
     {{0, 1, 0, 1}, {0, 1, 0, 1}, {0, 1, 0, 1}, {0, 1, 0, 1}}},
    {"TND, mode 3, sequences of 1 row and 2 keys, 2 rows and 1 key: numbers count within a sequence",
     "TND",
     3,
     4,
     4,
     2,
     {1, 3},
     {2, 3},
     {1, 1, 1, 1},
     {1, 2, 3, 4},
     {{1, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}}},
};

static aclFloat16 query[MOST][DIM], key[MOST][DIM], weights[MOST], dy[MOST][SLOTS];
static aclFloat16 dq[MOST][DIM], dk[MOST][DIM], dweights[MOST];
static int32_t indices[MOST][SLOTS], row_ends[2], key_ends[2];

static void fill(const struct call *c)
{
    for (int r = 0; r < MOST; ++r) {
        query[r][0] = aclFloatToFloat16(c->query[r]);
        key[r][0] = aclFloatToFloat16(c->key[r]);
        weights[r] = ONE;
        for (int j = 0; j < SLOTS; ++j) {
            dy[r][j] = aclFloatToFloat16(j == 0 ? 1.0f : j == 1 ? 10.0f : j == 2 ? 100.0f : 1000.0f);
            indices[r][j] = c->indices[r][j];
        }
    }
    memcpy(row_ends, c->row_ends, sizeof row_ends);
    memcpy(key_ends, c->key_ends, sizeof key_ends);
}

static aclTensor *made[16];
static size_t made_count;

/* A tensor of `dims`; without the leading 1 in TND. */
static aclTensor *tensor(const struct call *c, void *memory, aclDataType type, uint64_t rank, const int64_t *dims)
{
    const uint64_t skip = strcmp(c->layout, "TND") == 0;
    made[made_count] =
        aclCreateTensor(dims + skip, rank - skip, type, NULL, 0, ACL_FORMAT_ND, dims + skip, rank - skip, memory);
    return made[made_count++];
}

static void run(const struct call *c)
{
    const int64_t by_head[4] = {1, c->rows, 1, DIM}, by_key[4] = {1, c->keys, 1, DIM},
                  by_slot[3] = {1, c->rows, SLOTS};
    const int64_t lengths[2] = {1, c->sequences};
    const int is_packed = strcmp(c->layout, "TND") == 0;
    char layout[8];
    snprintf(layout, sizeof layout, "%s", c->layout);
    uint64_t bytes = 0;
    aclOpExecutor *executor = NULL;
    CHECK(aclnnLightningIndexerGradGetWorkspaceSize(
        tensor(c, query, ACL_FLOAT16, 4, by_head), tensor(c, key, ACL_FLOAT16, 4, by_key),
        tensor(c, dy, ACL_FLOAT16, 3, by_slot), tensor(c, indices, ACL_INT32, 3, by_slot),
        tensor(c, weights, ACL_FLOAT16, 3, by_head), is_packed ? tensor(c, row_ends, ACL_INT32, 2, lengths) : NULL,
        is_packed ? tensor(c, key_ends, ACL_INT32, 2, lengths) : NULL, 1, layout, c->mode, INT64_MAX, INT64_MAX, true,
        tensor(c, dq, ACL_FLOAT16, 4, by_head), tensor(c, dk, ACL_FLOAT16, 4, by_key),
        tensor(c, dweights, ACL_FLOAT16, 3, by_head), &bytes, &executor));
    void *workspace = workspace_create(bytes);
    CHECK(aclnnLightningIndexerGrad(workspace, bytes, executor, NULL));
    CHECK(aclrtSynchronizeStream(NULL));
    workspace_destroy(workspace);
    while (made_count > 0) {
        aclDestroyTensor(made[--made_count]);
    }
}

static void print(const char *name, const aclFloat16 *values, int64_t count, int64_t stride)
{
    printf("    %-8s", name);
    for (int64_t i = 0; i < count; ++i) {
        printf(" %g", (double)aclFloat16ToFloat(values[i * stride]));
    }
    printf("\n");
}

int main(void)
{
    for (size_t k = 0; k < sizeof calls / sizeof *calls; ++k) {
        const struct call *c = &calls[k];
        fill(c);
        run(c);
        printf("\n%s\n", c->title);
        print("query", query[0], c->rows, DIM);
        print("key", key[0], c->keys, DIM);
        for (int64_t r = 0; r < c->rows; ++r) {
            printf("    %-8s %d %d %d %d\n", r == 0 ? "indices" : "", (int)indices[r][0], (int)indices[r][1],
                   (int)indices[r][2], (int)indices[r][3]);
        }
        print("dweights", dweights, c->rows, 1);
        print("dq", dq[0], c->rows, DIM);
        print("dk", dk[0], c->keys, DIM);
    }
    return 0;
}
