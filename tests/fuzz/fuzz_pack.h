/* Bytes -> a pack of sequences and the arguments that attention's gradient and forward share. */
#ifndef AG_TESTS_FUZZ_PACK_H
#define AG_TESTS_FUZZ_PACK_H

#include "fuzz_operand.h"
#include "op/attention/attention.h"

enum { FUZZ_MOST_SEQUENCES = 3 };

struct fuzz_pack {
    struct fuzz_call call;
    int64_t mode;
    int dtype;
    int64_t sequences, query_rows, key_rows, query_heads, key_heads, dim, rope_dim, value_dim, most_query, most_key;
    int64_t query_ends[FUZZ_MOST_SEQUENCES], key_ends[FUZZ_MOST_SEQUENCES], prefixes[FUZZ_MOST_SEQUENCES];
    aclIntArray *query_list, *key_list, *prefix;
    struct attention_args args;
};

/* Sizes; then the caller adds its operands; then all other arguments. */
void fuzz_pack_begin(struct fuzz_pack *f, struct fuzz_input *input);
void fuzz_pack_set_scalars(struct fuzz_pack *f);
void fuzz_pack_end(struct fuzz_pack *f);

/* [T, N, dim] of queries or keys. */
struct fuzz_operand *fuzz_pack_add(struct fuzz_pack *f, bool is_output, int dtype, bool is_key, int64_t dim);

/* FLOAT [T1, N1, 8] or [N1, T1, 8] */
struct fuzz_operand *fuzz_pack_add_statistics(struct fuzz_pack *f, bool is_output);

/* The problem's inputs have memory, and all is small enough for the definition. */
bool fuzz_pack_is_definable(const struct fuzz_pack *f, const struct attention_problem *p);

#endif
