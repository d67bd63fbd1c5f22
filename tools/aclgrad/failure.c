#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"

enum { TEXT_BYTES = 1024 };
static _Thread_local char failure_text[TEXT_BYTES];
static _Thread_local enum cli_exit failure_code;

bool(cli_fail)(enum cli_exit code, const char *format, ...)
{
    if (failure_code == CLI_OK) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(failure_text, sizeof failure_text, format, arguments);
        va_end(arguments);
        failure_code = code;
    }
    return false;
}

bool(cli_fail_in)(const char *format, ...)
{
    char where[TEXT_BYTES / 2];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(where, sizeof where - 2, format, arguments);
    va_end(arguments);
    const size_t length = strlen(where), shift = length + 2;
    memcpy(where + length, ": ", 3);
    memmove(failure_text + shift, failure_text, sizeof failure_text - shift);
    memcpy(failure_text, where, shift);
    failure_text[TEXT_BYTES - 1] = 0;
    return false;
}

const char *cli_failure(void)
{
    return failure_code == CLI_OK ? "" : failure_text;
}

void cli_forgive(void)
{
    failure_code = CLI_OK;
}

int cli_report(void)
{
    const int code = failure_code;
    if (code != CLI_OK) {
        fflush(stdout);
        fprintf(stderr, "aclgrad: %s\n", failure_text);
    }
    failure_code = CLI_OK;
    return code;
}

void cli_say(const char *format, ...)
{
    if (!cli.is_quiet) {
        va_list arguments;
        fflush(stdout);
        va_start(arguments, format);
        vfprintf(stderr, format, arguments);
        va_end(arguments);
        fputc('\n', stderr);
    }
}
