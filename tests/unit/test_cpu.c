/* labels: smoke ci */
/* Instruction sets: names there and back, what the CPU has, what is chosen when nobody chooses. */
#include "support/support.h"

#include <string.h>

#include "base/cpu.h"
#include "kernel/kernel.h"

static void names_there_and_back(void **state)
{
    (void)state;
    static const char *const names[] = {"scalar", "avx2", "avx512", "avx512bf16", "amx"};
    assert_int_equal(AG_ISA_COUNT, 5);
    for (int isa = 0; isa < AG_ISA_COUNT; ++isa) {
        assert_string_equal(ag_isa_name((enum ag_isa)isa), names[isa]);
        assert_int_equal(ag_isa_by_name(names[isa]), isa);
    }
    assert_int_equal(ag_isa_by_name(""), AG_ISA_COUNT);
    assert_int_equal(ag_isa_by_name("AVX2"), AG_ISA_COUNT);
    assert_int_equal(ag_isa_by_name("avx"), AG_ISA_COUNT);
    assert_int_equal(ag_isa_by_name("avx512bf"), AG_ISA_COUNT);
}

static void every_cpu_has_scalar_and_the_best(void **state)
{
    (void)state;
    assert_true(ag_cpu_has_isa(AG_ISA_SCALAR));
    assert_true(ag_cpu_has_isa(ag_cpu_best_isa()));
    assert_false(ag_cpu_has_isa(AG_ISA_COUNT));
}

static void a_stronger_set_includes_the_weaker(void **state)
{
    (void)state;
    for (int isa = AG_ISA_COUNT - 1; isa > AG_ISA_SCALAR; --isa) {
        if (ag_cpu_has_isa((enum ag_isa)isa)) {
            assert_true(ag_cpu_has_isa((enum ag_isa)(isa - 1)));
        }
    }
}

static void list_names_what_the_cpu_has(void **state)
{
    (void)state;
    char want[64] = "";
    TEST_EACH_ISA (isa) {
        strcat(want, want[0] ? ", " : "");
        strcat(want, ag_isa_name(isa));
    }
    assert_string_equal(ag_cpu_isa_names(), want);
    assert_ptr_equal(ag_cpu_isa_names(), ag_cpu_isa_names());
}

static void every_set_of_the_cpu_has_its_table(void **state)
{
    (void)state;
    for (int isa = 0; isa < AG_ISA_COUNT; ++isa) {
        const struct ag_kernels *table = ag_kernels_for((enum ag_isa)isa);
        assert_int_equal(table != NULL, ag_cpu_has_isa((enum ag_isa)isa));
        if (table) {
            assert_int_equal(table->isa, isa);
            test_configure(1, (enum ag_isa)isa, AG_LIMITS_DOCUMENTED);
            assert_ptr_equal(ag_kernels_current(), table);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_there_and_back),
        cmocka_unit_test(every_cpu_has_scalar_and_the_best),
        cmocka_unit_test(a_stronger_set_includes_the_weaker),
        cmocka_unit_test(list_names_what_the_cpu_has),
        cmocka_unit_test(every_set_of_the_cpu_has_its_table),
    };
    return cmocka_run_group_tests_name("cpu", tests, NULL, NULL);
}
