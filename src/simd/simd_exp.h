/* exp() built from the vocabulary. Included after an instruction set's header. */
#ifndef AG_SIMD_EXP_H
#define AG_SIMD_EXP_H

/* e^x: relative error at most 2.5e-7 where the result is a normal number, exactly 1 at 0; 0 below -104 (also at
 * -inf), infinity above 89, NaN for NaN.
 *
 * x = n ln 2 + r with |r| <= ln 2 / 2; e^r = 1 + r + r^2 q(r), q of degree 3 by a minimax fit of the relative error
 * (1.05e-7). ln 2 comes in two parts, the first of which times n is exact, so r is good to 2^-24 at |x| = 88 too. */
V_INLINE v_f32 v_exp(v_f32 x)
{
    const v_f32 lowest = v_set1(-104.0f), highest = v_set1(89.0f); /* beyond them 0 and infinity: n stays small */
    x = v_min(highest, v_max(lowest, x));                          /* NaN is the second operand: it survives */
    const v_f32 n = v_round(v_mul(x, v_set1(1.44269504f)));
    v_f32 r = v_fma(n, v_set1(-0.693145752f), x);
    r = v_fma(n, v_set1(-1.42860677e-6f), r);
    v_f32 q = v_set1(8.312501289e-3f);
    q = v_fma(q, r, v_set1(4.189033157e-2f));
    q = v_fma(q, r, v_set1(1.666711539e-1f));
    q = v_fma(q, r, v_set1(4.999923031e-1f));
    const v_f32 p = v_add(v_fma(v_mul(r, r), q, r), v_set1(1.0f));
    return v_scale2(p, n);
}

#endif
