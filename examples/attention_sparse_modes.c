/* Every sparse mode of aclnnFlashAttentionUnpaddingScoreGradV3 on numbers that can be checked by hand.
 *
 * One head, D = 2, Dv = 1, scale 1, in each sequence: query row i = (0, 1), key j = (j, 0), value j = j, dy = 1. So all
 * scores are 0, P is 1 over the number of columns that a row sees, attentionIn is their mean, and
 *
 *     dq[i] = (variance of the columns that row i sees, 0)
 *     dk[j] = (0, sum over the rows that see j of (j - mean of the row) / columns of the row)
 *     dv[j] = sum over the rows that see j of 1 / columns of the row
 *
 * Memory of aclrtMalloc is not needed here: any host pointer is a device pointer. */
#include <float.h>
#include <stdbool.h>

#include "example.h"
#include "aclnnop/aclnn_flash_attention_score_grad.h"

enum { MOST_SEQUENCES = 2, MOST_ROWS = 4, MOST_KEYS = 5, STATISTICS = 8, MASK_ROWS = 3072, MASK_COLUMNS = 2048 };
enum { ROWS = MOST_SEQUENCES * MOST_ROWS, KEYS = MOST_SEQUENCES * MOST_KEYS };

struct mode {
    const char *title;
    int number;
    int64_t sequences, rows, keys; /* rows and keys of each sequence */
    bool has_mask;
    int64_t pre, next, prefix;
};

static const struct mode modes[] = {
    {"no mask (any mode)", 0, 1, 3, 5, false, 1, 0, 0},
    {"mode 0, preTokens 1, nextTokens 2, mask hides odd i + j", 0, 1, 3, 5, true, 1, 2, 0},
    {"mode 1, mask hides odd i + j", 1, 1, 3, 5, true, 0, 0, 0},
    {"mode 2", 2, 1, 3, 5, true, 0, 0, 0},
    {"mode 3", 3, 1, 3, 5, true, 0, 0, 0},
    {"mode 3, more rows than keys", 3, 1, 4, 2, true, 0, 0, 0},
    {"mode 4, preTokens 1, nextTokens 0", 4, 1, 3, 5, true, 1, 0, 0},
    {"mode 6, prefix 4", 6, 1, 3, 5, true, 0, 0, 4},
    {"mode 7, two sequences, preTokens 1, nextTokens 0", 7, 2, 3, 5, true, 1, 0, 0},
    {"mode 8, two sequences, preTokens 1, nextTokens 0", 8, 2, 3, 5, true, 1, 0, 0},
};

static uint8_t mask[MASK_ROWS * MASK_COLUMNS];
static float query[ROWS][2], key[KEYS][2], value[KEYS], dy[ROWS], attention[ROWS];
static float softmax_max[ROWS][STATISTICS], softmax_sum[ROWS][STATISTICS], dq[ROWS][2], dk[KEYS][2], dv[KEYS];

/* The table of the page: whether row i of sequence b sees column j. */
static bool sees(const struct mode *m, int64_t b, int64_t i, int64_t j)
{
    const int64_t d = m->keys - m->rows;
    const bool is_even = (i + j) % 2 == 0, in_band = i + d - m->pre <= j && j <= i + d + m->next;
    switch (m->has_mask ? m->number : -1) {
    case 0:
        return is_even && i - j <= m->pre && j - i <= m->next;
    case 1:
        return is_even;
    case 2:
        return j <= i;
    case 3:
        return j <= i + d;
    case 4:
        return in_band;
    case 6:
        return j <= i + d || j < m->prefix;
    case 7:
        return b == m->sequences - 1 ? in_band : j <= i + d;
    case 8:
        return b == 0 ? in_band : j <= i;
    default:
        return true;
    }
}

/* The forward pass of row i of sequence b. */
static void fill_row(const struct mode *m, int64_t b, int64_t i)
{
    const int64_t t = b * m->rows + i;
    float columns = 0, sum = 0;
    for (int64_t j = 0; j < m->keys; ++j) {
        columns += sees(m, b, i, j) ? 1.0f : 0.0f;
        sum += sees(m, b, i, j) ? (float)j : 0.0f;
        mask[i * m->keys + j] = (i + j) % 2 != 0; /* read in modes 0 and 1 only */
    }
    query[t][1] = dy[t] = 1;
    attention[t] = columns > 0 ? sum / columns : 0;
    for (int lane = 0; lane < STATISTICS; ++lane) { /* with one head their order is no question */
        softmax_max[t][lane] = columns > 0 ? 0 : -FLT_MAX;
        softmax_sum[t][lane] = columns > 0 ? columns : FLT_MAX;
    }
}

static aclTensor *made[16]; /* tensors of one call, destroyed behind it */
static size_t made_count;

static aclTensor *tensor(void *memory, aclDataType type, int rank, const int64_t *dims)
{
    made[made_count] =
        aclCreateTensor(dims, (uint64_t)rank, type, NULL, 0, ACL_FORMAT_ND, dims, (uint64_t)rank, memory);
    return made[made_count++];
}

static aclTensor *tokens(void *memory, int64_t count, int64_t dim)
{
    const int64_t dims[3] = {count, 1, dim};
    return tensor(memory, ACL_FLOAT, 3, dims);
}

static aclTensor *mask_of(const struct mode *m)
{
    const int64_t as_long[2] = {m->rows, m->keys},
                  compressed[2] = {m->number == 6 ? MASK_ROWS : MASK_COLUMNS, MASK_COLUMNS};
    return m->has_mask ? tensor(mask, ACL_UINT8, 2, m->number < 2 ? as_long : compressed) : NULL;
}

static void run(const struct mode *m)
{
    const int64_t rows = m->sequences * m->rows, keys = m->sequences * m->keys;
    const int64_t row_ends[2] = {m->rows, rows}, key_ends[2] = {m->keys, keys}, prefixes[2] = {m->prefix, m->prefix};
    const uint64_t sequences = (uint64_t)m->sequences;
    aclIntArray *row_list = aclCreateIntArray(row_ends, sequences),
                *key_list = aclCreateIntArray(key_ends, sequences);
    aclIntArray *prefix_list = aclCreateIntArray(prefixes, sequences);
    char layout[] = "TND";
    uint64_t bytes = 0;
    aclOpExecutor *executor = NULL;
    CHECK(aclnnFlashAttentionUnpaddingScoreGradV3GetWorkspaceSize(
        tokens(query, rows, 2), NULL, tokens(key, keys, 2), NULL, tokens(value, keys, 1), tokens(dy, rows, 1), NULL,
        NULL, NULL, mask_of(m), tokens(softmax_max, rows, STATISTICS), tokens(softmax_sum, rows, STATISTICS), NULL,
        tokens(attention, rows, 1), prefix_list, row_list, key_list, NULL, NULL, 1.0, 1.0, m->pre, m->next, 1, layout,
        0, m->number, 1, tokens(dq, rows, 2), NULL, tokens(dk, keys, 2), NULL, tokens(dv, keys, 1), NULL, &bytes,
        &executor));
    void *workspace = workspace_create(bytes);
    CHECK(aclnnFlashAttentionUnpaddingScoreGradV3(workspace, bytes, executor, NULL));
    CHECK(aclrtSynchronizeStream(NULL));
    workspace_destroy(workspace);
    aclDestroyIntArray(row_list);
    aclDestroyIntArray(key_list);
    aclDestroyIntArray(prefix_list);
    while (made_count > 0) {
        aclDestroyTensor(made[--made_count]);
    }
}

static void print_rows(const struct mode *m)
{
    printf("\n%s\n", m->title);
    for (int64_t b = 0; b < m->sequences; ++b) {
        for (int64_t i = 0; i < m->rows; ++i) {
            printf("   ");
            for (int64_t j = 0; j < m->keys; ++j) {
                printf(" %c", sees(m, b, i, j) ? 'x' : '.');
            }
            printf("   dq %.4g\n", (double)dq[b * m->rows + i][0]);
        }
        printf("    dk");
        for (int64_t j = 0; j < m->keys; ++j) {
            printf(" %.4g", (double)dk[b * m->keys + j][1]);
        }
        printf("\n    dv");
        for (int64_t j = 0; j < m->keys; ++j) {
            printf(" %.4g", (double)dv[b * m->keys + j]);
        }
        printf("\n");
    }
}

int main(void)
{
    for (size_t k = 0; k < sizeof modes / sizeof *modes; ++k) {
        const struct mode *m = &modes[k];
        for (int64_t b = 0; b < m->sequences; ++b) {
            for (int64_t i = 0; i < m->rows; ++i) {
                fill_row(m, b, i);
            }
            for (int64_t j = 0; j < m->keys; ++j) {
                key[b * m->keys + j][0] = value[b * m->keys + j] = (float)j;
            }
        }
        run(m);
        print_rows(m);
    }
    return 0;
}
