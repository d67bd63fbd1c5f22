/* AVX-512 with BF16: simd_avx512.h, whose pair words then use the dot-product instruction. */
#ifndef __AVX512BF16__
#    error "compile with -mavx512bf16"
#endif
#include "simd/simd_avx512.h"
