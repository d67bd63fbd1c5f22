/* The keys of problem strings. This is also the text of `aclgrad help attention` and of the manual's tables. */
#include "problem.h"

#define DIM  0, INT64_C(1) << 40
#define ANY  INT64_MIN, INT64_MAX
#define ENDS "cumulative ends as the API takes them, in place of lengths; any values"

/* What gradient and forward share. */
#define ATTENTION_KEYS_LIST()                                                                                         \
    {"q", PROBLEM_LIST, DIM, NULL, NULL, "lengths of the query sequences"},                                           \
        {"kv", PROBLEM_LIST, DIM, NULL, NULL, "lengths of the key sequences; default: q"},                            \
        {"qends", PROBLEM_LIST, ANY, NULL, NULL, ENDS}, {"kvends", PROBLEM_LIST, ANY, NULL, NULL, ENDS},              \
        {"t1", PROBLEM_INTEGER, DIM, NULL, NULL, "rows of query; default: the sum of q"},                             \
        {"t2", PROBLEM_INTEGER, DIM, NULL, NULL, "rows of key; default: the sum of kv"},                              \
        {"n1", PROBLEM_INTEGER, DIM, "1", NULL, "query heads"},                                                       \
        {"n2", PROBLEM_INTEGER, DIM, NULL, NULL, "key heads; default: n1"},                                           \
        {"d", PROBLEM_INTEGER, DIM, "128", NULL, "head dim of query and key"},                                        \
        {"dr", PROBLEM_INTEGER, DIM, "0", NULL, "head dim of the ropes; 0: none"},                                    \
        {"dv", PROBLEM_INTEGER, DIM, NULL, NULL, "head dim of value; default: d"},                                    \
        {"dtype", PROBLEM_WORD, 0, 0, "bf16", "bf16 f16 f32", "type of the tensors"},                                 \
        {"mode", PROBLEM_INTEGER, ANY, "0", NULL, "sparseMode"},                                                      \
        {"mask",                                                                                                      \
         PROBLEM_WORD,                                                                                                \
         0,                                                                                                           \
         0,                                                                                                           \
         "auto",                                                                                                      \
         "auto none compressed ss 11ss b1ss bnss",                                                                    \
         "shape of attenMask; auto: compressed in modes 2 to 8, ss with a rope, else none"},                          \
        {"bytes", PROBLEM_WORD, 0, 0, "random", "random zeros ones holes", "bytes of a mask that is not compressed"}, \
        {"pre", PROBLEM_INTEGER, ANY, "2147483647", NULL, "preTokens"},                                               \
        {"next", PROBLEM_INTEGER, ANY, "2147483647", NULL, "nextTokens"},                                             \
        {"prefix", PROBLEM_LIST, ANY, NULL, NULL, "prefixes of mode 6, one per sequence"},                            \
        {"scale", PROBLEM_REAL, 0, 0, NULL, NULL, "scaleValue; default: 1 / sqrt(d + dr)"},                           \
        {"headnum", PROBLEM_INTEGER, ANY, NULL, NULL, "headNum; default: n1"},                                        \
        {"layout", PROBLEM_WORD, 0, 0, "tnd", "tnd bsh sbh bsnd bnsd", "inputLayout"},                                \
        {"keepprob", PROBLEM_REAL, 0, 0, "1", NULL, "keepProb"},                                                      \
    {                                                                                                                 \
        "psetype", PROBLEM_INTEGER, ANY, "1", NULL, "pseType"                                                         \
    }

static const struct problem_key attention_keys[] = {
    ATTENTION_KEYS_LIST(),
    {"order", PROBLEM_WORD, 0, 0, "cann", "cann tnd ntd", "order in which gen writes the softmax statistics"},
    {"kind", PROBLEM_WORD, 0, 0, "normal", "normal outliers negative equal poison", "what the inputs hold"},
};

static const struct problem_key attention_forward_keys[] = {
    ATTENTION_KEYS_LIST(),
    {"sink", PROBLEM_WORD, 0, 0, "no", "no yes", "a sink is given"},
    {"order", PROBLEM_WORD, 0, 0, "cann", "cann tnd", "softmaxOutLayout: \"\" or \"same_as_input\""},
    {"kind", PROBLEM_WORD, 0, 0, "normal", "normal outliers negative equal poison", "what the inputs hold"},
};

static const struct problem_key indexer_keys[] = {
    {"layout", PROBLEM_WORD, 0, 0, "bsnd", "bsnd tnd", "inputLayout"},
    {"q", PROBLEM_LIST, DIM, NULL, NULL, "lengths of the query sequences"},
    {"kv", PROBLEM_LIST, DIM, NULL, NULL, "lengths of the key sequences; default: q"},
    {"qends", PROBLEM_LIST, INT32_MIN, INT32_MAX, NULL, NULL, "values of actualSeqQLen as they stand"},
    {"kvends", PROBLEM_LIST, INT32_MIN, INT32_MAX, NULL, NULL, "values of actualSeqKvLen as they stand"},
    {"t1", PROBLEM_INTEGER, DIM, NULL, NULL, "rows of query (bsnd: S1); default: the sum of q (bsnd: the longest)"},
    {"t2", PROBLEM_INTEGER, DIM, NULL, NULL, "rows of key (bsnd: S2); default: the sum of kv (bsnd: the longest)"},
    {"n", PROBLEM_INTEGER, DIM, "64", NULL, "query heads"},
    {"d", PROBLEM_INTEGER, DIM, "128", NULL, "head dim"},
    {"k", PROBLEM_INTEGER, DIM, "2048", NULL, "slots per row, top-k"},
    {"dtype", PROBLEM_WORD, 0, 0, "bf16", "bf16 f16 f32", "type of the tensors"},
    {"mode", PROBLEM_INTEGER, ANY, "3", NULL, "sparseMode"},
    {"kind", PROBLEM_WORD, 0, 0, "normal", "normal outliers negative equal skewed poison", "what the inputs hold"},
};

static const struct problem_key indexer_forward_keys[] = {
    {"layout", PROBLEM_WORD, 0, 0, "bsnd", "bsnd tnd", "layoutQuery, and layoutKey without pages"},
    {"q", PROBLEM_LIST, DIM, NULL, NULL, "lengths of the query sequences"},
    {"kv", PROBLEM_LIST, DIM, NULL, NULL, "lengths of the key sequences; default: q"},
    {"qends", PROBLEM_LIST, INT32_MIN, INT32_MAX, NULL, NULL, "values of actualSeqLengthsQuery as they stand"},
    {"kvends", PROBLEM_LIST, INT32_MIN, INT32_MAX, NULL, NULL, "values of actualSeqLengthsKey as they stand"},
    {"t1", PROBLEM_INTEGER, DIM, NULL, NULL, "rows of query (bsnd: S1); default: the sum of q (bsnd: the longest)"},
    {"t2", PROBLEM_INTEGER, DIM, NULL, NULL, "rows of key (bsnd: S2); default: the sum of kv (bsnd: the longest)"},
    {"n", PROBLEM_INTEGER, DIM, "64", NULL, "query heads"},
    {"d", PROBLEM_INTEGER, DIM, "128", NULL, "head dim"},
    {"k", PROBLEM_INTEGER, DIM, "2048", NULL, "sparseCount, the keys that a row keeps"},
    {"page", PROBLEM_INTEGER, 0, 1 << 20, "0", NULL, "keys of a block, layoutKey PA_BSND; 0: no pages"},
    {"dtype", PROBLEM_WORD, 0, 0, "bf16", "bf16 f16 f32", "type of query, key and values"},
    {"weights", PROBLEM_WORD, 0, 0, "same", "same f32", "type of weights; same: as dtype"},
    {"values", PROBLEM_WORD, 0, 0, "auto", "auto yes no", "returnValues; auto: unless there are pages"},
    {"mode", PROBLEM_INTEGER, ANY, "3", NULL, "sparseMode"},
    {"kind", PROBLEM_WORD, 0, 0, "normal", "normal outliers negative equal poison", "what the inputs hold"},
};

/* What the mixture-of-experts operators share. */
/* clang-format off */
#define T      {"t", PROBLEM_INTEGER, DIM, "64", NULL, "tokens"}
#define K      {"k", PROBLEM_INTEGER, DIM, "8", NULL, "experts per token"}
#define H      {"h", PROBLEM_INTEGER, DIM, "1024", NULL, "hidden size"}
#define E      {"e", PROBLEM_INTEGER, DIM, NULL, NULL, "experts to choose from; default: 8 k"}
#define RANGE  {"range", PROBLEM_LIST, ANY, NULL, NULL, "[begin,end) of the sorted positions on this rank; default: all"}
#define DTYPE  {"dtype", PROBLEM_WORD, 0, 0, "bf16", "bf16 f16 f32", "type of the tokens"}
#define PROBS  {"probs", PROBLEM_WORD, 0, 0, "same", "same none bf16 f16 f32", "type of probs; same: as dtype"}
#define PADDED {"padded", PROBLEM_WORD, 0, 0, "no", "no yes", "paddedMode"}
#define KIND   {"kind", PROBLEM_WORD, 0, 0, "normal", "normal outliers equal skewed poison", "what the inputs hold"}
/* clang-format on */

static const struct problem_key moe_keys[] = {
    T,
    K,
    H,
    E,
    RANGE,
    {"rows", PROBLEM_INTEGER, DIM, NULL, NULL, "rows of permutedTokens; default: the window"},
    {"outrows", PROBLEM_INTEGER, DIM, NULL, NULL, "rows of permutedTokensGradOut; default: rows"},
    DTYPE,
    PROBS,
    {"permuted", PROBLEM_WORD, 0, 0, "yes", "yes no", "permutedTokens is given"},
    {"topknum", PROBLEM_INTEGER, ANY, NULL, NULL, "topkNum; default: k"},
    PADDED,
    KIND,
};

static const struct problem_key moe_permute_keys[] = {
    T,
    K,
    H,
    E,
    RANGE,
    {"cut", PROBLEM_INTEGER, ANY, "0", NULL, "numOutTokens"},
    {"rows", PROBLEM_INTEGER, DIM, NULL, NULL, "rows of permuteTokensOut; default: those that are filled"},
    DTYPE,
    {"index", PROBLEM_WORD, 0, 0, "i32", "i32 i64", "type of indices"},
    PROBS,
    PADDED,
    {"kind", PROBLEM_WORD, 0, 0, "normal", "normal outliers equal skewed", "what the inputs hold"},
};

static const struct problem_key moe_sum_keys[] = {
    T,     K,     H,
    E,     RANGE, {"rows", PROBLEM_INTEGER, DIM, NULL, NULL, "rows of the permuted tensors; default: the window"},
    DTYPE, PROBS, PADDED,
    KIND,
};

static const struct problem_key moe_unpermute_grad_keys[] = {
    T,
    K,
    H,
    E,
    {"rows", PROBLEM_INTEGER, DIM, NULL, NULL, "rows of permutedTokens; default: all"},
    {"outrows", PROBLEM_INTEGER, DIM, NULL, NULL, "rows of permutedTokensGradOut; default: rows"},
    DTYPE,
    PROBS,
    {"permuted", PROBLEM_WORD, 0, 0, "yes", "yes no", "permutedTokens is given"},
    PADDED,
    KIND,
};

#define KEYS(table) table, (int)(sizeof(table) / sizeof *(table))

const struct problem_table problem_tables[PROBLEM_OPERATORS] = {
    {"attention", "aclnnFlashAttentionUnpaddingScoreGradV3",
     "gradients of attention over packed sequences of different lengths", KEYS(attention_keys)},
    {"indexer", "aclnnLightningIndexerGrad", "gradients of the lightning indexer's scores", KEYS(indexer_keys)},
    {"moe", "aclnnMoeTokenUnpermuteWithEpGrad", "gradients of putting expert outputs back into token order",
     KEYS(moe_keys)},
    {"attention_forward", "aclnnFlashAttentionVarLenScoreV5",
     "attention over packed sequences of different lengths, and the statistics its gradient needs",
     KEYS(attention_forward_keys)},
    {"indexer_forward", "aclnnLightningIndexer", "the keys of highest score for each row, and the scores",
     KEYS(indexer_forward_keys)},

    {"moe_permute", "aclnnMoeTokenPermuteWithEp", "puts tokens in the order of their experts",
     KEYS(moe_permute_keys)},
    {"moe_permute_grad", "aclnnMoeTokenPermuteWithEpGrad",
     "gradients of putting tokens in the order of their experts", KEYS(moe_sum_keys)},
    {"moe_unpermute", "aclnnMoeTokenUnpermuteWithEp", "puts expert outputs back into token order",
     KEYS(moe_sum_keys)},
    {"moe_unpermute_grad", "aclnnMoeTokenUnpermuteGrad", "as moe, where every expert is on this rank",
     KEYS(moe_unpermute_grad_keys)},
};
