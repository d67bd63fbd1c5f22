#include "inspect.h"

#include <inttypes.h>
#include <math.h>

#include "cli.h"
#include "facts.h"

struct oddities {
    int64_t nans, infinities, edges; /* edges: the largest finite number of the type */
    int64_t first_bad, first_edge;
};

static struct oddities count_oddities(const struct tensor *t, const char *is_live, int64_t part_elems)
{
    struct oddities o = {0, 0, 0, -1, -1};
    const double edge = t->dtype == AG_FLOAT16 ? 65504 : t->dtype == AG_BF16 ? 0x1.fep127 : 0x1.fffffep127;
    for (int64_t at = 0; at < t->elems; ++at) {
        const double value = tensor_get(t, at);
        if (isfinite(value) ? fabs(value) < edge : is_live && !is_live[at / part_elems]) {
            continue;
        }
        o.nans += isnan(value);
        o.infinities += isinf(value);
        o.edges += isfinite(value);
        if (!isfinite(value)) {
            o.first_bad = o.first_bad < 0 ? at : o.first_bad;
        } else {
            o.first_edge = o.first_edge < 0 ? at : o.first_edge;
        }
    }
    return o;
}

void inspect_numbers(const struct tensor *tensor, const struct axes *axes, const char *is_live, int64_t part_elems,
                     const struct findings *findings)
{
    char place[PLACE_TEXT];
    if (!tensor_is_float(tensor)) {
        return;
    }
    const struct oddities o = count_oddities(tensor, is_live, part_elems);
    if (o.nans + o.infinities > 0) {
        add_finding(findings, SEVERITY_ERROR, tensor->name, "not-finite",
                    "%" PRId64 " NaN and %" PRId64 " infinite values that are read, the first at %s", o.nans,
                    o.infinities, axes_place(axes, tensor, o.first_bad, place));
    }
    if (o.edges > 0) {
        add_finding(findings, SEVERITY_WARNING, tensor->name, "beyond-dtype",
                    "%" PRId64 " %s the largest number of %s, the first at %s: did something overflow and saturate?",
                    o.edges, word_for(o.edges, "value is", "values are"), dtype_word(tensor->dtype),
                    axes_place(axes, tensor, o.first_edge, place));
    }
}
