/* The bits of every golden's outputs, by kernel table, against hashes.txt. They do not depend on compiler, build type,
 * threads or machine; a change of kernels may change them on purpose:
 *
 *     ACLGRAD_GOLDEN_HASHES=write build/tests/test_golden_hashes
 *
 * writes the file again, tables that this machine cannot run as they were; every golden must run. README.md says when that is right. */
#include "golden.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "kernel/kernel.h"

enum { HASH_BYTES = 17, MOST_COLUMNS = 16 }; /* a hash is 16 digits, or "-": never run */

struct hashes {
    char name[GOLDEN_NAME_BYTES];
    char of_table[AG_ISA_COUNT][HASH_BYTES];
};

static struct golden_list listed;
static bool has_run[GOLDEN_MOST]; /* with every table of this machine: all its hashes in computed[] are there */
static struct hashes computed[GOLDEN_MOST], committed[GOLDEN_MOST + 1];
static int committed_count;

static void path_of_hashes(char *path, size_t bytes)
{
    snprintf(path, bytes, "%s/hashes.txt", golden_folder());
}

/* FNV-1a, over one more piece. */
static uint64_t hash_bytes(uint64_t hash, const void *data, int64_t bytes)
{
    for (int64_t at = 0; at < bytes; ++at) {
        hash = (hash ^ ((const uint8_t *)data)[at]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

static const uint64_t no_bytes = UINT64_C(0xcbf29ce484222325);

static uint64_t hash_outputs(const struct tensor_set *outputs)
{
    uint64_t hash = no_bytes;
    for (int i = 0; i < outputs->count; ++i) {
        hash = hash_bytes(hash, outputs->items[i].data, tensor_bytes(&outputs->items[i]));
    }
    return hash;
}

/* --- the CPU's own dot product of bf16 ---------------------------------------------------------------------- */

/* How an instruction adds the terms of a dot product is the CPU's business, and two CPUs may differ. So the results of that
 * one instruction have a line in hashes.txt, too, and where they are not what they were the table's outputs may not be. */
static const char dot_name[] = "(bf16_dot)";

static bool has_own_dot(enum ag_isa isa)
{
    return ag_kernels_for(isa) && ag_kernels_for(isa)->panel_of[AG_ELEM_BF16] == AG_PANEL_BF16;
}

/* One instruction of every lane: one word deep, or one tile. */
static void hash_dot(enum ag_isa isa, char hash[HASH_BYTES])
{
    enum { ROWS = 16, WORDS = 16, MOST_LANES = 64 };
    static uint32_t a[WORDS * MOST_LANES], b[ROWS * WORDS];
    static float c[ROWS * MOST_LANES];
    const struct ag_kernels *kernels = ag_kernels_for(isa);
    struct test_random random = test_random_seed(1);
    for (int i = 0; i < WORDS * MOST_LANES; ++i) {
        a[i] = (uint32_t)ag_f32_to_bf16((float)test_random_normal(&random)) << 16 |
               ag_f32_to_bf16((float)test_random_normal(&random));
    }
    for (int i = 0; i < ROWS * WORDS; ++i) {
        b[i] = a[i * 3 % (WORDS * MOST_LANES)];
    }
    for (int i = 0; i < ROWS * MOST_LANES; ++i) {
        c[i] = (float)test_random_normal(&random);
    }
    const int64_t lanes = kernels->panel[AG_PANEL_BF16].lanes;
    const struct ag_multiply m = {.a = a,
                                  .a_panel_stride = WORDS * lanes,
                                  .b = b,
                                  .b_row_stride = WORDS,
                                  .b_word_stride = 1,
                                  .c = c,
                                  .c_row_stride = lanes,
                                  .rows = ROWS,
                                  .cols = ROWS,
                                  .depth = isa == AG_ISA_AMX ? WORDS : 1,
                                  .accumulate = true};
    kernels->begin_task();
    kernels->panel[AG_PANEL_BF16].multiply(&m);
    kernels->end_task();
    snprintf(hash, HASH_BYTES, "%016" PRIx64, hash_bytes(no_bytes, c, sizeof c));
}

/* --- all goldens -------------------------------------------------------------------------------------------- */

/* The golden's name, one of listed.names, is the state. */
static void test_runs(void **state)
{
    char(*name)[GOLDEN_NAME_BYTES] = *state;
    const int64_t i = name - listed.names;
    struct call call;
    golden_read(*name, &call);
    memcpy(computed[i].name, *name, GOLDEN_NAME_BYTES);
    TEST_EACH_ISA (isa) {
        struct tensor_set outputs;
        golden_run(&call, isa, &outputs);
        snprintf(computed[i].of_table[isa], HASH_BYTES, "%016" PRIx64, hash_outputs(&outputs));
        tensor_set_destroy(&outputs);
    }
    golden_destroy(&call);
    has_run[i] = true;
}

static int count_missing(void)
{
    int missing = 0;
    for (int i = 0; i < listed.count; ++i) {
        missing += !has_run[i];
    }
    return missing;
}

/* The number of the table with this name, or AG_ISA_COUNT. */
static int table_of(const char *name)
{
    int isa = 0;
    while (isa < AG_ISA_COUNT && strcmp(ag_isa_name((enum ag_isa)isa), name) != 0) {
        ++isa;
    }
    return isa;
}

/* The first line names the columns: "golden scalar avx2". Tables that it lacks have no hash. */
static int read_columns(char *line, int *columns)
{
    int count = 0;
    char *rest = NULL, *word = strtok_r(line, " \n", &rest);
    while (word && count < MOST_COLUMNS && (word = strtok_r(NULL, " \n", &rest))) {
        columns[count++] = table_of(word);
    }
    return count;
}

/* The golden's name, then a hash for each of the columns, whose tables are columns[]. */
static void read_row(char *line, const int *columns, int column_count)
{
    struct hashes *h = &committed[committed_count++];
    char *rest = NULL, *word = strtok_r(line, " \n", &rest);
    snprintf(h->name, sizeof h->name, "%s", word ? word : "");
    for (int c = 0; c < column_count && (word = strtok_r(NULL, " \n", &rest)); ++c) {
        if (columns[c] < AG_ISA_COUNT) {
            snprintf(h->of_table[columns[c]], HASH_BYTES, "%s", word);
        }
    }
}

static void read_committed(void)
{
    char path[4096], line[512];
    int columns[MOST_COLUMNS], column_count = 0;
    path_of_hashes(path, sizeof path);
    FILE *file = fopen(path, "r");
    if (file && fgets(line, sizeof line, file)) {
        column_count = read_columns(line, columns);
    }
    while (file && committed_count <= GOLDEN_MOST && fgets(line, sizeof line, file)) {
        read_row(line, columns, column_count);
    }
    if (file) {
        fclose(file);
    }
}

static const char *committed_hash(const char *name, enum ag_isa isa)
{
    for (int i = 0; i < committed_count; ++i) {
        if (strcmp(committed[i].name, name) == 0 && committed[i].of_table[isa][0]) {
            return committed[i].of_table[isa];
        }
    }
    return "-";
}

static bool is_known_dot(enum ag_isa isa)
{
    char hash[HASH_BYTES] = "-";
    if (has_own_dot(isa)) {
        hash_dot(isa, hash);
    }
    return strcmp(hash, committed_hash(dot_name, isa)) == 0;
}

/* The table's number is the state. */
static void test_table(void **state)
{
    const enum ag_isa isa = (enum ag_isa) * (const int *)*state;
    int wrong = 0, unknown = 0;
    if (!ag_cpu_has_isa(isa)) {
        skip();
    }
    if (!is_known_dot(isa)) {
        print_message("%s: this CPU's dot product of bf16 has other bits than that of hashes.txt\n",
                      ag_isa_name(isa));
        skip();
    }
    for (int i = 0; i < listed.count; ++i) {
        const char *want = committed_hash(listed.names[i], isa), *got = computed[i].of_table[isa];
        const bool is_known = strcmp(want, "-") != 0;
        unknown += !is_known;
        if (has_run[i] && is_known && strcmp(got, want) != 0) {
            print_error("%s, %s: the outputs' hash is %s, hashes.txt has %s\n", listed.names[i], ag_isa_name(isa),
                        got, want);
            ++wrong;
        }
    }
    if (unknown > 0) {
        print_message("%s: %d goldens have no hash yet, no machine with this table has written one\n",
                      ag_isa_name(isa), unknown);
        assert_true(isa > AG_ISA_AVX2); /* every machine of the project has the first two */
    }
    if (wrong > 0 && count_missing() > 0) {
        fail_msg("%d goldens have other bits than before, and %d did not run", wrong, count_missing());
    }
    if (wrong > 0) {
        fail_msg("%d goldens have other bits than before. If that is meant (tests/golden/README.md):\n"
                 "ACLGRAD_GOLDEN_HASHES=write test_golden_hashes",
                 wrong);
    }
}

static void test_no_others(void **state)
{
    (void)state;
    assert_int_equal(committed_count, listed.count + 1); /* and dot_name */
}

/* Tables that this machine cannot run keep what they had. */
static void test_write(void **state)
{
    char path[4096];
    (void)state;
    if (count_missing() > 0) {
        fail_msg("%d of %d goldens did not run: hashes.txt is left as it was", count_missing(), listed.count);
    }
    path_of_hashes(path, sizeof path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "%-40s", "golden");
    for (int isa = 0; isa < AG_ISA_COUNT; ++isa) {
        fprintf(file, isa + 1 < AG_ISA_COUNT ? " %-16s" : " %s\n", ag_isa_name((enum ag_isa)isa));
    }
    fprintf(file, "%-40s", dot_name);
    for (int isa = 0; isa < AG_ISA_COUNT; ++isa) {
        char hash[HASH_BYTES];
        snprintf(hash, sizeof hash, "%s", committed_hash(dot_name, (enum ag_isa)isa));
        if (has_own_dot((enum ag_isa)isa)) {
            hash_dot((enum ag_isa)isa, hash);
        }
        fprintf(file, isa + 1 < AG_ISA_COUNT ? " %-16s" : " %s\n", hash);
    }
    for (int i = 0; i < listed.count; ++i) {
        fprintf(file, "%-40s", listed.names[i]);
        for (int isa = 0; isa < AG_ISA_COUNT; ++isa) {
            const char *kept = committed_hash(listed.names[i], (enum ag_isa)isa);
            fprintf(file, " %s", ag_cpu_has_isa((enum ag_isa)isa) ? computed[i].of_table[isa] : kept);
        }
        fprintf(file, "\n");
    }
    assert_int_equal(fclose(file), 0);
}

int main(void)
{
    static int tables[AG_ISA_COUNT];
    static struct CMUnitTest tests[GOLDEN_MOST + AG_ISA_COUNT + 1];
    const char *wish = getenv("ACLGRAD_GOLDEN_HASHES");
    size_t count = 0;
    golden_list_read(&listed, "");
    read_committed();
    for (int i = 0; i < listed.count; ++i) {
        tests[count++] =
            (struct CMUnitTest){.name = listed.names[i], .test_func = test_runs, .initial_state = listed.names[i]};
    }
    if (wish && strcmp(wish, "write") == 0) {
        tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_write);
        return _cmocka_run_group_tests("hashes", tests, count, NULL, NULL);
    }
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_no_others);
    for (int isa = 0; isa < AG_ISA_COUNT; ++isa) {
        tables[isa] = isa;
        tests[count++] = (struct CMUnitTest){
            .name = ag_isa_name((enum ag_isa)isa), .test_func = test_table, .initial_state = &tables[isa]};
    }
    return _cmocka_run_group_tests("hashes", tests, count, NULL, NULL);
}
