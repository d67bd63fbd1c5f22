#include "whole_number.h"

bool whole_number(const char *text, size_t length, int64_t *value)
{
    const bool is_negative = length > 0 && text[0] == '-';
    int64_t number = 0;
    for (size_t i = is_negative; i < length; ++i) {
        const int digit = text[i] - '0';
        if (digit < 0 || digit > 9 || __builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, is_negative ? -digit : digit, &number)) {
            return false;
        }
    }
    *value = number;
    return length > is_negative;
}
