#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "support/attention_problem.h"

int64_t attention_case_last_end(const int64_t *ends, int64_t count)
{
    int64_t last = 0;
    for (int64_t b = 0; b < count; ++b) {
        last = ends[b] > last ? ends[b] : last;
    }
    return last;
}

static bool is_all_zero(const int64_t *values)
{
    for (int i = 0; i < TEST_MOST_SEQUENCES; ++i) {
        if (values[i] != 0) {
            return false;
        }
    }
    return true;
}

struct attention_case attention_case_with_defaults(struct attention_case c)
{
    c.n1 = c.n1 ? c.n1 : 1;
    c.n2 = c.n2 ? c.n2 : 1;
    c.dv = c.dv ? c.dv : c.d;
    for (int64_t b = 0; c.count == 0 && b < TEST_MOST_SEQUENCES; ++b) {
        if (is_all_zero(c.q_ends)) {
            c.count = 1;
        } else if (c.q_ends[TEST_MOST_SEQUENCES - 1 - b] != 0) {
            c.count = TEST_MOST_SEQUENCES - b;
        }
    }
    if (is_all_zero(c.kv_ends)) {
        memcpy(c.kv_ends, c.q_ends, sizeof c.kv_ends);
    }
    c.version = c.version ? c.version : c.has_sink ? 5 : 3;
    c.scale = c.scale != 0 ? c.scale : 1 / sqrt((double)(c.d + c.dr));
    c.deviation = c.deviation != 0 ? c.deviation : 1;
    c.layout = c.layout == AG_SOFTMAX_AUTO ? AG_SOFTMAX_CANN : c.layout;
    return c;
}

static int print_list(char *text, size_t room, const char *name, const int64_t *ends, int64_t count)
{
    int used = snprintf(text, room, " %s=[", name);
    for (int64_t b = 0; b < count; ++b) {
        used += snprintf(text + used, room - (size_t)used, b ? ",%" PRId64 : "%" PRId64, ends[b]);
    }
    return used + snprintf(text + used, room - (size_t)used, "]");
}

const char *attention_case_text(const struct attention_case *c)
{
    static char text[1024];
    int used = snprintf(text, sizeof text,
                        "attention: dtype=%s n1=%" PRId64 " n2=%" PRId64 " d=%" PRId64 " dr=%" PRId64 " dv=%" PRId64
                        " mode=%" PRId64 " pre=%" PRId64 " next=%" PRId64 " mask=%d/%d+%" PRId64
                        " scale=%g deviation=%g layout=%d views=%d version=%d sink=%d seed=%" PRIu64,
                        ag_dtype_name(c->dtype), c->n1, c->n2, c->d, c->dr, c->dv, c->mode, c->pre, c->next,
                        (int)c->mask_shape, (int)c->mask_bytes, c->mask_extra, c->scale, c->deviation, (int)c->layout,
                        (int)c->views, c->version, c->has_sink, c->seed);
    used += print_list(text + used, sizeof text - (size_t)used, "q", c->q_ends, c->count);
    used += print_list(text + used, sizeof text - (size_t)used, "kv", c->kv_ends, c->count);
    if (c->mode == 6) {
        print_list(text + used, sizeof text - (size_t)used, "prefix", c->prefix, c->count);
    }
    return text;
}
