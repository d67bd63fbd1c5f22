#include "checkpoint.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SECTIONS = 4, MOST_PATH = 4096 };
static const char magic[16] = "train_text 1\n";

struct header {
    struct model_shape shape;
    int64_t tokens, step, parameters;
    uint64_t seed, text_checksum;
    double rate;
};

uint64_t checksum(uint64_t before, const void *bytes, size_t count)
{
    uint64_t hash = before ? before : UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < count; ++i) {
        hash = (hash ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

struct section {
    real *values;
    int64_t count;
};

static void list_sections(const struct model *model, struct section sections[SECTIONS])
{
    const struct parameters *p = &model->parameters;
    sections[0] = (struct section){p->value, p->size};
    sections[1] = (struct section){p->first_moment, p->size};
    sections[2] = (struct section){p->second_moment, p->size};
    sections[3] = (struct section){model->bias, model->shape.layers * model->shape.experts};
}

static struct header header_of(const struct model *model, const struct progress *progress)
{
    return (struct header){model->shape,   model->tokens,           progress->step, model->parameters.size,
                           progress->seed, progress->text_checksum, progress->rate};
}

static bool write_sections(FILE *file, const struct model *model, const struct progress *progress)
{
    const struct header header = header_of(model, progress);
    struct section sections[SECTIONS];
    list_sections(model, sections);
    uint64_t sum = checksum(0, &header, sizeof header);
    bool is_written = fwrite(magic, sizeof magic, 1, file) == 1 && fwrite(&header, sizeof header, 1, file) == 1;
    for (int s = 0; s < SECTIONS && is_written; ++s) {
        const size_t count = (size_t)sections[s].count;
        is_written = fwrite(sections[s].values, sizeof(real), count, file) == count;
        sum = checksum(sum, sections[s].values, count * sizeof(real));
    }
    return is_written && fwrite(&sum, sizeof sum, 1, file) == 1 && fflush(file) == 0 && fsync(fileno(file)) == 0;
}

/* Where it is written until it is whole. */
static bool name_temporary(const char *path, char temporary[MOST_PATH])
{
    if (snprintf(temporary, MOST_PATH, "%s.new", path) >= MOST_PATH) {
        fprintf(stderr, "train_text: %s: the path is too long\n", path);
        return false;
    }
    return true;
}

bool checkpoint_try(const char *path)
{
    char temporary[MOST_PATH];
    struct stat about;
    if (!name_temporary(path, temporary)) {
        return false;
    }
    if (stat(path, &about) == 0 && !S_ISREG(about.st_mode)) {
        fprintf(stderr, "train_text: %s: cannot be saved: is there, and no file\n", path);
        return false;
    }
    FILE *file = fopen(temporary, "wb");
    if (!file) {
        fprintf(stderr, "train_text: %s: cannot be saved: %s\n", path, strerror(errno));
        return false;
    }
    fclose(file);
    remove(temporary);
    return true;
}

bool checkpoint_save(const char *path, const struct model *model, const struct progress *progress)
{
    char temporary[MOST_PATH];
    if (!name_temporary(path, temporary)) {
        return false;
    }
    FILE *file = fopen(temporary, "wb");
    bool is_written = file && write_sections(file, model, progress);
    if (file) {
        is_written = fclose(file) == 0 && is_written;
    }
    if (!is_written || rename(temporary, path) != 0) {
        fprintf(stderr, "train_text: %s: not saved: %s\n", path, strerror(errno));
        remove(temporary);
        return false;
    }
    return true;
}

static bool refuse(const char *path, const char *why)
{
    fprintf(stderr, "train_text: %s: %s\n", path, why);
    return false;
}

static bool read_header(FILE *file, const char *path, const struct model *model, struct progress *progress,
                        struct header *header)
{
    char begin[sizeof magic];
    if (fread(begin, sizeof begin, 1, file) != 1 || memcmp(begin, magic, sizeof magic) != 0) {
        return refuse(path, "is no checkpoint of train_text");
    }
    if (fread(header, sizeof *header, 1, file) != 1) {
        return refuse(path, "is cut off in its header");
    }
    progress->step = header->step;
    const struct header wanted = header_of(model, progress);
    if (memcmp(&header->shape, &wanted.shape, sizeof wanted.shape) != 0 || header->parameters != wanted.parameters) {
        return refuse(path, "belongs to a model of another shape");
    }
    if (header->tokens != wanted.tokens || header->seed != wanted.seed ||
        header->text_checksum != wanted.text_checksum || header->rate != wanted.rate) {
        return refuse(path,
                      "belongs to another text, --seed, --tokens or --rate: going on would not be the same training");
    }
    return header->step >= 0 || refuse(path, "is damaged: its step is negative");
}

static bool read_sections(FILE *file, const char *path, struct section sections[SECTIONS], uint64_t sum)
{
    uint64_t wanted = 0;
    for (int s = 0; s < SECTIONS; ++s) {
        const size_t count = (size_t)sections[s].count;
        if (fread(sections[s].values, sizeof(real), count, file) != count) {
            return refuse(path, "is cut off");
        }
        sum = checksum(sum, sections[s].values, count * sizeof(real));
    }
    if (fread(&wanted, sizeof wanted, 1, file) != 1) {
        return refuse(path, "is cut off");
    }
    if (sum != wanted) {
        return refuse(path, "is damaged: its checksum does not fit");
    }
    return fgetc(file) == EOF || refuse(path, "goes on behind its end");
}

bool checkpoint_load(const char *path, struct model *model, struct progress *progress)
{
    struct section into[SECTIONS], read[SECTIONS];
    struct header header;
    FILE *file = fopen(path, "rb");
    if (!file) {
        return refuse(path, strerror(errno));
    }
    list_sections(model, into);
    for (int s = 0; s < SECTIONS; ++s) {
        read[s] = (struct section){reals(into[s].count), into[s].count};
    }
    const bool is_good = read_header(file, path, model, progress, &header) &&
                         read_sections(file, path, read, checksum(0, &header, sizeof header));
    for (int s = 0; s < SECTIONS; ++s) {
        if (is_good) {
            memcpy(into[s].values, read[s].values, (size_t)into[s].count * sizeof(real));
        }
        free(read[s].values);
    }
    fclose(file);
    return is_good;
}
