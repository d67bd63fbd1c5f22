#include "report.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "aclgrad/aclgrad.h"
#include "device_tensors.h"

enum { FIRST_STEPS = 5, LINE_EVERY = 50 };

bool report_begin(struct report *report, const char *curve, const struct text *text, const struct model *model)
{
    *report = (struct report){
        .is_terminal = isatty(STDERR_FILENO) == 1, .unigram = text_unigram_entropy(text), .began = device_clock()};
    if (curve) {
        report->curve = fopen(curve, "w");
        if (!report->curve) {
            fprintf(stderr, "train_text: %s: %s\n", curve, strerror(errno));
            return false;
        }
        fprintf(report->curve, "step,loss,divergence,recall,unigram\n");
    }
    const struct model_shape *s = &model->shape;
    printf("aclgrad %s, kernels %s, threads %d\n", aclgrad_version(), aclgrad_get_instruction_set(),
           aclgrad_get_threads());
    printf("text     %lld bytes; guessing by frequency alone costs %.3f nats a byte\n", (long long)text->size,
           report->unigram);
    printf(
        "model    %lld parameters: %lld layers of %lld heads (%lld + %lld rope, %lld key heads), an indexer of %lld "
        "heads (top %lld), %lld experts (top %lld) in %d windows\n\n",
        (long long)model->parameters.size, (long long)s->layers, (long long)s->query_heads, (long long)s->dim,
        (long long)s->rope_dim, (long long)s->key_heads, (long long)s->index_heads, (long long)s->selected,
        (long long)s->experts, (long long)s->topk, WINDOWS);
    fflush(stdout);
    return true;
}

/* Percent of the time that went into a kind of operator, forward and backward. */
static double share(double all, enum operator_kind first, enum operator_kind last)
{
    double seconds = 0;
    for (int kind = (int)first; kind <= (int)last; ++kind) {
        seconds += operator_times[kind].seconds;
    }
    return all > 0 ? 100 * seconds / all : 0;
}

static void tell(struct report *report, int64_t step)
{
    const double all = device_clock() - report->began;
    fprintf(stderr,
            "%sstep %5lld   loss %.3f   %5.1f k tokens/s   recall %.3f   attention %2.0f%%  indexer %2.0f%%  experts "
            "%2.0f%%%s",
            report->is_terminal ? "\r" : "", (long long)step, report->loss, (double)report->tokens / all / 1e3,
            report->recall, share(all, OPERATOR_ATTENTION, OPERATOR_ATTENTION_GRAD),
            share(all, OPERATOR_INDEXER, OPERATOR_INDEXER_GRAD),
            share(all, OPERATOR_PERMUTE, OPERATOR_UNPERMUTE_GRAD), report->is_terminal ? "  " : "\n");
    report->told = device_clock();
}

void report_step(struct report *report, int64_t step, const struct model *model)
{
    const int64_t n = ++report->steps;
    report->tokens += model->tokens;
    const double weight = n < 20 ? 1.0 / (double)n : 0.05;
    report->loss += weight * (model->cross_entropy - report->loss);
    report->recall += weight * (model->recall - report->recall);
    report->divergence += weight * (model->divergence - report->divergence);
    if (n <= FIRST_STEPS) {
        report->first_loss = report->loss;
        report->first_recall = report->recall;
    }
    if (report->curve) {
        fprintf(report->curve, "%lld,%.17g,%.17g,%.17g,%.6f\n", (long long)step, model->cross_entropy,
                model->divergence, model->recall, report->unigram);
    }
    if (report->is_terminal ? device_clock() - report->told > 0.2 : n % LINE_EVERY == 0) {
        tell(report, step);
    }
}

bool report_end(struct report *report, int64_t step, double held_out)
{
    const double all = device_clock() - report->began;
    bool is_written = true;
    if (report->curve) {
        is_written = !ferror(report->curve);
        is_written = fclose(report->curve) == 0 && is_written;
    }
    if (!is_written) {
        fprintf(stderr, "train_text: the curve cannot be written\n");
    }
    if (report->steps > 0) {
        tell(report, step);
    }
    fprintf(stderr, report->is_terminal ? "\n" : "");
    printf("\n%-40s %10s %10s\n", "", "start", "end");
    printf("%-40s %10.3f %10.3f\n", "loss, nats a byte", report->first_loss, report->loss);
    printf("%-40s %10s %10.3f\n", "loss on text held back", "", held_out);
    printf("%-40s %10.3f %10.3f\n", "loss by frequency alone", report->unigram, report->unigram);
    printf("%-40s %10.3f %10.3f\n", "indexer recall", report->first_recall, report->recall);
    printf("\n%-40s %10s %10s %10s\n", "operator", "calls", "us a call", "of time");
    for (int kind = 0; kind < OPERATORS; ++kind) {
        const struct operator_time *time = &operator_times[kind];
        printf("%-40s %10lld %10.0f %9.1f%%\n", time->entry, (long long)time->calls,
               time->calls > 0 ? time->seconds / (double)time->calls * 1e6 : 0, 100 * time->seconds / all);
    }
    printf("\n%lld steps, %.0f seconds\n", (long long)step, all);
    fflush(stdout);
    return is_written;
}
