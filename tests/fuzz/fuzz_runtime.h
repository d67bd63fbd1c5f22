/* The parts of the run time's target: what a sequence of calls has made, and what each call must hold to. */
#ifndef AG_TESTS_FUZZ_RUNTIME_H
#define AG_TESTS_FUZZ_RUNTIME_H

#include "acl/acl.h"
#include "aclnn/acl_meta.h"
#include "fuzz.h"

enum kind {
    CONTEXT,
    STREAM,
    EVENT,
    TENSOR,
    SCALAR,
    INT_ARRAY,
    FLOAT_ARRAY,
    BOOL_ARRAY,
    TENSOR_LIST,
    SCALAR_LIST,
    EXECUTOR,
    DATA_BUFFER,
    KINDS
};

struct item {
    void *handle;
    enum kind kind;
    bool is_gone; /* certainly: its own destruction has succeeded, or its executor has run */
};

struct block { /* of aclrtMalloc */
    char *data;
    size_t bytes;
};

enum { MOST_ITEMS = 24, MOST_BLOCKS = 6, MOST_CALLS = 64 };
struct state {
    struct fuzz_input *input;
    struct item items[MOST_ITEMS];
    int item_count;
    struct block blocks[MOST_BLOCKS];
    int block_count;
};

/* A failure has a message. */
void expect(aclnnStatus status);

/* A call that needs a live handle of `kind` has not taken another one. `item` may be NULL. */
void require_live(const struct item *item, enum kind kind, aclnnStatus status);

/* Both. */
void expect_live(const struct item *item, enum kind kind, aclnnStatus status);

/* Notes a new handle, which must be one that nobody has; NULL must have left a message. */
void keep(struct state *s, enum kind kind, const void *handle);
bool has_room(const struct state *s);

/* Mostly one of the kind that is asked for; or any; NULL for "null" (and then *handle may be no handle at all). */
struct item *choose(struct state *s, enum kind kind, void **handle);

/* --- fuzz_runtime_objects.c ------------------------------------------------------------------------------------ */

void call_object(struct state *s);
void call_executor(struct state *s);
aclnnStatus destroy_as(enum kind kind, const void *handle);

#endif
