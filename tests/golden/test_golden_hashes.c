/* The bits of every golden's outputs, by kernel table, against hashes.txt. They do not depend on compiler, build type,
 * threads or machine; a change of kernels may change them on purpose:
 *
 *     ACLGRAD_GOLDEN_HASHES=write build/tests/test_golden_hashes
 *
 * writes the file again, tables that this machine cannot run as they were. README.md says when that is right. */
#include "golden.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HASH_BYTES = 17, MOST_COLUMNS = 16 }; /* a hash is 16 digits, or "-": never run */

struct hashes {
    char name[GOLDEN_NAME_BYTES];
    char of_table[AG_ISA_COUNT][HASH_BYTES];
};

static struct golden_list listed;
static struct hashes computed[GOLDEN_MOST], committed[GOLDEN_MOST];
static int committed_count;

static void path_of_hashes(char *path, size_t bytes)
{
    snprintf(path, bytes, "%s/hashes.txt", golden_folder());
}

/* FNV-1a. */
static uint64_t hash_outputs(const struct tensor_set *outputs)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (int i = 0; i < outputs->count; ++i) {
        const uint8_t *bytes = outputs->items[i].data;
        for (int64_t at = 0; at < tensor_bytes(&outputs->items[i]); ++at) {
            hash = (hash ^ bytes[at]) * UINT64_C(0x100000001b3);
        }
    }
    return hash;
}

static void test_all_run(void **state)
{
    (void)state;
    for (int i = 0; i < listed.count; ++i) {
        struct call call;
        golden_read(listed.names[i], &call);
        memcpy(computed[i].name, listed.names[i], GOLDEN_NAME_BYTES);
        TEST_EACH_ISA (isa) {
            struct tensor_set outputs;
            golden_run(&call, isa, &outputs);
            snprintf(computed[i].of_table[isa], HASH_BYTES, "%016" PRIx64, hash_outputs(&outputs));
            tensor_set_destroy(&outputs);
        }
        golden_destroy(&call);
    }
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
    while (file && committed_count < GOLDEN_MOST && fgets(line, sizeof line, file)) {
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

/* The table's number is the state. */
static void test_table(void **state)
{
    const enum ag_isa isa = (enum ag_isa) * (const int *)*state;
    int wrong = 0;
    if (!ag_cpu_has_isa(isa)) {
        skip();
    }
    for (int i = 0; i < listed.count; ++i) {
        const char *want = committed_hash(listed.names[i], isa), *got = computed[i].of_table[isa];
        if (strcmp(got, want) != 0) {
            print_error("%s, %s: the outputs' hash is %s, hashes.txt has %s\n", listed.names[i], ag_isa_name(isa),
                        got, want);
            ++wrong;
        }
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
    assert_int_equal(committed_count, listed.count);
}

/* Tables that this machine cannot run keep what they had. */
static void test_write(void **state)
{
    char path[4096];
    (void)state;
    path_of_hashes(path, sizeof path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "%-40s", "golden");
    for (int isa = 0; isa < AG_ISA_COUNT; ++isa) {
        fprintf(file, isa + 1 < AG_ISA_COUNT ? " %-16s" : " %s\n", ag_isa_name((enum ag_isa)isa));
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
    struct CMUnitTest tests[AG_ISA_COUNT + 2] = {cmocka_unit_test(test_all_run), cmocka_unit_test(test_no_others)};
    const struct CMUnitTest writing[] = {cmocka_unit_test(test_all_run), cmocka_unit_test(test_write)};
    const char *wish = getenv("ACLGRAD_GOLDEN_HASHES");
    golden_list_read(&listed, "");
    read_committed();
    if (wish && strcmp(wish, "write") == 0) {
        return cmocka_run_group_tests(writing, NULL, NULL);
    }
    for (int isa = 0; isa < AG_ISA_COUNT; ++isa) {
        tables[isa] = isa;
        tests[isa + 2] = (struct CMUnitTest){
            .name = ag_isa_name((enum ag_isa)isa), .test_func = test_table, .initial_state = &tables[isa]};
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
