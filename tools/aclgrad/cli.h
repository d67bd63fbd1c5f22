/* What all commands share: options, exit codes, talk.
 *
 *   stdout   results, in one of three forms (table.h); nothing else
 *   stderr   talk: errors, notes, the progress bar
 *
 * A function that can fail returns bool; the one that first knows the cause calls cli_fail, everyone above forwards
 * the false. The command's end turns it into text and exit code with cli_report. */
#ifndef ACLGRAD_CLI_H
#define ACLGRAD_CLI_H

#include <stdbool.h>
#include <stdint.h>

enum cli_exit {
    CLI_OK = 0,
    CLI_CHECK_FAILED = 1, /* a comparison said no, or there was nothing to compare */
    CLI_USAGE = 2,        /* the command line or a problem string is wrong */
    CLI_REJECTED = 3,     /* the library refused the call: its status and message are printed */
    CLI_IO = 4            /* a file cannot be read, is damaged, or cannot be written */
};

enum cli_format { CLI_TEXT, CLI_JSON, CLI_CSV };

struct cli_options {
    enum cli_format format;
    uint64_t seed;
    uint64_t max_bytes; /* the most that one tensor file may unpack to */
    bool is_quiet;
};
extern struct cli_options cli;

/* Sets this thread's failure, "aclgrad: <text>", and returns false. The first since the last report stays. */
bool cli_fail(enum cli_exit code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts "<text>: " before the failure's text: "dq.npy: " for what is wrong in it. Returns false. */
bool cli_fail_in(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Both always return false; so that compilers and the analyzer see it too: */
static inline bool cli_false(bool told)
{
    (void)told;
    return false;
}
#define cli_fail(...)    cli_false(cli_fail(__VA_ARGS__))
#define cli_fail_in(...) cli_false(cli_fail_in(__VA_ARGS__))

/* The failure's text, or "" without one; and forgets it. For tests of readers. */
const char *cli_failure(void);
void cli_forgive(void);

/* Prints the failure on stderr, forgets it, returns its exit code. */
int cli_report(void);

/* The word for one of them or for more: "row sees", "rows see"; plural: "" or "s". */
static inline const char *word_for(int64_t count, const char *one, const char *more)
{
    return count == 1 ? one : more;
}
static inline const char *plural(int64_t count)
{
    return word_for(count, "", "s");
}

/* A line on stderr, unless --quiet. */
void cli_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* --- progress, on a terminal, from the second second on (progress.c) ------------------------------------- */

/* `total` steps, or 0 when nobody knows: then the time that has passed is shown. */
void progress_begin(const char *what, int64_t total);
void progress_step(int64_t steps); /* any thread */
void progress_end(void);

/* --- commands -------------------------------------------------------------------------------------------- */

struct command {
    const char *name;
    int (*run)(int argc, char **argv); /* argv[0] is "aclgrad <name>"; returns an exit code */
    const char *summary;               /* one line of `aclgrad help` */
};
extern const struct command commands[]; /* ends with a null name */

int command_info(int argc, char **argv);
int command_gen(int argc, char **argv);
int command_run(int argc, char **argv);
int command_check(int argc, char **argv);
int command_explain(int argc, char **argv);
int command_bench(int argc, char **argv);
int command_compare(int argc, char **argv);
int command_replay(int argc, char **argv);
int command_doctor(int argc, char **argv);
int command_help(int argc, char **argv);
int command_version(int argc, char **argv);

#endif
