/* Recorded calls: the tensors of a call and a JSON text with its scalar arguments, in a directory or one file.
 *
 *     {"operator": "attention",
 *      "arguments": {"actualSeqQLen": [100, 128], "actualSeqKvLen": [100, 128], "scaleValue": 0.125, "sparseMode": 3,
 *                    "preTokens": 2147483647, "nextTokens": 2147483647, "headNum": 4, "inputLayout": "TND"}}
 *
 * "views": {"dy": {"shape": [4, 2], "strides": [0, 1], "offset": 3}} says that a file holds a tensor's storage, and how
 * the tensor lies in it. Names of arguments and tensors are those of the API; Optional, Out, underscores and upper case do not count, and the
 * names of PyTorch's adapter are known too. A directory with a dump.json is msprobe's: see msprobe.c. */
#ifndef ACLGRAD_RECORDED_H
#define ACLGRAD_RECORDED_H

#include <jansson.h>

#include "call.h"
#include "tensor_file.h"

/* As recorded_read; a call whose description contradicts itself (call->damage) is refused. */
bool recorded_read_whole(const char *path, const char *which, struct call *call);

/* Reads a recorded call. `which`: of several calls in a dump, the one whose name holds this text; NULL: there is one. */
bool recorded_read(const char *path, const char *which, struct call *call);

/* What the JSON text of a call and the tensors beside it say of the problem, for names of places (call_axes). The tensors stay
 * the caller's; the call holds none. False: nothing; no failure is set, nothing is said. */
bool recorded_describe(const char *notes, const struct tensor_set *set, struct call *call);

/* The JSON text for a call; the caller frees. NULL when out of memory. */
char *recorded_notes(const struct call *call);

/* --- names ----------------------------------------------------------------------------------------------- */

/* The API's name for a tensor of the operator that is called `name` somewhere; NULL when there is none. */
const char *canonical_tensor(enum problem_operator op, const char *name);

/* The problem key of a scalar argument; NULL: accepted and ignored; "?" when unknown. */
const char *canonical_scalar(enum problem_operator op, const char *name);

/* Sets one scalar argument from JSON: number, boolean, string, list of integers, null (nothing). */
bool set_scalar(struct call *call, const char *name, const json_t *value);

/* --- msprobe --------------------------------------------------------------------------------------------- */

bool msprobe_is_dump(const char *path);
bool msprobe_read(const char *path, const char *which, struct call *call);

/* An empty call, before its scalars and tensors. */
void call_begin(struct call *call, enum problem_operator op);

/* Puts a tensor where its (canonical) name belongs: inputs or recorded outputs. Takes it over. */
bool call_add_tensor(struct call *call, struct tensor *tensor);

/* After all tensors and scalars are there. */
bool call_complete(struct call *call);

#endif
