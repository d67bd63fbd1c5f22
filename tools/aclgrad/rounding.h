/* How a result compares with one rounded as on the device: to tell rounding from a defect. */
#ifndef ACLGRAD_ROUNDING_H
#define ACLGRAD_ROUNDING_H

#include "table.h"
#include "cli_tensor.h"

struct rounding_report {
    struct table table; /* percent of elements that equal the device-rounded ones; greatest difference from them,
                        * and greatest error of theirs, as shares of the bound */
};

void rounding_begin(struct rounding_report *report);

/* `outputs` of any kind (fast or recorded) against the device's values, both against the definition. */
void rounding_compare(struct rounding_report *report, const struct tensor_set *outputs,
                      const struct tensor_set *device, const struct tensor_set *values,
                      const struct tensor_set *bounds, const char *problem);

struct rounding_numbers {
    double equal_percent, difference_ratio, device_ratio;
};
struct rounding_numbers rounding_measure(const struct tensor *output, const struct tensor *device,
                                         const struct tensor *value, const struct tensor *bound);

#endif
