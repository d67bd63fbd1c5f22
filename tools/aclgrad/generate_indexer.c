/* Inputs of an indexer problem. For the gradient each row gets as many different keys as it may see, in random order,
 * then -1; for the forward keys may lie in pages, which stand in random order. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "call_indexer.h"
#include "cli.h"
#include "random_stream.h"

/* --- sizes ----------------------------------------------------------------------------------------------- */

struct sizes {
    bool is_packed;
    int64_t *q, *kv, batches;                /* lengths of the sequences */
    int64_t rows, keys;                      /* TND: of the whole tensors; BSND: S1 and S2 */
    bool has_query_lengths, has_key_lengths; /* the length tensors are made */
    bool is_forward;
    int64_t page, width;  /* keys of a page, 0: none; pages of a sequence */
    bool has_packed_keys; /* TND without pages */
};

static int64_t longest(const int64_t *lengths, int64_t count)
{
    int64_t most = 0;
    for (int64_t b = 0; b < count; ++b) {
        most = lengths[b] > most ? lengths[b] : most;
    }
    return most;
}

static int64_t total(const int64_t *lengths, int64_t count)
{
    int64_t sum = 0;
    for (int64_t b = 0; b < count; ++b) {
        sum += lengths[b];
    }
    return sum;
}

/* Lengths from "q", or from the values of the length tensor. */
static bool read_lengths(const struct problem *p, const char *key, const char *values_key, bool is_packed,
                         int64_t **lengths, int64_t *count)
{
    const bool has_values = problem_has(p, values_key);
    const int64_t *list = problem_list(p, has_values ? values_key : key, count);
    *lengths = malloc((size_t)(*count + 1) * sizeof **lengths);
    if (!*lengths) {
        return cli_fail(CLI_USAGE, "out of memory");
    }
    for (int64_t b = 0; b < *count; ++b) {
        const bool is_sum = has_values && is_packed && b > 0;
        const int64_t length = list[b] - (is_sum ? list[b - 1] : 0);
        (*lengths)[b] = length > 0 ? length : 0;
    }
    return true;
}

static bool is_uniform(const int64_t *lengths, int64_t count, int64_t length)
{
    for (int64_t b = 0; b < count; ++b) {
        if (lengths[b] != length) {
            return false;
        }
    }
    return true;
}

static bool check_sizes(const struct sizes *s, int64_t key_batches)
{
    return key_batches == s->batches ||
           cli_fail(CLI_USAGE, "q has %lld sequences, kv has %lld", (long long)s->batches, (long long)key_batches);
}

static bool read_sizes(const struct problem *p, struct sizes *s)
{
    int64_t key_batches;
    const bool has_keys = problem_has(p, "kv") || problem_has(p, "kvends");
    *s = (struct sizes){.is_packed = problem_is(p, "layout", "tnd"), .is_forward = p->op == PROBLEM_INDEXER_FORWARD};
    s->page = s->is_forward ? problem_integer(p, "page") : 0;
    s->has_packed_keys = s->is_packed && s->page == 0;
    if (!problem_has(p, "q") && !problem_has(p, "qends")) {
        return cli_fail(CLI_USAGE, "q is missing, the lengths of the query sequences");
    }
    if (!read_lengths(p, "q", "qends", s->is_packed, &s->q, &s->batches) ||
        !read_lengths(p, has_keys ? "kv" : "q", has_keys ? "kvends" : "qends", s->has_packed_keys, &s->kv,
                      &key_batches) ||
        !check_sizes(s, key_batches)) {
        return false;
    }
    s->rows = problem_integer_or(p, "t1", s->is_packed ? total(s->q, s->batches) : longest(s->q, s->batches));
    s->keys = problem_integer_or(p, "t2", s->has_packed_keys ? total(s->kv, s->batches) : longest(s->kv, s->batches));
    s->width = s->page > 0 ? (s->keys + s->page - 1) / s->page : 0;
    s->has_query_lengths = s->is_packed || problem_has(p, "qends") || !is_uniform(s->q, s->batches, s->rows);
    s->has_key_lengths =
        s->is_packed || s->page > 0 || problem_has(p, "kvends") || !is_uniform(s->kv, s->batches, s->keys);
    return true;
}

/* --- tensors --------------------------------------------------------------------------------------------- */

static void shape_values(const struct problem *p, struct tensor *tensor, bool is_key)
{
    const int64_t d = problem_integer(p, "d");
    if (problem_is(p, "kind", "outliers")) {
        add_outliers(tensor);
    } else if (problem_is(p, "kind", "negative")) {
        make_one_sided(tensor, is_key ? -8 : 8);
    } else if (is_key && problem_is(p, "kind", "equal")) {
        for (int64_t at = d; at < tensor->elems; ++at) { /* all keys of all sequences */
            tensor_set(tensor, at, tensor_get(tensor, at % d));
        }
    }
}

/* [B, S, a, b], without B where rows are packed, without b where it is negative. */
static struct tensor *make_rows(struct call *call, const struct sizes *s, const char *name, int dtype, uint64_t seed,
                                int64_t a, int64_t b)
{
    const int64_t dims[4] = {s->batches, s->rows, a, b};
    struct tensor *tensor =
        tensor_set_create(&call->inputs, name, dtype, (b < 0 ? 3 : 4) - s->is_packed, dims + s->is_packed);
    if (tensor) {
        fill_normal(tensor, seed, 1);
    }
    return tensor;
}

/* Pages: one more than all sequences need. */
static struct tensor *make_keys(struct call *call, const struct sizes *s, int dtype, uint64_t seed)
{
    const int64_t d = problem_integer(&call->problem, "d");
    const int64_t whole[4] = {s->batches, s->keys, 1, d}, pages[4] = {s->batches * s->width + 1, s->page, 1, d};
    struct tensor *key = tensor_set_create(&call->inputs, "key", dtype, 4 - s->has_packed_keys,
                                           s->page > 0 ? pages : whole + s->has_packed_keys);
    if (key) {
        fill_normal(key, seed, 1);
    }
    return key;
}

static bool make_floats(struct call *call, const struct sizes *s, uint64_t seed)
{
    const struct problem *p = &call->problem;
    const int dtype = dtype_of_word(problem_word(p, "dtype"));
    const int64_t n = problem_integer(p, "n"), k = problem_integer(p, "k");
    const bool has_float_weights = s->is_forward && problem_is(p, "weights", "f32");
    struct tensor *tensor = make_rows(call, s, "query", dtype, seed, n, problem_integer(p, "d"));
    if (!tensor) {
        return false;
    }
    shape_values(p, tensor, false);
    tensor = make_keys(call, s, dtype, seed);
    if (!tensor) {
        return false;
    }
    shape_values(p, tensor, true);
    return (s->is_forward || make_rows(call, s, "dy", dtype, seed, k, -1)) &&
           make_rows(call, s, "weights", has_float_weights ? AG_FLOAT : dtype, seed, n, -1);
}

static bool make_lengths(struct call *call, const struct sizes *s, const char *name, const char *values_key,
                         const int64_t *lengths, bool is_packed)
{
    struct tensor *tensor = tensor_set_create(&call->inputs, name, AG_INT32, 1, &s->batches);
    int64_t count = 0, sum = 0;
    const int64_t *values = problem_list(&call->problem, values_key, &count);
    for (int64_t b = 0; tensor && b < s->batches; ++b) {
        sum = is_packed ? sum + lengths[b] : lengths[b];
        ((int32_t *)tensor->data)[b] = (int32_t)(count > 0 ? values[b] : sum);
    }
    return tensor != NULL;
}

/* --- indices --------------------------------------------------------------------------------------------- */

/* The first `count` of a random permutation of the keys, in chosen[0 .. count). `keys` holds some permutation of all. */
static void choose(struct random_stream *stream, int32_t *keys, int64_t key_count, int64_t count)
{
    for (int64_t j = 0; j < count; ++j) {
        const int64_t other = j + random_below(stream, key_count - j);
        const int32_t key = keys[j];
        keys[j] = keys[other];
        keys[other] = key;
    }
}

/* Pages in random order; what lies behind a sequence's last key is named too, and not read. */
static bool make_table(struct call *call, const struct sizes *s, uint64_t seed)
{
    const int64_t dims[2] = {s->batches, s->width}, pages = s->batches * s->width + 1;
    struct tensor *table = tensor_set_create(&call->inputs, "blockTable", AG_INT32, 2, dims);
    int32_t *order = malloc((size_t)pages * sizeof *order);
    struct random_stream stream = random_stream_for(seed, "blockTable");
    if (!table || !order) {
        free(order);
        return cli_fail(CLI_USAGE, "out of memory");
    }
    for (int64_t i = 0; i < pages; ++i) {
        order[i] = (int32_t)i;
    }
    choose(&stream, order, pages, table->elems);
    memcpy(table->data, order, (size_t)tensor_bytes(table));
    free(order);
    return true;
}

struct filling {
    const struct problem *p;
    struct tensor *indices, *dy;
    struct random_stream stream;
    int32_t *keys; /* a permutation of the sequence's keys */
    int64_t topk;
};

/* Row s of a sequence of `rows` rows and `keys` keys, at row `at` of the tensor. */
static void fill_row(struct filling *f, int64_t at, int64_t s, int64_t rows, int64_t keys)
{
    int32_t *slots = (int32_t *)f->indices->data + at * f->topk;
    const bool is_causal = problem_integer(f->p, "mode") == 3;
    int64_t visible = is_causal ? keys - rows + s + 1 : keys;
    visible = visible < 0 ? 0 : visible > keys ? keys : visible;
    const int64_t count = visible < f->topk ? visible : f->topk;
    for (int64_t t = 0; t < visible; ++t) {
        f->keys[t] = (int32_t)t;
    }
    if (!problem_is(f->p, "kind", "skewed")) { /* skewed: every row chooses the first keys */
        choose(&f->stream, f->keys, visible, count);
    }
    for (int64_t j = 0; j < f->topk; ++j) {
        slots[j] = j < count ? f->keys[j] : -1;
        if (j >= count && problem_is(f->p, "kind", "poison")) {
            tensor_set(f->dy, at * f->topk + j, NAN);
        }
    }
}

static bool fill_indices(struct call *call, const struct sizes *s, uint64_t seed)
{
    struct filling f = {.p = &call->problem,
                        .indices = tensor_set_find(&call->inputs, "sparseIndices"),
                        .dy = tensor_set_find(&call->inputs, "dy"),
                        .stream = random_stream_for(seed, "sparseIndices"),
                        .topk = problem_integer(&call->problem, "k"),
                        .keys = malloc((size_t)(longest(s->kv, s->batches) + 1) * sizeof(int32_t))};
    if (!f.keys) {
        return cli_fail(CLI_USAGE, "out of memory");
    }
    memset(f.indices->data, 0xff, (size_t)tensor_bytes(f.indices)); /* -1 in rows of no sequence */
    int64_t begin = 0;
    for (int64_t b = 0; b < s->batches; ++b) {
        begin = s->is_packed ? begin : b * s->rows;
        for (int64_t row = 0; row < s->q[b] && (begin + row + 1) * f.topk <= f.indices->elems; ++row) {
            fill_row(&f, begin + row, row, s->q[b], s->kv[b]);
        }
        begin += s->q[b];
    }
    free(f.keys);
    return true;
}

/* --- poison ---------------------------------------------------------------------------------------------- */

/* Rows behind the last of each sequence: of `name`, whose first axes are [T] or [B, S]. */
static void poison_slack(struct call *call, const struct sizes *s, const char *name, const int64_t *lengths,
                         int64_t rows)
{
    struct tensor *tensor = tensor_set_find(&call->inputs, name);
    const int64_t all = s->is_packed ? rows : rows * s->batches, row_elems = all ? tensor->elems / all : 0;
    for (int64_t row = 0; row < all; ++row) {
        const bool is_live = s->is_packed ? row < total(lengths, s->batches) : row % rows < lengths[row / rows];
        for (int64_t e = 0; !is_live && e < row_elems; ++e) {
            tensor_set(tensor, row * row_elems + e, NAN);
        }
    }
}

/* Keys that no sequence has. */
static void poison_pages(struct call *call, const struct sizes *s)
{
    struct tensor *key = tensor_set_find(&call->inputs, "key");
    const int32_t *table = tensor_set_find(&call->inputs, "blockTable")->data;
    const int64_t keys = key->dims[0] * s->page, d = keys ? key->elems / keys : 0;
    char *is_live = calloc((size_t)keys + 1, 1);
    for (int64_t b = 0; is_live && b < s->batches; ++b) {
        for (int64_t t = 0; t < s->kv[b] && t < s->width * s->page; ++t) {
            is_live[table[b * s->width + t / s->page] * s->page + t % s->page] = 1;
        }
    }
    for (int64_t at = 0; is_live && at < key->elems; ++at) {
        if (!is_live[at / d]) {
            tensor_set(key, at, NAN);
        }
    }
    free(is_live);
}

static void poison(struct call *call, const struct sizes *s)
{
    poison_slack(call, s, "query", s->q, s->rows);
    poison_slack(call, s, "weights", s->q, s->rows);
    if (!s->is_forward) {
        poison_slack(call, s, "dy", s->q, s->rows);
    }
    if (s->page > 0) {
        poison_pages(call, s);
    } else {
        poison_slack(call, s, "key", s->kv, s->keys);
    }
}

/* --- the whole ------------------------------------------------------------------------------------------- */

static bool make_slots(struct call *call, const struct sizes *s, uint64_t seed)
{
    const int64_t dims[3] = {s->batches, s->rows, problem_integer(&call->problem, "k")};
    return tensor_set_create(&call->inputs, "sparseIndices", AG_INT32, 3 - s->is_packed, dims + s->is_packed) &&
           fill_indices(call, s, seed);
}

/* Both operators; they name the lengths differently. */
static bool generate(struct call *call, uint64_t seed, const char *query_lengths, const char *key_lengths)
{
    struct sizes s = {0};
    const bool is_good =
        read_sizes(&call->problem, &s) && make_floats(call, &s, seed) &&
        (s.is_forward || make_slots(call, &s, seed)) && (s.page == 0 || make_table(call, &s, seed)) &&
        (!s.has_query_lengths || make_lengths(call, &s, query_lengths, "qends", s.q, s.is_packed)) &&
        (!s.has_key_lengths || make_lengths(call, &s, key_lengths, "kvends", s.kv, s.has_packed_keys));
    if (is_good && problem_is(&call->problem, "kind", "poison")) {
        poison(call, &s);
    }
    free(s.q);
    free(s.kv);
    return is_good;
}

bool generate_indexer(struct call *call, uint64_t seed, enum fidelity fidelity)
{
    (void)fidelity; /* nothing here takes long */
    return generate(call, seed, "actualSeqQLen", "actualSeqKvLen");
}

bool generate_indexer_forward(struct call *call, uint64_t seed, enum fidelity fidelity)
{
    (void)fidelity;
    return generate(call, seed, "actualSeqLengthsQuery", "actualSeqLengthsKey");
}
