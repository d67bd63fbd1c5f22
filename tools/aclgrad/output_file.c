/* Written to a temporary name beside the target, renamed when complete: readers see the old file or the whole new one. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "tensor_file.h"

/* --- signals --------------------------------------------------------------------------------------------- */

/* What a signal that ends the program has to remove; one file is written at a time, by one thread. */
static char unfinished[4096];
static volatile sig_atomic_t has_unfinished, is_held, waiting_signal;

static void on_end(int signal_number)
{
    if (is_held) {
        waiting_signal = signal_number;
        return;
    }
    if (has_unfinished) {
        unlink(unfinished);
    }
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

void output_hold_signals(void)
{
    is_held = 1;
}

void output_release_signals(void)
{
    is_held = 0;
    if (waiting_signal) {
        raise(waiting_signal);
    }
}

/* A signal that is ignored (nohup) stays so. */
void output_clean_on_signals(void)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; ++i) {
        if (signal(ends[i], on_end) == SIG_IGN) {
            signal(ends[i], SIG_IGN);
        }
    }
}

/* The name is made and noted as one step for signals. */
static int open_temporary(char *temporary)
{
    output_hold_signals();
    const int descriptor = mkstemp(temporary);
    const int error = errno;
    has_unfinished = descriptor >= 0 && strlen(temporary) < sizeof unfinished;
    if (has_unfinished) {
        strcpy(unfinished, temporary);
    }
    output_release_signals();
    errno = error;
    return descriptor;
}

/* --- files ----------------------------------------------------------------------------------------------- */

/* A device, a pipe, a terminal, this program's own output under another name: written as it stands, since a file put in its
 * place would be the end of it (/dev/null). -1: none of these. */
static int open_stream(const char *path)
{
    struct stat target, own;
    if (stat(path, &target) != 0 || S_ISDIR(target.st_mode)) {
        return -1;
    }
    for (int stream = STDOUT_FILENO; stream <= STDERR_FILENO; ++stream) {
        if (fstat(stream, &own) == 0 && own.st_dev == target.st_dev && own.st_ino == target.st_ino) {
            return dup(stream);
        }
    }
    return S_ISREG(target.st_mode) ? -1 : open(path, O_WRONLY);
}

bool output_open(struct output_file *file, const char *path)
{
    static const char suffix[] = ".XXXXXX";
    *file = (struct output_file){.path = strdup(path), .descriptor = -1};
    file->temporary = malloc(strlen(path) + sizeof suffix);
    if (!file->path || !file->temporary) {
        output_cancel(file);
        return cli_fail(CLI_IO, "%s: out of memory", path);
    }
    file->descriptor = open_stream(path);
    file->temporary[0] = 0;
    if (file->descriptor >= 0) {
        return true;
    }
    sprintf(file->temporary, "%s%s", path, suffix);
    file->descriptor = open_temporary(file->temporary);
    if (file->descriptor < 0) {
        cli_fail(CLI_IO, "%s: cannot write: %s", path, strerror(errno));
        output_cancel(file);
        return false;
    }
    return true;
}

bool output_write(struct output_file *file, const void *data, size_t bytes)
{
    const char *from = data;
    while (bytes > 0) {
        const ssize_t written = write(file->descriptor, from, bytes);
        if (written < 0 && errno != EINTR) {
            return cli_fail(CLI_IO, "%s: cannot write: %s", file->path, strerror(errno));
        }
        from += written > 0 ? written : 0;
        bytes -= written > 0 ? (size_t)written : 0;
    }
    return true;
}

bool output_close(struct output_file *file)
{
    const bool is_file = file->temporary[0] != 0;
    const mode_t mask = umask(0);
    umask(mask);
    const bool is_good = (!is_file || fchmod(file->descriptor, 0666 & ~mask) == 0) && close(file->descriptor) == 0 &&
                         (!is_file || rename(file->temporary, file->path) == 0);
    file->descriptor = -1;
    if (!is_good) {
        cli_fail(CLI_IO, "%s: cannot write: %s", file->path, strerror(errno));
    } else {
        file->temporary[0] = 0;
    }
    output_cancel(file);
    return is_good;
}

void output_cancel(struct output_file *file)
{
    if (file->descriptor >= 0) {
        close(file->descriptor);
    }
    if (file->temporary && file->temporary[0]) {
        unlink(file->temporary);
    }
    has_unfinished = 0;
    free(file->temporary);
    free(file->path);
    *file = (struct output_file){.descriptor = -1};
}

bool output_text(const char *path, const char *text)
{
    struct output_file file;
    if (!output_open(&file, path)) {
        return false;
    }
    const bool is_good = output_write(&file, text, strlen(text)) && output_close(&file);
    output_cancel(&file);
    return is_good;
}
