#include "sample.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { CONTEXT = 128, STREAM = 1 << 30 };
static const real temperature = (real)0.7; /* below 1: likely bytes become likelier */

static uint8_t draw(const real *logits, double chance)
{
    real p[BYTES];
    for (int byte = 0; byte < BYTES; ++byte) {
        p[byte] = logits[byte] / temperature;
    }
    softmax(p, BYTES);
    int byte = 0;
    for (double sum = (double)p[0]; sum <= chance && byte < BYTES - 1; sum += (double)p[byte]) {
        ++byte;
    }
    return (uint8_t)byte;
}

static void print_byte(uint8_t byte)
{
    putchar(isprint(byte) || byte == '\n' || byte == '\t' ? byte : '?');
}

void sample_print(const struct model *model, const char *prompt, int64_t count, uint64_t seed)
{
    struct model reader;
    struct pack pack;
    uint8_t context[CONTEXT];
    const size_t length = strlen(prompt);
    int64_t filled = length > CONTEXT ? CONTEXT : (int64_t)length;
    model_create_sharing(&reader, model, CONTEXT);
    pack_allocate(&pack, CONTEXT);
    memcpy(context, prompt + length - (size_t)filled, (size_t)filled);
    if (filled == 0) {
        context[filled++] = '\n';
    }
    fputs(prompt, stdout);
    for (int64_t i = 0; i < count; ++i) {
        pack_fill(&pack, context, filled);
        model_forward(&reader, &pack, false);
        const uint8_t next = draw(reader.logits + (filled - 1) * BYTES, random_uniform(seed, STREAM, (uint64_t)i));
        print_byte(next);
        if (filled == CONTEXT) {
            memmove(context, context + 1, (size_t)--filled);
        }
        context[filled++] = next;
    }
    putchar('\n');
    pack_free(&pack);
    model_destroy(&reader);
}
