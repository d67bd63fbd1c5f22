#include "golden.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "recorded.h"

/* --- folder and list ------------------------------------------------------------------------------------- */

const char *golden_folder(void)
{
    const char *folder = getenv("ACLGRAD_GOLDEN_DIR");
    return folder ? folder : GOLDEN_DIR;
}

void golden_list_read(struct golden_list *list, const char *prefix)
{
    char path[4096], line[512];
    snprintf(path, sizeof path, "%s/index.txt", golden_folder());
    FILE *file = fopen(path, "r");
    list->count = 0;
    while (file && list->count < GOLDEN_MOST && fgets(line, sizeof line, file)) {
        if (strncmp(line, prefix, strlen(prefix)) == 0) {
            sscanf(line, "%95s", list->names[list->count++]);
        }
    }
    if (file) {
        fclose(file);
    }
    if (list->count == 0) {
        fail_msg("%s: missing, or lists no golden", path);
    }
}

/* Goldens in the operator's folder that the list lacks. */
static void find_unlisted(const struct golden_list *list, const char *operator)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", golden_folder(), operator);
    DIR *directory = opendir(path);
    assert_non_null(directory);
    for (struct dirent *entry; (entry = readdir(directory));) {
        char name[GOLDEN_NAME_BYTES + 256];
        snprintf(name, sizeof name, "%s/%s", operator, entry->d_name);
        char *ending = strstr(name, ".npz");
        bool is_listed = !ending;
        if (ending) {
            *ending = 0;
        }
        for (int i = 0; i < list->count && !is_listed; ++i) {
            is_listed = strcmp(list->names[i], name) == 0;
        }
        if (!is_listed) {
            closedir(directory);
            fail_msg("%s.npz is not in index.txt", name);
        }
    }
    closedir(directory);
}

/* --- one call -------------------------------------------------------------------------------------------- */

static void must(bool is_good, const char *name)
{
    if (!is_good) {
        char text[512];
        snprintf(text, sizeof text, "%s", cli_failure());
        cli_forgive(); /* the next golden fails with its own message */
        fail_msg("%s: %s", name, text);
    }
}

void golden_read(const char *name, struct call *call)
{
    char path[4096];
    struct tensor_set outputs = {0};
    snprintf(path, sizeof path, "%s/%s.npz", golden_folder(), name);
    cli.is_quiet = true;
    ag_config_set_limits(strstr(name, "extended") ? AG_LIMITS_EXTENDED : AG_LIMITS_DOCUMENTED);
    must(recorded_read_whole(path, NULL, call) && operation_of(call)->make_outputs(call, &outputs), name);
    for (int i = 0; i < outputs.count; ++i) {
        const struct tensor *golden = tensor_set_find(&call->recorded, outputs.items[i].name);
        if (outputs.items[i].elems > 0 && (!golden || golden->dtype != AG_DOUBLE || golden->elems == 0)) {
            fail_msg("%s: no gradient for %s", name, outputs.items[i].name);
        }
        assert_true(!golden || golden->elems == outputs.items[i].elems);
    }
    assert_true(call->recorded.count > 0);
    tensor_set_destroy(&outputs);
}

void golden_destroy(struct call *call)
{
    ag_config_set_limits(AG_LIMITS_DOCUMENTED);
    call_destroy(call);
}

void golden_run(const struct call *call, enum ag_isa isa, struct tensor_set *outputs)
{
    const enum ag_isa before = ag_config_get().isa;
    struct ready_call ready = {0};
    memset(outputs, 0, sizeof *outputs);
    must(operation_of(call)->make_outputs(call, outputs), "outputs");
    for (int i = 0; i < outputs->count; ++i) {
        memset(outputs->items[i].data, 0xff, (size_t)tensor_bytes(&outputs->items[i]));
    }
    ag_config_set_isa(isa);
    ag_config_set_threads(1); /* so small a call gains nothing from more, and on a busy machine waits for them */
    must(operation_of(call)->prepare(call, outputs, &ready) && ready_call_run(&ready), ag_isa_name(isa));
    ready_call_release(&ready);
    ag_config_set_isa(before);
}

/* --- comparison ------------------------------------------------------------------------------------------ */

/* Double arithmetic, and sums of at most a few hundred terms that may cancel. */
static const double relative_to_element = 1e-10, relative_to_largest = 1e-13;

static double largest_of(const struct tensor *tensor)
{
    double largest = 0;
    for (int64_t i = 0; i < tensor->elems; ++i) {
        largest = fmax(largest, fabs(tensor_get(tensor, i)));
    }
    return largest;
}

/* got, want and bound of one element. */
static void judge(const char *name, const char *who, const struct tensor *tensor, int64_t at, const double numbers[3])
{
    const double got = numbers[0], want = numbers[1], bound = numbers[2];
    const bool is_same = got == want || (isnan(got) && isnan(want));
    if (!is_same && !(fabs(got - want) <= bound)) {
        char shape[AG_SHAPE_TEXT];
        fail_msg("%s: %s: %s%s, element %lld: got %.17g, golden %.17g, bound %.3g", name, who, tensor->name,
                 tensor_shape(tensor, shape), (long long)at, got, want, bound);
    }
}

static void check_definition(const char *name, const struct tensor *value, const struct tensor *golden,
                             const struct tensor *output, golden_round *round)
{
    const double largest = largest_of(golden);
    assert_int_equal(value->elems, golden->elems);
    for (int64_t i = 0; i < golden->elems; ++i) {
        const double exact = tensor_get(golden, i), want = round ? round(output, exact) : exact;
        const double bound = want == exact ? relative_to_element * fabs(want) + relative_to_largest * largest : 0;
        judge(name, "the definition", value, i, (double[3]){tensor_get(value, i), want, bound});
    }
}

static void check_output(const char *name, enum ag_isa isa, const struct tensor *output, const struct tensor *golden,
                         const struct tensor *bound, golden_round *round)
{
    for (int64_t i = 0; i < golden->elems; ++i) {
        const double exact = tensor_get(golden, i);
        judge(name, ag_isa_name(isa), output, i,
              (double[3]){tensor_get(output, i), round ? round(output, exact) : exact, tensor_get(bound, i)});
    }
}

static void check_golden(const char *name, const struct call *call, golden_round *round)
{
    struct tensor_set values = {0}, bounds = {0}, outputs = {0};
    must(operation_of(call)->define(call, &values, &bounds) && operation_of(call)->make_outputs(call, &outputs),
         name);
    for (int i = 0; i < call->recorded.count; ++i) {
        const struct tensor *golden = &call->recorded.items[i];
        check_definition(name, tensor_set_find(&values, golden->name), golden,
                         tensor_set_find(&outputs, golden->name), round);
    }
    tensor_set_destroy(&outputs);
    TEST_EACH_ISA (isa) {
        golden_run(call, isa, &outputs);
        for (int i = 0; i < call->recorded.count; ++i) {
            const struct tensor *golden = &call->recorded.items[i];
            check_output(name, isa, tensor_set_find(&outputs, golden->name), golden,
                         tensor_set_find(&bounds, golden->name), round);
        }
        tensor_set_destroy(&outputs);
    }
    tensor_set_destroy(&values);
    tensor_set_destroy(&bounds);
}

/* --- the program ----------------------------------------------------------------------------------------- */

static const struct golden_program *running;
static struct golden_list listed;

static struct golden_combination combinations[GOLDEN_MOST];
static int combination_count;

static void note_combinations(const struct call *call)
{
    for (int c = 0; c < combination_count; ++c) {
        struct golden_combination *one = &combinations[c];
        one->is_shown = one->is_shown && one->is_shown(call, one->a, one->b) ? NULL : one->is_shown;
    }
}

static void test_golden(void **state)
{
    struct call call;
    golden_read(*state, &call);
    note_combinations(&call);
    check_golden(*state, &call, running->round);
    golden_destroy(&call);
}

static void test_files_are_listed(void **state)
{
    (void)state;
    find_unlisted(&listed, running->operator);
}

/* After all goldens have been read. */
static void test_combinations_are_shown(void **state)
{
    (void)state;
    for (int c = 0; c < combination_count; ++c) {
        if (combinations[c].is_shown) {
            fail_msg("no golden with %s: %lld, %lld", combinations[c].text, (long long)combinations[c].a,
                     (long long)combinations[c].b);
        }
    }
    assert_true(combination_count > 0);
}

int golden_main(const struct golden_program *program)
{
    static struct CMUnitTest tests[GOLDEN_MOST + 2];
    char prefix[GOLDEN_NAME_BYTES];
    running = program;
    snprintf(prefix, sizeof prefix, "%s/", program->operator);
    golden_list_read(&listed, prefix);
    combination_count = program->list_combinations(combinations);
    for (int i = 0; i < listed.count; ++i) {
        tests[i] =
            (struct CMUnitTest){.name = listed.names[i], .test_func = test_golden, .initial_state = listed.names[i]};
    }
    tests[listed.count] = (struct CMUnitTest)cmocka_unit_test(test_files_are_listed);
    tests[listed.count + 1] = (struct CMUnitTest)cmocka_unit_test(test_combinations_are_shown);
    return _cmocka_run_group_tests(program->operator, tests, (size_t)listed.count + 2, NULL, NULL);
}
