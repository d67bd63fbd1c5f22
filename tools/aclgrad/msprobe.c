/* msprobe's dumps: a directory with dump.json and, in it or in dump_tensor_data, the .npy files it names.
 *
 *     {"data": {"NPU.npu_fusion_attention_grad.0.forward": {
 *          "input_args":   [{"type": "torch.Tensor", "dtype": "torch.bfloat16", "data_name": "....input.0.npy"}, ...],
 *          "input_kwargs": {"scale_value": {"type": "float", "value": 0.125}, ...},
 *          "output":       [...]}}}
 *
 * Read are calls of the gradient operators themselves, pairs of a forward operator's ".forward" and ".backward" as calls of
 * the gradient, and a ".forward" without its ".backward" as a call of the forward operator. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "recorded.h"

/* What the positions of a dumped function mean: names of tensors and scalars, "-" for nothing of interest. */
static const struct signature {
    const char *function;
    enum problem_operator op;
    const char *inputs, *outputs;                   /* of ".forward" */
    const char *backward_inputs, *backward_outputs; /* of ".backward"; NULL: the function is a gradient itself */
} signatures[] = {
    {"npu_fusion_attention_grad", PROBLEM_ATTENTION, "query keyIn value dy headNum inputLayout", "dq dk dv -", NULL,
     NULL},
    {"npu_fusion_attention_grad_v2", PROBLEM_ATTENTION, "query keyIn value dy headNum inputLayout",
     "dq dk dv - dqRope dkRope", NULL, NULL},
    {"npu_lightning_indexer_grad", PROBLEM_INDEXER,
     "query key dy sparseIndices weights actualSeqQLen actualSeqKvLen inputLayout sparseMode", "dq dk dweights", NULL,
     NULL},
    {"npu_moe_token_unpermute_grad", PROBLEM_MOE,
     "permutedTokens unpermutedTokensGrad sortedIndices probs paddedMode restoreShape",
     "permutedTokensGrad probsGrad", NULL, NULL},
    {"npu_moe_token_permute_grad", PROBLEM_MOE_PERMUTE_GRAD, "- permutedTokensOutputGrad - sortedIndices paddedMode",
     "tokenGrad", NULL, NULL},
    {"npu_fusion_attention", PROBLEM_ATTENTION, "query keyIn value headNum inputLayout",
     "attentionIn softmaxMax softmaxSum - - - -", "dy", "dq dk dv"},
    {"npu_fusion_attention_v2", PROBLEM_ATTENTION, "query keyIn value headNum inputLayout",
     "attentionIn softmaxMax softmaxSum - - - -", "dy", "dq dk dv"},
    {"npu_fusion_attention_v3", PROBLEM_ATTENTION, "query keyIn value headNum inputLayout",
     "attentionIn softmaxMax softmaxSum - - - -", "dy", "dq dk dv"},
    {"npu_lightning_indexer", PROBLEM_INDEXER, "query key weights", "sparseIndices -", "- dy", "dq dk dweights"},
    {"npu_moe_token_unpermute", PROBLEM_MOE, "permutedTokens sortedIndices probs paddedMode restoreShape", "-",
     "unpermutedTokensGrad", "permutedTokensGrad - probsGrad"},
    {"npu_moe_token_permute", PROBLEM_MOE_PERMUTE_GRAD, "- - - paddedMode", "- sortedIndices",
     "permutedTokensOutputGrad -", "tokenGrad -"},
    /* forwards alone, behind the pairs */
    {"npu_fusion_attention", PROBLEM_ATTENTION_FORWARD, "query key value headNum inputLayout",
     "attentionOut softmaxMax softmaxSum - - - -", NULL, NULL},
    {"npu_fusion_attention_v2", PROBLEM_ATTENTION_FORWARD, "query key value headNum inputLayout",
     "attentionOut softmaxMax softmaxSum - - - -", NULL, NULL},
    {"npu_fusion_attention_v3", PROBLEM_ATTENTION_FORWARD, "query key value headNum inputLayout",
     "attentionOut softmaxMax softmaxSum - - - -", NULL, NULL},
    {"npu_lightning_indexer", PROBLEM_INDEXER_FORWARD, "query key weights", "sparseIndices sparseValues", NULL, NULL},
    {"npu_moe_token_permute", PROBLEM_MOE_PERMUTE, "tokens indices numOutTokens paddedMode",
     "permuteTokens sortedIndices", NULL, NULL},
    {"npu_moe_token_unpermute", PROBLEM_MOE_UNPERMUTE, "permutedTokens sortedIndices probs paddedMode restoreShape",
     "out", NULL, NULL}};
enum { SIGNATURES = sizeof signatures / sizeof *signatures };

/* The ".backward" of a ".forward"; NULL: there is none. */
static const json_t *backward_of(const char *name, const json_t *data)
{
    char backward[512];
    snprintf(backward, sizeof backward, "%.*s.backward", (int)(strlen(name) - strlen(".forward")), name);
    return json_object_get(data, backward);
}

/* "NPU.npu_fusion_attention_grad.0.forward" -> its signature; NULL: not one of ours. */
static const struct signature *signature_of(const char *name, const json_t *data)
{
    const char *begin = strchr(name, '.');
    for (int i = 0; begin && i < SIGNATURES; ++i) {
        const struct signature *s = &signatures[i];
        const size_t length = strlen(s->function);
        if (strncmp(begin + 1, s->function, length) == 0 && begin[1 + length] == '.' &&
            (!s->backward_inputs || backward_of(name, data))) {
            return s;
        }
    }
    return NULL;
}

/* --- values ---------------------------------------------------------------------------------------------- */

struct dump {
    const char *directory;
    struct call *call;
};

static bool read_array(const struct dump *d, const char *file, const char *name, struct tensor *tensor)
{
    static const char *const folders[] = {"", "/dump_tensor_data"};
    char path[4096];
    if (!tensor_name_is_plain(file)) {
        return cli_fail(CLI_IO, "dump.json: data_name of %s is a path, or not plain", name);
    }
    const size_t length = strlen(file);
    if (length < 4 || strcmp(file + length - 4, ".npy") != 0) {
        return cli_fail(CLI_IO, "dump.json: '%s' is no .npy file (a .pt file is a pickle: save the tensors as .npy)",
                        file);
    }
    for (int i = 0; i < 2; ++i) {
        snprintf(path, sizeof path, "%s%s/%s", d->directory, folders[i], file);
        if (access(path, F_OK) == 0) {
            return npy_read(path, name, tensor);
        }
    }
    return cli_fail(CLI_IO, "dump.json names '%s', which is neither beside it nor in dump_tensor_data", file);
}

/* NumPy has no bf16: such tensors are dumped as float32, whose lower bits are zero. Where they are not, what was dumped is
 * not what the operator read, and the rounding here only guesses it. */
static bool restore_bf16(const json_t *value, struct tensor *tensor)
{
    const char *dtype = json_string_value(json_object_get(value, "dtype"));
    if (!dtype || strcmp(dtype, "torch.bfloat16") != 0 || tensor->dtype != AG_FLOAT) {
        return true;
    }
    struct tensor narrow;
    if (!tensor_create(&narrow, tensor->name, AG_BF16, tensor->rank, tensor->dims)) {
        return false;
    }
    int64_t rounded = 0;
    for (int64_t at = 0; at < tensor->elems; ++at) {
        const double wide = tensor_get(tensor, at);
        tensor_set(&narrow, at, wide);
        rounded += !isnan(wide) && tensor_get(&narrow, at) != wide;
    }
    if (rounded > 0) {
        cli_say("aclgrad: %s: %" PRId64 " of %" PRId64 " values are no bf16, though dump.json says torch.bfloat16: "
                "rounded",
                tensor->name, rounded, tensor->elems);
    }
    tensor_destroy(tensor);
    *tensor = narrow;
    return true;
}

static bool add_array(const struct dump *d, const char *name, const json_t *value)
{
    const char *file = json_string_value(json_object_get(value, "data_name"));
    struct tensor tensor;
    if (!canonical_tensor(d->call->problem.op, name)) {
        return true;
    }
    if (!file) {
        return cli_fail(CLI_IO, "dump.json: %s has no data_name (was the task \"statistics\"? want \"tensor\")",
                        name);
    }
    if (!read_array(d, file, name, &tensor)) {
        return false;
    }
    if (tensor.rank == 1 && tensor.elems == 0) { /* PyTorch's stand-in for a tensor that is not there */
        tensor_destroy(&tensor);
        return true;
    }
    return restore_bf16(value, &tensor) && call_add_tensor(d->call, &tensor);
}

/* {"type": "int", "value": 3} -> 3; lists of such -> lists. A new reference. */
static json_t *plain_value(const json_t *value)
{
    if (json_is_array(value)) {
        json_t *list = json_array();
        size_t i;
        const json_t *item;
        json_array_foreach(value, i, item)
        {
            json_array_append_new(list, json_is_object(item) ? json_deep_copy(json_object_get(item, "value"))
                                                             : json_deep_copy(item));
        }
        return list;
    }
    return json_is_object(value) ? json_deep_copy(json_object_get(value, "value")) : json_deep_copy(value);
}

static bool is_array(const json_t *value)
{
    const char *type = json_string_value(json_object_get(value, "type"));
    return type && strstr(type, "Tensor") != NULL;
}

static bool add_value(const struct dump *d, const char *name, const json_t *value)
{
    if (json_is_null(value) || strcmp(name, "-") == 0) {
        return true;
    }
    if (is_array(value)) {
        return add_array(d, name, value);
    }
    if (json_is_object(value) && json_object_get(value, "value") == NULL) {
        return true; /* a type we do not know: a stream, a device */
    }
    json_t *plain = plain_value(value);
    const bool is_good = !plain || set_scalar(d->call, name, plain);
    json_decref(plain);
    return is_good;
}

/* Values by position. */
static bool add_values(const struct dump *d, const char *names, const json_t *values)
{
    char copy[256];
    size_t i = 0;
    snprintf(copy, sizeof copy, "%s", names);
    for (char *rest, *name = strtok_r(copy, " ", &rest); name; name = strtok_r(NULL, " ", &rest), ++i) {
        const json_t *value = json_array_get(values, i);
        if (value && !add_value(d, name, value)) {
            return false;
        }
    }
    return true;
}

static const json_t *inputs_of(const json_t *entry)
{
    const json_t *args = json_object_get(entry, "input_args");
    return args ? args : json_object_get(entry, "input");
}

static bool add_entry(const struct dump *d, const struct signature *s, const json_t *entry)
{
    const char *name;
    json_t *value;
    if (!add_values(d, s->inputs, inputs_of(entry))) {
        return false;
    }
    json_object_foreach(json_object_get(entry, "input_kwargs"), name, value)
    {
        if (!add_value(d, name, value)) {
            return false;
        }
    }
    return add_values(d, s->outputs, json_object_get(entry, "output"));
}

static bool add_backward(const struct dump *d, const struct signature *s, const json_t *entry)
{
    return add_values(d, s->backward_inputs, inputs_of(entry)) &&
           add_values(d, s->backward_outputs, json_object_get(entry, "output"));
}

/* --- the whole ------------------------------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

/* The one call that is asked for. */
static const char *find_call(json_t *data, const char *which)
{
    const char *name, *found = NULL;
    json_t *entry;
    int count = 0;
    json_object_foreach(data, name, entry)
    {
        if (ends_with(name, ".forward") && signature_of(name, data) && (!which || strstr(name, which))) {
            found = name;
            ++count;
            if (count > 1 || which) {
                cli_say("aclgrad: dump.json has '%s'", name);
            }
        }
    }
    if (count != 1) {
        cli_fail(CLI_USAGE, "dump.json holds %d calls of our operators%s%s; choose one with --call", count,
                 which ? " that match " : "", which ? which : "");
        return NULL;
    }
    return found;
}

static bool read_dump(const char *path, json_t *dump, const char *which, struct call *call)
{
    json_t *data = json_object_get(dump, "data");
    const char *name = find_call(data, which);
    if (!name) {
        return false;
    }
    const struct signature *signature = signature_of(name, data);
    const struct dump d = {path, call};
    call_begin(call, signature->op);
    return add_entry(&d, signature, json_object_get(data, name)) &&
           (!signature->backward_inputs || add_backward(&d, signature, backward_of(name, data))) &&
           call_complete(call);
}

bool msprobe_is_dump(const char *path)
{
    char file[4096];
    snprintf(file, sizeof file, "%s/dump.json", path);
    return access(file, F_OK) == 0;
}

bool msprobe_read(const char *path, const char *which, struct call *call)
{
    char file[4096];
    json_error_t error;
    snprintf(file, sizeof file, "%s/dump.json", path);
    json_t *dump = json_load_file(file, JSON_REJECT_DUPLICATES, &error);
    if (!dump) {
        return cli_fail(CLI_IO, "%s: line %d: %s", file, error.line, error.text);
    }
    const bool is_good = read_dump(path, dump, which, call) || cli_fail_in("%s", path);
    json_decref(dump);
    return is_good;
}
