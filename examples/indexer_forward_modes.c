/* aclnnLightningIndexer on numbers that can be checked by hand: both sparse modes, equal scores, packed rows and pages.
 *
 * N = 1 head, D = 128, weights 1. Queries and keys are multiples of e0, the first unit vector, so a score is the product of two
 * numbers, or 0 where that is negative; the multiples are printed. K = 4. */
#include "example.h"
#include "aclnnop/aclnn_lightning_indexer.h"

enum { DIM = 128, SLOTS = 4, MOST_ROWS = 4, PAGE = 16, MOST_KEYS = 3 * PAGE };

struct call {
    const char *title;
    const char *query_layout, *key_layout;
    int64_t mode, rows, keys;         /* of the tensors */
    int32_t row_ends[2], key_ends[2]; /* TND: two sequences, of so many rows; pages: of so many keys */
    float query[MOST_ROWS], key[6];   /* first elements; of pages, every sixth key */
};

static const struct call calls[] = {
    {"mode 0: every row sees every key; of equal scores the lower key comes first",
     "BSND",
     "BSND",
     0,
     2,
     5,
     {0},
     {0},
     {1, -1},
     {2, 3, -1, 3, 1}},
    {"mode 3, 4 rows, 5 keys: row s sees the first s + 2",
     "BSND",
     "BSND",
     3,
     4,
     5,
     {0},
     {0},
     {1, 1, 1, 1},
     {1, 2, 3, 4, 5}},
    {"mode 3, 4 rows, 2 keys: the first two rows see none", "BSND", "BSND", 3, 4, 2, {0}, {0}, {1, 1, 1, 1}, {1, 2}},
    {"TND, mode 3, sequences of 1 row and 2 keys, 2 rows and 3 keys: numbers count within a sequence",
     "TND",
     "TND",
     3,
     4,
     6,
     {1, 3},
     {2, 5},
     {1, 1, 1, 1},
     {1, 2, 3, 4, 5, 6}},
    {"pages of 16, mode 0: sequence 0 lies in pages 2 and 0, sequence 1 in page 1; 20 and 16 keys",
     "TND",
     "PA_BSND",
     0,
     2,
     MOST_KEYS,
     {1, 2},
     {20, 16},
     {1, 1},
     {1, 2, 3, 4, 5, 6}},
};

static aclFloat16 query[MOST_ROWS][DIM], key[MOST_KEYS][DIM], weights[MOST_ROWS], values[MOST_ROWS][SLOTS];
static int32_t indices[MOST_ROWS][SLOTS], row_ends[2], key_ends[2], table[2][2] = {{2, 0}, {1, -1}};

static int is_paged(const struct call *c)
{
    return strcmp(c->key_layout, "PA_BSND") == 0;
}

static void fill(const struct call *c)
{
    memset(key, 0, sizeof key);
    for (int r = 0; r < MOST_ROWS; ++r) {
        query[r][0] = aclFloatToFloat16(c->query[r]);
        weights[r] = aclFloatToFloat16(1);
    }
    for (int t = 0; t < 6; ++t) {
        key[is_paged(c) ? 6 * t : t][0] = aclFloatToFloat16(c->key[t]);
    }
    memcpy(row_ends, c->row_ends, sizeof row_ends);
    memcpy(key_ends, c->key_ends, sizeof key_ends);
}

static aclTensor *made[16];
static size_t made_count;

static aclTensor *tensor(void *memory, aclDataType type, uint64_t rank, const int64_t *dims)
{
    made[made_count] = aclCreateTensor(dims, rank, type, NULL, 0, ACL_FORMAT_ND, dims, rank, memory);
    return made[made_count++];
}

static void run(const struct call *c)
{
    const int is_packed = strcmp(c->query_layout, "TND") == 0, has_packed_keys = strcmp(c->key_layout, "TND") == 0;
    const int64_t by_head[4] = {1, c->rows, 1, DIM}, by_slot[4] = {1, c->rows, 1, SLOTS}, two[2] = {2, 2};
    const int64_t by_key[4] = {1, c->keys, 1, DIM}, by_page[4] = {MOST_KEYS / PAGE, PAGE, 1, DIM};
    const uint64_t rank = is_packed ? 3 : 4;
    char query_layout[8], key_layout[8];
    snprintf(query_layout, sizeof query_layout, "%s", c->query_layout);
    snprintf(key_layout, sizeof key_layout, "%s", c->key_layout);
    /* Values are not to be had with pages. */
    const int has_values = !is_paged(c);
    uint64_t bytes = 0;
    aclOpExecutor *executor = NULL;
    CHECK(aclnnLightningIndexerGetWorkspaceSize(
        tensor(query, ACL_FLOAT16, rank, by_head + is_packed),
        is_paged(c) ? tensor(key, ACL_FLOAT16, 4, by_page) : tensor(key, ACL_FLOAT16, rank, by_key + has_packed_keys),
        tensor(weights, ACL_FLOAT16, rank - 1, by_head + is_packed),
        is_packed ? tensor(row_ends, ACL_INT32, 1, two) : NULL,
        is_packed ? tensor(key_ends, ACL_INT32, 1, two) : NULL, is_paged(c) ? tensor(table, ACL_INT32, 2, two) : NULL,
        query_layout, key_layout, SLOTS, c->mode, INT64_MAX, INT64_MAX, has_values,
        tensor(indices, ACL_INT32, rank, by_slot + is_packed),
        has_values ? tensor(values, ACL_FLOAT16, rank, by_slot + is_packed) : NULL, &bytes, &executor));
    void *workspace = workspace_create(bytes);
    CHECK(aclnnLightningIndexer(workspace, bytes, executor, NULL));
    CHECK(aclrtSynchronizeStream(NULL));
    workspace_destroy(workspace);
    while (made_count > 0) {
        aclDestroyTensor(made[--made_count]);
    }
}

static void print(const char *name, const float *multiples, int64_t count)
{
    printf("    %-8s", name);
    for (int64_t i = 0; i < count; ++i) {
        printf(" %g", (double)multiples[i]);
    }
    printf("\n");
}

static void print_row(const struct call *c, int64_t r)
{
    printf("    %-8s", r == 0 ? "result" : "");
    for (int j = 0; j < SLOTS; ++j) {
        if (is_paged(c) || indices[r][j] < 0) {
            printf(" %d", (int)indices[r][j]);
        } else {
            printf(" %d(%g)", (int)indices[r][j], (double)aclFloat16ToFloat(values[r][j]));
        }
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
        print("query", c->query, c->rows);
        print("key", c->key, is_paged(c) ? 6 : c->keys);
        for (int64_t r = 0; r < c->rows; ++r) {
            print_row(c, r);
        }
    }
    return 0;
}
