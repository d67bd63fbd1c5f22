/* Bounds-checking forms of the C library's copying and printing functions, for programs that include "securec.h".
 * Header only; not needed by this library and not on its default include path.
 *
 * The memory and string functions return EOK (0) or a positive code. A bad argument never writes outside
 * [dest, dest + destMax); where the target is usable the functions named ..._AND_RESET in their code also clear it
 * (memory: all of destMax; strings: the first character), so that nobody goes on with half a result. */
#ifndef ACLGRAD_COMPAT_SECUREC_H
#define ACLGRAD_COMPAT_SECUREC_H

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int errno_t;

#ifndef EOK
#    define EOK 0
#endif
#ifndef EINVAL_AND_RESET
#    define EINVAL_AND_RESET 150
#endif
#ifndef ERANGE_AND_RESET
#    define ERANGE_AND_RESET 162
#endif
#ifndef EOVERLAP_AND_RESET
#    define EOVERLAP_AND_RESET 182
#endif

#define SECUREC_MEM_MAX_LEN    ((size_t)0x7fffffff)
#define SECUREC_STRING_MAX_LEN ((size_t)0x7fffffff)

#define ACLGRAD_SECUREC_PRINTF(text, first) __attribute__((format(printf, text, first)))

/* [a, a + a_bytes) and [b, b + b_bytes) share a byte. */
static inline int aclgrad_securec_overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    const uintptr_t a_begin = (uintptr_t)a, b_begin = (uintptr_t)b;
    return a_begin < b_begin + b_bytes && b_begin < a_begin + a_bytes;
}

/* Copies; for ranges that overlap EOVERLAP_AND_RESET (use memmove_s), but dest == src is EOK. */
static inline errno_t memcpy_s(void *dest, size_t destMax, const void *src, size_t count)
{
    if (destMax == 0 || destMax > SECUREC_MEM_MAX_LEN) {
        return ERANGE;
    }
    if (!dest) {
        return EINVAL;
    }
    if (!src) {
        memset(dest, 0, destMax);
        return EINVAL_AND_RESET;
    }
    if (count > destMax) {
        memset(dest, 0, destMax);
        return ERANGE_AND_RESET;
    }
    if (dest != src && count > 0) {
        if (aclgrad_securec_overlap(dest, count, src, count)) {
            memset(dest, 0, destMax);
            return EOVERLAP_AND_RESET;
        }
        memmove(dest, src, count); /* not memcpy: compilers warn about overlaps that were refused above */
    }
    return EOK;
}

/* Copies ranges that may overlap. */
static inline errno_t memmove_s(void *dest, size_t destMax, const void *src, size_t count)
{
    if (destMax == 0 || destMax > SECUREC_MEM_MAX_LEN) {
        return ERANGE;
    }
    if (!dest) {
        return EINVAL;
    }
    if (!src) {
        memset(dest, 0, destMax);
        return EINVAL_AND_RESET;
    }
    if (count > destMax) {
        memset(dest, 0, destMax);
        return ERANGE_AND_RESET;
    }
    memmove(dest, src, count);
    return EOK;
}

/* Fills `count` bytes; when they do not fit, fills destMax bytes and returns ERANGE_AND_RESET. */
static inline errno_t memset_s(void *dest, size_t destMax, int c, size_t count)
{
    if (destMax == 0 || destMax > SECUREC_MEM_MAX_LEN) {
        return ERANGE;
    }
    if (!dest) {
        return EINVAL;
    }
    if (count > destMax) {
        memset(dest, c, destMax);
        return ERANGE_AND_RESET;
    }
    memset(dest, c, count);
    return EOK;
}

/* Copies at most `count` characters of src and a null character, all or nothing. */
static inline errno_t strncpy_s(char *dest, size_t destMax, const char *src, size_t count)
{
    size_t length = 0;
    if (destMax == 0 || destMax > SECUREC_STRING_MAX_LEN) {
        return ERANGE;
    }
    if (!dest) {
        return EINVAL;
    }
    if (!src) {
        dest[0] = '\0';
        return EINVAL_AND_RESET;
    }
    while (length < count && length < destMax && src[length] != '\0') {
        ++length;
    }
    if (length >= destMax) {
        dest[0] = '\0';
        return ERANGE_AND_RESET;
    }
    if (dest != src && aclgrad_securec_overlap(dest, length + 1, src, length + 1)) {
        dest[0] = '\0';
        return EOVERLAP_AND_RESET;
    }
    memmove(dest, src, length);
    dest[length] = '\0';
    return EOK;
}

/* Copies a whole string. */
static inline errno_t strcpy_s(char *dest, size_t destMax, const char *src)
{
    return strncpy_s(dest, destMax, src, SECUREC_STRING_MAX_LEN);
}

/* Prints at most `count` characters and a null character. Returns their number; -1 when the text was cut at `count`
 * (the beginning stays) or does not fit destMax (dest becomes ""), or an argument is bad. */
static inline int vsnprintf_s(char *dest, size_t destMax, size_t count, const char *format, va_list arguments)
    ACLGRAD_SECUREC_PRINTF(4, 0);
static inline int vsnprintf_s(char *dest, size_t destMax, size_t count, const char *format, va_list arguments)
{
    int length;
    if (!dest || destMax == 0 || destMax > SECUREC_STRING_MAX_LEN) {
        return -1;
    }
    if (!format) {
        dest[0] = '\0';
        return -1;
    }
    length = vsnprintf(dest, count < destMax ? count + 1 : destMax, format, arguments);
    if (length >= 0 && (size_t)length <= count && (size_t)length < destMax) {
        return length;
    }
    if (length < 0 || count >= destMax) {
        dest[0] = '\0';
    }
    return -1;
}

static inline int snprintf_s(char *dest, size_t destMax, size_t count, const char *format, ...)
    ACLGRAD_SECUREC_PRINTF(4, 5);
static inline int snprintf_s(char *dest, size_t destMax, size_t count, const char *format, ...)
{
    int length;
    va_list arguments;
    va_start(arguments, format);
    length = vsnprintf_s(dest, destMax, count, format, arguments);
    va_end(arguments);
    return length;
}

/* Prints all or nothing: -1 and "" when the text does not fit destMax. */
static inline int sprintf_s(char *dest, size_t destMax, const char *format, ...) ACLGRAD_SECUREC_PRINTF(3, 4);
static inline int sprintf_s(char *dest, size_t destMax, const char *format, ...)
{
    int length;
    va_list arguments;
    va_start(arguments, format);
    length = vsnprintf_s(dest, destMax, destMax, format, arguments);
    va_end(arguments);
    return length;
}

#ifdef __cplusplus
}
#endif

#endif
