// Integers times a factor m * 2^(shift - 31), rounded as TensorFlow Lite rounds them (tinyhil/formats/affine.py).
#pragma once
#ifdef __AVR__
#include "firmware/kernels/avr/affine_avr.hpp"
#else
#include "firmware/kernels/arm/dsp.hpp"
#endif

namespace hil {

#ifndef __AVR__
// x * m * 2^(shift - 31) with two roundings: the high half of the doubled product to nearest, then the right shift.
inline int32_t rescale(int32_t x, int32_t m, int shift) {
    if (shift > 0) x = static_cast<int32_t>(static_cast<uint32_t>(x) << shift);
    const int32_t high = static_cast<int32_t>((static_cast<int64_t>(x) * m + (int64_t(1) << 30)) >> 31);
    if (shift >= 0) return high;
    const int32_t twice = (high + (high >> 31)) >> (-shift - 1);  // away from zero where it is a tie
    return (twice >> 1) + (twice & 1);
}

// The same with one rounding: what fully connected layers do
inline int32_t rescale_once(int32_t x, int32_t m, int shift) {
    const int right = 31 - shift;
    return static_cast<int32_t>((static_cast<int64_t>(x) * m + (int64_t(1) << (right - 1))) >> right);
}

// rescale of numbers below 2^30, by a factor known to be below 1 when this is compiled
template <class Shift>
inline int32_t rescale_small(int32_t x, int32_t m, Shift shift) {
    if (int(shift) > 0) return rescale(x, m, int(shift));
    const int32_t high = upper_product(2 * x, m);
    const int right = int(shift) < 0 ? -int(shift) : 1;
    return int(shift) == 0 ? high : (high + (high >> 31) + (int32_t(1) << (right - 1))) >> right;
}

// rescale of what Add, Sub and Mul compute from differences d, a, b of two codes of 8 bits (affine_avr.hpp uses the shifts):
// terms of sums are below 2^28, sums below 2^29, products below 2^16
template <class Shift>
inline int32_t rescale_lifted(int d, int32_t m, Shift shift) {
    return rescale_small(static_cast<int32_t>(d) * (int32_t(1) << 20), m, shift);
}
template <class Shift>
inline int32_t rescale_sum(int32_t sum, int32_t m, Shift shift) {
    return rescale_small(sum, m, shift);
}
template <class Shift>
inline int32_t rescale_product(int a, int b, int32_t m, Shift shift) {
    return rescale_small(static_cast<int32_t>(a) * b, m, shift);
}
#endif

// rescale_once with ties away from zero: what means do
inline int32_t rescale_away(int32_t x, int32_t m, int shift) { return x < 0 ? -rescale_once(-x, m, shift) : rescale_once(x, m, shift); }

// For sums of 16-bit operands: the multiplier cut to 15 bits, one rounding
inline int32_t rescale(int64_t x, int32_t m, int shift) {
    const int32_t reduced = m < 0x7FFF0000 ? (m + (int32_t(1) << 15)) >> 16 : 0x7FFF;
    const int right = 15 - shift;
    return static_cast<int32_t>((x * reduced + (int64_t(1) << (right - 1))) >> right);
}

inline int32_t rescale_once(int64_t x, int32_t m, int shift) { return rescale(x, m, shift); }
#ifdef __AVR__
inline int32_t rescale(Acc40 x, int32_t m, int shift) { return rescale(x.wide(), m, shift); }
inline int32_t rescale(Acc48 x, int32_t m, int shift) { return rescale(x.wide(), m, shift); }
inline int32_t rescale_once(Acc40 x, int32_t m, int shift) { return rescale(x, m, shift); }
inline int32_t rescale_once(Acc48 x, int32_t m, int shift) { return rescale(x, m, shift); }
#endif

}  // namespace hil
