/* labels: smoke ci */
/* aclnnLightningIndexerGrad against the definition, with a bound for every element: every kernel table, element type,
 * layout, sparse mode and kind of view; odd numbers of heads, slots, rows and keys. */
#include <stdio.h>

#include "support/indexer.h"

static const int dtypes[] = {AG_BF16, AG_FLOAT16, AG_FLOAT};

static void verify(struct indexer_case c, enum ag_isa isa)
{
    struct indexer_call call;
    test_configure(2, isa, c.dtype == AG_FLOAT ? AG_LIMITS_EXTENDED : AG_LIMITS_DOCUMENTED);
    indexer_call_create(&call, &c);
    indexer_call_verify(&call);
    indexer_call_destroy(&call);
}

static void verify_everywhere(struct indexer_case c)
{
    TEST_EACH_ISA(isa) {
        for (int t = 0; t < 3; ++t) {
            c.dtype = dtypes[t];
            c.seed += 1;
            verify(c, isa);
        }
    }
}

static void test_one_row(void **state)
{
    (void)state;
    verify_everywhere((struct indexer_case){.is_packed = true, .q_len = {1}, .kv_len = {5}, .heads = 3, .topk = 4});
}

static void test_heads(void **state)
{
    static const int64_t heads[] = {1, 2, 3, 7, 8, 17, 33, 63, 64};
    (void)state;
    for (int i = 0; i < 9; ++i) {
        verify_everywhere((struct indexer_case){.is_packed = true,
                                                .q_len = {3, 2},
                                                .kv_len = {20, 9},
                                                .heads = heads[i],
                                                .topk = 19,
                                                .indices = TEST_INDICES_WILD});
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_row),
        cmocka_unit_test(test_heads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
