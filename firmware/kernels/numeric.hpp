// The numeric contract in C++: exact accumulators, one rounding, saturation counted (docs/numerics.md).
// Header-only, no heap, no recursion, no library: avr-gcc 5.4 and g++ compile the same text.
#pragma once
#include <stdint.h>

#include "firmware/kernels/memory.hpp"

#ifdef __AVR__
#include "firmware/kernels/acc40_avr.hpp"
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

template <class T> struct Limits;
template <> struct Limits<int8_t> { static constexpr int8_t lowest = -128, highest = 127; };
template <> struct Limits<int16_t> { static constexpr int16_t lowest = -32768, highest = 32767; };

template <class Out, class Number>
inline Out saturate(Number value) {
    if (value > Limits<Out>::highest) {
        ++saturations;
        return Limits<Out>::highest;
    }
    if (value < Limits<Out>::lowest) {
        ++saturations;
        return Limits<Out>::lowest;
    }
    return static_cast<Out>(value);
}

// sum * 2^-shift, to nearest, ties towards plus infinity, saturated. The width proof of the sum covers the rounding
// addend (shift > 0) or the left shift (shift < 0); right shifts of negative numbers are arithmetic in gcc.
template <class Out, class Number, class Shift>
inline Out requantize(Number sum, Shift shift) {
    const int right = shift > 0 ? int(shift) : 0;
    const int left = shift < 0 ? -int(shift) : 0;
    if (right > 0) return saturate<Out>(static_cast<Number>((sum + (static_cast<Number>(1) << (right ? right - 1 : 0))) >> right));
    return saturate<Out>(static_cast<Number>(sum * (static_cast<Number>(1) << left)));
}

#ifdef __AVR__
template <class Out, class Shift>
inline Out requantize(Acc40 sum, Shift shift) {
    if (shift < 8) return requantize<Out>(sum.wide(), shift);
    // the byte below the rounding point is dropped first: floor(floor(s / 2^8) / 2^(n-8)) = floor(s / 2^n)
    const int rest = shift > 8 ? int(shift) - 8 : 0;
    sum.add_power(int(shift) - 1);
    return saturate<Out>(static_cast<int32_t>(sum.upper() >> rest));
}
#endif

}  // namespace hil
