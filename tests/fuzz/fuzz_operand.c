#include "fuzz_operand.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/elem.h"
#include "base/status.h"

enum { MOST_ELEMS = 1 << 14, CANARY = 0xA5, WORKSPACE_MOST = 64 << 20 };

/* --- the call -------------------------------------------------------------------------------------------------- */

static enum ag_isa take_isa(struct fuzz_input *input)
{
    const enum ag_isa isa = (enum ag_isa)fuzz_take(input, 0, AG_ISA_COUNT - 1);
    return ag_cpu_has_isa(isa) ? isa : AG_ISA_SCALAR;
}

void fuzz_call_begin(struct fuzz_call *call, struct fuzz_input *input)
{
    *call = (struct fuzz_call){.input = input};
    call->is_damaged = fuzz_take_bool(input);
    call->random = test_random_seed((uint64_t)fuzz_take(input, 0, 255));
    ag_config_set_isa(take_isa(input));
    ag_config_set_threads(fuzz_take_once_in(input, 16) ? 2 : 1);
    ag_config_set_limits(fuzz_take_bool(input) ? AG_LIMITS_DOCUMENTED : AG_LIMITS_EXTENDED);
}

static void drop_handle(struct fuzz_operand *o)
{
    aclDestroyTensor(o->owned);
    aclDestroyIntArray(o->foreign);
    o->owned = NULL;
    o->foreign = NULL;
}

void fuzz_call_end(struct fuzz_call *call)
{
    for (int i = 0; i < call->count; ++i) {
        struct fuzz_operand *o = &call->operands[i];
        drop_handle(o);
        free(o->before);
        bool is_last = true; /* of those that share the memory */
        for (int later = i + 1; later < call->count; ++later) {
            is_last = is_last && call->operands[later].memory != o->memory;
        }
        free(is_last ? o->memory : NULL);
    }
    ag_error_clear();
}

bool fuzz_call_spoils(struct fuzz_call *call)
{
    return call->is_damaged && fuzz_take_once_in(call->input, 12);
}

int64_t fuzz_call_number(struct fuzz_call *call, int64_t good)
{
    return fuzz_call_spoils(call) ? fuzz_take_edge(call->input) : good;
}

/* --- operands: where the elements lie -------------------------------------------------------------------------- */

/* Dims in memory in any order, with gaps or without. */
static void choose_strides(struct fuzz_call *call, struct ag_view *view, bool is_dense)
{
    const int64_t form =
        is_dense ? 0 : fuzz_take(call->input, 0, 4); /* 0 dense, 1 spread, 2 gaps, 3 reversed, 4 offset */
    int64_t next = form == 1 ? 3 : 1;
    for (int i = 0; i < view->rank; ++i) {
        const int d = form == 3 ? i : view->rank - 1 - i;
        view->strides[d] = next;
        next = next * (view->dims[d] > 0 ? view->dims[d] : 1) + (form == 2 ? 3 : 0);
    }
    view->offset = form == 4 ? fuzz_take(call->input, 0, 9) : 0;
}

/* Elements from the storage's start to the last one; -1: too many for a test. */
static int64_t storage_needed(const struct ag_view *view)
{
    int64_t last = view->offset;
    if (last < 0 || last > MOST_ELEMS) {
        return -1;
    }
    for (int d = 0; d < view->rank; ++d) {
        int64_t reach;
        if (view->dims[d] <= 0) {
            return view->offset;
        }
        if (view->strides[d] < 0 || !ag_product(&reach, 2, (int64_t[]){view->dims[d] - 1, view->strides[d]}) ||
            reach > MOST_ELEMS - last) {
            return -1;
        }
        last += reach;
    }
    return last + 1;
}

enum damage {
    DAMAGE_NONE,
    DAMAGE_NULL,
    DAMAGE_DTYPE,
    DAMAGE_DIM,
    DAMAGE_DIM_EDGE,
    DAMAGE_RANK,
    DAMAGE_STRIDE,
    DAMAGE_STRIDES_ZERO,
    DAMAGE_OFFSET,
    DAMAGE_STORAGE_SHORT,
    DAMAGE_STORAGE_UNKNOWN,
    DAMAGE_NO_MEMORY,
    DAMAGE_SHARED_MEMORY,
    DAMAGE_FORMAT,
    DAMAGE_STALE,
    DAMAGE_FOREIGN,
    DAMAGE_KINDS
};

static void damage_view(struct fuzz_call *call, struct ag_view *view, enum damage damage)
{
    static const int dtypes[] = {AG_FLOAT, AG_FLOAT16, AG_BF16, AG_INT32, AG_INT64, AG_UINT8, AG_BOOL, AG_DOUBLE};
    struct fuzz_input *input = call->input;
    const int axis = view->rank > 0 ? (int)fuzz_take(input, 0, view->rank - 1) : 0;
    switch (damage) {
    case DAMAGE_DTYPE:
        view->dtype = fuzz_take_bool(input) ? (int)fuzz_take(input, -2, 60) : dtypes[fuzz_take(input, 0, 7)];
        break;
    case DAMAGE_DIM:
        view->dims[axis] = fuzz_take(input, 0, 9);
        break;
    case DAMAGE_DIM_EDGE:
        view->dims[axis] = fuzz_take_edge(input);
        view->strides[axis] = fuzz_take_bool(input) ? 0 : view->strides[axis];
        break;
    case DAMAGE_RANK:
        view->rank = (int)fuzz_take(input, 0, AG_MAX_RANK);
        break;
    case DAMAGE_STRIDE:
        view->strides[axis] = fuzz_take_bool(input) ? fuzz_take(input, 0, 9) : fuzz_take_edge(input);
        break;
    case DAMAGE_STRIDES_ZERO:
        memset(view->strides, 0, sizeof view->strides);
        break;
    case DAMAGE_OFFSET:
        view->offset = fuzz_take_edge(input);
        break;
    case DAMAGE_FORMAT:
        view->format = (int)fuzz_take(input, -2, 60);
        break;
    default:
        break;
    }
}

/* --- operands: what they hold ---------------------------------------------------------------------------------- */

static float choose_value(struct fuzz_call *call, int64_t kind)
{
    const float number = (float)test_random_normal(&call->random);
    switch (kind) {
    case 1:
        return 0;
    case 2:
        return (float)test_random_between(&call->random, -2, 2);
    case 3:
        return number * 1e4F;
    case 4:
        return test_random_below(&call->random, 4) ? number : NAN;
    case 5:
        return test_random_below(&call->random, 4) ? number : INFINITY;
    default:
        return number;
    }
}

static void fill_values(struct fuzz_call *call, struct fuzz_operand *o)
{
    const size_t elem = ag_dtype_bytes(o->view.dtype);
    if (o->is_output || !ag_dtype_is_float(o->view.dtype)) {
        memset(o->memory, o->is_output ? CANARY : 0, o->bytes);
        return;
    }
    const int64_t kind = fuzz_take_once_in(call->input, 8) ? fuzz_take(call->input, 0, 5) : 0;
    call->is_wild = call->is_wild || kind >= 3;
    for (size_t i = 0; i < o->bytes / elem; ++i) {
        ag_elem_store(ag_elem_of(o->view.dtype), o->memory, (int64_t)i, choose_value(call, kind));
    }
}

/* --- operands: made -------------------------------------------------------------------------------------------- */

static void give_memory(struct fuzz_call *call, struct fuzz_operand *o, enum damage damage, int64_t elems)
{
    const size_t elem = ag_dtype_bytes(o->view.dtype) ? ag_dtype_bytes(o->view.dtype) : 1;
    o->bytes = (size_t)elems * elem;
    if (damage == DAMAGE_SHARED_MEMORY && call->count > 0) {
        struct fuzz_operand *other = &call->operands[fuzz_take(call->input, 0, call->count - 1)];
        if (other->bytes >= o->bytes && other->memory) {
            o->memory = other->memory;
            o->bytes = other->bytes;
            o->is_shared = other->is_shared = true;
            call->is_wild = call->is_wild || o->view.dtype != other->view.dtype; /* bits of another type */
            return;
        }
    }
    o->memory = malloc(o->bytes); /* 0 bytes: an address that may not be touched */
    FUZZ_REQUIRE(o->memory || !o->bytes, "out of memory");
    fill_values(call, o);
}

static void make_handle(struct fuzz_call *call, struct fuzz_operand *o, enum damage damage)
{
    const struct ag_view *v = &o->view;
    const int64_t storage = v->storage_elems;
    if (damage == DAMAGE_NULL) {
        return;
    }
    o->owned = aclCreateTensor(v->dims, (uint64_t)v->rank, (aclDataType)v->dtype, v->strides, v->offset,
                               (aclFormat)v->format, &storage, storage >= 0, v->data);
    o->handle = o->owned;
    FUZZ_REQUIRE(o->owned || ag_error_take(), "no tensor, and no word");
    if (damage == DAMAGE_STALE) {
        aclDestroyTensor(o->owned);
        o->owned = NULL;
    } else if (damage == DAMAGE_FOREIGN) {
        o->foreign = aclCreateIntArray(v->dims, (uint64_t)v->rank);
        o->handle = fuzz_take_bool(call->input) ? (aclTensor *)(void *)o->foreign : (aclTensor *)(void *)&o->owned;
    }
}

int fuzz_take_float_type(struct fuzz_input *input)
{
    static const int types[] = {AG_FLOAT, AG_BF16, AG_FLOAT16};
    return types[fuzz_take(input, 0, 2)];
}

int64_t fuzz_call_take_window(struct fuzz_call *call, int64_t slots, aclIntArray **range)
{
    int64_t ends[3] = {0, slots, 0};
    if (fuzz_take_bool(call->input)) {
        return slots;
    }
    ends[0] = fuzz_take(call->input, 0, slots);
    ends[1] = fuzz_take(call->input, ends[0], slots);
    const int64_t window = ends[1] - ends[0];
    for (int i = 0; i < 2; ++i) {
        ends[i] = fuzz_call_number(call, fuzz_take_bool(call->input) && ends[i] < slots ? ends[i] - slots : ends[i]);
    }
    *range = aclCreateIntArray(ends, (uint64_t)(fuzz_call_spoils(call) ? fuzz_take(call->input, 0, 3) : 2));
    return window;
}

struct fuzz_operand *fuzz_call_add(struct fuzz_call *call, bool is_output, bool is_dense, int dtype, int rank,
                                   const int64_t *dims)
{
    struct fuzz_operand *o = &call->operands[call->count];
    const enum damage damage =
        fuzz_call_spoils(call) ? (enum damage)fuzz_take(call->input, 0, DAMAGE_KINDS - 1) : DAMAGE_NONE;
    *o = (struct fuzz_operand){.is_output = is_output,
                               .view = {.rank = rank, .dtype = dtype, .format = ACL_FORMAT_ND, .present = true}};
    memcpy(o->view.dims, dims, (size_t)rank * sizeof *dims);
    choose_strides(call, &o->view, is_dense);
    damage_view(call, &o->view, damage);
    const int64_t needed = storage_needed(&o->view);
    int64_t elems = needed < 0 ? 60 : needed; /* too many: the storage tells that they are not there */
    elems -= damage == DAMAGE_STORAGE_SHORT && elems > 0;
    give_memory(call, o, damage, elems);
    o->view.data = damage == DAMAGE_NO_MEMORY ? NULL : o->memory;
    o->view.storage_elems = damage == DAMAGE_STORAGE_UNKNOWN && needed >= 0 ? -1 : elems;
    make_handle(call, o, damage);
    ++call->count;
    return o;
}

/* --- indices --------------------------------------------------------------------------------------------------- */

void fuzz_fill_indices(struct fuzz_call *call, struct fuzz_operand *operand, int64_t lowest, int64_t highest,
                       bool is_wild)
{
    static const int32_t far[] = {-1, INT32_MIN, INT32_MAX, 1000000, -7};
    for (size_t i = 0; i < operand->bytes / sizeof(int32_t); ++i) {
        int32_t index = (int32_t)test_random_between(&call->random, lowest, highest < lowest ? lowest : highest);
        if (is_wild && test_random_below(&call->random, 4) == 0) {
            index = far[test_random_below(&call->random, 5)];
        }
        memcpy(operand->memory + i * sizeof index, &index, sizeof index);
    }
}

static unsigned char *element(const struct fuzz_operand *o, int64_t at)
{
    int64_t position = o->view.offset;
    for (int d = o->view.rank - 1; d >= 0; --d) {
        position += at % o->view.dims[d] * o->view.strides[d];
        at /= o->view.dims[d];
    }
    return o->memory + position * (int64_t)ag_dtype_bytes(o->view.dtype);
}

/* Logical elements; 0 where they are too many for a test or not all in memory. */
static int64_t small_elems(const struct fuzz_operand *o)
{
    int64_t elems;
    if (!ag_product(&elems, o->view.rank, o->view.dims) || elems <= 0 || elems > MOST_ELEMS) {
        return 0;
    }
    const int64_t needed = storage_needed(&o->view);
    return needed >= 0 && (size_t)needed * ag_dtype_bytes(o->view.dtype) <= o->bytes ? elems : 0;
}

void fuzz_set_index(struct fuzz_operand *operand, int64_t at, int32_t value)
{
    if (at < small_elems(operand) && ag_dtype_bytes(operand->view.dtype) == sizeof value) {
        memcpy(element(operand, at), &value, sizeof value);
    }
}

bool fuzz_call_is_small(const struct fuzz_call *call)
{
    for (int i = 0; i < call->count; ++i) {
        const struct fuzz_operand *o = &call->operands[i];
        if (o->handle && !ag_view_is_empty(&o->view) && small_elems(o) == 0) {
            return false;
        }
    }
    return true;
}

/* --- phase 1 --------------------------------------------------------------------------------------------------- */

static const uint64_t untouched_bytes = UINT64_C(0x5a5a5a5a5a5a5a5a);
static char untouched_executor;

void fuzz_before_phase1(struct fuzz_call *call)
{
    call->workspace_bytes = untouched_bytes;
    call->executor = (aclOpExecutor *)(void *)&untouched_executor;
    for (int i = 0; i < call->count; ++i) {
        struct fuzz_operand *o = &call->operands[i];
        o->before = malloc(o->bytes ? o->bytes : 1);
        FUZZ_REQUIRE(o->before, "out of memory");
        memcpy(o->before, o->memory ? o->memory : o->before, o->bytes);
    }
    ag_error_clear();
}

static void check_untouched(const struct fuzz_call *call)
{
    for (int i = 0; i < call->count; ++i) {
        const struct fuzz_operand *o = &call->operands[i];
        FUZZ_REQUIRE(o->bytes == 0 || memcmp(o->memory, o->before, o->bytes) == 0, "operand %d was written", i);
    }
}

static void check_message(aclnnStatus status)
{
    const char *text = aclGetRecentErrMsg();
    FUZZ_REQUIRE(text && text[0], "status %d without a message", (int)status);
    FUZZ_REQUIRE(strncmp(text, "EZ9999", 6) != 0 || status == AG_CREATE_EXECUTOR, "an internal error: %s", text);
}

bool fuzz_after_phase1(struct fuzz_call *call, aclnnStatus status)
{
    check_untouched(call);
    if (status == 0) {
        FUZZ_REQUIRE(call->workspace_bytes != untouched_bytes && call->executor != (void *)&untouched_executor,
                     "success without workspace size or executor");
        return true;
    }
    check_message(status);
    FUZZ_REQUIRE(call->workspace_bytes == untouched_bytes && call->executor == (void *)&untouched_executor,
                 "a refusal wrote workspace size or executor");
    return false;
}

/* --- phase 2 --------------------------------------------------------------------------------------------------- */

static void drop_handles(struct fuzz_call *call)
{
    for (int i = 0; i < call->count; ++i) {
        drop_handle(&call->operands[i]);
    }
}

/* Outputs are written, nothing else is. */
static void check_written(const struct fuzz_call *call)
{
    for (int i = 0; i < call->count; ++i) {
        const struct fuzz_operand *o = &call->operands[i];
        if (o->is_shared || o->bytes == 0) {
            continue;
        }
        unsigned char *expected = malloc(o->bytes);
        const int64_t elems = o->is_output && o->handle ? small_elems(o) : 0;
        const size_t elem = ag_dtype_bytes(o->view.dtype);
        FUZZ_REQUIRE(expected, "out of memory");
        memcpy(expected, o->before, o->bytes);
        for (int64_t at = 0; at < elems; ++at) {
            const unsigned char *from = element(o, at);
            memcpy(expected + (from - o->memory), from, elem);
        }
        FUZZ_REQUIRE(memcmp(expected, o->memory, o->bytes) == 0, "operand %d: bytes that are no output were written",
                     i);
        free(expected);
    }
}

static bool run_once(struct fuzz_call *call, fuzz_phase2 *phase2, uint64_t given_bytes, bool has_workspace)
{
    const size_t shift = (size_t)fuzz_take(call->input, 0, 3);
    unsigned char *block = malloc(given_bytes + shift);
    FUZZ_REQUIRE(block || given_bytes + shift == 0, "out of memory");
    memset(block, 0xff, given_bytes + shift);
    const bool is_null = !has_workspace || (given_bytes == 0 && shift == 0);
    const aclnnStatus status = phase2(is_null ? NULL : block + shift, given_bytes, call->executor, NULL);
    free(block);
    if (status == 0) {
        FUZZ_REQUIRE(given_bytes >= call->workspace_bytes, "a workspace that is too small was taken");
        FUZZ_REQUIRE(has_workspace || call->workspace_bytes == 0, "no workspace was taken");
        check_written(call);
        return true;
    }
    check_message(status);
    check_untouched(call);
    return false;
}

static void check_is_used_up(struct fuzz_call *call, fuzz_phase2 *phase2)
{
    const aclnnStatus status = phase2(NULL, 0, call->executor, NULL);
    FUZZ_REQUIRE(status == AG_INVALID, "an executor that is used up gave %d", (int)status);
    check_message(status);
}

bool fuzz_phase2_run(struct fuzz_call *call, fuzz_phase2 *phase2)
{
    enum { ONCE, DROPPED, REPEATED, SHORT, WITHOUT, NEVER };
    const int64_t way = fuzz_take(call->input, 0, 5);
    const uint64_t bytes = call->workspace_bytes;
    bool is_done = false;
    if (way == NEVER || !fuzz_call_is_small(call) || bytes > WORKSPACE_MOST) {
        FUZZ_REQUIRE(aclDestroyAclOpExecutor(call->executor) == 0, "cannot destroy: %s", ag_error_peek());
        check_is_used_up(call, phase2);
        return false;
    }
    if (way == DROPPED) {
        drop_handles(call);
    }
    if (way == REPEATED) {
        FUZZ_REQUIRE(aclSetAclOpExecutorRepeatable(call->executor) == 0, "cannot repeat: %s", ag_error_peek());
        is_done = run_once(call, phase2, bytes, true);
        bool is_shared = false; /* then the first run may have changed the inputs of the second */
        for (int i = 0; i < call->count; ++i) {
            is_shared = is_shared || call->operands[i].is_shared;
        }
        if (!is_shared) {
            FUZZ_REQUIRE(run_once(call, phase2, bytes, true) == is_done, "the second run ended otherwise");
        }
        FUZZ_REQUIRE(aclDestroyAclOpExecutor(call->executor) == 0, "cannot destroy: %s", ag_error_peek());
    } else {
        is_done = run_once(call, phase2, bytes - (way == SHORT && bytes > 0), way != WITHOUT);
    }
    check_is_used_up(call, phase2);
    return is_done;
}

/* --- comparison ------------------------------------------------------------------------------------------------ */

static double value_of(const struct fuzz_operand *o, int64_t at)
{
    if (o->view.dtype == AG_INT32) {
        int32_t value;
        memcpy(&value, element(o, at), sizeof value);
        return value;
    }
    return ag_elem_load(ag_elem_of(o->view.dtype), element(o, at), 0);
}

/* The bound holds for numbers; beyond the largest one of the type lies infinity. */
static bool is_overflow(int dtype, double got, double want, double bound)
{
    const double most = dtype == AG_FLOAT16 ? 65504 : dtype == AG_BF16 ? 0x1.fep127 : 0x1.fffffep127;
    return isinf(got) && signbit(got) == signbit(want) && fabs(want) + bound > most;
}

/* Two elements lie at one place (three dims together can do that unnoticed): what they hold is not known. */
static bool meets_itself(const struct fuzz_operand *o, int64_t elems)
{
    const size_t elem = ag_dtype_bytes(o->view.dtype);
    unsigned char *is_taken = calloc(o->bytes + 1, 1);
    bool is_met = false;
    FUZZ_REQUIRE(is_taken, "out of memory");
    for (int64_t at = 0; at < elems && !is_met; ++at) {
        const size_t place = (size_t)(element(o, at) - o->memory);
        is_met = is_taken[place];
        memset(is_taken + place, 1, elem);
    }
    free(is_taken);
    return is_met;
}

int64_t fuzz_compared_elements;

int64_t fuzz_comparable(const struct fuzz_call *call, const struct fuzz_operand *operand)
{
    const int64_t elems = operand && operand->handle && !call->is_wild ? small_elems(operand) : 0;
    return elems > 0 && meets_itself(operand, elems) ? 0 : elems;
}

void fuzz_compare(const struct fuzz_call *call, const char *name, const struct fuzz_operand *operand,
                  const double *want, const double *bound)
{
    const int64_t elems = fuzz_comparable(call, operand);
    for (int64_t at = 0; at < elems; ++at) {
        const double got = value_of(operand, at);
        const bool is_same = got == want[at] || (isnan(got) && isnan(want[at]));
        FUZZ_REQUIRE(is_same || fabs(got - want[at]) <= bound[at] ||
                         is_overflow(operand->view.dtype, got, want[at], bound[at]),
                     "%s, element %lld: got %.9g, want %.9g, bound %.3g", name, (long long)at, got, want[at],
                     bound[at]);
    }
    fuzz_compared_elements += elems;
}

double *fuzz_doubles(int64_t count)
{
    double *values = calloc((size_t)(count > 0 ? count : 1), sizeof *values);
    FUZZ_REQUIRE(values, "out of memory");
    return values;
}
