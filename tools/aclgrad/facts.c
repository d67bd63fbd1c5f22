#include "facts.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/arena.h"

enum { TEXT_BYTES = 1024 };

void add_fact(const struct facts *facts, const char *part, const char *name, const char *format, ...)
{
    char text[TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    facts->add(facts->context, part, name, text);
}

void add_plan_facts(const struct facts *facts, const char *description)
{
    char text[TEXT_BYTES];
    snprintf(text, sizeof text, "%s", description);
    for (char *rest, *pair = strtok_r(text, " ", &rest); pair; pair = strtok_r(NULL, " ", &rest)) {
        char *equals = strchr(pair, '=');
        if (equals) {
            *equals = 0;
        }
        facts->add(facts->context, "plan", pair, equals ? equals + 1 : "");
    }
}

void add_workspace_facts(const struct facts *facts, uint64_t bytes, const struct workspace_part *parts, int count)
{
    const char *begin = NULL;
    for (int i = 0; i < count; ++i) {
        const char *at = parts[i].at;
        begin = at && (!begin || at < begin) ? at : begin;
    }
    for (int i = 0; i < count; ++i) {
        const char *at = parts[i].at, *end = NULL;
        for (int j = 0; at && j < count; ++j) { /* a part ends where the next one begins */
            const char *other = parts[j].at;
            end = other > at && (!end || other < end) ? other : end;
        }
        if (at) {
            const int64_t offset = at - begin;
            const int64_t size = end ? end - at : (int64_t)bytes - (AG_ARENA_ALIGN - 1) - offset;
            add_fact(facts, "workspace", parts[i].name, "offset %" PRId64 ", %" PRId64 " bytes", offset, size);
        }
    }
    add_fact(facts, "workspace", "all", "%" PRIu64 " bytes, of which %d to align it", bytes,
             bytes > 0 ? AG_ARENA_ALIGN - 1 : 0);
}

void *workspace_reserve(uint64_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return bytes == 0 || memory == MAP_FAILED ? NULL : memory;
}

void workspace_release(void *memory, uint64_t bytes)
{
    if (memory) {
        ag_arena_close(memory, bytes);
        munmap(memory, bytes);
    }
}

void add_finding(const struct findings *findings, enum severity severity, const char *tensor, const char *code,
                 const char *format, ...)
{
    char text[TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    findings->add(findings->context, severity, tensor, code, text);
}

bool add_doubles(const struct tensor_set *outputs, struct tensor_set *set)
{
    bool is_good = true;
    for (int i = 0; is_good && i < outputs->count; ++i) {
        is_good = add_output(set, outputs->items[i].name, AG_DOUBLE, &outputs->items[i]);
    }
    return is_good;
}

void *tensor_set_data(const struct tensor_set *set, const char *name)
{
    const struct tensor *tensor = tensor_set_find(set, name);
    return tensor ? tensor->data : NULL;
}

void describe_dim(struct call *call, const char *key, const char *tensor, int axis)
{
    const struct tensor *t = tensor_set_find(&call->inputs, tensor);
    if (t && t->rank > axis) {
        problem_set_integer(&call->problem, key, t->dims[axis]);
    }
}
