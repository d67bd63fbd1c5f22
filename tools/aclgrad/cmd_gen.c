/* aclgrad gen, aclgrad run: tensors into files. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "options.h"
#include "problem_source.h"
#include "recorded.h"
#include "table.h"

enum { KEY_KIND = 1000, KEY_DEFINITION, KEY_ROUNDING };

static struct {
    const char *output, *kind, *rounding;
    bool is_definition;
} given;

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    switch (key) {
    case 'o':
        given.output = text;
        return 0;
    case KEY_KIND:
        given.kind = text;
        return 0;
    case KEY_DEFINITION:
        given.is_definition = true;
        return 0;
    case KEY_ROUNDING:
        given.rounding = text;
        return 0;
    default:
        return parse_call_option(key, text, state);
    }
}

/* --- what was written ------------------------------------------------------------------------------------ */

static void report(const struct tensor_set *set, const char *command)
{
    struct table table;
    char shape[AG_SHAPE_TEXT];
    table_init(&table, "results", "tensor dtype shape bytes");
    for (int i = 0; i < set->count; ++i) {
        const struct tensor *t = &set->items[i];
        table_row(&table, "sssd", t->name, dtype_word(t->dtype), tensor_shape(t, shape), tensor_bytes(t));
    }
    table_print(&table);
    table_finish(command);
}

/* Where the ending of a kind of file that is written begins; NULL: the path is a directory's. */
static const char *file_ending(const char *path)
{
    static const char *const endings[] = {".npz", ".safetensors", ".npy"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; ++i) {
        const size_t length = strlen(path), ending = strlen(endings[i]);
        if (length > ending && strcmp(path + length - ending, endings[i]) == 0) {
            return path + length - ending;
        }
    }
    return NULL;
}

/* "out.txt", "out.NPZ" and "out.npx", but neither "out.d", "run-2.5" nor "out.txt/". */
static bool looks_like_a_file(const char *path)
{
    static const char *const written[] = {"npz", "safetensors", "npy", NULL};
    static const char *const kinds[] = {"txt", "json", "csv", "tsv",     "log", "md",   "yaml", "yml",
                                        "xml", "html", "svg", "png",     "bin", "raw",  "dat",  "data",
                                        "pt",  "pth",  "pkl", "pickle",  "h5",  "hdf5", "ckpt", "zip",
                                        "gz",  "tgz",  "tar", "parquet", NULL};
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
    char ending[16] = "";
    for (size_t i = 0; dot && dot != name && dot[1 + i] && i + 1 < sizeof ending; ++i) {
        ending[i] = (char)tolower((unsigned char)dot[1 + i]);
    }
    for (const char *const *kind = kinds; *kind; ++kind) {
        if (strcmp(*kind, ending) == 0) {
            return true;
        }
    }
    return *ending && nearest_name(ending, written);
}

/* What ends like a file of another kind would become a directory of that name. */
static bool require_output(void)
{
    struct stat status;
    if (!given.output) {
        return cli_fail(CLI_USAGE, "-o is missing: where to write");
    }
    return file_ending(given.output) || !looks_like_a_file(given.output) ||
           (stat(given.output, &status) == 0 && S_ISDIR(status.st_mode)) ||
           cli_fail(CLI_USAGE,
                    "-o %s: no kind of file that is written, want .npz, .safetensors or a directory (for one of this "
                    "name put a / behind it)",
                    given.output);
}

/* --- gen ------------------------------------------------------------------------------------------------- */

static const struct argp_option gen_options[] = {
    {"output", 'o', "PATH", 0, "A directory (NAME.npy each), or a file: .npz, .safetensors", 1},
    {"kind", KEY_KIND, "KIND", 0, "normal, outliers, negative, equal, skewed or poison: replaces the problem's kind",
     1},
    {0}};
static const struct argp gen_argp = {gen_options,
                                     parse_option,
                                     "PROBLEM",
                                     "Writes the inputs of a problem, and call.json with its scalar arguments: what "
                                     "`aclgrad run`, replay and doctor read. The same seed gives the same files.",
                                     NULL,
                                     NULL,
                                     NULL};

static bool is_absent(const char *name, const char *what)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.npy", given.output, name);
    return access(path, F_OK) != 0 || cli_fail(CLI_IO, "%s: %s: remove it, or write elsewhere", path, what);
}

/* Files of an earlier call that this one would leave behind would be read as its inputs, or judged as its outputs. */
static bool has_no_leftovers(const struct call *call)
{
    const struct operation *operation = operation_of(call);
    bool is_good = true;
    for (const char *const *name = operation->inputs; is_good && *name; ++name) {
        is_good = tensor_set_find(&call->inputs, *name) || is_absent(*name, "an input that this call does not have");
    }
    for (const char *const *name = operation->outputs; is_good && *name; ++name) {
        is_good = is_absent(*name, "an output of an earlier call");
    }
    return is_good;
}

/* Interrupted half way, a directory is then no call, rather than an earlier one with some of this one's inputs. */
static bool remove_earlier_notes(void)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/call.json", given.output);
    return unlink(path) == 0 || errno == ENOENT || errno == ENOTDIR ||
           cli_fail(CLI_IO, "%s: cannot replace: %s", path, strerror(errno));
}

int command_gen(int argc, char **argv)
{
    char **operands;
    struct call call = {0};
    options_parse(&gen_argp, argc, argv, 1, 1, &operands);
    bool is_good = require_output() && call_generate_one(operands, given.kind, &call);
    char *notes = is_good ? recorded_notes(&call) : NULL;
    is_good = is_good && has_no_leftovers(&call) && remove_earlier_notes() &&
              tensor_path_write(given.output, &call.inputs, notes);
    if (is_good) {
        report(&call.inputs, "gen");
    }
    free(notes);
    call_destroy(&call);
    free(operands);
    return cli_report();
}

/* --- run ------------------------------------------------------------------------------------------------- */

static const struct argp_option run_options[] = {
    {"output", 'o', "PATH", 0, "A directory (NAME.npy each), or a file: .npz, .safetensors", 1},
    {"definition", KEY_DEFINITION, 0, 0,
     "Instead of the fast result that of the definition, in f64, and beside it PATH.bound with each element's bound",
     1},
    {"rounding", KEY_ROUNDING, "device", 0, "Instead of the fast result one that rounds as the device does", 1},
    {"kind", KEY_KIND, "KIND", 0, "Of a problem string: replaces its kind", 1},
    OPTION_CALL,
    {0}};
static const struct argp run_argp = {
    run_options,
    parse_option,
    "CALL",
    "Computes the outputs of a recorded call (a directory, .npz or .safetensors, see "
    "`aclgrad gen`) or of a problem string, and writes them.",
    NULL,
    NULL,
    NULL};

/* "out", "out/" -> "out.bound"; "out.npz" -> "out.bound.npz". */
static char *bound_path(const char *path)
{
    const char *ending = file_ending(path);
    size_t stem = ending ? (size_t)(ending - path) : strlen(path);
    char *text = malloc(strlen(path) + sizeof ".bound");
    while (stem > 1 && path[stem - 1] == '/') {
        --stem;
    }
    if (text) {
        sprintf(text, "%.*s.bound%s", (int)stem, path, ending ? ending : "");
    }
    return text;
}

/* To the outputs' types, so that what is written looks like the device's. */
static bool narrow(const struct call *call, const struct tensor_set *values, struct tensor_set *outputs)
{
    if (!operation_of(call)->make_outputs(call, outputs)) {
        return false;
    }
    for (int i = 0; i < outputs->count; ++i) {
        for (int64_t at = 0; at < outputs->items[i].elems; ++at) {
            tensor_set(&outputs->items[i], at, tensor_get(&values->items[i], at));
        }
    }
    return true;
}

static bool run_definition(const struct call *call, struct tensor_set *outputs)
{
    struct tensor_set bounds = {0};
    char *path = bound_path(given.output);
    progress_begin("definition", 0);
    bool is_good = operation_of(call)->define(call, outputs, &bounds);
    progress_end();
    is_good = is_good && path && tensor_path_write(path, &bounds, NULL);
    tensor_set_destroy(&bounds);
    free(path);
    return is_good;
}

static bool run_imitation(const struct call *call, struct tensor_set *outputs)
{
    struct tensor_set values = {0};
    if (strcmp(given.rounding, "device") != 0) {
        return cli_fail(CLI_USAGE, "--rounding: got '%s', want device", given.rounding);
    }
    progress_begin("device rounding", 0);
    const bool is_good = operation_of(call)->imitate(call, &values) && narrow(call, &values, outputs);
    progress_end();
    tensor_set_destroy(&values);
    return is_good;
}

static bool read_call(char **operands, struct call *call)
{
    return is_problem_text(operands[0]) ? call_generate_one(operands, given.kind, call)
                                        : recorded_read_whole(operands[0], given_call, call);
}

/* Outputs alone would replace the inputs that they were computed from; only a directory takes both. */
static bool spares_the_call(const char *operand)
{
    struct stat call, output;
    const bool is_same = stat(operand, &call) == 0 && stat(given.output, &output) == 0 && S_ISREG(call.st_mode) &&
                         call.st_dev == output.st_dev && call.st_ino == output.st_ino;
    return !is_same ||
           cli_fail(CLI_USAGE,
                    "-o %s: the outputs would replace the call: write to another file, or record the call in a "
                    "directory, which takes both",
                    given.output);
}

int command_run(int argc, char **argv)
{
    char **operands;
    struct call call = {0};
    struct tensor_set outputs = {0};
    options_parse(&run_argp, argc, argv, 1, 1, &operands);
    bool is_good = require_output() && spares_the_call(operands[0]) && read_call(operands, &call);
    is_good = is_good && (given.is_definition ? run_definition(&call, &outputs)
                          : given.rounding    ? run_imitation(&call, &outputs)
                                              : call_run(&call, &outputs));
    if (is_good && tensor_path_write(given.output, &outputs, NULL)) {
        report(&outputs, "run");
    }
    tensor_set_destroy(&outputs);
    call_destroy(&call);
    free(operands);
    return cli_report();
}
