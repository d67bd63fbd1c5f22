/* What the files about attention calls share. */
#ifndef ACLGRAD_CALL_ATTENTION_H
#define ACLGRAD_CALL_ATTENTION_H

#include "call.h"
#include "op/attention/attention.h"

/* A call after the library's own check: for everything that computes on it here. */
struct checked_attention {
    struct handles handles;
    struct attention_args args;
    struct attention_problem problem;
    bool is_checked; /* problem is there, and owns its sequences */
};

/* The arguments, from the call and its outputs; *args points into handles and the call. */
bool bind_attention(const struct call *call, const struct tensor_set *outputs, struct handles *handles,
                    struct attention_args *args);

/* The part of it that needs no tensor, for the forward too. */
bool bind_attention_scalars(const struct call *call, struct handles *handles, struct attention_args *args);

/* Binds and checks. CLI_REJECTED with the library's message; release in every case. */
bool check_attention(const struct call *call, const struct tensor_set *outputs, struct checked_attention *checked);
void release_attention(struct checked_attention *checked);

/* As problem.softmax_layout, or, where that is AUTO, the order the data speak for. */
enum ag_softmax_layout layout_of(const struct attention_problem *problem);

/* Pairs of query row and visible key, over all query heads, as the intervals have it: mask bytes do not count. */
double attention_visible_pairs(const struct attention_problem *problem);

/* Bytes of inputs and outputs, without a mask that is not read. */
double attention_bytes(const struct call *call, const struct tensor_set *outputs,
                       const struct attention_problem *problem);

/* Lines of `explain` about sequences and mask. */
void explain_attention_columns(const struct attention_problem *problem, const struct facts *facts);

/* As struct operation's describe_tensors; `key` is the key tensor's name. */
void describe_attention(struct call *call, const char *key);

/* --- the forward (call_attention_forward.c) -------------------------------------------------------------- */

/* Binds and checks; release_attention in every case. */
bool check_attention_forward(const struct call *call, const struct tensor_set *outputs,
                             struct checked_attention *checked);
bool generate_attention_forward(struct call *call, uint64_t seed, enum fidelity fidelity);
bool imitate_attention_forward(const struct call *call, struct tensor_set *values);
bool inspect_attention_forward(struct call *call, const struct findings *findings);

/* --- the gradient ---------------------------------------------------------------------------------------- */

bool generate_attention(struct call *call, uint64_t seed, enum fidelity fidelity);
bool imitate_attention(const struct call *call, struct tensor_set *values);
bool inspect_attention(struct call *call, const struct findings *findings);

/* The definition under an order of the statistics that is not the chosen one: for replay. */
bool define_attention_in(const struct call *call, enum ag_softmax_layout layout, struct tensor_set *values,
                         struct tensor_set *bounds);

/* Statistics, attentionIn: from a forward pass over the checked call, in double (forward_attention.c). Writes the
 * tensors of call->inputs. */
bool forward_attention(struct call *call, const struct attention_problem *problem, enum fidelity fidelity);

/* exp(score - max) and its sum over the columns that the row sees, exactly. */
struct row_statistics {
    double max, sum;
    int64_t visible;
};
struct row_statistics attention_row_statistics(const struct attention_problem *problem,
                                               const struct attention_sequence *sequence, int64_t head, int64_t row);

#endif
