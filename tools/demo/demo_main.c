#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "aclgrad/aclgrad.h"
#include "demo.h"

static const struct demo_case *const cases[] = {&demo_attention, &demo_indexer, &demo_moe};
enum { CASES = sizeof cases / sizeof *cases, REPEATS = 3 };

struct outcome {
    aclnnStatus status;
    char message[512];
    double milliseconds; /* best of REPEATS, both phases to synchronisation */
    pthread_t definer;
    aclnnStatus definition; /* of the definition itself */
};

static double now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

static aclnnStatus run_once(const struct demo_case *demo, aclrtStream stream, double *milliseconds)
{
    uint64_t bytes = 0;
    aclOpExecutor *executor = NULL;
    void *workspace = NULL;
    double began = now_ms();
    aclnnStatus status = demo->plan(&bytes, &executor);
    *milliseconds = now_ms() - began;
    if (status != ACL_SUCCESS ||
        (bytes > 0 && aclrtMalloc(&workspace, bytes, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS)) {
        return status != ACL_SUCCESS ? status : ACL_ERROR_BAD_ALLOC;
    }
    began = now_ms();
    status = demo->run(workspace, bytes, executor, stream);
    const aclError synchronised = aclrtSynchronizeStream(stream);
    *milliseconds += now_ms() - began;
    if (workspace) {
        aclrtFree(workspace);
    }
    return status != ACL_SUCCESS ? status : synchronised;
}

static void run_case(const struct demo_case *demo, aclrtStream stream, struct outcome *outcome)
{
    demo->prepare();
    outcome->milliseconds = INFINITY;
    for (int repeat = 0; repeat < REPEATS; ++repeat) {
        double milliseconds = 0;
        outcome->status = run_once(demo, stream, &milliseconds);
        if (outcome->status != ACL_SUCCESS) {
            const char *message = aclGetRecentErrMsg();
            snprintf(outcome->message, sizeof outcome->message, "%s", message ? message : "no message");
            return;
        }
        outcome->milliseconds = fmin(outcome->milliseconds, milliseconds);
    }
}

struct definition {
    const struct demo_case *demo;
    struct outcome *outcome;
};

static void *define(void *context)
{
    const struct definition *definition = context;
    if (definition->outcome->status != ACL_SUCCESS) {
        return NULL;
    }
    definition->outcome->definition = definition->demo->define();
    return NULL;
}

/* Prints the row; true when the result is right. */
static bool print_row(const struct demo_case *demo, const struct outcome *outcome)
{
    printf("%-35s %-53s ", demo->operator_name, demo->problem);
    if (outcome->status != ACL_SUCCESS || outcome->definition != ACL_SUCCESS) {
        printf("%6d  %s\n", outcome->status != ACL_SUCCESS ? outcome->status : outcome->definition, outcome->message);
        return false;
    }
    const char *output = NULL;
    const double worst = demo->worst(&output);
    printf("%-6s %5.3f %-17s %9.2f ms\n", worst <= 1 ? "ok" : "WRONG", worst, output, outcome->milliseconds);
    return worst <= 1;
}

/* All definitions at once, a thread each: they are most of the demo's time. True when every result is right. */
static bool define_and_print(struct outcome outcomes[CASES])
{
    struct definition definitions[CASES];
    bool all_right = true;
    for (int i = 0; i < CASES; ++i) {
        definitions[i] = (struct definition){cases[i], &outcomes[i]};
        if (pthread_create(&outcomes[i].definer, NULL, define, &definitions[i]) != 0) {
            fprintf(stderr, "demo: no thread for a definition\n");
            exit(4);
        }
    }
    for (int i = 0; i < CASES; ++i) {
        pthread_join(outcomes[i].definer, NULL);
        all_right = print_row(cases[i], &outcomes[i]) && all_right;
        fflush(stdout);
    }
    return all_right;
}

int main(void)
{
    struct outcome outcomes[CASES] = {0};
    aclrtStream stream = NULL;
    if (aclInit(NULL) != ACL_SUCCESS || aclrtSetDevice(0) != ACL_SUCCESS ||
        aclrtCreateStream(&stream) != ACL_SUCCESS) {
        const char *message = aclGetRecentErrMsg();
        fprintf(stderr, "demo: %s\n", message ? message : "cannot start");
        return 3;
    }
    printf("aclgrad %s, kernels %s, threads %d\n", aclgrad_version(), aclgrad_get_instruction_set(),
           aclgrad_get_threads());
    printf("Running each operator, then its definition in double (most of the time goes there) ...\n\n");
    fflush(stdout);
    for (int i = 0; i < CASES; ++i) {
        run_case(cases[i], stream, &outcomes[i]);
    }
    printf("%-35s %-53s %-6s %-23s %12s\n", "operator", "problem (bf16)", "status", "worst error / its bound",
           "time");
    const bool all_right = define_and_print(outcomes);
    for (int i = 0; i < CASES; ++i) {
        cases[i]->release();
    }
    printf("\nWorst error: the largest |result - definition| of any element, divided by the most that element may be "
           "off.\n");
    aclrtDestroyStream(stream);
    aclrtResetDevice(0);
    aclFinalize();
    return all_right ? 0 : 1;
}
