#include "text.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "real.h"

enum { SHORTEST_DOCUMENT = 16, LEAST_TEXT = 4096, MOST_PATH = 4096 };

static bool append_file(const char *path, struct text *text)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        fprintf(stderr, "train_text: %s: %s\n", path, strerror(errno));
        return false;
    }
    uint8_t block[1 << 14];
    for (size_t read = 0; (read = fread(block, 1, sizeof block, file)) > 0;) {
        uint8_t *bytes = realloc(text->bytes, (size_t)text->size + read);
        if (!bytes) {
            fprintf(stderr, "train_text: %s: no memory\n", path);
            fclose(file);
            return false;
        }
        memcpy(bytes + text->size, block, read);
        text->bytes = bytes;
        text->size += (int64_t)read;
    }
    const bool is_read = !ferror(file);
    fclose(file);
    if (!is_read) {
        fprintf(stderr, "train_text: %s: cannot be read\n", path);
    }
    return is_read;
}

/* Links are left out: they would bring the same text again. */
static bool append_directory(const char *path, struct text *text)
{
    struct dirent **entries = NULL;
    const int count = scandir(path, &entries, NULL, alphasort);
    bool all_read = count >= 0;
    if (!all_read) {
        fprintf(stderr, "train_text: %s: %s\n", path, strerror(errno));
    }
    for (int i = 0; i < count; ++i) {
        char name[MOST_PATH];
        struct stat about;
        const int length = snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
        if (all_read && length < (int)sizeof name && lstat(name, &about) == 0 && S_ISREG(about.st_mode)) {
            all_read = append_file(name, text);
        }
        free(entries[i]);
    }
    free(entries);
    return all_read;
}

bool text_read(const char *path, struct text *text)
{
    struct stat about;
    *text = (struct text){0};
    if (stat(path, &about) != 0) {
        fprintf(stderr, "train_text: %s: %s\n", path, strerror(errno));
        return false;
    }
    bool is_read = S_ISDIR(about.st_mode) ? append_directory(path, text) : append_file(path, text);
    if (is_read && text->size < LEAST_TEXT) {
        fprintf(stderr, "train_text: %s: %lld bytes, want at least %d\n", path, (long long)text->size, LEAST_TEXT);
        is_read = false;
    }
    if (!is_read) {
        text_free(text);
    }
    text->training = text->size - text->size / 16;
    return is_read;
}

void text_free(struct text *text)
{
    free(text->bytes);
    *text = (struct text){0};
}

double text_unigram_entropy(const struct text *text)
{
    int64_t counts[256] = {0};
    double entropy = 0;
    for (int64_t i = 0; i < text->size; ++i) {
        ++counts[text->bytes[i]];
    }
    for (int byte = 0; byte < 256; ++byte) {
        const double share = (double)counts[byte] / (double)text->size;
        entropy -= share > 0 ? share * log(share) : 0;
    }
    return entropy;
}

void pack_allocate(struct pack *pack, int64_t tokens)
{
    pack->tokens = tokens;
    pack->documents = 0;
    pack->input = zeroed(tokens, 1);
    pack->target = zeroed(tokens, 1);
    pack->position = zeroed(tokens, sizeof *pack->position);
    pack->ends = zeroed(tokens, sizeof *pack->ends);
}

void pack_free(struct pack *pack)
{
    free(pack->input);
    free(pack->target);
    free(pack->position);
    free(pack->ends);
}

/* `bytes` has one more than `count`: the last target. */
static void add_document(struct pack *pack, const uint8_t *bytes, int64_t count)
{
    const int64_t begin = pack->documents > 0 ? pack->ends[pack->documents - 1] : 0;
    memcpy(pack->input + begin, bytes, (size_t)count);
    memcpy(pack->target + begin, bytes + 1, (size_t)count);
    for (int64_t i = 0; i < count; ++i) {
        pack->position[begin + i] = i;
    }
    pack->ends[pack->documents++] = begin + count;
}

void pack_draw(struct pack *pack, const struct text *text, int64_t begin, int64_t end, uint64_t seed, uint64_t step)
{
    pack->documents = 0;
    for (int64_t filled = 0, drawn = 0; filled < pack->tokens; ++drawn) {
        const int64_t left = pack->tokens - filled, most = pack->tokens / 2;
        int64_t length = SHORTEST_DOCUMENT + (int64_t)(random_bits(seed, step, 2 * (uint64_t)drawn) % (uint64_t)most);
        length = left - length < SHORTEST_DOCUMENT ? left : length; /* no crumbs */
        length = length < end - begin - 1 ? length : end - begin - 1;
        const uint64_t places = (uint64_t)(end - begin - length);
        add_document(pack, text->bytes + begin + random_bits(seed, step, 2 * (uint64_t)drawn + 1) % places, length);
        filled += length;
    }
}

void pack_fill(struct pack *pack, const uint8_t *bytes, int64_t count)
{
    uint8_t *line = zeroed(pack->tokens + 1, 1);
    pack->documents = 0;
    memcpy(line, bytes, (size_t)count);
    add_document(pack, line, count);
    memset(line, 0, (size_t)count);
    if (count < pack->tokens) {
        add_document(pack, line, pack->tokens - count);
    }
    free(line);
}
