#include "random_stream.h"

#include <math.h>
#include <string.h>

/* SplitMix64: a counter through a mixing function. */
uint64_t random_bits(struct random_stream *stream)
{
    uint64_t x = stream->state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

struct random_stream random_stream_for(uint64_t seed, const char *name)
{
    struct random_stream stream = {seed};
    for (; *name; ++name) {
        stream.state = random_bits(&stream) ^ (unsigned char)*name;
    }
    return stream;
}

int64_t random_below(struct random_stream *stream, int64_t count)
{
    return (int64_t)(random_bits(stream) % (uint64_t)count);
}

double random_normal(struct random_stream *stream)
{
    const uint64_t bits = random_bits(stream);
    double sum = 0;
    for (int part = 0; part < 4; ++part) {
        sum += (double)((bits >> (16 * part)) & 0xffff) - 32767.5;
    }
    return sum * (1.7320508075688772 / 65536); /* four uniform numbers on (-1/2, 1/2) have variance 1/3 */
}

void fill_normal(struct tensor *tensor, uint64_t seed, double deviation)
{
    struct random_stream stream = random_stream_for(seed, tensor->name);
    for (int64_t at = 0; at < tensor->elems; ++at) {
        tensor_set(tensor, at, deviation * random_normal(&stream));
    }
}

/* Elements of one slice along the first axis. */
static int64_t row_elems(const struct tensor *tensor)
{
    return tensor->rank && tensor->dims[0] ? tensor->elems / tensor->dims[0] : tensor->elems;
}

void add_outliers(struct tensor *tensor)
{
    const int64_t last = tensor->rank ? tensor->dims[tensor->rank - 1] : 1, row = row_elems(tensor);
    for (int64_t at = 0; at < tensor->elems; ++at) {
        const double factor = (at % last < 4 ? 50 : 1) * (at / row < 4 ? 8 : 1);
        if (factor != 1) {
            tensor_set(tensor, at, factor * tensor_get(tensor, at));
        }
    }
}

void make_one_sided(struct tensor *tensor, double factor)
{
    for (int64_t at = 0; at < tensor->elems; ++at) {
        tensor_set(tensor, at, factor * fabs(tensor_get(tensor, at)));
    }
}

void repeat_first_row(struct tensor *tensor)
{
    const int64_t row = row_elems(tensor);
    for (int64_t at = row; at < tensor->elems; ++at) {
        tensor_set(tensor, at, tensor_get(tensor, at % row));
    }
}

void poison_row(struct tensor *tensor, int64_t row)
{
    for (int64_t e = 0; tensor && e < row_elems(tensor); ++e) {
        tensor_set(tensor, row * row_elems(tensor) + e, NAN);
    }
}
