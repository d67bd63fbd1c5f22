/* Kernels of the lightning indexer and its gradient. The gradient, one row: N heads against the keys of its live slots.
 *
 * Lanes are heads in `score` and elements of D in `scatter`; keys and slots are rows, found by number. Between the
 * two stands dp[slot][head] = dL/dP, where P[slot][head] = key . query. */
#ifndef AG_KERNEL_INDEXER_KERNELS_H
#define AG_KERNEL_INDEXER_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

/* For every slot and head:
 *     P              = key[numbers[slot]] . query[head]
 *     dweights[head] += relu(P) * dy[slot]                     slots in ascending order
 *     dp[slot][head] = P > 0 ? weights[head] * dy[slot] : +0
 * Heads are computed in steps of half a panel; those behind the last have weight 0, so their dp is 0. */
struct ag_indexer_score {
    const uint32_t *query;  /* pack_lanes of [N, D]: [panels][depth][lanes] */
    const uint32_t *keys;   /* pack_rows: key t at keys[t * key_stride], `depth` words */
    const int32_t *numbers; /* [slots] */
    const float *dy;        /* [slots] */
    const float *weights;   /* [head_stride], 0 behind the last head */
    float *dweights;        /* [head_stride] */
    uint32_t *dp;           /* slot s at dp[s * dp_stride], words along heads: head_stride elements are written */
    uint32_t *dp_pairs;     /* bf16 panels: word (pair of slots i, head h) at dp_pairs[i * head_stride + h] */
    int64_t key_stride, dp_stride, head_stride; /* head_stride: N rounded up to half a panel */
    int64_t heads, depth, slots;
    bool is_rounded; /* weights * dy is rounded to bf16 (bf16 panels always do) */
};

/* Rows of D become panels whose contraction runs over slots, as pack_depth would make them of the gathered keys. */
struct ag_indexer_gather {
    uint32_t *to; /* word (i, d) at to[d / lanes * panel_stride + i * lanes + d % lanes] */
    const uint32_t *keys;
    const int32_t *numbers; /* [slots] */
    int64_t panel_stride, key_stride;
    int64_t slots, dim;
};

/* For every entry, in order:
 *     dk[numbers[entry]][d] += sum over heads of  dp[entry][head] * query[head][d]
 * Entries are computed in groups of ag_panel_kernels.rows from the first on; in one group no key comes twice. */
struct ag_indexer_scatter {
    const uint32_t *query;  /* pack_depth of [N, D]: [panels][depth][lanes] */
    const uint32_t *dp;     /* slot s at dp[s * dp_stride] */
    const int32_t *entries; /* [count] slots */
    const int32_t *numbers; /* [slot] -> key */
    float *dk;              /* key t at dk[t * dk_stride]; written up to D rounded up to half a panel */
    int64_t dp_stride, dk_stride;
    int64_t depth, dim, count; /* depth: words along heads */
};

/* The forward's scores: for every key, heads in ascending order,
 *     scores[key] = sum over heads of  weights[head] * relu(products[head][key])
 * Keys are computed in whole vectors: scores are written, and products read, up to keys rounded up to one. */
struct ag_indexer_weigh {
    const float *products; /* head h at products[h * product_stride], keys as lanes */
    const float *weights;  /* [heads] */
    float *scores;         /* [keys] */
    int64_t product_stride;
    int64_t heads, keys;
};

struct ag_indexer_kernels {
    void (*score)(const struct ag_indexer_score *score);
    void (*gather)(const struct ag_indexer_gather *gather);
    void (*scatter)(const struct ag_indexer_scatter *scatter);
};

#endif
