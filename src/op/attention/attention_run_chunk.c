/* A chunk: rows of one query head against all keys they see, tile by tile. */
#include <string.h>

#include "op/attention/attention_run.h"

#include "base/integer.h"

enum { FEW_ROWS = 32 }; /* of the next head are fetched while these are computed; with 64 that costs 2 % */

struct chunk {
    const struct attention_item *item;
    const struct attention_plan *plan;
    const struct ag_panel_kernels *panel;
    struct attention_lane *lane;
    int64_t query_head;
    int64_t begin, end; /* rows of the sequence */
};

static struct attention_columns common(struct attention_columns a, struct attention_columns b)
{
    const int64_t begin = ag_larger(a.begin, b.begin);
    return (struct attention_columns){begin, ag_larger(begin, ag_smaller(a.end, b.end))};
}

static bool is_empty(struct attention_columns columns)
{
    return columns.begin >= columns.end;
}

static int64_t words_of(const struct ag_panel_kernels *panel, int64_t elems)
{
    return (elems + panel->pair - 1) / panel->pair;
}

/* --- packing -------------------------------------------------------------------------------------------- */

/* The rows of [T, N, D] that the chunk has of `view`. */
static struct ag_matrix chunk_rows(const struct chunk *chunk, const struct ag_view *view)
{
    return attention_head_rows(view, chunk->item->sequence->query_begin + chunk->begin, chunk->end - chunk->begin,
                               chunk->query_head);
}

/* The same rows of the next head: no CPU foresees them, and few rows are over before those ahead of them could be fetched.
 * Meanwhile this head's products are made. */
static void fetch_next_query(const struct chunk *chunk, const struct ag_view *view)
{
    struct chunk next = *chunk;
    if (chunk->end - chunk->begin <= FEW_ROWS && ++next.query_head < chunk->item->job->problem->query_heads) {
        const struct ag_matrix rows = chunk_rows(&next, view);
        chunk->item->job->rows->fetch(&rows);
    }
}

static void fetch_next_keys(const struct chunk *chunk, const struct ag_view *view, struct attention_columns keys)
{
    const struct attention_problem *problem = chunk->item->job->problem;
    const int64_t head = (chunk->query_head + 1) / problem->group, count = keys.end - keys.begin;
    if (count <= FEW_ROWS && head < problem->key_heads && head != chunk->item->key_head) {
        const struct ag_matrix rows =
            attention_head_rows(view, chunk->item->sequence->key_begin + keys.begin, count, head);
        chunk->item->job->rows->fetch(&rows);
    }
}

/* Packs a part of rows, from word `word` of each, and (has_depth) also as the operand of sums over them. */
static void pack_part(const struct chunk *chunk, const struct ag_matrix *from, uint32_t *rows, int64_t row_stride,
                      uint32_t *depth_words, const struct attention_depth *depth)
{
    const enum ag_elem elem = chunk->item->job->problem->elem;
    chunk->panel->pack_rows[elem](rows, row_stride, from);
    if (chunk->plan->has_depth) {
        chunk->panel->pack_depth[elem](depth_words, depth->panel_stride, from);
    }
}

static void pack_queries(const struct chunk *chunk)
{
    const struct attention_problem *problem = chunk->item->job->problem;
    const struct attention_plan *plan = chunk->plan;
    const struct attention_lane *lane = chunk->lane;
    const struct attention_depth *depth = &lane->query_depth;
    const struct ag_matrix query = chunk_rows(chunk, &problem->query), dy = chunk_rows(chunk, &problem->dy);
    pack_part(chunk, &query, lane->query_rows, plan->query_stride, depth->words, depth);
    fetch_next_query(chunk, &problem->query);
    pack_part(chunk, &dy, lane->dy_rows, plan->value_stride, lane->dy_depth.words, &lane->dy_depth);
    fetch_next_query(chunk, &problem->dy);
    if (problem->has_rope) {
        const struct ag_matrix rope = chunk_rows(chunk, &problem->query_rope);
        pack_part(chunk, &rope, lane->query_rows + plan->dim_words, plan->query_stride, depth->words + depth->rope,
                  depth);
    }
}

/* One panel of keys by lanes, dim and rope joined along the contraction. */
static void pack_key_lanes(const struct chunk *chunk, struct attention_columns keys, uint32_t *to_keys,
                           uint32_t *to_values)
{
    const struct attention_problem *problem = chunk->item->job->problem;
    const int64_t first = chunk->item->sequence->key_begin + keys.begin, count = keys.end - keys.begin;
    const int64_t head = chunk->item->key_head;
    const struct ag_matrix key = attention_head_rows(&problem->key, first, count, head);
    const struct ag_matrix value = attention_head_rows(&problem->value, first, count, head);
    chunk->panel->pack_lanes[problem->elem](to_keys, &key);
    chunk->panel->pack_lanes[problem->elem](to_values, &value);
    if (problem->has_rope) {
        const struct ag_matrix rope = attention_head_rows(&problem->key_rope, first, count, head);
        chunk->panel->pack_lanes[problem->elem](to_keys + chunk->plan->dim_words * chunk->panel->lanes, &rope);
    }
}

/* Keys as the operand of sums over them. */
static void pack_key_depth(const struct chunk *chunk, const struct ag_view *view, struct attention_columns keys,
                           uint32_t *to)
{
    const struct attention_depth *depth = &chunk->lane->key_depth;
    const enum ag_elem elem = chunk->item->job->problem->elem;
    const struct ag_matrix from = attention_head_rows(view, chunk->item->sequence->key_begin + keys.begin,
                                                      keys.end - keys.begin, chunk->item->key_head);
    if (chunk->plan->has_depth) {
        chunk->panel->pack_depth[elem](to, depth->panel_stride, &from);
    } else {
        chunk->panel->pack_rows[elem](to, depth->word_stride, &from);
    }
}

static void pack_keys(const struct chunk *chunk, struct attention_columns keys)
{
    const struct attention_problem *problem = chunk->item->job->problem;
    const struct attention_plan *plan = chunk->plan;
    const struct attention_lane *lane = chunk->lane;
    const int64_t count = keys.end - keys.begin, lanes = chunk->panel->lanes;
    for (int64_t at = 0; at < count; at += lanes) {
        const struct attention_columns panel = {keys.begin + at, ag_smaller(keys.begin + at + lanes, keys.end)};
        pack_key_lanes(chunk, panel, lane->key_lanes + at * plan->query_words,
                       lane->value_lanes + at * plan->value_words);
    }
    fetch_next_keys(chunk, &problem->value, keys);
    pack_key_depth(chunk, &problem->key, keys, lane->key_depth.words);
    fetch_next_keys(chunk, &problem->key, keys);
    if (problem->has_rope) {
        pack_key_depth(chunk, &problem->key_rope, keys, lane->key_depth.words + lane->key_depth.rope);
    }
}

/* --- what each row sees, and its statistics --------------------------------------------------------------
 */

/* Takes half a word out of every lane of every panel. */
static void erase_half(const struct chunk *chunk, const struct attention_depth *depth, int64_t panels, int64_t r)
{
    const uint32_t kept = r % 2 == 0 ? 0xffff0000u : 0x0000ffffu;
    for (int64_t p = 0; p < panels; ++p) {
        uint32_t *words = depth->words + p * depth->panel_stride + r / 2 * depth->word_stride;
        for (int64_t l = 0; l < chunk->panel->lanes; ++l) {
            words[l] &= kept;
        }
    }
}

/* Takes a row that sees nothing out of the packed operands: whatever it holds, it must not reach a sum. */
static void erase_row(const struct chunk *chunk, int64_t r)
{
    const struct attention_plan *plan = chunk->plan;
    const struct attention_lane *lane = chunk->lane;
    memset(lane->query_rows + r * plan->query_stride, 0, (size_t)plan->query_words * sizeof(uint32_t));
    memset(lane->dy_rows + r * plan->value_stride, 0, (size_t)plan->value_words * sizeof(uint32_t));
    if (plan->has_depth) {
        erase_half(chunk, &lane->query_depth, plan->dim_panels + plan->rope_panels, r);
        erase_half(chunk, &lane->dy_depth, plan->value_panels, r);
    }
}

static float statistic(const struct chunk *chunk, const struct ag_view *view, int64_t row)
{
    const struct attention_item *item = chunk->item;
    const int64_t number =
        attention_statistics_row(item->job->problem, item->job->layout, item->sequence, chunk->query_head, row);
    return ((const float *)ag_view_origin(view))[attention_statistics_offset(view, number)];
}

/* Fills max, inverse_sum, delta and columns; statistics of a row that sees nothing are not even read. */
static void read_statistics(const struct chunk *chunk)
{
    const struct attention_problem *problem = chunk->item->job->problem;
    const struct attention_lane *lane = chunk->lane;
    const struct ag_matrix dy = chunk_rows(chunk, &problem->dy);
    const struct ag_matrix attention_in = chunk_rows(chunk, &problem->attention_in);
    chunk->plan->kernels->attention.row_dots[problem->elem](lane->delta, &dy, &attention_in);
    fetch_next_query(chunk, &problem->attention_in);
    for (int64_t r = 0; r < chunk->end - chunk->begin; ++r) {
        lane->columns[r] =
            attention_columns_of_row(problem, chunk->item->sequence, chunk->query_head, chunk->begin + r);
        if (is_empty(lane->columns[r])) {
            lane->max[r] = lane->inverse_sum[r] = lane->delta[r] = 0.0f;
            erase_row(chunk, r);
            continue;
        }
        lane->max[r] = statistic(chunk, &problem->softmax_max, chunk->begin + r);
        lane->inverse_sum[r] = 1.0f / statistic(chunk, &problem->softmax_sum, chunk->begin + r);
    }
}

/* --- a strip: the rows of a block against ATTENTION_STRIP keys, or a part of them ------------------------
 */

struct strip {
    struct attention_columns rows; /* of the chunk: from the first to the last that sees a key of the strip */
    struct attention_columns keys; /* of the sequence */
    int64_t key;                   /* the first key, counted from the packed tile */
    int64_t row_at, key_at;        /* the first row and key, counted from the block's scores */
};

/* Where the strip's scores begin: as float panels they stay as P and dS, else they live until P and dS are made. */
static int64_t score_at(const struct chunk *chunk, const struct strip *strip)
{
    return chunk->plan->panel == AG_PANEL_F32 ? strip->row_at * chunk->lane->score_stride + strip->key_at : 0;
}

/* Where a packed key's lane begins: keys are panels of `depth` words. */
static const uint32_t *lane_of_key(const struct chunk *chunk, const uint32_t *panels, int64_t key, int64_t depth)
{
    const int64_t lane = key % chunk->panel->lanes;
    return panels + (key - lane) * depth + lane;
}

/* Scores of the strip's rows and keys, unscaled, and dP = dy . v. */
static void multiply_scores(const struct chunk *chunk, const struct strip *strip)
{
    const struct attention_plan *plan = chunk->plan;
    const struct attention_lane *lane = chunk->lane;
    const int64_t at = score_at(chunk, strip);
    struct ag_multiply m = {.a = lane_of_key(chunk, lane->key_lanes, strip->key, plan->query_words),
                            .a_panel_stride = plan->query_words * chunk->panel->lanes,
                            .b = lane->query_rows + strip->rows.begin * plan->query_stride,
                            .b_row_stride = plan->query_stride,
                            .b_word_stride = 1,
                            .c = lane->score + at,
                            .c_row_stride = lane->score_stride,
                            .rows = strip->rows.end - strip->rows.begin,
                            .cols = strip->keys.end - strip->keys.begin,
                            .depth = plan->query_words};
    chunk->panel->multiply(&m);
    m.a = lane_of_key(chunk, lane->value_lanes, strip->key, plan->value_words);
    m.a_panel_stride = plan->value_words * chunk->panel->lanes;
    m.b = lane->dy_rows + strip->rows.begin * plan->value_stride;
    m.b_row_stride = plan->value_stride;
    m.c = lane->dprob + at;
    m.depth = plan->value_words;
    chunk->panel->multiply(&m);
}

/* Some lane of the strip is not seen by some row: the interval's edge, or the end of the keys. */
static bool has_edge(const struct chunk *chunk, const struct strip *strip)
{
    bool is_inner = (strip->keys.end - strip->keys.begin) % chunk->panel->vector == 0;
    for (int64_t r = strip->rows.begin; r < strip->rows.end && is_inner; ++r) {
        const struct attention_columns columns = chunk->lane->columns[r];
        is_inner = columns.begin <= strip->keys.begin && columns.end >= strip->keys.end;
    }
    return !is_inner;
}

static void set_lane_ranges(const struct chunk *chunk, const struct strip *strip)
{
    for (int64_t r = strip->rows.begin; r < strip->rows.end; ++r) {
        const struct attention_columns columns = common(chunk->lane->columns[r], strip->keys);
        chunk->lane->lane_ranges[r - strip->rows.begin] =
            (struct ag_lane_range){columns.begin - strip->keys.begin, columns.end - strip->keys.begin};
    }
}

/* Copies the strip's mask bytes, 1 behind the last key; false when none of them hides a column. */
static bool copy_hidden(const struct chunk *chunk, const struct strip *strip)
{
    const struct attention_item *item = chunk->item;
    const int64_t count = strip->keys.end - strip->keys.begin;
    uint8_t any = 0;
    for (int64_t r = strip->rows.begin; r < strip->rows.end; ++r) {
        uint8_t *hidden = chunk->lane->hidden + (r - strip->rows.begin) * ATTENTION_STRIP;
        const struct attention_mask_row mask =
            attention_mask_row(item->job->problem, item->sequence, chunk->query_head, chunk->begin + r);
        memset(hidden, 1, ATTENTION_STRIP);
        for (int64_t k = 0; k < count; ++k) {
            hidden[k] = mask.bytes[(strip->keys.begin + k) * mask.stride];
            any |= hidden[k];
        }
    }
    return any != 0;
}

static void make_probabilities(const struct chunk *chunk, const struct strip *strip)
{
    const struct attention_lane *lane = chunk->lane;
    const int64_t at = score_at(chunk, strip);
    const int64_t count = strip->keys.end - strip->keys.begin, vector = chunk->panel->vector;
    struct ag_score_block block = {.score = lane->score + at,
                                   .dprob = lane->dprob + at,
                                   .score_stride = lane->score_stride,
                                   .stride = chunk->plan->block_stride,
                                   .rows = strip->rows.end - strip->rows.begin,
                                   .lanes = (count + vector - 1) / vector * vector,
                                   .scale = chunk->item->job->problem->scale,
                                   .max = lane->max + strip->rows.begin,
                                   .inverse_sum = lane->inverse_sum + strip->rows.begin,
                                   .delta = lane->delta + strip->rows.begin};
    if (has_edge(chunk, strip)) {
        set_lane_ranges(chunk, strip);
        block.lane_ranges = lane->lane_ranges;
    }
    if (lane->hidden && copy_hidden(chunk, strip)) {
        block.hidden = lane->hidden;
        block.hidden_stride = ATTENTION_STRIP;
    }
    if (chunk->plan->panel == AG_PANEL_BF16) {
        const int64_t depth_at = strip->row_at / 2 * chunk->plan->block_stride + strip->key_at;
        block.p_depth = lane->p_depth + depth_at;
        block.ds_depth = lane->ds_depth + depth_at;
        block.ds_rows = lane->ds_rows + (strip->row_at * chunk->plan->block_stride + strip->key_at) / 2;
    }
    chunk->plan->kernels->attention.probabilities[chunk->plan->panel](&block);
}

/* P and dS of the strip, by as many rows as there is room for scores. */
static void run_scores(const struct chunk *chunk, const struct strip *strip)
{
    for (int64_t row = strip->rows.begin; row < strip->rows.end; row += chunk->lane->score_rows) {
        struct strip part = *strip;
        part.rows.begin = row;
        part.rows.end = ag_smaller(row + chunk->lane->score_rows, strip->rows.end);
        part.row_at += row - strip->rows.begin;
        multiply_scores(chunk, &part);
        make_probabilities(chunk, &part);
    }
}

/* dV += P^T dY and dK += dS^T Q for the strip's keys: the contraction runs over rows, so P and dS are read by
 * column. */
static void add_key_gradients(const struct chunk *chunk, const struct strip *strip)
{
    const struct attention_plan *plan = chunk->plan;
    const struct attention_lane *lane = chunk->lane;
    const struct ag_panel_kernels *panel = chunk->panel;
    const bool is_f32 = plan->panel == AG_PANEL_F32;
    const int64_t at = strip->row_at / panel->pair * chunk->plan->block_stride + strip->key_at;
    const int64_t word = strip->rows.begin / panel->pair;
    struct ag_multiply m = {.a = lane->dy_depth.words + word * lane->dy_depth.word_stride,
                            .a_panel_stride = lane->dy_depth.panel_stride,
                            .a_word_stride = lane->dy_depth.word_stride,
                            .b = (is_f32 ? (const uint32_t *)lane->score : lane->p_depth) + at,
                            .b_row_stride = 1,
                            .b_word_stride = chunk->plan->block_stride,
                            .c = chunk->item->dvalue + strip->keys.begin * plan->value_cols,
                            .c_row_stride = plan->value_cols,
                            .rows = strip->keys.end - strip->keys.begin,
                            .cols = plan->value_cols,
                            .depth = words_of(panel, strip->rows.end - strip->rows.begin),
                            .accumulate = true};
    panel->multiply(&m);
    m.a = lane->query_depth.words + word * lane->query_depth.word_stride;
    m.a_panel_stride = lane->query_depth.panel_stride;
    m.a_word_stride = lane->query_depth.word_stride;
    m.b = (is_f32 ? (const uint32_t *)lane->dprob : lane->ds_depth) + at;
    m.c = chunk->item->dkey + strip->keys.begin * plan->key_cols;
    m.c_row_stride = plan->key_cols;
    m.cols = plan->dim_cols;
    panel->multiply(&m);
    m.a += lane->query_depth.rope;
    m.c += plan->dim_cols;
    m.cols = plan->rope_cols;
    panel->multiply(&m);
}

/* dS of the block's rows that the strip, `width` keys with those behind the last, did not compute is zero. */
static void clear_other_rows(const struct chunk *chunk, const struct strip *strip, int64_t rows, int64_t width)
{
    const bool is_f32 = chunk->plan->panel == AG_PANEL_F32;
    const int64_t computed = strip->rows.end - strip->rows.begin, pair = chunk->panel->pair;
    uint32_t *words = is_f32 ? (uint32_t *)chunk->lane->dprob : chunk->lane->ds_rows;
    for (int64_t r = 0; r < rows; ++r) {
        if (r < strip->row_at || r >= strip->row_at + computed) {
            memset(words + (r * chunk->plan->block_stride + strip->key_at) / pair, 0, width / pair * sizeof *words);
        }
    }
}

/* --- blocks and tiles ------------------------------------------------------------------------------------
 */

/* Those of `rows` (of the chunk) that see one of `keys`, from the first to the last; they start at a whole
 * word. */
static struct attention_columns rows_that_see(const struct chunk *chunk, struct attention_columns rows,
                                              struct attention_columns keys)
{
    const struct attention_columns *columns = chunk->lane->columns;
    while (rows.begin < rows.end && is_empty(common(columns[rows.begin], keys))) {
        ++rows.begin;
    }
    while (rows.begin < rows.end && is_empty(common(columns[rows.end - 1], keys))) {
        --rows.end;
    }
    if (rows.begin < rows.end) {
        rows.begin -= rows.begin % chunk->panel->pair;
    }
    return rows;
}

/* dQ += dS K for rows, the first of which is row `row_at` of the block's scores, over the packed keys [begin, end) of the
 * tile. */
static void add_query_gradients(const struct chunk *chunk, struct attention_columns rows, int64_t row_at,
                                struct attention_columns packed_keys)
{
    const struct attention_plan *plan = chunk->plan;
    const struct attention_lane *lane = chunk->lane;
    const struct attention_depth *depth = &lane->key_depth;
    const struct ag_panel_kernels *panel = chunk->panel;
    const int64_t at = (row_at * chunk->plan->block_stride + packed_keys.begin % plan->block_keys) / panel->pair;
    if (is_empty(rows) || is_empty(packed_keys)) {
        return;
    }
    struct ag_multiply m = {.a = depth->words + packed_keys.begin / panel->pair * depth->word_stride,
                            .a_panel_stride = depth->panel_stride,
                            .a_word_stride = depth->word_stride,
                            .b = (plan->panel == AG_PANEL_F32 ? (const uint32_t *)lane->dprob : lane->ds_rows) + at,
                            .b_row_stride = chunk->plan->block_stride / panel->pair,
                            .b_word_stride = 1,
                            .c = lane->dquery + rows.begin * plan->key_cols,
                            .c_row_stride = plan->key_cols,
                            .rows = rows.end - rows.begin,
                            .cols = plan->dim_cols,
                            .depth = words_of(panel, packed_keys.end - packed_keys.begin),
                            .accumulate = true};
    panel->multiply(&m);
    m.a += depth->rope;
    m.c += plan->dim_cols;
    m.cols = plan->rope_cols;
    panel->multiply(&m);
}

/* A block: at most block_rows rows (of the chunk) against at most block_keys packed keys of a tile. */
struct block {
    struct attention_columns rows, packed_keys;
    int64_t tile_begin; /* the tile's first key */
    int64_t edge;       /* rows, or keys, of a step along the mask's edge */
};

/* Those of the `used` packed keys that rows see between them, in steps along the edge. */
static struct attention_columns keys_seen(const struct chunk *chunk, const struct block *block,
                                          struct attention_columns rows, struct attention_columns used)
{
    const struct attention_columns seen =
        attention_columns_of_rows(chunk->item->sequence, chunk->begin + rows.begin, chunk->begin + rows.end);
    struct attention_columns keys =
        common((struct attention_columns){seen.begin - block->tile_begin, seen.end - block->tile_begin}, used);
    keys.begin -= (keys.begin - used.begin) % block->edge;
    keys.end = ag_smaller(keys.begin + ag_round_up(keys.end - keys.begin, block->edge), used.end);
    return keys;
}

/* dQ of a block whose `used` keys have been computed. Rows go together where they see the same steps of keys. */
static void add_block_to_queries(const struct chunk *chunk, const struct block *block, struct attention_columns used)
{
    const struct attention_columns rows = block->rows;
    struct attention_columns group = {rows.begin, rows.begin}, group_keys = {0, 0};
    for (int64_t row = rows.begin; row < rows.end; row = group.end) {
        const struct attention_columns step = {row, ag_smaller(row + block->edge, rows.end)};
        const struct attention_columns keys = keys_seen(chunk, block, step, used);
        if (keys.begin != group_keys.begin || keys.end != group_keys.end) {
            add_query_gradients(chunk, group, group.begin - rows.begin, group_keys);
            group.begin = row;
            group_keys = keys;
        }
        group.end = step.end;
    }
    add_query_gradients(chunk, group, group.begin - rows.begin, group_keys);
}

static struct strip strip_at(const struct chunk *chunk, const struct block *block, int64_t key, int64_t width)
{
    const int64_t end = ag_larger(key, ag_smaller(key + width, block->packed_keys.end));
    struct strip strip = {.key = key, .key_at = key - block->packed_keys.begin};
    strip.keys = (struct attention_columns){block->tile_begin + key, block->tile_begin + end};
    strip.rows = rows_that_see(chunk, block->rows, strip.keys);
    strip.row_at = strip.rows.begin - block->rows.begin;
    return strip;
}

/* The strip's pairs with rows [begin, end): P, dS and what they add to the keys' gradients. */
static void run_rows(const struct chunk *chunk, const struct block *block, struct strip strip, int64_t begin,
                     int64_t end)
{
    strip.rows = (struct attention_columns){begin, end};
    strip.row_at = begin - block->rows.begin;
    if (!is_empty(strip.rows)) {
        run_scores(chunk, &strip);
        add_key_gradients(chunk, &strip);
    }
}

/* Two neighbours: rows that see both take them together, which is faster; before and behind these are rows that see one. */
static void run_two_strips(const struct chunk *chunk, const struct block *block, const struct strip *first,
                           const struct strip *second)
{
    const struct attention_columns a = first->rows, b = second->rows;
    const struct attention_columns rows = common(a, b);
    struct strip both = *first;
    if (is_empty(rows)) {
        run_rows(chunk, block, *first, a.begin, a.end);
        run_rows(chunk, block, *second, b.begin, b.end);
        return;
    }
    const int64_t end = ag_round_up(rows.end, chunk->panel->pair); /* words of two rows do not part */
    both.keys.end = second->keys.end;
    run_rows(chunk, block, a.begin < b.begin ? *first : *second, ag_smaller(a.begin, b.begin), rows.begin);
    run_rows(chunk, block, both, rows.begin, ag_smaller(end, block->rows.end));
    run_rows(chunk, block, a.end > b.end ? *first : *second, end, ag_larger(a.end, b.end));
}

static void run_block(const struct chunk *chunk, const struct block *block)
{
    const int64_t edge = block->edge, rows = block->rows.end - block->rows.begin;
    struct attention_columns used = {block->packed_keys.end, block->packed_keys.begin};
    for (int64_t key = block->packed_keys.begin; key < block->packed_keys.end; key += ATTENTION_STRIP) {
        const struct strip first = strip_at(chunk, block, key, edge);
        const struct strip second = strip_at(chunk, block, key + edge, ATTENTION_STRIP - edge);
        run_two_strips(chunk, block, &first, &second);
        clear_other_rows(chunk, &first, rows, edge);
        clear_other_rows(chunk, &second, rows, ATTENTION_STRIP - edge);
        if (!is_empty(first.rows) || !is_empty(second.rows)) {
            used.begin = ag_smaller(used.begin, key);
            used.end = ag_smaller(key + ATTENTION_STRIP, block->packed_keys.end);
        }
    }
    add_block_to_queries(chunk, block, used);
}

/* A row tile (rows of the chunk) against a packed key tile: its blocks that see something. */
static void run_tile(const struct chunk *chunk, struct attention_columns rows, struct attention_columns keys)
{
    const struct attention_plan *plan = chunk->plan;
    const struct attention_sequence *sequence = chunk->item->sequence;
    for (int64_t key = 0; key < keys.end - keys.begin; key += plan->block_keys) {
        const struct attention_columns packed = {key, ag_smaller(key + plan->block_keys, keys.end - keys.begin)};
        const struct attention_columns block_keys = {keys.begin + packed.begin, keys.begin + packed.end};
        for (int64_t row = rows.begin; row < rows.end; row += plan->block_rows) {
            struct block block = {.packed_keys = packed, .tile_begin = keys.begin};
            block.edge = attention_edge(plan, packed.end - packed.begin);
            block.rows = (struct attention_columns){row, ag_smaller(row + plan->block_rows, rows.end)};
            const struct attention_columns seen =
                attention_columns_of_rows(sequence, chunk->begin + block.rows.begin, chunk->begin + block.rows.end);
            if (!is_empty(common(seen, block_keys))) {
                run_block(chunk, &block);
            }
        }
    }
}

/* --- the chunk -------------------------------------------------------------------------------------------
 */

static void run_key_tile(const struct chunk *chunk, struct attention_columns keys)
{
    const struct attention_sequence *sequence = chunk->item->sequence;
    const int64_t rows = chunk->end - chunk->begin;
    pack_keys(chunk, keys);
    for (int64_t row = 0; row < rows; row += ATTENTION_TILE) {
        const struct attention_columns tile = {row, ag_smaller(row + ATTENTION_TILE, rows)};
        const struct attention_columns seen =
            attention_columns_of_rows(sequence, chunk->begin + tile.begin, chunk->begin + tile.end);
        if (!is_empty(common(seen, keys))) {
            run_tile(chunk, tile, keys);
        }
    }
}

static void store_output(const struct chunk *chunk, int output, const float *from)
{
    const struct attention_job *job = chunk->item->job;
    const struct ag_view *view = &job->outputs[output];
    if (!attention_is_wanted(view)) {
        return;
    }
    const struct ag_matrix to = chunk_rows(chunk, view);
    job->rows->store(&to, from, chunk->plan->key_cols, job->problem->scale);
    for (int64_t r = 0; r < to.rows; ++r) {
        if (is_empty(chunk->lane->columns[r])) { /* not 0 * key: that may be NaN */
            struct ag_matrix row = to;
            row.data = (char *)to.data + r * to.row_stride * (int64_t)ag_elem_bytes(job->problem->elem);
            row.rows = 1;
            job->rows->zero(&row);
        }
    }
}

void attention_run_chunk(const struct attention_item *item, int64_t query_head, int64_t begin, int64_t end)
{
    const struct attention_job *job = item->job;
    const struct attention_plan *plan = job->plan;
    const struct chunk chunk = {.item = item,
                                .plan = plan,
                                .panel = job->panel,
                                .lane = item->lane,
                                .query_head = query_head,
                                .begin = begin,
                                .end = end};
    const struct attention_columns seen = attention_columns_of_rows(item->sequence, begin, end);
    pack_queries(&chunk);
    read_statistics(&chunk);
    memset(item->lane->dquery, 0, (size_t)((end - begin) * plan->key_cols) * sizeof *item->lane->dquery);
    if (!is_empty(seen)) {
        const int64_t last = attention_key_tile_of(seen.end - 1);
        for (int64_t tile = attention_key_tile_of(seen.begin); tile <= last; ++tile) {
            run_key_tile(&chunk, common(attention_key_tile(item->sequence, tile), seen));
        }
    }
    store_output(&chunk, OUT_DQ, item->lane->dquery);
    store_output(&chunk, OUT_DQ_ROPE, item->lane->dquery + plan->dim_cols);
}
