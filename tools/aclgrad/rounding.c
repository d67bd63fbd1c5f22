#include "rounding.h"

#include <math.h>

#include "comparison.h"

void rounding_begin(struct rounding_report *report)
{
    table_init(&report->table, "rounding", "tensor equal_percent difference_ratio device_ratio of");
}

struct rounding_numbers rounding_measure(const struct tensor *output, const struct tensor *device,
                                         const struct tensor *value, const struct tensor *bound)
{
    struct rounding_numbers n = {0, 0, 0};
    int64_t equal = 0;
    for (int64_t at = 0; at < output->elems; ++at) {
        const double got = tensor_get(output, at), want = tensor_get(device, at), limit = tensor_get(bound, at);
        const double error = element_error(output->dtype, output->dtype, got, want);
        const double device_error = element_error(output->dtype, AG_DOUBLE, want, tensor_get(value, at));
        const double difference = error > 0 ? error / limit : 0;
        const double ratio = device_error > 0 ? device_error / limit : 0;
        equal += error == 0;
        n.difference_ratio = difference > n.difference_ratio ? difference : n.difference_ratio;
        n.device_ratio = ratio > n.device_ratio ? ratio : n.device_ratio;
    }
    n.equal_percent = output->elems ? 100.0 * (double)equal / (double)output->elems : 100;
    return n;
}

void rounding_compare(struct rounding_report *report, const struct tensor_set *outputs,
                      const struct tensor_set *device, const struct tensor_set *values,
                      const struct tensor_set *bounds, const char *problem)
{
    for (int i = 0; i < outputs->count; ++i) {
        const char *name = outputs->items[i].name;
        const struct tensor *other = tensor_set_find(device, name);
        if (other && outputs->items[i].elems == other->elems && other->elems > 0) {
            const struct rounding_numbers n = rounding_measure(
                &outputs->items[i], other, tensor_set_find(values, name), tensor_set_find(bounds, name));
            table_row(&report->table, "sgggs", name, n.equal_percent, n.difference_ratio, n.device_ratio, problem);
        }
    }
}
