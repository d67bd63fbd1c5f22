#include "support/attention_fixture.h"

#include <string.h>

#include "base/memory.h"

const aclTensor *fixture_tensor(struct fixture *f, int dtype, int rank, const int64_t *dims)
{
    const aclTensor *made = aclCreateTensor(dims, (uint64_t)rank, (aclDataType)dtype, NULL, 0, ACL_FORMAT_ND, dims,
                                            (uint64_t)rank, f->data);
    assert_non_null(made);
    f->tensors[f->tensor_count++] = made;
    return made;
}

const aclTensor *fixture_tensor_past_storage(struct fixture *f, const int64_t *dims, const int64_t *strides)
{
    const int64_t storage = dims[0] * dims[1] * dims[2]; /* with offset 1 it is one too small */
    const aclTensor *made = aclCreateTensor(dims, 3, ACL_BF16, strides, 1, ACL_FORMAT_ND, &storage, 1, f->data);
    assert_non_null(made);
    f->tensors[f->tensor_count++] = made;
    return made;
}

const aclTensor *fixture_tensor_of_format(struct fixture *f, aclFormat format, const int64_t *dims)
{
    const aclTensor *made = aclCreateTensor(dims, 3, ACL_BF16, NULL, 0, format, dims, 3, f->data);
    assert_non_null(made);
    f->tensors[f->tensor_count++] = made;
    return made;
}

const aclIntArray *fixture_list(struct fixture *f, uint64_t count, const int64_t *values)
{
    const aclIntArray *made = aclCreateIntArray(values, count);
    assert_non_null(made);
    f->arrays[f->array_count++] = made;
    return made;
}

void fixture_open(struct fixture *f)
{
    static const struct attention_case valid = {.dtype = AG_BF16,
                                                .n1 = N1,
                                                .n2 = N2,
                                                .d = D,
                                                .dr = DR,
                                                .dv = DV,
                                                .q_ends = {3, 8},
                                                .kv_ends = {5, 9},
                                                .pre = 100,
                                                .next = 100,
                                                .mask_shape = TEST_MASK_SS};
    attention_call_create(&f->call, &valid);
    f->a = &f->call.args;
    f->tensor_count = f->array_count = 0;
}

void fixture_close(struct fixture *f)
{
    for (int i = 0; i < f->tensor_count; ++i) {
        aclDestroyTensor(f->tensors[i]);
    }
    for (int i = 0; i < f->array_count; ++i) {
        aclDestroyIntArray(f->arrays[i]);
    }
    attention_call_destroy(&f->call);
}

static void expect_message(const char *function, int id, const struct row *row, const char *message)
{
    if (!message || !strstr(message, function)) {
        fail_msg("row %d: message %s does not name the function", id, message);
    }
    for (int i = 0; i < 3 && row->texts[i]; ++i) {
        if (!strstr(message, row->texts[i])) {
            fail_msg("row %d: \"%s\" lacks \"%s\"", id, message, row->texts[i]);
        }
    }
}

void fixture_expect_refusal(struct fixture *f, aclnnStatus (*phase1)(struct attention_call *call),
                            const char *function, int id, const struct row *row)
{
    aclOpExecutor *const untouched = (aclOpExecutor *)0x1234;
    const int64_t live = ag_alloc_live();
    f->call.workspace_size = 4321;
    f->call.executor = untouched;
    const aclnnStatus status = phase1(&f->call);
    if (status != row->status) {
        fail_msg("row %d (%s): status %d, want %d; message %s", id, row->texts[0], status, row->status,
                 ag_error_peek());
    }
    expect_message(function, id, row, ag_error_take());
    assert_null(ag_error_take());
    assert_true(f->call.workspace_size == 4321 && f->call.executor == untouched);
    assert_int_equal(ag_alloc_live(), live);
}

void fixture_set_tokens(struct attention_args *a, int64_t pre, int64_t next)
{
    a->pre_tokens = pre;
    a->next_tokens = next;
}
