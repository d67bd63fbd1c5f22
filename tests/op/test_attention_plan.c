/* labels: smoke ci */
/* Attention's plan: tiles, splits, gaps and workspace as functions of the problem. No tensor is needed: a plan reads
 * sizes only. */
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

#include "op/attention/attention_plan.h"

enum { MODE_ALL = 1, MODE_CAUSAL_LEFT = 2, MODE_CAUSAL_RIGHT = 3, MODE_BAND = 4, MODE_PREFIX = 6 };

#define MIB ((uint64_t)1 << 20)

/* What a plan depends on. */
struct shape {
    int64_t query_heads, key_heads, dim, rope_dim, value_dim;
    enum ag_elem elem;
};

static const struct shape plain = {1, 1, 64, 0, 64, AG_ELEM_BF16};
static const struct shape layer = {8, 8, 128, 64, 128, AG_ELEM_F32};

static struct attention_problem make_problem(const struct shape *shape, const struct attention_sequence *sequences,
                                             int64_t count)
{
    struct attention_problem problem = {.elem = shape->elem,
                                        .query_heads = shape->query_heads,
                                        .key_heads = shape->key_heads,
                                        .group = shape->query_heads / shape->key_heads,
                                        .dim = shape->dim,
                                        .rope_dim = shape->rope_dim,
                                        .value_dim = shape->value_dim,
                                        .has_rope = shape->rope_dim > 0,
                                        .sequence_count = count,
                                        .sequences = sequences,
                                        .softmax_layout = AG_SOFTMAX_CANN};
    for (int64_t s = 0; s < count; ++s) {
        const int64_t query_end = sequences[s].query_begin + sequences[s].query_len;
        const int64_t key_end = sequences[s].key_begin + sequences[s].key_len;
        problem.query_rows = query_end > problem.query_rows ? query_end : problem.query_rows;
        problem.key_rows = key_end > problem.key_rows ? key_end : problem.key_rows;
    }
    return problem;
}

static struct attention_sequence one_sequence(int64_t query_len, int64_t key_len, int64_t mode, int64_t pre,
                                              int64_t next)
{
    struct attention_sequence sequence = {.query_len = query_len, .key_len = key_len};
    attention_set_intervals(&sequence, 1, mode, pre, next, NULL, 0);
    return sequence;
}

/* An adopted plan; destroy_plan frees its tables. */
struct adopted {
    struct attention_plan plan;
    void *tables;
};

static struct adopted adopt(const struct attention_problem *problem)
{
    struct adopted adopted;
    assert_int_equal(attention_make_plan(problem, &adopted.plan), AG_OK);
    adopted.tables = malloc(adopted.plan.table_bytes + 1);
    attention_adopt_plan(&adopted.plan, adopted.tables);
    return adopted;
}

static struct adopted adopt_one(const struct shape *shape, const struct attention_sequence *sequence)
{
    const struct attention_problem problem = make_problem(shape, sequence, 1);
    return adopt(&problem);
}

/* --- tiles ---------------------------------------------------------------------------------------------- */

static int64_t window_tiles(int64_t length, int64_t pre, int64_t next)
{
    const struct attention_sequence sequence = one_sequence(length, length, MODE_BAND, pre, next);
    const struct attention_problem problem = make_problem(&plain, &sequence, 1);
    struct attention_plan plan;
    assert_int_equal(attention_make_plan(&problem, &plan), AG_OK);
    return plan.tile_count;
}

/* Case 31: a window's work grows with S * W. */
static void work_of_a_window_is_proportional_to_the_length(void **state)
{
    static const int64_t windows[][2] = {{127, 0}, {128, 0}, {64, 63}, {64, 64}, {0, 127}};
    (void)state;
    for (size_t w = 0; w < sizeof windows / sizeof *windows; ++w) {
        const int64_t shorter = window_tiles(16384, windows[w][0], windows[w][1]);
        const int64_t longer = window_tiles(32768, windows[w][0], windows[w][1]);
        assert_int_equal(longer, 2 * shorter);
        assert_true(longer <= 32768 * (128 + 2 * ATTENTION_TILE) / (ATTENTION_TILE * ATTENTION_TILE));
    }
}

/* Pairs of a row tile and a key tile with a visible (row, column) between them. */
static int64_t count_slowly(const struct attention_sequence *sequence)
{
    int64_t count = 0;
    for (int64_t key_tile = 0; key_tile <= attention_key_tile_of(sequence->key_len - 1); ++key_tile) {
        const struct attention_columns keys = attention_key_tile(sequence, key_tile);
        int64_t last_row_tile = -1;
        for (int64_t row = 0; row < sequence->query_len; ++row) {
            const struct attention_columns columns = attention_visible_columns(sequence, row);
            const bool sees = columns.begin < keys.end && columns.end > keys.begin && columns.begin < columns.end;
            if (sees && row / ATTENTION_TILE != last_row_tile) {
                last_row_tile = row / ATTENTION_TILE;
                ++count;
            }
        }
    }
    return count;
}

static void tiles_are_those_that_see_something(void **state)
{
    static const int64_t modes[] = {MODE_ALL, MODE_CAUSAL_LEFT, MODE_CAUSAL_RIGHT, MODE_BAND, MODE_PREFIX};
    struct test_random random = test_random_seed(3);
    (void)state;
    for (int i = 0; i < 200; ++i) {
        struct attention_sequence sequence = {.query_len = test_random_between(&random, 1, 1500),
                                              .key_len = test_random_between(&random, 1, 1500)};
        const int64_t pre = test_random_between(&random, -200, 600);
        const int64_t next = test_random_between(&random, 1 - pre, 900), prefix = test_random_below(&random, 1500);
        attention_set_intervals(&sequence, 1, modes[i % 5], pre, next, &prefix, 1);
        assert_int_equal(attention_sequence_tile_count(&sequence), count_slowly(&sequence));
    }
}

static void key_tiles_cover_the_keys_once(void **state)
{
    (void)state;
    for (int64_t length = 1; length < 1200; length += 7) {
        const struct attention_sequence sequence = one_sequence(1, length, MODE_ALL, 0, 0);
        int64_t covered = 0;
        for (int64_t tile = 0; tile <= attention_key_tile_of(length - 1); ++tile) {
            const struct attention_columns keys = attention_key_tile(&sequence, tile);
            assert_int_equal(keys.begin, covered);
            assert_true(keys.end > keys.begin && keys.end - keys.begin <= ATTENTION_TILE);
            assert_int_equal(attention_key_tile_of(keys.begin), tile);
            assert_int_equal(attention_key_tile_of(keys.end - 1), tile);
            covered = keys.end;
        }
        assert_int_equal(covered, length);
    }
}

/* --- splits --------------------------------------------------------------------------------------------- */

static void check_positions(const struct attention_plan *plan, const struct attention_work *work)
{
    const struct attention_sequence *sequence = &plan->problem.sequences[work->sequence];
    const int64_t row_tiles = attention_row_tiles(sequence), group = plan->problem.group;
    int64_t covered = 0;
    for (int64_t split = 0; split < work->splits; ++split) {
        const struct attention_columns positions = attention_split_positions(plan, work, split);
        int64_t tiles = 0;
        assert_int_equal(positions.begin, covered);
        for (int64_t p = positions.begin; p < positions.end; ++p) {
            tiles += attention_row_tile_count(sequence, p % row_tiles);
        }
        /* a fair share, give or take the tiles of one row tile */
        assert_true(llabs(tiles - work->tiles * group / work->splits) <= sequence->key_len / ATTENTION_TILE + 2);
        covered = positions.end;
    }
    assert_int_equal(covered, group * row_tiles);
}

static void splits_share_the_rows(void **state)
{
    static const struct shape shapes[] = {
        {1, 1, 64, 0, 64, AG_ELEM_F32}, {6, 2, 64, 0, 64, AG_ELEM_F32}, {16, 1, 128, 64, 128, AG_ELEM_BF16}};
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
        const struct attention_sequence sequence = one_sequence(4000, 3900, MODE_CAUSAL_RIGHT, 0, 0);
        struct adopted adopted = adopt_one(&shapes[i], &sequence);
        assert_true(adopted.plan.tables.works[0].splits > 1);
        check_positions(&adopted.plan, &adopted.plan.tables.works[0]);
        free(adopted.tables);
    }
}

/* Three long sequences among short and empty ones: how each is cut is what it is for the sequence alone, for any
 * number of threads. */
static void splits_depend_on_the_sequence_alone(void **state)
{
    static const int64_t lengths[] = {3000, 5, 0, 4096, 1, 2500, 64};
    enum { COUNT = sizeof lengths / sizeof *lengths };
    struct attention_sequence pack[COUNT] = {{0}};
    int64_t rows = 0;
    (void)state;
    for (int s = 0; s < COUNT; ++s) {
        pack[s] = one_sequence(lengths[s], lengths[s], MODE_CAUSAL_LEFT, 0, 0);
        pack[s].query_begin = pack[s].key_begin = rows;
        rows += lengths[s];
    }
    const struct attention_problem problem = make_problem(&plain, pack, COUNT);
    test_configure(7, ag_cpu_best_isa(), AG_LIMITS_DOCUMENTED);
    struct adopted packed = adopt(&problem);
    test_configure(1, ag_cpu_best_isa(), AG_LIMITS_DOCUMENTED);
    assert_int_equal(packed.plan.work_count, COUNT - 1);
    for (int64_t w = 0; w < packed.plan.work_count; ++w) {
        const struct attention_work *work = &packed.plan.tables.works[w];
        struct adopted alone = adopt_one(&plain, &pack[work->sequence]);
        assert_int_equal(work->splits, alone.plan.tables.works[0].splits);
        assert_int_equal(work->tiles, alone.plan.tables.works[0].tiles);
        free(alone.tables);
    }
    free(packed.tables);
}

/* Items are numbered without holes within a wave, the costliest first. */
static void items_are_numbered_longest_first(void **state)
{
    enum { COUNT = 40 };
    struct attention_sequence pack[COUNT];
    int64_t rows = 0, items = 0;
    (void)state;
    for (int s = 0; s < COUNT; ++s) {
        const int64_t length = 97 * (s * 7 % COUNT) + 1;
        pack[s] = one_sequence(length, length, MODE_ALL, 0, 0);
        pack[s].query_begin = pack[s].key_begin = rows;
        rows += length;
    }
    const struct attention_problem problem = make_problem(&plain, pack, COUNT);
    struct adopted adopted = adopt(&problem);
    const struct attention_plan *plan = &adopted.plan;
    assert_true(plan->split_count > 1 && plan->wave_count > 1);
    for (int64_t v = 0; v < plan->wave_count; ++v) {
        const struct attention_wave *wave = &plan->tables.waves[v];
        int64_t next = 0, previous_cost = INT64_MAX;
        for (int64_t w = wave->work_begin; w < wave->work_end; ++w) {
            const struct attention_work *work = &plan->tables.works[w];
            assert_int_equal(work->wave, v);
            assert_int_equal(work->first_item, next);
            assert_true(work->tiles / work->splits <= previous_cost);
            previous_cost = work->tiles / work->splits;
            next += work->splits * problem.key_heads;
        }
        assert_int_equal(wave->items, next);
        items += next;
    }
    assert_int_equal(items, plan->item_count);
    free(adopted.tables);
}

/* --- gaps ----------------------------------------------------------------------------------------------- */

static void gaps_are_the_rows_without_work(void **state)
{
    struct attention_sequence pack[4] = {{.query_begin = 0, .query_len = 10, .key_begin = 0, .key_len = 0},
                                         {.query_begin = 10, .query_len = 5, .key_begin = 0, .key_len = 7},
                                         {.query_begin = 15, .query_len = 0, .key_begin = 7, .key_len = 100},
                                         {.query_begin = 15, .query_len = 3, .key_begin = 107, .key_len = 2}};
    (void)state;
    attention_set_intervals(pack, 4, MODE_ALL, 0, 0, NULL, 0);
    struct attention_problem problem = make_problem(&plain, pack, 4);
    problem.query_rows = 200;
    problem.key_rows = 109;
    struct adopted adopted = adopt(&problem);
    const struct attention_gap *query = adopted.plan.tables.query_gaps, *key = adopted.plan.tables.key_gaps;
    assert_int_equal(adopted.plan.query_gap_count, 2);
    assert_int_equal(query[0].begin, 0);
    assert_int_equal(query[0].rows, 10);
    assert_int_equal(query[1].begin, 18);
    assert_int_equal(query[1].rows, 182);
    assert_int_equal(query[1].first_block, 1);
    assert_int_equal(adopted.plan.key_gap_count, 1);
    assert_int_equal(key[0].begin, 7);
    assert_int_equal(key[0].rows, 100);
    free(adopted.tables);
}

/* --- workspace ------------------------------------------------------------------------------------------ */

static uint64_t workspace_per_thread(const struct shape *shape, const struct attention_sequence *sequences,
                                     int64_t count)
{
    const struct attention_problem problem = make_problem(shape, sequences, count);
    struct attention_plan plan;
    assert_int_equal(attention_make_plan(&problem, &plan), AG_OK);
    return plan.workspace_bytes / (uint64_t)plan.lanes;
}

/* Case 41: 4096 sequences of one row and one of 4096. */
static void workspace_is_linear_in_the_tokens(void **state)
{
    enum { COUNT = 4097 };
    static struct attention_sequence pack[COUNT];
    (void)state;
    for (int64_t s = 0; s < COUNT; ++s) {
        const int64_t length = s < COUNT - 1 ? 1 : 4096;
        pack[s] = one_sequence(length, length, MODE_CAUSAL_RIGHT, 0, 0);
        pack[s].query_begin = pack[s].key_begin = s;
    }
    for (int threads = 1; threads <= 7; threads += 3) {
        test_configure(threads, ag_cpu_best_isa(), AG_LIMITS_DOCUMENTED);
        for (int elem = 0; elem < AG_ELEM_COUNT; ++elem) {
            const struct shape one_head = {1, 1, 128, 64, 128, (enum ag_elem)elem};
            const uint64_t packed = workspace_per_thread(&one_head, pack, COUNT);
            assert_true(packed <= 64 * MIB);
            /* The pack needs sums for a key of its own too: the long sequence has its sums per split. */
            assert_true(packed <= workspace_per_thread(&one_head, &pack[COUNT - 1], 1) + 4096);
        }
    }
    test_configure(1, ag_cpu_best_isa(), AG_LIMITS_DOCUMENTED);
}

/* Case 42: neither the query heads nor k and v expanded to them show in the workspace. */
static void workspace_does_not_grow_with_the_group(void **state)
{
    const struct attention_sequence sequence = one_sequence(12288, 12288, MODE_CAUSAL_RIGHT, 0, 0);
    const struct shape grouped = {16, 2, 512, 0, 512, AG_ELEM_BF16}, single = {2, 2, 512, 0, 512, AG_ELEM_BF16};
    (void)state;
    for (int threads = 1; threads <= 2; ++threads) {
        test_configure(threads, ag_cpu_best_isa(), AG_LIMITS_DOCUMENTED);
        assert_int_equal(workspace_per_thread(&grouped, &sequence, 1), workspace_per_thread(&single, &sequence, 1));
    }
    test_configure(1, ag_cpu_best_isa(), AG_LIMITS_DOCUMENTED);
}

static void workspace_of_a_very_long_sequence(void **state)
{
    const struct attention_sequence sequence = one_sequence(131072, 131072, MODE_CAUSAL_RIGHT, 0, 0);
    (void)state;
    for (int elem = 0; elem < AG_ELEM_COUNT; ++elem) {
        for (int64_t heads = 1; heads <= 8; heads *= 8) {
            const struct shape shape = {heads, heads, 128, 64, 128, (enum ag_elem)elem};
            assert_true(workspace_per_thread(&shape, &sequence, 1) <= 512 * MIB);
        }
    }
}

/* One key head must keep several threads busy, and its partial sums within bounds, however long it is. */
static void a_long_sequence_of_one_head_is_split(void **state)
{
    static const struct {
        int64_t length, splits;
    } want[] = {{2048, 5}, {16384, 8}, {32768, 8}, {65536, 5}, {131072, 2}};
    const struct shape one_head = {1, 1, 128, 0, 128, AG_ELEM_BF16};
    (void)state;
    for (size_t i = 0; i < sizeof want / sizeof *want; ++i) {
        const struct attention_sequence sequence =
            one_sequence(want[i].length, want[i].length, MODE_CAUSAL_RIGHT, 0, 0);
        struct adopted adopted = adopt_one(&one_head, &sequence);
        assert_int_equal(adopted.plan.tables.works[0].splits, want[i].splits);
        assert_int_equal(adopted.plan.wave_count, 1);
        assert_true(adopted.plan.workspace_bytes <= 512 * MIB);
        free(adopted.tables);
    }
}

/* --- lanes ----------------------------------------------------------------------------------------------- */

/* The smallest problem that is shared out is found by its work: pairs * (6 D + 4 Dv) * heads. */
static void little_work_is_for_one_lane(void **state)
{
    const struct shape two_heads = {2, 2, 64, 0, 64, AG_ELEM_F32};
    char text[1024];
    (void)state;
    test_configure(7, ag_cpu_best_isa(), AG_LIMITS_DOCUMENTED);
    ag_config_set_least_shared_work(64 * 64 * 640 * 2);
    for (int64_t length = 63; length <= 64; ++length) {
        const struct attention_sequence sequence = one_sequence(length, length, MODE_ALL, 0, 0);
        struct adopted adopted = adopt_one(&two_heads, &sequence);
        attention_describe_plan(&adopted.plan, text, sizeof text);
        assert_int_equal(adopted.plan.lanes, length == 64 ? 2 : 1);
        assert_non_null(strstr(text, length == 64 ? " lanes_because=threads " : " lanes_because=little-work "));
        free(adopted.tables);
    }
    ag_config_set_least_shared_work(0);
    test_configure(1, ag_cpu_best_isa(), AG_LIMITS_DOCUMENTED);
}

/* --- what `explain` shows ------------------------------------------------------------------------------- */

static void plan_describes_itself(void **state)
{
    const struct attention_sequence sequence = one_sequence(512, 512, MODE_CAUSAL_LEFT, 0, 0);
    char text[1024];
    (void)state;
    test_configure(1, AG_ISA_SCALAR, AG_LIMITS_DOCUMENTED);
    struct adopted adopted = adopt_one(&layer, &sequence);
    attention_describe_plan(&adopted.plan, text, sizeof text);
    assert_non_null(strstr(text, "elem=FLOAT panel=fp32 kernels=scalar"));
    assert_non_null(strstr(text, " tiles=40 ")); /* 8 heads: rows 0..255 meet 2 key tiles, rows 256..511 meet 3 */
    assert_non_null(strstr(text, " items=8 "));
    assert_non_null(strstr(text, " statistics=cann "));
    free(adopted.tables);
    test_configure(1, ag_cpu_best_isa(), AG_LIMITS_DOCUMENTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_of_a_window_is_proportional_to_the_length),
        cmocka_unit_test(tiles_are_those_that_see_something),
        cmocka_unit_test(key_tiles_cover_the_keys_once),
        cmocka_unit_test(splits_share_the_rows),
        cmocka_unit_test(splits_depend_on_the_sequence_alone),
        cmocka_unit_test(a_long_sequence_of_one_head_is_split),
        cmocka_unit_test(little_work_is_for_one_lane),
        cmocka_unit_test(items_are_numbered_longest_first),
        cmocka_unit_test(gaps_are_the_rows_without_work),
        cmocka_unit_test(workspace_is_linear_in_the_tokens),
        cmocka_unit_test(workspace_does_not_grow_with_the_group),
        cmocka_unit_test(workspace_of_a_very_long_sequence),
        cmocka_unit_test(plan_describes_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
