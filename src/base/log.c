#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/config.h"

int ag_is_verbose(unsigned event)
{
    return (ag_config_get().verbose & event) != 0;
}

static void write_line(const char *event, const char *op, const char *format, va_list arguments)
{
    char text[2048];
    vsnprintf(text, sizeof text, format, arguments);
    fprintf(stderr, "aclgrad,%s,%s,%s\n", event, op, text);
}

void ag_report(const char *op, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    write_line("debug", op, format, arguments);
    va_end(arguments);
}

void ag_verbose(unsigned event, const char *op, const char *format, ...)
{
    va_list arguments;
    if (!ag_is_verbose(event)) {
        return;
    }
    va_start(arguments, format);
    write_line(event == AG_VERBOSE_CHECK ? "check" : event == AG_VERBOSE_PLAN ? "plan" : "run", op, format, arguments);
    va_end(arguments);
}
