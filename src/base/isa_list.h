/* The kernel tables, from the plainest to the strongest; each may use all that stands before it.
 * X(NAME, name, text): enumerator, file and option name, what the CPU must have. */
#define AG_ISA_LIST(X)                                                                                               \
    X(SCALAR, scalar, "any 64-bit CPU")                                                                              \
    X(AVX2, avx2, "AVX2, FMA, F16C")                                                                                 \
    X(AVX512, avx512, "AVX-512 F, BW, VL, DQ")                                                                       \
    X(AVX512BF16, avx512bf16, "AVX-512 F, BW, VL, DQ, BF16")                                                         \
    X(AMX, amx, "AVX-512 F, BW, VL, DQ, BF16; AMX-TILE, AMX-BF16")
