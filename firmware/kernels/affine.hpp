// Zero-skew integers in the arithmetic of TensorFlow Lite (tinyhil/formats/affine.py, tinyhil/ops/affine.py).
#pragma once
#include "firmware/kernels/conv.hpp"
#include "firmware/kernels/elementwise.hpp"
#include "firmware/kernels/quire.hpp"

namespace hil {

// x * m * 2^(shift - 31) with two roundings: the high half of the doubled product to nearest, then the right shift.
inline int32_t rescale(int32_t x, int32_t m, int shift) {
    if (shift > 0) x = static_cast<int32_t>(static_cast<uint32_t>(x) << shift);
    const int64_t product = static_cast<int64_t>(x) * m;
    const int64_t half = int64_t(1) << 30;
    const int32_t high = static_cast<int32_t>(product >= 0 ? (product + half) >> 31 : -((-product + half - 1) >> 31));
    if (shift >= 0) return high;
    const int32_t mask = static_cast<int32_t>((uint32_t(1) << -shift) - 1);
    return (high >> -shift) + ((high & mask) > (mask >> 1) + (high < 0));
}

// The same with one rounding: what fully connected layers do
inline int32_t rescale_once(int32_t x, int32_t m, int shift) {
    const int right = 31 - shift;
    return static_cast<int32_t>((static_cast<int64_t>(x) * m + (int64_t(1) << (right - 1))) >> right);
}

// For sums of 16-bit operands: the multiplier cut to 15 bits, one rounding
inline int32_t rescale(int64_t x, int32_t m, int shift) {
    const int32_t reduced = m < 0x7FFF0000 ? (m + (int32_t(1) << 15)) >> 16 : 0x7FFF;
    const int right = 15 - shift;
    return static_cast<int32_t>((x * reduced + (int64_t(1) << (right - 1))) >> right);
}

inline int32_t rescale_once(int64_t x, int32_t m, int shift) { return rescale(x, m, shift); }

// Multiplier and shift of each output channel, in the place of a kernel's shift
template <class Multipliers, class Shifts, bool Once>
struct Channels {
    Multipliers multipliers;
    Shifts shifts;
    int16_t zero;
};
template <bool Once>
struct Rescale {
    int32_t multiplier;
    int shift;
    int16_t zero;
};
template <class M, class S, bool Once>
inline Rescale<Once> of_channel(const Channels<M, S, Once> &c, Size n) { return {c.multipliers[n], c.shifts[n], c.zero}; }
template <class M, class S, bool Once>
inline Channels<M, S, Once> from_channel(const Channels<M, S, Once> &c, Size n) {
    return {c.multipliers + n, c.shifts + n, c.zero};
}

template <class Out, class Number, bool Once>
inline Out requantize(Number sum, Rescale<Once> r) {
    const int32_t units = Once ? rescale_once(sum, r.multiplier, r.shift) : rescale(sum, r.multiplier, r.shift);
    return saturate<Out>(static_cast<int32_t>(units + r.zero));
}

template <class Acc, class Out, class W, class X, class B, class M, class S, class Zero>
void dense_affine(Out *out, W weights, X x, B bias, M multipliers, S shifts, Size rows, Size outputs, Size inner, Zero zero) {
    const Channels<M, S, true> channels = {multipliers, shifts, static_cast<int16_t>(int(zero))};
    dense_bias<Acc>(out, weights, x, bias, rows, outputs, inner, channels, Const<0>());
}

// Codes of which Zero stands for nothing: what windows are padded with
template <class Code, int Zero>
struct Skewed {
    Code code;
    Skewed() : code(static_cast<Code>(Zero)) {}
    Skewed(Code c) : code(c) {}
};
template <class Code, int Zero>
inline Ram<Code> ram(const Skewed<Code, Zero> *p) { return {&p->code}; }
template <class Code, int Zero>
struct PadsWithZero<Skewed<Code, Zero>> { static constexpr bool value = false; };

template <class Acc, class Out, class T, class W, class X, class B, class M, class S, class Zero, int Pad>
HIL_PER_LAYER void conv_affine(Out *out, T *patch, W weights, X x, B bias, M multipliers, S shifts, const Window &w,
                               Size groups, Size outputs, Zero zero, Const<Pad>) {
    const Channels<M, S, false> channels = {multipliers, shifts, static_cast<int16_t>(int(zero))};
    Skewed<T, Pad> *const padded = reinterpret_cast<Skewed<T, Pad> *>(patch);
    convolve<Acc>(out, padded, weights, x, bias, w, groups, outputs, channels, Const<0>());
}

template <class Acc, class Out, class A, class B, class Count, class P, class Q, class ZA, class ZB, class Z, class Sign,
          class SA, class SB, class SO>
void sum_affine(Out *out, A a, B b, Count count, P a_period, Q b_period, ZA a_zero, ZB b_zero, Z zero, Sign sign,
                int32_t a_multiplier, SA a_shift, int32_t b_multiplier, SB b_shift, int32_t o_multiplier, SO o_shift) {
    auto i = walk(a_period, count);
    auto j = walk(b_period, count);
    for (Size n = 0; n < static_cast<Size>(count); ++n) {
        const int32_t left = rescale((static_cast<int32_t>(a[i.next(n)]) - int(a_zero)) * (int32_t(1) << 20), a_multiplier, int(a_shift));
        const int32_t right = rescale((static_cast<int32_t>(b[j.next(n)]) - int(b_zero)) * (int32_t(1) << 20), b_multiplier, int(b_shift));
        const int32_t sum = int(sign) > 0 ? left + right : left - right;
        out[n] = saturate<Out>(static_cast<int32_t>(rescale(sum, o_multiplier, int(o_shift)) + int(zero)));
    }
}

template <class Acc, class Out, class A, class B, class Count, class P, class Q, class ZA, class ZB, class Z, class Shift>
void mul_affine(Out *out, A a, B b, Count count, P a_period, Q b_period, ZA a_zero, ZB b_zero, Z zero, int32_t multiplier, Shift by) {
    auto i = walk(a_period, count);
    auto j = walk(b_period, count);
    for (Size n = 0; n < static_cast<Size>(count); ++n) {
        const int32_t product = (static_cast<int32_t>(a[i.next(n)]) - int(a_zero)) * (static_cast<int32_t>(b[j.next(n)]) - int(b_zero));
        out[n] = saturate<Out>(static_cast<int32_t>(rescale(product, multiplier, int(by)) + int(zero)));
    }
}

// ---- between zero-skew integers and everything else: in single precision

// An operand as floats, scale * (code - zero)
template <class X>
struct Real32 {
    X codes;
    float scale;
    int16_t zero;
    float operator[](Size i) const { return static_cast<float>(static_cast<int32_t>(codes[i]) - zero) * scale; }
    Real32 operator+(Size n) const { return {codes + n, scale, zero}; }
};
template <class X>
inline Real32<X> real32(X codes, uint32_t scale_bits, int16_t zero) { return {codes, float_of(scale_bits), zero}; }

inline float nearest_float(float x) { return x; }
template <class Number>
inline float nearest_float(Number x) { return static_cast<float>(Float32::pack(parts(x))); }

// A result: round(value * 2^-shift / scale) + zero, the quotient by the rounded reciprocal, ties to even
struct ToAffine {
    uint32_t inverse_bits;
    int16_t zero;
    int shift;
};
template <class Out, class Number>
inline Out requantize(Number value, ToAffine to) {
    float units = scaled(nearest_float(value), -to.shift) * float_of(to.inverse_bits);
    if (units != units) {
        ++saturations;
        return saturate<Out>(static_cast<int32_t>(to.zero));
    }
    units = units > 100000.0f ? 100000.0f : units < -100000.0f ? -100000.0f : units;
    units = (units + 12582912.0f) - 12582912.0f;
    return saturate<Out>(static_cast<int32_t>(units) + to.zero);
}

}  // namespace hil
