/* aclgrad: the command line. `aclgrad help` lists the commands; each is one cmd_*.c. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "acl/acl.h"
#include "cli.h"
#include "options.h"
#include "problem.h"
#include "tensor_file.h"

const struct command commands[] = {
    {"run", command_run, "outputs of a problem or of recorded inputs, into files"},
    {"check", command_check, "the library against the definition, element by element"},
    {"bench", command_bench, "time, rate, and share of what this machine can do"},
    {"explain", command_explain, "what a call would do: plan, workspace, kernels"},
    {"gen", command_gen, "inputs of a problem, into files"},
    {"compare", command_compare, "two tensors or two sets of them, under a tolerance rule"},
    {"replay", command_replay, "a recorded call run again, and its outputs judged"},
    {"doctor", command_doctor, "what is wrong with the inputs of a recorded call"},
    {"info", command_info, "version, kernels, threads, operators, limits, measured peaks"},
    {"help", command_help, "this list, or the problem keys of an operator"},
    {"version", command_version, "the version"},
    {NULL, NULL, NULL}};

/* A mapped file that shrinks under us cannot be read on: say so instead of dying of the signal. */
static void on_bus_error(int signal_number)
{
    static const char text[] = "aclgrad: a file changed while it was read\n";
    (void)signal_number;
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    _exit(CLI_IO);
}

/* As a program of the API begins; a bad ACLGRAD_* variable is told here. */
static bool open_device(void)
{
    if (aclInit(NULL) != 0 || aclrtSetDevice(0) != 0) {
        const char *text = aclGetRecentErrMsg();
        return cli_fail(CLI_USAGE, "%s", text ? text : "the run time does not start");
    }
    return true;
}

static int exit_code; /* of the command that ran */

/* At exit, because argp's --help leaves by exit() too: what could not be written is no success. */
static void check_output(void)
{
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "aclgrad: cannot write the results to standard output\n");
        _exit(exit_code == CLI_OK ? CLI_IO : exit_code);
    }
}

static int call(const struct command *command, int argc, char **argv)
{
    static char name[32];
    snprintf(name, sizeof name, "aclgrad %s", command->name);
    argv[0] = name;
    exit_code = open_device() ? command->run(argc, argv) : cli_report();
    aclrtResetDevice(0);
    aclFinalize();
    return exit_code;
}

static int find_and_call(int argc, char **argv)
{
    const char *names[32] = {NULL};
    int count = 0;
    for (const struct command *command = commands; command->name; ++command) {
        names[count++] = command->name;
        if (strcmp(command->name, argv[0]) == 0) {
            return call(command, argc, argv);
        }
    }
    const char *nearest = nearest_name(argv[0], names);
    cli_fail(CLI_USAGE, "unknown command '%s'%s%s; see aclgrad help", argv[0], nearest ? ", nearest: " : "",
             nearest ? nearest : "");
    return cli_report();
}

int main(int argc, char **argv)
{
    static const struct argp_child children[] = {{&global_argp, 0, "", 10}, {0}};
    static const struct argp argp = {
        NULL,
        NULL,
        "COMMAND [ARGUMENT...]",
        "Operators of the aclnn API on this machine: run, check, measure, compare.\v"
        "`aclgrad help` lists the commands, `aclgrad COMMAND --help` tells more; so does "
        "the manual page, aclgrad(1).",
        children,
        NULL,
        NULL};
    int first = argc;
    signal(SIGBUS, on_bus_error);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* the write fails, is told, and cleans up */
    output_clean_on_signals();
    (void)atexit(check_output);
    argp_err_exit_status = CLI_USAGE;
    if (argc > 1 && strcmp(argv[1], "--version") == 0) {
        argv[1] = "version";
    }
    argp_parse(&argp, argc, argv, ARGP_IN_ORDER, &first, NULL);
    if (first >= argc) {
        command_help(1, (char *[]){"aclgrad help", NULL});
        return exit_code = CLI_USAGE;
    }
    return find_and_call(argc - first, argv + first);
}
