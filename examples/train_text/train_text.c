/* Trains a small DeepSeek-style language model on real text: every attention, indexer and mixture-of-experts step goes
 * through the aclnn API, forward and backward. README.md of this folder tells what is where. */
#include <signal.h>
#include <stdio.h>

#include "aclgrad/aclgrad.h"
#include "checkpoint.h"
#include "device_tensors.h"
#include "train_options.h"
#include "report.h"
#include "sample.h"

enum { WARM_UP_STEPS = 20, HOLD_STEPS = 300, HELD_OUT_PACKS = 4 };

static volatile sig_atomic_t is_interrupted;

static void interrupt(int signal)
{
    (void)signal;
    is_interrupted = 1;
}

/* The first Ctrl-C or SIGTERM ends training in order, the second ends the program. */
static void catch_interrupt(void)
{
    struct sigaction action = {.sa_handler = interrupt, .sa_flags = SA_RESETHAND | SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* Rises, stays, and falls as one over the square root: a function of the step alone, so that a resumed run has the same. */
static double learning_rate(double most, int64_t step)
{
    const double rise = (double)step / WARM_UP_STEPS, fall = sqrt((double)HOLD_STEPS / (double)step);
    return most * fmin(1, fmin(rise, fall));
}

static void train_step(struct model *model, struct pack *pack, const struct text *text, const struct options *options,
                       int64_t step)
{
    const struct adamw adamw = {learning_rate(options->rate, step), 0.9, 0.98, 0.01, 1};
    pack_draw(pack, text, 0, text->training, options->seed, (uint64_t)step);
    model_forward(model, pack, true);
    model_backward(model, pack);
    parameters_step(&model->parameters, &adamw, step);
    model_balance(model, 0.002);
}

static int64_t train(struct model *model, const struct text *text, const struct options *options, int64_t step,
                     struct report *report)
{
    struct pack pack;
    pack_allocate(&pack, options->tokens);
    while (!is_interrupted &&
           (options->steps > 0 ? step < options->steps : device_clock() - report->began < options->seconds)) {
        train_step(model, &pack, text, options, ++step);
        report_step(report, step, model);
    }
    pack_free(&pack);
    return step;
}

static double held_out_loss(struct model *model, const struct text *text, const struct options *options)
{
    struct pack pack;
    double loss = 0;
    pack_allocate(&pack, options->tokens);
    for (int i = 0; i < HELD_OUT_PACKS; ++i) {
        pack_draw(&pack, text, text->training, text->size, ~options->seed, (uint64_t)i);
        model_forward(model, &pack, true);
        loss += model->cross_entropy / HELD_OUT_PACKS;
    }
    pack_free(&pack);
    return loss;
}

static int run(struct model *model, const struct text *text, const struct options *options)
{
    struct report report;
    struct progress progress = {0, options->seed, checksum(0, text->bytes, (size_t)text->size), options->rate};
    if (options->checkpoint && !checkpoint_try(options->checkpoint)) {
        return 4;
    }
    if (options->resume && !checkpoint_load(options->resume, model, &progress)) {
        return 4;
    }
    if (options->steps > 0 && options->steps <= progress.step) {
        fprintf(stderr, "train_text: %s has %lld steps behind it, --steps %lld leaves none to do\n", options->resume,
                (long long)progress.step, (long long)options->steps);
        return 2;
    }
    if (!report_begin(&report, options->curve, text, model)) {
        return 4;
    }
    progress.step = train(model, text, options, progress.step, &report);
    const bool is_saved = !options->checkpoint || checkpoint_save(options->checkpoint, model, &progress);
    signal(SIGINT, SIG_DFL); /* nothing is left to save */
    signal(SIGTERM, SIG_DFL);
    const bool is_told = report_end(&report, progress.step, held_out_loss(model, text, options));
    if (options->checkpoint && is_saved) {
        printf("saved to %s\n", options->checkpoint);
    }
    if (options->sample > 0 && !is_interrupted) {
        printf("\n%lld bytes by the model:\n\n", (long long)options->sample);
        sample_print(model, options->prompt, options->sample, options->seed);
    }
    const bool is_printed = fflush(stdout) == 0 && !ferror(stdout);
    if (!is_printed) {
        fprintf(stderr, "train_text: standard output cannot be written\n");
    }
    return is_saved && is_told && is_printed ? 0 : 4;
}

int main(int count, char **arguments)
{
    struct options options;
    struct text text;
    struct model model;
    options_parse(count, arguments, &options);
    if (!text_read(options.text, &text)) {
        return 4;
    }
    operators_begin();
    if (options.threads > 0) {
        CHECK(aclgrad_set_threads(options.threads));
    }
    linear_use_one_thread();
    catch_interrupt();
    model_create(&model, &model_small, options.tokens, options.seed);
    const int status = run(&model, &text, &options);
    model_destroy(&model);
    operators_end();
    text_free(&text);
    return status;
}
