/* The rules that the gradient and the forward share. Each is one check of one or more arguments with its status and
 * message; the two checks call them in the order in which the contract lists them. */
#ifndef AG_OP_ATTENTION_RULES_H
#define AG_OP_ATTENTION_RULES_H

#include "op/attention/attention.h"
#include "op/attention/attention_lengths.h"

enum { ATTENTION_AXIS_ROW, ATTENTION_AXIS_HEAD, ATTENTION_AXIS_DIM, ATTENTION_AXES };

enum { ATTENTION_STATISTIC_LANES = 8, ATTENTION_ROPE_DIM_MULTIPLE = 8 };

/* What the documents refuse though the mathematics would allow it, and what ACLGRAD_LIMITS=extended makes of it. */
struct attention_limits {
    int64_t dim, heads; /* largest D and N1 */
    bool rope_is_bf16;  /* rope only in BF16 (else in the type of query) */
    bool rope_needs_mask;
    int64_t rope_dim_multiple; /* with rope D and Dr are multiples of it */
};
extern const struct attention_limits attention_limits_table[];

/* What the two directions call the same thing. */
struct attention_names {
    const char *key, *key_rope, *pse, *sink, *softmax_max, *softmax_sum, *attention;
};

struct attention_checker {
    const struct attention_args *args;
    struct attention_problem *p;
    const struct attention_names *names;
    const struct attention_limits *limits;
    struct attention_lengths query_lengths, key_lengths;
};

/* An argument's view and its name in messages. */
struct attention_named_view {
    const char *name;
    const struct ag_view *view;
};

/* --- pointers -------------------------------------------------------------------------------------------- */

/* executor, workspaceSize, inputLayout */
ag_status attention_check_handles(const struct attention_args *args);

/* An optional tensor of rank 0 counts as absent, and so does one without elements, unless it has none because the
 * pack has no rows. */
ag_status attention_read_optional(const aclTensor *tensor, const char *name, bool has_no_rows, struct ag_view *view);

/* query_rope, key_rope, mask, sink, padding_mask */
ag_status attention_read_shared_optionals(const struct attention_checker *c);

/* Dim 0, and 0 of a scalar. */
int64_t attention_rows_of(const struct ag_view *view);

/* --- types, shapes, sizes -------------------------------------------------------------------------------- */

/* query, key, value: one float type */
ag_status attention_check_dtypes(const struct attention_checker *c);

ag_status attention_check_rank(const struct ag_view *view, const char *name);

/* The view has the rows and heads of `like` and a last dim of its own. */
ag_status attention_check_rows_and_heads(const struct ag_view *view, const char *name, const struct ag_view *like);

/* Where both ropes are there: their shapes. */
ag_status attention_check_rope_shapes(const struct attention_checker *c);

/* D of key is that of query, Dv at most D. */
ag_status attention_check_dims(const struct attention_checker *c);

/* elem, rows, heads, dims */
void attention_fill_sizes(struct attention_problem *p);

ag_status attention_check_lengths(struct attention_checker *c);

/* Both or neither. Then sets has_rope and rope_dim and checks what rope asks for. */
ag_status attention_check_rope(const struct attention_checker *c);

/* N1, N2, headNum, sizes of the lists, limits; then sets group. */
ag_status attention_check_heads(const struct attention_checker *c);

/* keepProb is 1. */
ag_status attention_check_keep_prob(const struct attention_args *args);

/* --- with sequences -------------------------------------------------------------------------------------- */

/* p->sequences: begins and lengths; the caller releases. */
ag_status attention_make_sequences(const struct attention_checker *c);

/* Mode, mask, tokens; sets has_mask and has_mask_bytes. */
ag_status attention_check_sparse_mode(const struct attention_checker *c);

ag_status attention_check_pse_type(int64_t pse_type);

/* FLOAT [T1, N1, 8] or [N1, T1, 8] */
ag_status attention_check_statistics(const struct attention_checker *c);

/* FLOAT [N1]; absent is fine. */
ag_status attention_check_per_head(const struct attention_problem *p, const struct ag_view *view, const char *name);

/* Sparse mode 6: the prefix list; else *prefix = NULL. */
ag_status attention_read_prefix(const struct attention_checker *c, const int64_t **prefix, int64_t *count);

/* pseShift and dropMask must be absent. With rope even a rank-0 tensor is refused. */
ag_status attention_check_no_pse_no_dropout(const struct attention_checker *c, bool has_rope);

/* Formats, storage, and outputs whose elements do not share memory. */
ag_status attention_check_memory(const struct attention_named_view *inputs, int input_count,
                                 const struct attention_named_view *outputs, int output_count);

/* No two outputs share memory: 161002 names both. Slices of one buffer, one between the other, are apart. Addresses can
 * change between the phases, so both ask. */
ag_status attention_check_outputs_apart(const struct attention_named_view *outputs, int output_count);

/* An output's memory range meets that of an input that is read. */
bool attention_views_meet(const struct attention_problem *p, const struct attention_named_view *inputs,
                          int input_count, const struct attention_named_view *outputs, int output_count);

/* --- the end --------------------------------------------------------------------------------------------- */

/* softmaxInLayout, softmaxOutLayout: sets p->softmax_layout, where "" leaves the choice to the configuration. */
ag_status attention_read_softmax_layout(const struct attention_checker *c, const char *name);

/* Views of arguments that nobody touches look empty, so that phase 2 asks no memory of them. */
void attention_hide(struct ag_view *view);

/* Intervals of the sequences, the mask's strides, scale. */
void attention_finish(const struct attention_checker *c, const int64_t *prefix, int64_t prefix_count);

#endif
