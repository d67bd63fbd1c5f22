#include "recorded.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "call_moe.h"
#include "cli.h"

/* --- names ----------------------------------------------------------------------------------------------- */

enum { NAME_BYTES = 64 };

/* Lower case, without underscores, without Optional and Out (or _optional and _out) behind. */
static void normalise(const char *name, char text[NAME_BYTES])
{
    static const char *const endings[] = {"Optional", "_optional", "Out", "_out"};
    size_t length = strlen(name), used = 0;
    for (int i = 0; i < 4; ++i) {
        const size_t ending = strlen(endings[i]);
        if (length > ending && strncmp(name + length - ending, endings[i], ending) == 0) {
            length -= ending;
        }
    }
    for (size_t i = 0; i < length && used + 1 < NAME_BYTES; ++i) {
        if (name[i] != '_') {
            text[used++] = (char)tolower((unsigned char)name[i]);
        }
    }
    text[used] = 0;
}

struct alias {
    enum problem_operator op;
    const char *name; /* normalised */
    const char *meaning;
};

/* Beside the API's own names, which need no entry. "attentionout" normalises to "attention". */
static const struct alias tensor_aliases[] = {{PROBLEM_ATTENTION, "q", "query"},
                                              {PROBLEM_ATTENTION, "k", "keyIn"},
                                              {PROBLEM_ATTENTION, "key", "keyIn"},
                                              {PROBLEM_ATTENTION, "keyrope", "keyInRope"},
                                              {PROBLEM_ATTENTION, "v", "value"},
                                              {PROBLEM_ATTENTION, "attention", "attentionIn"},
                                              {PROBLEM_ATTENTION, "do", "dy"},
                                              {PROBLEM_ATTENTION, "attnmask", "attenMask"},
                                              {PROBLEM_ATTENTION, "attentionmask", "attenMask"},
                                              {PROBLEM_ATTENTION, "dkey", "dk"},
                                              {PROBLEM_ATTENTION, "dquery", "dq"},
                                              {PROBLEM_ATTENTION, "dvalue", "dv"},
                                              {PROBLEM_INDEXER, "q", "query"},
                                              {PROBLEM_INDEXER, "k", "key"},
                                              {PROBLEM_INDEXER, "indices", "sparseIndices"},
                                              {PROBLEM_INDEXER, "topkindices", "sparseIndices"},
                                              {PROBLEM_INDEXER, "spareindices", "sparseIndices"},
                                              {PROBLEM_INDEXER, "actualseqlengthsquery", "actualSeqQLen"},
                                              {PROBLEM_INDEXER, "actualseqlengthskey", "actualSeqKvLen"},
                                              {PROBLEM_INDEXER, "dquery", "dq"},
                                              {PROBLEM_INDEXER, "dkey", "dk"},
                                              {PROBLEM_INDEXER, "dw", "dweights"},
                                              {PROBLEM_INDEXER_FORWARD, "q", "query"},
                                              {PROBLEM_INDEXER_FORWARD, "k", "key"},
                                              {PROBLEM_INDEXER_FORWARD, "indices", "sparseIndices"},
                                              {PROBLEM_INDEXER_FORWARD, "values", "sparseValues"},
                                              {PROBLEM_MOE, "gradunpermutedtokens", "unpermutedTokensGrad"},
                                              {PROBLEM_MOE, "gradpermutedtokens", "permutedTokensGrad"},
                                              {PROBLEM_MOE, "gradprobs", "probsGrad"}};
enum { TENSOR_ALIASES = sizeof tensor_aliases / sizeof *tensor_aliases };

static const struct alias scalar_aliases[] = {{PROBLEM_ATTENTION, "actualseqqlen", "qends"},
                                              {PROBLEM_ATTENTION, "actualseqkvlen", "kvends"},
                                              {PROBLEM_ATTENTION, "cuseqlensq", "qends"},
                                              {PROBLEM_ATTENTION, "cuseqlenskv", "kvends"},
                                              {PROBLEM_ATTENTION, "actualseqlen", "qends"},
                                              {PROBLEM_ATTENTION, "prefix", "prefix"},
                                              {PROBLEM_ATTENTION, "scalevalue", "scale"},
                                              {PROBLEM_ATTENTION, "scale", "scale"},
                                              {PROBLEM_ATTENTION, "softmaxscale", "scale"},
                                              {PROBLEM_ATTENTION, "keepprob", "keepprob"},
                                              {PROBLEM_ATTENTION, "pretokens", "pre"},
                                              {PROBLEM_ATTENTION, "pretockens", "pre"},
                                              {PROBLEM_ATTENTION, "nexttokens", "next"},
                                              {PROBLEM_ATTENTION, "nexttockens", "next"},
                                              {PROBLEM_ATTENTION, "headnum", "headnum"},
                                              {PROBLEM_ATTENTION, "inputlayout", "layout"},
                                              {PROBLEM_ATTENTION, "layout", "layout"},
                                              {PROBLEM_ATTENTION, "sparsemode", "mode"},
                                              {PROBLEM_ATTENTION, "psetype", "psetype"},
                                              {PROBLEM_ATTENTION, "innerprecise", NULL},
                                              {PROBLEM_ATTENTION, "qstartidx", NULL},
                                              {PROBLEM_ATTENTION, "kvstartidx", NULL},
                                              {PROBLEM_ATTENTION, "seed", NULL},
                                              {PROBLEM_ATTENTION, "offset", NULL},
                                              {PROBLEM_ATTENTION, "numels", NULL},
                                              {PROBLEM_ATTENTION, "genmaskparallel", NULL},
                                              {PROBLEM_ATTENTION, "sync", NULL},
                                              {PROBLEM_ATTENTION_FORWARD, "softmaxlayout", "order"},
                                              {PROBLEM_ATTENTION, "softmaxlayout", NULL},
                                              {PROBLEM_ATTENTION_FORWARD, "softmaxoutlayout", "order"},
                                              {PROBLEM_INDEXER, "inputlayout", "layout"},
                                              {PROBLEM_INDEXER, "layout", "layout"},
                                              {PROBLEM_INDEXER, "layoutquery", "layout"},
                                              {PROBLEM_INDEXER, "layoutkey", NULL},
                                              {PROBLEM_INDEXER, "sparsecount", NULL},
                                              {PROBLEM_INDEXER, "returnvalue", NULL},
                                              {PROBLEM_INDEXER, "sparsemode", "mode"},
                                              {PROBLEM_INDEXER, "headnum", NULL},
                                              {PROBLEM_INDEXER, "pretokens", NULL},
                                              {PROBLEM_INDEXER, "nexttokens", NULL},
                                              {PROBLEM_INDEXER, "deterministic", NULL},
                                              {PROBLEM_INDEXER, "actualseqqlen", "qends"},
                                              {PROBLEM_INDEXER, "actualseqkvlen", "kvends"},
                                              {PROBLEM_INDEXER_FORWARD, "layout", "layout"},
                                              {PROBLEM_INDEXER_FORWARD, "layoutquery", "layout"},
                                              {PROBLEM_INDEXER_FORWARD, "layoutkey", NULL},
                                              {PROBLEM_INDEXER_FORWARD, "sparsecount", "k"},
                                              {PROBLEM_INDEXER_FORWARD, "sparsemode", "mode"},
                                              {PROBLEM_INDEXER_FORWARD, "pretokens", NULL},
                                              {PROBLEM_INDEXER_FORWARD, "nexttokens", NULL},
                                              {PROBLEM_INDEXER_FORWARD, "returnvalue", "values"},
                                              {PROBLEM_INDEXER_FORWARD, "returnvalues", "values"},
                                              {PROBLEM_MOE, "paddedmode", "padded"},
                                              {PROBLEM_MOE, "range", "range"},
                                              {PROBLEM_MOE, "topknum", "topknum"},
                                              {PROBLEM_MOE, "numtopk", "topknum"},
                                              {PROBLEM_MOE, "restoreshape", NULL},
                                              {PROBLEM_MOE, "expertends", "experts"},
                                              {PROBLEM_MOE, "permutedtokenssize0", NULL},
                                              {PROBLEM_MOE_PERMUTE, "paddedmode", "padded"},
                                              {PROBLEM_MOE_PERMUTE, "range", "range"},
                                              {PROBLEM_MOE_PERMUTE, "numouttokens", "cut"},
                                              {PROBLEM_MOE_PERMUTE, "expertends", "experts"},
                                              {PROBLEM_MOE_PERMUTE_GRAD, "paddedmode", "padded"},
                                              {PROBLEM_MOE_PERMUTE_GRAD, "range", "range"},
                                              {PROBLEM_MOE_PERMUTE_GRAD, "numouttokens", NULL},
                                              {PROBLEM_MOE_PERMUTE_GRAD, "numtopk", "k"},
                                              {PROBLEM_MOE_PERMUTE_GRAD, "expertends", "experts"},
                                              {PROBLEM_MOE_UNPERMUTE, "paddedmode", "padded"},
                                              {PROBLEM_MOE_UNPERMUTE, "range", "range"},
                                              {PROBLEM_MOE_UNPERMUTE, "numtopk", "k"},
                                              {PROBLEM_MOE_UNPERMUTE, "restoreshape", NULL},
                                              {PROBLEM_MOE_UNPERMUTE, "expertends", "experts"},
                                              {PROBLEM_MOE_UNPERMUTE_GRAD, "paddedmode", "padded"},
                                              {PROBLEM_MOE_UNPERMUTE_GRAD, "restoreshape", NULL},
                                              {PROBLEM_MOE_UNPERMUTE_GRAD, "expertends", "experts"}};
enum { SCALAR_ALIASES = sizeof scalar_aliases / sizeof *scalar_aliases };

/* The forward's recordings have the scalars of the gradient's, and one more. */
static bool is_scalar_of(const struct alias *alias, enum problem_operator op)
{
    return alias->op == op || (op == PROBLEM_ATTENTION_FORWARD && alias->op == PROBLEM_ATTENTION);
}

static const char *find_name(const char *const *names, const char *normal)
{
    char candidate[NAME_BYTES];
    for (; *names; ++names) {
        normalise(*names, candidate);
        if (strcmp(candidate, normal) == 0) {
            return *names;
        }
    }
    return NULL;
}

const char *canonical_tensor(enum problem_operator op, const char *name)
{
    char normal[NAME_BYTES];
    normalise(name, normal);
    const char *found = find_name(operations[op]->inputs, normal);
    found = found ? found : find_name(operations[op]->outputs, normal);
    for (int i = 0; !found && i < TENSOR_ALIASES; ++i) {
        if (tensor_aliases[i].op == op && strcmp(tensor_aliases[i].name, normal) == 0) {
            found = tensor_aliases[i].meaning;
        }
    }
    return found;
}

const char *canonical_scalar(enum problem_operator op, const char *name)
{
    char normal[NAME_BYTES];
    normalise(name, normal);
    for (int i = 0; i < SCALAR_ALIASES; ++i) {
        if (is_scalar_of(&scalar_aliases[i], op) && strcmp(scalar_aliases[i].name, normal) == 0) {
            return scalar_aliases[i].meaning;
        }
    }
    return "?";
}

static const char *nearest_scalar(enum problem_operator op, const char *name)
{
    const char *names[SCALAR_ALIASES + 1] = {NULL};
    char normal[NAME_BYTES];
    int count = 0;
    for (int i = 0; i < SCALAR_ALIASES; ++i) {
        if (is_scalar_of(&scalar_aliases[i], op)) {
            names[count++] = scalar_aliases[i].name;
        }
    }
    normalise(name, normal);
    return nearest_name(normal, names);
}

/* --- scalars --------------------------------------------------------------------------------------------- */

static bool read_list(const char *name, const json_t *value, int64_t **items, int64_t *count)
{
    *count = (int64_t)json_array_size(value);
    *items = malloc((size_t)(*count + 1) * sizeof **items);
    if (!*items || *count > PROBLEM_MOST_ITEMS) {
        free(*items);
        return cli_fail(CLI_IO, "argument '%s': too long a list", name);
    }
    for (int64_t i = 0; i < *count; ++i) {
        const json_t *item = json_array_get(value, (size_t)i);
        if (!json_is_integer(item)) {
            free(*items);
            return cli_fail(CLI_IO, "argument '%s': item %" PRId64 " is no integer", name, i);
        }
        (*items)[i] = json_integer_value(item);
    }
    return true;
}

static bool set_list(struct call *call, const char *name, const char *key, const json_t *value)
{
    int64_t *items, count;
    if (!read_list(name, value, &items, &count)) {
        return false;
    }
    bool is_good = true;
    if (strcmp(key, "experts") == 0) {
        free(call->expert_ends);
        call->expert_ends = items;
        call->expert_count = count;
        return true;
    }
    if (strcmp(key, "qends") == 0 || strcmp(key, "kvends") == 0) {
        is_good = problem_set_ends(&call->problem, *key == 'q' ? "q" : "kv", key, items, count);
    } else if (strcmp(key, "prefix") == 0 || strcmp(key, "range") == 0) {
        /* torch's adapter passes an empty list for an absent one */
        is_good = count == 0 || problem_set_list(&call->problem, key, items, count);
    } else {
        is_good = cli_fail(CLI_IO, "argument '%s': got a list", name);
    }
    free(items);
    return is_good;
}

static bool set_text(struct call *call, const char *name, const char *key, const char *text)
{
    char lower[NAME_BYTES];
    normalise(text, lower);
    if (strcmp(key, "order") == 0) { /* softmaxOutLayout */
        snprintf(lower, sizeof lower, "%s", !*lower ? "cann" : strcmp(lower, "sameasinput") == 0 ? "tnd" : text);
    }
    return problem_set(&call->problem, key, lower) || cli_fail_in("argument '%s'", name);
}

bool set_scalar(struct call *call, const char *name, const json_t *value)
{
    const char *key = canonical_scalar(call->problem.op, name);
    if (!key || json_is_null(value)) {
        return true;
    }
    if (*key == '?') {
        const char *nearest = nearest_scalar(call->problem.op, name);
        cli_say("aclgrad: argument '%s' is not one of %s%s%s; ignored", name, problem_table_of(&call->problem)->entry,
                nearest ? ", nearest: " : "", nearest ? nearest : "");
        return true;
    }
    if (json_is_array(value)) {
        return set_list(call, name, key, value);
    }
    if (json_is_string(value)) {
        return set_text(call, name, key, json_string_value(value));
    }
    if (json_is_boolean(value)) {
        return set_text(call, name, key, json_is_true(value) ? "yes" : "no");
    }
    const bool is_real = strcmp(key, "scale") == 0 || strcmp(key, "keepprob") == 0;
    if (is_real) {
        return json_is_number(value) ? problem_set_real(&call->problem, key, json_number_value(value))
                                     : cli_fail(CLI_IO, "argument '%s': want a number", name);
    }
    const bool is_list = strcmp(key, "qends") == 0 || strcmp(key, "kvends") == 0 || strcmp(key, "experts") == 0 ||
                         strcmp(key, "range") == 0 || strcmp(key, "prefix") == 0 || strcmp(key, "layout") == 0 ||
                         strcmp(key, "padded") == 0 || strcmp(key, "values") == 0;
    return json_is_integer(value) && !is_list ? problem_set_integer(&call->problem, key, json_integer_value(value))
                                              : cli_fail(CLI_IO, "argument '%s': got a %s", name,
                                                         json_is_integer(value) ? "number" : "value of another type");
}

/* --- tensors --------------------------------------------------------------------------------------------- */

static bool has_name(const char *const *names, const char *name)
{
    for (; *names; ++names) {
        if (strcmp(*names, name) == 0) {
            return true;
        }
    }
    return false;
}

void call_begin(struct call *call, enum problem_operator op)
{
    problem_init(&call->problem, op);
    if (op == PROBLEM_MOE_PERMUTE_GRAD || op == PROBLEM_MOE_UNPERMUTE) {
        problem_unset(&call->problem, "k"); /* not recorded is not 8: the tensors say it */
    }
}

bool call_add_tensor(struct call *call, struct tensor *tensor)
{
    const char *name = canonical_tensor(call->problem.op, tensor->name);
    if (!name) {
        cli_say("aclgrad: tensor '%s' is not one of %s; ignored", tensor->name,
                problem_table_of(&call->problem)->entry);
        tensor_destroy(tensor);
        return true;
    }
    free(tensor->name);
    tensor->name = strdup(name);
    if (!tensor->name) {
        tensor_destroy(tensor);
        return cli_fail(CLI_IO, "out of memory");
    }
    const bool is_output = has_name(operation_of(call)->outputs, name);
    return tensor_set_add(is_output ? &call->recorded : &call->inputs, tensor);
}

/* Lengths of an indexer call that came as a list become the tensor that the API wants. */
static bool add_length_tensor(struct call *call, const char *name, const char *lengths, const char *ends_key)
{
    int64_t *ends, count;
    if (call->problem.op != PROBLEM_INDEXER || tensor_set_find(&call->inputs, name)) {
        return true;
    }
    if (!problem_ends(&call->problem, lengths, ends_key, &ends, &count) || !ends) {
        return ends == NULL;
    }
    struct tensor *tensor = tensor_set_create(&call->inputs, name, AG_INT32, 1, &count);
    bool is_good = tensor != NULL;
    for (int64_t b = 0; is_good && b < count; ++b) {
        ((int32_t *)tensor->data)[b] = (int32_t)ends[b];
        is_good = ends[b] == (int32_t)ends[b] ||
                  cli_fail(CLI_IO, "argument '%s': item %" PRId64 " is %" PRId64 ", which int32 does not hold", name,
                           b, ends[b]);
    }
    free(ends);
    return is_good;
}

bool call_complete(struct call *call)
{
    if (!add_length_tensor(call, "actualSeqQLen", "q", "qends") ||
        !add_length_tensor(call, "actualSeqKvLen", "kv", "kvends")) {
        return false;
    }
    if (call->inputs.count == 0) {
        return cli_fail(CLI_IO, "no input tensor of %s", problem_table_of(&call->problem)->entry);
    }
    operation_of(call)->describe_tensors(call);
    return true;
}

/* --- one recording --------------------------------------------------------------------------------------- */

static bool read_operator(const json_t *notes, enum problem_operator *op)
{
    const char *name = json_string_value(json_object_get(notes, "operator"));
    for (int i = 0; name && i < PROBLEM_OPERATORS; ++i) {
        if (strcmp(name, problem_tables[i].name) == 0 || strcmp(name, problem_tables[i].entry) == 0) {
            *op = (enum problem_operator)i;
            return true;
        }
    }
    return cli_fail(CLI_IO, "the JSON of the call: \"operator\" is '%s', want one that `aclgrad help` lists",
                    name ? name : "missing");
}

static const char *json_kind(const json_t *value)
{
    static const char *const kinds[] = {"an object", "a list", "a string", "a number",
                                        "a number",  "true",   "false",    "null"};
    return kinds[json_typeof(value)];
}

/* A member that is there is an object; where it is not, NULL stands for an empty one. */
static bool read_object(const json_t *notes, const char *name, json_t **object)
{
    *object = json_object_get(notes, name);
    return !*object || json_is_object(*object) ||
           cli_fail(CLI_IO, "the JSON of the call: \"%s\" is %s, want an object", name, json_kind(*object));
}

/* What only repeats the operator must not contradict it. */
static bool agrees_with_operator(const json_t *notes, const struct problem_table *table)
{
    const json_t *entry = json_object_get(notes, "entry"), *problem = json_object_get(notes, "problem");
    const char *entry_text = json_string_value(entry), *problem_text = json_string_value(problem);
    const size_t length = strlen(table->name);
    if (entry && !(entry_text && strcmp(entry_text, table->entry) == 0)) {
        return cli_fail(CLI_IO, "the JSON of the call: \"entry\" is %s%s%s, want %s as \"operator\" is %s",
                        json_kind(entry), entry_text ? " " : "", entry_text ? entry_text : "", table->entry,
                        table->name);
    }
    if (problem && !json_is_null(problem) &&
        !(problem_text && strncmp(problem_text, table->name, length) == 0 && problem_text[length] == ':')) {
        return cli_fail(CLI_IO, "the JSON of the call: \"problem\" is %s%s%s, want one of %s as \"operator\" says",
                        json_kind(problem), problem_text ? " " : "", problem_text ? problem_text : "", table->name);
    }
    return true;
}

/* A member that nobody reads is foreign, which is told, or one of ours misspelt, which must not be read as absent. */
static bool knows_members(json_t *notes)
{
    static const char *const names[] = {"operator", "entry", "arguments", "views", "problem", NULL};
    const char *name;
    json_t *value;
    json_object_foreach(notes, name, value)
    {
        const char *nearest = has_name(names, name) ? NULL : nearest_name(name, names);
        if (nearest) {
            return cli_fail(CLI_IO, "the JSON of the call: unknown member \"%s\", nearest: \"%s\"", name, nearest);
        }
        if (!has_name(names, name)) {
            cli_say("aclgrad: the JSON of the call: unknown member \"%s\"; ignored", name);
        }
    }
    return true;
}

static bool read_notes(const json_t *notes, struct call *call)
{
    json_t *arguments;
    enum problem_operator op = PROBLEM_ATTENTION;
    const char *name;
    json_t *value;
    if (!read_operator(notes, &op)) {
        return false;
    }
    call_begin(call, op);
    if (!agrees_with_operator(notes, &problem_tables[op]) || !read_object(notes, "arguments", &arguments)) {
        return false;
    }
    json_object_foreach(arguments, name, value)
    {
        if (!set_scalar(call, name, value)) {
            return false;
        }
    }
    return true;
}

/* "views": {"dy": {"shape": [4, 2], "strides": [0, 1], "offset": 3}}: the file holds the tensor's storage. */
static bool read_numbers(const json_t *list, int rank, int64_t *numbers)
{
    if ((int)json_array_size(list) != rank) {
        return false;
    }
    for (int i = 0; i < rank; ++i) {
        numbers[i] = json_integer_value(json_array_get(list, (size_t)i));
        if (!json_is_integer(json_array_get(list, (size_t)i)) || numbers[i] < 0) {
            return false;
        }
    }
    return true;
}

/* The element, counted in the storage, that lies farthest; -1: the view is empty, -2: it does not fit 64 bits. */
static int64_t last_element(int rank, const int64_t *dims, const int64_t *strides, int64_t offset)
{
    for (int i = 0; i < rank; ++i) {
        if (dims[i] == 0) {
            return -1;
        }
        if (__builtin_mul_overflow(dims[i] - 1, strides[i], &(int64_t){0}) ||
            __builtin_add_overflow(offset, (dims[i] - 1) * strides[i], &offset)) {
            return -2;
        }
    }
    return offset;
}

/* With strides of 0 a few bytes can claim to be any number of them. */
static bool is_unpackable(int rank, const int64_t *dims, size_t elem_bytes)
{
    int64_t elems, bytes;
    return ag_product(&elems, rank, dims) && ag_product(&bytes, 2, (int64_t[]){elems, (int64_t)elem_bytes}) &&
           (uint64_t)bytes <= cli.max_bytes;
}

/* Elements of one run along the last axis; a mask of millions of bytes may be a view of a single one. */
static void copy_run(char *to, const char *from, int64_t count, int64_t stride, size_t bytes)
{
    if (stride == 1) {
        memcpy(to, from, (size_t)count * bytes);
    } else if (stride == 0 && bytes == 1) {
        memset(to, *from, (size_t)count);
    } else {
        for (int64_t i = 0; i < count; ++i) {
            memcpy(to + (size_t)i * bytes, from + (size_t)(i * stride) * bytes, bytes);
        }
    }
}

static bool apply_view(const char *name, const json_t *view, struct tensor *storage, struct call *call)
{
    int64_t dims[AG_MAX_RANK], strides[AG_MAX_RANK], index[AG_MAX_RANK] = {0};
    const json_t *shape = json_object_get(view, "shape");
    const int rank = (int)json_array_size(shape);
    const int64_t offset = json_integer_value(json_object_get(view, "offset"));
    struct tensor dense;
    const json_t *strides_list = json_object_get(view, "strides");
    if (!json_is_array(shape) || !json_is_array(strides_list) || !json_is_integer(json_object_get(view, "offset")) ||
        rank > AG_MAX_RANK || offset < 0 || !read_numbers(shape, rank, dims) ||
        !read_numbers(strides_list, rank, strides)) {
        return cli_fail(CLI_IO, "views: '%s' wants shape, strides and offset, at most 8 numbers >= 0", name);
    }
    const int64_t last = last_element(rank, dims, strides, offset);
    if (last == -2) {
        snprintf(call->damage, sizeof call->damage,
                 "%s: the view leaves its storage: the number of its last element does not fit 64 bits", name);
        return true;
    }
    if (last >= storage->elems) {
        snprintf(call->damage, sizeof call->damage,
                 "%s: the view leaves its storage: its last element is number %" PRId64 ", the storage has %" PRId64,
                 name, last, storage->elems);
        return true;
    }
    const size_t bytes = ag_dtype_bytes(storage->dtype);
    if (!is_unpackable(rank, dims, bytes)) {
        return cli_fail(CLI_IO, "views: '%s' unpacks to more than the %" PRIu64 " bytes that are read (--max-bytes)",
                        name, cli.max_bytes);
    }
    if (!tensor_create(&dense, storage->name, storage->dtype, rank, dims)) {
        return false;
    }
    const int64_t run = rank ? dims[rank - 1] : 1, stride = rank ? strides[rank - 1] : 0;
    for (int64_t at = 0; at < dense.elems; at += run) {
        int64_t from = offset;
        axes_index(&dense, at, index);
        for (int axis = 0; axis < rank; ++axis) {
            from += index[axis] * strides[axis];
        }
        copy_run((char *)dense.data + (size_t)at * bytes, (const char *)storage->data + (size_t)from * bytes, run,
                 stride, bytes);
    }
    tensor_destroy(storage);
    *storage = dense;
    return true;
}

static bool apply_views(const json_t *notes, struct tensor_set *set, struct call *call)
{
    const char *name;
    json_t *views, *view;
    if (!read_object(notes, "views", &views)) {
        return false;
    }
    json_object_foreach(views, name, view)
    {
        if (!json_is_object(view)) {
            return cli_fail(CLI_IO, "views: '%s' is %s, want an object of shape, strides and offset", name,
                            json_kind(view));
        }
        struct tensor *storage = tensor_set_find(set, name);
        if (!storage) {
            return cli_fail(CLI_IO, "views: no tensor '%s'", name);
        }
        if (!apply_view(name, view, storage, call)) {
            return false;
        }
    }
    return true;
}

static bool assemble(const char *text, struct tensor_set *set, struct call *call)
{
    json_error_t error;
    json_t *notes = text ? json_loads(text, JSON_REJECT_DUPLICATES, &error) : NULL;
    if (!text) {
        return cli_fail(CLI_IO, "no call.json, and no JSON beside it, that says which call this is");
    }
    if (!notes) {
        return cli_fail(CLI_IO, "the JSON of the call, line %d: %s", error.line, error.text);
    }
    bool is_good = knows_members(notes) && read_notes(notes, call) && apply_views(notes, set, call);
    for (int i = 0; is_good && i < set->count; ++i) {
        is_good = call_add_tensor(call, &set->items[i]);
    }
    json_decref(notes);
    return is_good && call_complete(call);
}

bool recorded_read(const char *path, const char *which, struct call *call)
{
    struct tensor_set set;
    char *notes = NULL;
    memset(call, 0, sizeof *call);
    if (msprobe_is_dump(path)) {
        return msprobe_read(path, which, call);
    }
    if (!tensor_path_read(path, NULL, &set, &notes)) {
        return false;
    }
    const bool is_good = assemble(notes, &set, call) || cli_fail_in("%s", path);
    tensor_set_destroy(&set);
    free(notes);
    return is_good;
}

bool recorded_read_whole(const char *path, const char *which, struct call *call)
{
    return recorded_read(path, which, call) && (!call->damage[0] || cli_fail(CLI_IO, "%s: %s", path, call->damage));
}

/* The inputs of `set` under their canonical names; data and names stay where they are. */
static void borrow_inputs(const struct tensor_set *set, struct call *call, struct tensor *items)
{
    call->inputs = (struct tensor_set){items, 0};
    for (int i = 0; i < set->count; ++i) {
        const char *name = canonical_tensor(call->problem.op, set->items[i].name);
        if (name && has_name(operation_of(call)->inputs, name)) {
            items[call->inputs.count] = set->items[i];
            items[call->inputs.count++].name = (char *)(uintptr_t)name;
        }
    }
}

bool recorded_describe(const char *notes, const struct tensor_set *set, struct call *call)
{
    const bool was_quiet = cli.is_quiet;
    json_t *json = json_loads(notes, JSON_REJECT_DUPLICATES, NULL);
    struct tensor *items = calloc((size_t)set->count + 1, sizeof *items);
    memset(call, 0, sizeof *call);
    cli.is_quiet = true;
    const bool is_good = json && items && read_notes(json, call);
    if (is_good) {
        borrow_inputs(set, call, items);
        operation_of(call)->describe_tensors(call);
        call->inputs = (struct tensor_set){NULL, 0};
    }
    cli_forgive();
    cli.is_quiet = was_quiet;
    free(items);
    json_decref(json);
    return is_good;
}

/* --- writing --------------------------------------------------------------------------------------------- */

static json_t *json_list(const int64_t *items, int64_t count)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < count; ++i) {
        json_array_append_new(list, json_integer(items[i]));
    }
    return list;
}

static void write_attention(const struct problem *p, json_t *to)
{
    static const struct {
        const char *name, *key;
    } integers[] = {{"preTokens", "pre"}, {"nextTokens", "next"}, {"sparseMode", "mode"}, {"pseType", "psetype"}};
    const bool has_keys = problem_has(p, "kv") || problem_has(p, "kvends");
    const double width = (double)(problem_integer(p, "d") + problem_integer(p, "dr"));
    int64_t *ends, count;
    if (problem_ends(p, "q", "qends", &ends, &count)) {
        json_object_set_new(to, "actualSeqQLen", json_list(ends, count));
        free(ends);
    }
    if (problem_ends(p, has_keys ? "kv" : "q", has_keys ? "kvends" : "qends", &ends, &count)) {
        json_object_set_new(to, "actualSeqKvLen", json_list(ends, count));
        free(ends);
    }
    if (problem_has(p, "prefix")) {
        const int64_t *prefix = problem_list(p, "prefix", &count);
        json_object_set_new(to, "prefix", json_list(prefix, count));
    }
    for (size_t i = 0; i < sizeof integers / sizeof *integers; ++i) {
        json_object_set_new(to, integers[i].name, json_integer(problem_integer(p, integers[i].key)));
    }
    json_object_set_new(to, "headNum", json_integer(problem_integer_or(p, "headnum", problem_integer(p, "n1"))));
    json_object_set_new(to, "scaleValue", json_real(problem_real_or(p, "scale", width > 0 ? 1 / sqrt(width) : 1)));
    json_object_set_new(to, "keepProb", json_real(problem_real_or(p, "keepprob", 1)));
    json_object_set_new(to, "inputLayout",
                        json_string(problem_is(p, "layout", "tnd") ? "TND" : problem_word(p, "layout")));
    if (p->op == PROBLEM_ATTENTION_FORWARD) {
        json_object_set_new(to, "softmaxOutLayout",
                            json_string(problem_is(p, "order", "tnd") ? "same_as_input" : ""));
    }
}

/* The arguments that each of the mixture-of-experts family has. */
static void write_moe(const struct call *call, json_t *to)
{
    const struct problem *p = &call->problem;
    int64_t count;
    const int64_t *range = moe_range(p, &count);
    json_object_set_new(to, "paddedMode", json_boolean(problem_is(p, "padded", "yes")));
    if (p->op == PROBLEM_MOE) {
        json_object_set_new(to, "topkNum", json_integer(problem_integer_or(p, "topknum", problem_integer(p, "k"))));
    } else if (p->op == PROBLEM_MOE_PERMUTE) {
        json_object_set_new(to, "numOutTokens", json_integer(problem_integer(p, "cut")));
    } else if (p->op != PROBLEM_MOE_UNPERMUTE_GRAD) {
        json_object_set_new(to, "numTopk", json_integer(problem_integer(p, "k")));
    }
    if (problem_knows(p, "range")) {
        json_object_set_new(to, "range", problem_has(p, "range") ? json_list(range, count) : json_null());
    }
    if (call->expert_ends) {
        json_object_set_new(to, "expertEnds", json_list(call->expert_ends, call->expert_count));
    }
}

static void write_indexer_forward(const struct problem *p, json_t *to)
{
    const char *layout = problem_is(p, "layout", "tnd") ? "TND" : "BSND";
    const bool is_paged = problem_integer(p, "page") > 0;
    json_object_set_new(to, "layoutQuery", json_string(layout));
    json_object_set_new(to, "layoutKey", json_string(is_paged ? "PA_BSND" : layout));
    json_object_set_new(to, "sparseCount", json_integer(problem_integer(p, "k")));
    json_object_set_new(to, "sparseMode", json_integer(problem_integer(p, "mode")));
    if (!problem_is(p, "values", "auto")) {
        json_object_set_new(to, "returnValues", json_boolean(problem_is(p, "values", "yes")));
    }
}

char *recorded_notes(const struct call *call)
{
    const struct problem *p = &call->problem;
    json_t *arguments = json_object();
    if (p->op == PROBLEM_ATTENTION || p->op == PROBLEM_ATTENTION_FORWARD) {
        write_attention(p, arguments);
    } else if (problem_is_moe(p)) {
        write_moe(call, arguments);
    } else if (p->op == PROBLEM_INDEXER_FORWARD) {
        write_indexer_forward(p, arguments);
    } else {
        json_object_set_new(arguments, "inputLayout", json_string(problem_is(p, "layout", "tnd") ? "TND" : "BSND"));
        json_object_set_new(arguments, "sparseMode", json_integer(problem_integer(p, "mode")));
    }
    char *problem = problem_print(p);
    json_t *notes = json_pack("{s:s,s:s,s:o,s:s?}", "operator", problem_table_of(p)->name, "entry",
                              problem_table_of(p)->entry, "arguments", arguments, "problem", problem);
    char *text = notes ? json_dumps(notes, JSON_INDENT(1) | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(notes);
    free(problem);
    return text;
}
