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
    char line[2048];
    int used = snprintf(line, sizeof line, "aclgrad,%s,%s,", event, op);
    used += vsnprintf(line + used, sizeof line - (size_t)used, format, arguments);
    const size_t length = (size_t)used < sizeof line - 1 ? (size_t)used : sizeof line - 2; /* room for the end */
    line[length] = '\n';
    fwrite(line, 1, length + 1, stderr); /* stderr has no buffer: one call is one write, which is not torn */
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
    write_line(event == AG_VERBOSE_CHECK  ? "check"
               : event == AG_VERBOSE_PLAN ? "plan"
                                          : "run",
               op, format, arguments);
    va_end(arguments);
}
