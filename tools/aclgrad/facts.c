#include "facts.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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
    for (char *pair = strtok(text, " "); pair; pair = strtok(NULL, " ")) {
        char *equals = strchr(pair, '=');
        if (equals) {
            *equals = 0;
        }
        facts->add(facts->context, "plan", pair, equals ? equals + 1 : "");
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
