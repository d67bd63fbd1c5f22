/* Primitives are compiled per shape and kept: a table per lane, as their scratch memory belongs to one thread. */
#include <dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peer.h"

enum { TABLE_SIZE = 1 << 14 }; /* shapes; packs of many lengths have thousands */
enum { KEY_NUMBERS = 7 };      /* of a struct product, flags as one */

struct entry {
    int64_t key[KEY_NUMBERS];
    dnnl_primitive_t primitive; /* NULL: free */
    dnnl_memory_t memories[3];  /* a, b, c */
};

struct lane {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    struct entry table[TABLE_SIZE];
};

static void must(dnnl_status_t status, const char *what)
{
    if (status != dnnl_success) {
        fprintf(stderr, "oneDNN: %s: status %d\n", what, (int)status);
        exit(1);
    }
}

static void *open_lane(void)
{
    struct lane *lane = calloc(1, sizeof *lane);
    if (lane) {
        must(dnnl_engine_create(&lane->engine, dnnl_cpu, 0), "engine");
        must(dnnl_stream_create(&lane->stream, lane->engine, dnnl_stream_default_flags), "stream");
    }
    return lane;
}

static void close_lane(void *opaque)
{
    struct lane *lane = opaque;
    for (int i = 0; lane && i < TABLE_SIZE; ++i) {
        if (lane->table[i].primitive) {
            dnnl_primitive_destroy(lane->table[i].primitive);
            for (int m = 0; m < 3; ++m) {
                dnnl_memory_destroy(lane->table[i].memories[m]);
            }
        }
    }
    if (lane) {
        dnnl_stream_destroy(lane->stream);
        dnnl_engine_destroy(lane->engine);
    }
    free(lane);
}

static void describe(dnnl_memory_desc_t *desc, int64_t rows, int64_t cols, int64_t stride, bool is_turned,
                     bool is_bf16)
{
    const dnnl_dims_t dims = {rows, cols}, strides = {is_turned ? 1 : stride, is_turned ? stride : 1};
    must(dnnl_memory_desc_init_by_strides(desc, 2, dims, is_bf16 ? dnnl_bf16 : dnnl_f32, strides), "memory");
}

static void compile(struct lane *lane, struct entry *entry, const struct product *p)
{
    dnnl_memory_desc_t descs[3];
    dnnl_matmul_desc_t matmul;
    dnnl_primitive_attr_t attr;
    dnnl_post_ops_t post;
    dnnl_primitive_desc_t desc;
    describe(&descs[0], p->rows, p->depth, p->a_stride, p->is_a_turned, p->is_bf16);
    describe(&descs[1], p->depth, p->cols, p->b_stride, p->is_b_turned, p->is_bf16);
    describe(&descs[2], p->rows, p->cols, p->c_stride, false, false);
    must(dnnl_matmul_desc_init(&matmul, &descs[0], &descs[1], NULL, &descs[2]), "matmul");
    must(dnnl_primitive_attr_create(&attr), "attributes");
    must(dnnl_post_ops_create(&post), "post-operations");
    if (p->accumulates) {
        must(dnnl_post_ops_append_sum(post, 1), "sum");
    }
    must(dnnl_primitive_attr_set_post_ops(attr, post), "post-operations");
    must(dnnl_primitive_desc_create(&desc, &matmul, attr, lane->engine, NULL), "matmul's implementation");
    must(dnnl_primitive_create(&entry->primitive, desc), "matmul's code");
    for (int m = 0; m < 3; ++m) {
        must(dnnl_memory_create(&entry->memories[m], &descs[m], lane->engine, DNNL_MEMORY_NONE), "memory");
    }
    if (getenv("PEER_VERBOSE")) {
        const char *name;
        dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &name);
        fprintf(stderr, "%ld x %ld x %ld%s%s: %s\n", (long)p->rows, (long)p->cols, (long)p->depth,
                p->is_a_turned ? " at" : "", p->is_b_turned ? " bt" : "", name);
    }
    dnnl_primitive_desc_destroy(desc);
    dnnl_post_ops_destroy(post);
    dnnl_primitive_attr_destroy(attr);
}

static const struct entry *find(struct lane *lane, const struct product *p)
{
    const int64_t key[KEY_NUMBERS] = {p->rows,
                                      p->cols,
                                      p->depth,
                                      p->a_stride,
                                      p->b_stride,
                                      p->c_stride,
                                      p->is_a_turned + 2 * p->is_b_turned + 4 * p->accumulates + 8 * p->is_bf16};
    uint64_t hash = 0;
    for (int i = 0; i < KEY_NUMBERS; ++i) {
        hash = (hash ^ (uint64_t)key[i]) * UINT64_C(0x9e3779b97f4a7c15);
    }
    for (uint64_t at = hash >> 50;; ++at) {
        struct entry *entry = &lane->table[at % TABLE_SIZE];
        if (!entry->primitive) {
            memcpy(entry->key, key, sizeof key);
            compile(lane, entry, p);
        }
        if (memcmp(entry->key, key, sizeof key) == 0) {
            return entry;
        }
    }
}

static void multiply(void *opaque, const struct product *p, const void *a, const void *b, float *c)
{
    struct lane *lane = opaque;
    const struct entry *entry = find(lane, p);
    dnnl_memory_set_data_handle(entry->memories[0], (void *)(uintptr_t)a);
    dnnl_memory_set_data_handle(entry->memories[1], (void *)(uintptr_t)b);
    dnnl_memory_set_data_handle(entry->memories[2], c);
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, entry->memories[0]},
                                    {DNNL_ARG_WEIGHTS, entry->memories[1]},
                                    {DNNL_ARG_DST, entry->memories[2]}};
    must(dnnl_primitive_execute(entry->primitive, lane->stream, 3, args), "matmul");
}

static bool has_bf16(void)
{
    return __builtin_cpu_supports("avx512bw");
}

const struct backend onednn_backend = {"onednn", has_bf16, open_lane, close_lane, multiply};
