/* The command line of train_text. */
#ifndef TRAIN_TEXT_OPTIONS_H
#define TRAIN_TEXT_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct options {
    const char *text;       /* a file or a directory */
    const char *checkpoint; /* where to save; NULL: nowhere */
    const char *resume;     /* where to go on; NULL: from the start */
    const char *curve;      /* CSV of every step; NULL: none */
    const char *prompt;     /* what the sample goes on from */
    int64_t steps;          /* the last step; 0: until the time is up */
    int64_t tokens;         /* of a step */
    int64_t sample;         /* bytes to write at the end */
    uint64_t seed;
    double seconds, rate; /* rate: the largest learning rate */
    int threads;          /* 0: as the library decides */
};

/* Ends the program with a message and status 2 when the arguments are no good. */
void options_parse(int count, char **arguments, struct options *options);

#endif
