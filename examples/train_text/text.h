/* The text, as bytes, and packs of documents cut from it. */
#ifndef TRAIN_TEXT_TEXT_H
#define TRAIN_TEXT_TEXT_H

#include <stdbool.h>
#include <stdint.h>

struct text {
    uint8_t *bytes;
    int64_t training; /* bytes [0, training) are learned, [training, size) only tested */
    int64_t size;
};

/* A file, or all regular files of a directory in the order of their names. On failure prints why. */
bool text_read(const char *path, struct text *text);
void text_free(struct text *text);

/* Nats per byte of the best guess that knows only how often each byte occurs. */
double text_unigram_entropy(const struct text *text);

/* Pieces of text one behind the other, each a document of its own to the attention: the "TND" layout. */
struct pack {
    int64_t tokens, documents;
    uint8_t *input, *target; /* [tokens]: target[t] is the byte behind input[t] */
    int64_t *position;       /* [tokens], from 0 in each document */
    int64_t *ends;           /* [documents]: documents up to here have so many tokens; the last is `tokens` */
};

void pack_allocate(struct pack *pack, int64_t tokens);
void pack_free(struct pack *pack);

/* Documents of unequal lengths from random places of bytes [begin, end) of the text: a function of seed and step. */
void pack_draw(struct pack *pack, const struct text *text, int64_t begin, int64_t end, uint64_t seed, uint64_t step);

/* One document of the given bytes, and behind it one of nothing in particular that fills the pack. */
void pack_fill(struct pack *pack, const uint8_t *bytes, int64_t count);

#endif
