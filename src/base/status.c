#include "base/status.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { MESSAGE_BYTES = 1024 };

static _Thread_local const char *current_function = "aclgrad";
static _Thread_local char message[MESSAGE_BYTES];
static _Thread_local bool has_message;

const char *ag_status_name(ag_status status)
{
    switch (status) {
#define AG_STATUS_CASE(name, number, text)                                                                           \
    case number:                                                                                                     \
        return #name;
        AG_STATUS_LIST(AG_STATUS_CASE)
#undef AG_STATUS_CASE
    default:
        return NULL;
    }
}

/* The vendor's messages start with such a code: EZ1001 for a bad argument, EZ9999 for an internal error. */
static const char *message_code(ag_status status)
{
    const bool is_internal = status == AG_INNER || status == AG_RUNTIME || status == AG_CREATE_EXECUTOR ||
                             status == AG_ACL_BAD_ALLOC || status == AG_RT_MEMORY_ALLOCATION ||
                             status == AG_RT_NO_STREAM_RESOURCE;
    return is_internal ? "EZ9999" : "EZ1001";
}

void ag_error_enter(const char *function)
{
    current_function = function;
}

ag_status ag_fail(ag_status status, const char *format, ...)
{
    const int used = snprintf(message, sizeof message, "%s: %s: ", message_code(status), current_function);
    const size_t start = used < 0 ? 0 : (size_t)used < sizeof message ? (size_t)used : sizeof message - 1;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message + start, sizeof message - start, format, arguments);
    va_end(arguments);
    has_message = true;
    return status;
}

ag_status ag_fail_again(ag_status status, const char *text)
{
    snprintf(message, sizeof message, "%s", text);
    has_message = true;
    return status;
}

const char *ag_error_peek(void)
{
    return has_message ? message : NULL;
}

const char *ag_error_take(void)
{
    const char *text = ag_error_peek();
    has_message = false;
    return text;
}

void ag_error_clear(void)
{
    has_message = false;
}
