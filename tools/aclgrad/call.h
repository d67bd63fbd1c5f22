/* One call of one operator: its scalar arguments as a problem, its tensors under the names of the API's arguments
 * (without Optional and Out). Where it comes from, a generator or a recording, no longer matters here. */
#ifndef ACLGRAD_CALL_H
#define ACLGRAD_CALL_H

#include "aclnn/acl_meta.h"
#include "axes.h"
#include "problem.h"
#include "cli_tensor.h"

struct call {
    struct problem problem;
    struct tensor_set inputs;
    struct tensor_set recorded; /* outputs that came with the inputs; may be empty */
    char damage[256];     /* what a recording's own description contradicts; "" : nothing. Then only doctor goes on */
    int64_t *expert_ends; /* the moe family, where known: ends of the experts' stretches of the sorted order */
    int64_t expert_count;
    int64_t *query_ends, *key_ends; /* sequences, for names of places (call_axes) */
    int64_t query_end_count, key_end_count;
};

void call_destroy(struct call *call);

/* The indices of one of the call's tensors, with sequences or experts as groups of rows. */
struct axes call_axes(struct call *call, const struct tensor *tensor);

/* --- a call made ready (call.c) -------------------------------------------------------------------------- */

/* Handles of the API that live together. */
struct handles {
    aclTensor *tensors[32];
    int tensor_count;
    aclIntArray *arrays[8];
    int array_count;
};
const aclTensor *handles_tensor(struct handles *handles, const struct tensor *tensor);          /* NULL: NULL */
const aclIntArray *handles_array(struct handles *handles, const int64_t *items, int64_t count); /* items NULL: NULL */
void handles_destroy(struct handles *handles);

/* Phase 1 has been called: phase 2 can be, any number of times. */
struct ready_call {
    struct handles handles;
    aclOpExecutor *executor;
    void *workspace;
    uint64_t workspace_bytes;
    aclnnStatus (*phase2)(void *workspace, uint64_t bytes, aclOpExecutor *executor, void *stream);
    const char *entry;
};

/* Notes the status of phase 1 (CLI_REJECTED when not 0), takes the executor, makes the workspace. */
bool ready_call_finish(struct ready_call *ready, const char *entry, aclnnStatus status, uint64_t workspace_bytes);
bool ready_call_run(struct ready_call *ready);
void ready_call_release(struct ready_call *ready);

/* CLI_REJECTED with the library's message. */
bool fail_rejected(const char *entry, aclnnStatus status);

/* The dim along an axis; 1 where the tensor has not so many: outputs of inputs that the library will refuse. */
int64_t tensor_dim(const struct tensor *tensor, int axis);

/* Adds an output with the dims of `like` (nothing when that is NULL); *made is it. */
bool add_output(struct tensor_set *outputs, const char *name, int dtype, const struct tensor *like);

/* --- operators ------------------------------------------------------------------------------------------- */

/* How well the inputs fit together. */
enum fidelity {
    FIDELITY_EXACT, /* attention: softmax statistics and attentionIn from a forward pass in double */
    FIDELITY_SPEED  /* plausible ones, made quickly: for timing */
};

/* Lines of `explain`: name, value. */
struct facts {
    void (*add)(void *context, const char *part, const char *name, const char *value);
    void *context;
};

/* One finding of `doctor`. */
enum severity { SEVERITY_NOTE, SEVERITY_WARNING, SEVERITY_ERROR };
struct findings {
    void (*add)(void *context, enum severity severity, const char *tensor, const char *code, const char *text);
    void *context;
};

struct operation {
    const char *const *inputs; /* names, NULL at the end */
    const char *const *outputs;

    /* Fills call->inputs from call->problem; the same numbers for the same seed on every machine. */
    bool (*generate)(struct call *call, uint64_t seed, enum fidelity fidelity);

    /* Adds the outputs, zeroed: those that the call would write. */
    bool (*make_outputs)(const struct call *call, struct tensor_set *outputs);

    /* Phase 1 of the public entry point with these outputs. */
    bool (*prepare)(const struct call *call, const struct tensor_set *outputs, struct ready_call *ready);

    /* The definition: values and bounds, f64 tensors named as the outputs. Library rejections as in prepare. */
    bool (*define)(const struct call *call, struct tensor_set *values, struct tensor_set *bounds);

    /* Where rounding leaves several results right, moves the definition to `outputs` as far as those are; NULL where there
     * is always one. */
    bool (*settle)(const struct call *call, const struct tensor_set *outputs, struct tensor_set *values,
                   struct tensor_set *bounds);

    /* As the device rounds: f64 tensors whose values are those of the outputs' types. */
    bool (*imitate)(const struct call *call, struct tensor_set *values);

    /* Multiplications and additions, and bytes that must move, for the inputs at hand. */
    void (*cost)(const struct call *call, double *work, double *bytes);

    bool (*explain)(const struct call *call, const struct facts *facts);
    bool (*inspect)(struct call *call, const struct findings *findings);

    /* Sets from the tensors' dims and types the keys of the problem that follow from them. */
    void (*describe_tensors)(struct call *call);
};
extern const struct operation *const operations[PROBLEM_OPERATORS];

const struct operation *operation_of(const struct call *call);

/* Outputs by the fast kernels, through the public API. */
bool call_run(const struct call *call, struct tensor_set *outputs);

/* --- sequences, for the operators that have them (sequence_lists.c) -------------------------------------- */

/* The cumulative ends that a problem's key "q" (lengths) or "qends" (as they stand) asks for; the caller frees.
 * *ends is NULL when neither is given. Lengths are summed without overflow (CLI_USAGE). */
bool problem_ends(const struct problem *problem, const char *lengths_key, const char *ends_key, int64_t **ends,
                  int64_t *count);

/* The last end; 0 for none. */
int64_t last_end(const int64_t *ends, int64_t count);

/* Sets "q" where the ends rise from 0 without a zero tail, else "qends". */
bool problem_set_ends(struct problem *problem, const char *lengths_key, const char *ends_key, const int64_t *ends,
                      int64_t count);

#endif
