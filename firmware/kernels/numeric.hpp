// The numeric contract in C++: exact accumulators, one rounding, saturation counted (docs/numerics.md).
// Header-only, no heap, no recursion, no library: avr-gcc 5.4 and g++ compile the same text.
#pragma once
#include <stdint.h>

#include "firmware/kernels/memory.hpp"

#ifdef __AVR__
#include "firmware/kernels/acc40_avr.hpp"
#include "firmware/kernels/shift_avr.hpp"
#endif

namespace hil {

// How many results were clipped since the session last cleared it.
extern uint32_t saturations;

// A number known at compile time, passed like a value: shifts by a variable cost an AVR a loop.
template <int N>
struct Const {
    constexpr operator int() const { return N; }
};

// Sum<bits>: the accumulator for dot products proven to fit `bits`, the narrowest type that pays on this chip.
// Wide<bits>: the same for single sums and products, where a plain integer is as good.
template <int Class> struct AccumulatorType { using type = int64_t; };
template <> struct AccumulatorType<32> { using type = int32_t; };
#ifdef __AVR__
template <> struct AccumulatorType<40> { using type = Acc40; };
#endif
template <int Bits>
using Sum = typename AccumulatorType<(Bits <= 32) ? 32 : (Bits <= 40) ? 40 : 64>::type;
template <int Bits>
using Wide = typename AccumulatorType<(Bits <= 32) ? 32 : 64>::type;

// floor(value / 2^shift): right shifts of negative numbers are arithmetic in gcc.
template <class Number, class Shift>
inline Number shift_right(Number value, Shift shift) { return static_cast<Number>(value >> int(shift)); }

// value * 2^shift for a value of at most 16 bits
template <class Shift>
inline uint32_t shift_left(uint16_t value, Shift shift) { return static_cast<uint32_t>(value) << int(shift); }

#ifdef __AVR__
template <int N>
inline int32_t shift_right(int32_t value, Const<N>) { return shift_right_const<(N < 32 ? N : 31)>(value); }
template <int N>
inline uint32_t shift_left(uint16_t value, Const<N>) { return shift_left_const<N>(value); }
#endif

template <class T> struct Limits;
template <> struct Limits<int8_t> { static constexpr int8_t lowest = -128, highest = 127; };
template <> struct Limits<int16_t> { static constexpr int16_t lowest = -32768, highest = 32767; };

template <class Out, class Number>
inline Out saturate(Number value) {
    const Out low = static_cast<Out>(value);
    if (low == value) return low;
    ++saturations;
    return value < 0 ? Limits<Out>::lowest : Limits<Out>::highest;
}

// sum * 2^-shift, to nearest, ties towards plus infinity, saturated. The width proof of the sum covers the rounding
// addend (shift > 0) or the left shift (shift < 0).
template <class Out, class Number>
inline Out requantize(Number sum, int shift) {
    if (shift > 0) return saturate<Out>(static_cast<Number>((sum + (static_cast<Number>(1) << (shift - 1))) >> shift));
    return saturate<Out>(static_cast<Number>(sum * (static_cast<Number>(1) << -shift)));
}

template <class Out, class Number, int N>
inline Out requantize(Number sum, Const<N>) {
    constexpr int right = N > 0 ? N : 0, left = N < 0 ? -N : 0;
    constexpr Number half = right > 0 ? static_cast<Number>(1) << (right > 0 ? right - 1 : 0) : 0;
    if (right > 0) return saturate<Out>(shift_right(static_cast<Number>(sum + half), Const<right>()));
    return saturate<Out>(static_cast<Number>(sum * (static_cast<Number>(1) << left)));
}

#ifdef __AVR__
template <class Out, int N>
inline Out requantize(Acc40 sum, Const<N>) {
    if (N < 8) return requantize<Out>(sum.wide(), Const<N>());
    // the byte below the rounding point is dropped first: floor(floor(s / 2^8) / 2^(n-8)) = floor(s / 2^n)
    sum.add_power(N - 1);
    return saturate<Out>(shift_right(sum.upper(), Const<(N > 8 ? N - 8 : 0)>()));
}
#endif

}  // namespace hil
