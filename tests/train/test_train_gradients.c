/* examples/train_text, its backward against central differences of its forward, for every parameter. The model computes in
 * double and the operators are their definitions; what was selected, routed and aimed at stays as it was, since the
 * losses jump where that changes. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model.h"
#include "operators_definitions.h"
#include "support/support.h"

enum { TOKENS = 24 };
static const struct model_shape tiny = {
    .layers = 2,
    .width = 16,
    .query_heads = 4,
    .key_heads = 2,
    .dim = 8,
    .rope_dim = 4,
    .index_heads = 2,
    .selected = 4,
    .experts = 4,
    .topk = 2,
    .expert_width = 8,
};

/* Documents of 7, 12 and 5 bytes. */
static void make_pack(struct pack *pack)
{
    const int64_t ends[] = {7, 19, TOKENS};
    pack_allocate(pack, TOKENS);
    pack->documents = 3;
    memcpy(pack->ends, ends, sizeof ends);
    for (int64_t t = 0, document = 0; t < TOKENS; ++t) {
        document += t >= ends[document];
        pack->position[t] = t - (document > 0 ? ends[document - 1] : 0);
        pack->input[t] = (uint8_t)random_bits(5, 0, (uint64_t)t);
        pack->target[t] = (uint8_t)random_bits(5, 1, (uint64_t)t);
    }
}

/* The indexers learn from the divergence, all else from the text. */
static double loss_of(const struct model *model, const struct parameter *parameter)
{
    return strstr(parameter->name, ".indexer.") ? model->divergence : model->cross_entropy;
}

/* A direction in which every element moves, and which is not across the gradient. */
static void choose_direction(const struct model *model, int number, double *direction)
{
    const struct parameter *parameter = &model->parameters.table[number];
    const real *gradient = parameter_gradient(&model->parameters, number);
    const int64_t count = parameter->rows * parameter->columns;
    double norm = 0;
    for (int64_t i = 0; i < count; ++i) {
        norm += gradient[i] * gradient[i];
    }
    for (int64_t i = 0; i < count; ++i) {
        direction[i] = random_normal(11, (uint64_t)number, (uint64_t)i) + 4 * gradient[i] / sqrt(norm);
    }
}

static double loss_beside(struct model *model, const struct pack *pack, int number, const double *direction,
                          double distance)
{
    const struct parameter *parameter = &model->parameters.table[number];
    real *value = parameter_value(&model->parameters, number);
    const int64_t count = parameter->rows * parameter->columns;
    real *kept = reals(count);
    memcpy(kept, value, (size_t)count * sizeof *kept);
    for (int64_t i = 0; i < count; ++i) {
        value[i] += distance * direction[i];
    }
    model_forward(model, pack, true);
    memcpy(value, kept, (size_t)count * sizeof *kept);
    free(kept);
    return loss_of(model, parameter);
}

/* The operators round to fp32 at their edge: a loss near 5 is exact to about 1e-7, a difference over 2e-3 to 1e-4. */
static void test_every_parameter(void **state)
{
    (void)state;
    const double distance = 1e-3, tolerance = 2e-4;
    struct model model;
    struct pack pack;
    make_pack(&pack);
    model_create(&model, &tiny, TOKENS, 7);
    model_forward(&model, &pack, true);
    model_backward(&model, &pack);
    assert_true(model.recall > 0.5 && model.divergence > 0);
    model.is_frozen = definitions_keep_selection = true;
    for (int number = 0; number < model.parameters.count; ++number) {
        const struct parameter *parameter = &model.parameters.table[number];
        const int64_t count = parameter->rows * parameter->columns;
        const real *gradient = parameter_gradient(&model.parameters, number);
        double *direction = zeroed(count, sizeof *direction), want = 0;
        choose_direction(&model, number, direction);
        for (int64_t i = 0; i < count; ++i) {
            want += gradient[i] * direction[i];
        }
        const double got = (loss_beside(&model, &pack, number, direction, distance) -
                            loss_beside(&model, &pack, number, direction, -distance)) /
                           (2 * distance);
        free(direction);
        if (!(fabs(got - want) <= tolerance * (fabs(want) + 1e-2))) {
            fail_msg("%s: along its direction the loss grows by %.8g, the gradient says %.8g", parameter->name, got,
                     want);
        }
    }
    model_destroy(&model);
    pack_free(&pack);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_parameter)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
