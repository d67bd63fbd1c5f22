#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/config.h"

int ag_is_verbose(unsigned event)
{
    return (ag_config_get().verbose & event) != 0;
}

void ag_verbose(unsigned event, const char *op, const char *format, ...)
{
    char text[2048];
    va_list arguments;
    if (!ag_is_verbose(event)) {
        return;
    }
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const char *name = event == AG_VERBOSE_CHECK ? "check" : event == AG_VERBOSE_PLAN ? "plan" : "run";
    fprintf(stderr, "aclgrad,%s,%s,%s\n", name, op, text);
}
