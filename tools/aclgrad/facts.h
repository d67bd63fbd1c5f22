/* Helpers for `explain` and `doctor`. */
#ifndef ACLGRAD_FACTS_H
#define ACLGRAD_FACTS_H

#include "call.h"

void add_fact(const struct facts *facts, const char *part, const char *name, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* A plan's description, "a=1 b=2", as one fact each. */
void add_plan_facts(const struct facts *facts, const char *description);

/* Where the parts of a workspace lie that was laid out over memory from workspace_reserve; `at` may be NULL. */
struct workspace_part {
    const char *name;
    const void *at;
};
void add_workspace_facts(const struct facts *facts, uint64_t bytes, const struct workspace_part *parts, int count);

/* Addresses to lay a workspace out over: pages are there when they are touched. NULL when there are none. */
void *workspace_reserve(uint64_t bytes);
void workspace_release(void *memory, uint64_t bytes);

void add_finding(const struct findings *findings, enum severity severity, const char *tensor, const char *code,
                 const char *format, ...) __attribute__((format(printf, 5, 6)));

/* f64 twins of the outputs: for values and bounds. */
bool add_doubles(const struct tensor_set *outputs, struct tensor_set *set);

/* The data of a tensor of the set, NULL when it has none of that name. */
void *tensor_set_data(const struct tensor_set *set, const char *name);

/* Sets an integer key from a dim of an input, when there is such. */
void describe_dim(struct call *call, const char *key, const char *tensor, int axis);

#endif
