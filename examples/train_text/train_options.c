#include "train_options.h"

#include <argp.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "aclgrad/aclgrad.h"

enum { KEY_SEED = 256, KEY_TOKENS, KEY_CURVE, KEY_SAMPLE, KEY_PROMPT, KEY_RESUME, KEY_RATE };

static const struct argp_option table[] = {
    {"text", 't', "PATH", 0, "text to learn: a file, or the files of a directory (/usr/share/common-licenses)", 0},
    {"seconds", 's', "NUMBER", 0, "how long to train (60)", 0},
    {"steps", 'n', "NUMBER", 0, "train up to this step instead, however long it takes", 0},
    {"tokens", KEY_TOKENS, "NUMBER", 0, "bytes in a step, 64 to 65536 (1024)", 0},
    {"rate", KEY_RATE, "NUMBER", 0, "largest learning rate (0.003)", 0},
    {"seed", KEY_SEED, "NUMBER", 0, "of start values and of the order of the text (1)", 0},
    {"threads", 'j', "NUMBER", 0, "threads of the operators; results do not depend on it", 0},
    {"checkpoint", 'c', "FILE", 0, "save here at the end, and on Ctrl-C", 0},
    {"resume", KEY_RESUME, "FILE", 0, "go on from a checkpoint, bit for bit as if there had been no stop", 0},
    {"curve", KEY_CURVE, "FILE", 0, "write step, loss, divergence and recall as CSV", 0},
    {"sample", KEY_SAMPLE, "NUMBER", 0, "bytes to write at the end, 0 to 100000 (300)", 0},
    {"prompt", KEY_PROMPT, "TEXT", 0, "what the sample goes on from", 0},
    {0}};

/* The whole of `text`, within [low, high]; else the program ends. */
static int64_t whole(struct argp_state *state, const char *name, const char *text, int64_t low, int64_t high)
{
    char *end = NULL;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < low || value > high) {
        argp_error(state, "--%s: got '%s', want a whole number from %lld to %lld", name, text, (long long)low,
                   (long long)high);
    }
    return value;
}

static double positive(struct argp_state *state, const char *name, const char *text)
{
    char *end = NULL;
    const double value = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(value) || value <= 0) {
        argp_error(state, "--%s: got '%s', want a number above 0", name, text);
    }
    return value;
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    struct options *options = state->input;
    switch (key) {
    case 't':
        options->text = text;
        return 0;
    case 's':
        options->seconds = positive(state, "seconds", text);
        return 0;
    case 'n':
        options->steps = whole(state, "steps", text, 1, INT32_MAX);
        return 0;
    case 'j':
        options->threads = (int)whole(state, "threads", text, 1, 1024);
        return 0;
    case 'c':
        options->checkpoint = text;
        return 0;
    case KEY_TOKENS:
        options->tokens = whole(state, "tokens", text, 64, 65536);
        return 0;
    case KEY_RATE:
        options->rate = positive(state, "rate", text);
        return 0;
    case KEY_SEED:
        options->seed = (uint64_t)whole(state, "seed", text, 0, INT64_MAX);
        return 0;
    case KEY_RESUME:
        options->resume = text;
        return 0;
    case KEY_CURVE:
        options->curve = text;
        return 0;
    case KEY_SAMPLE:
        options->sample = whole(state, "sample", text, 0, 100000);
        return 0;
    case KEY_PROMPT:
        options->prompt = text;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "'%s': want options only", text);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void print_version(FILE *stream, struct argp_state *state)
{
    (void)state;
    fprintf(stream, "train_text, with aclgrad %s\n", aclgrad_version());
}

void options_parse(int count, char **arguments, struct options *options)
{
    static const struct argp parser = {
        table, parse,
        NULL,  "Trains a small DeepSeek-style language model on text, byte by byte, through the aclnn API alone.",
        NULL,  NULL,
        NULL};
    *options = (struct options){
        .text = "/usr/share/common-licenses",
        .prompt = "This program is ",
        .tokens = 1024,
        .sample = 300,
        .seed = 1,
        .seconds = 60,
        .rate = 0.003,
    };
    argp_err_exit_status = 2;
    argp_program_version_hook = print_version;
    argp_parse(&parser, count, arguments, 0, NULL, options);
}
