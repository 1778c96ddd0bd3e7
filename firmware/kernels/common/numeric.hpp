// The numeric contract in C++: exact accumulators, one rounding, saturation counted (docs/numerics.md).
// Header-only, no heap, no recursion, no library: avr-gcc 5.4 and g++ compile the same text.
#pragma once
#include <stdint.h>

#include "firmware/kernels/common/constants.hpp"
#include "firmware/kernels/common/memory.hpp"

#ifdef __AVR__
#include "firmware/kernels/avr/acc40_avr.hpp"
#include "firmware/kernels/avr/shift_avr.hpp"
#endif

namespace hil {

#ifdef HIL_UNCOUNTED  // an exported library has no variables beside its arena
struct Uncounted {
    const Uncounted &operator++() const { return *this; }
    const Uncounted &operator=(uint32_t) const { return *this; }
    operator uint32_t() const { return 0; }
};
constexpr Uncounted saturations{};
#else
// How many results were clipped since the session last cleared it.
extern uint32_t saturations;
#endif

// One more result is clipped. It is rare: on AVR a routine that leaves every register alone.
#if defined(__AVR__) && !defined(HIL_UNCOUNTED)
inline void clipped_routine() asm("hil_clipped");
__attribute__((naked, noinline, used)) inline void clipped_routine() {
    asm volatile("push r24\n"
                 "lds r24, _ZN3hil11saturationsE\n"
                 "subi r24, 0xFF\n"
                 "sts _ZN3hil11saturationsE, r24\n"
                 "lds r24, _ZN3hil11saturationsE+1\n"
                 "sbci r24, 0xFF\n"
                 "sts _ZN3hil11saturationsE+1, r24\n"
                 "lds r24, _ZN3hil11saturationsE+2\n"
                 "sbci r24, 0xFF\n"
                 "sts _ZN3hil11saturationsE+2, r24\n"
                 "lds r24, _ZN3hil11saturationsE+3\n"
                 "sbci r24, 0xFF\n"
                 "sts _ZN3hil11saturationsE+3, r24\n"
                 "pop r24\n"
                 "ret\n");
}
inline void count_clipped() { asm volatile("%~call hil_clipped" : "+m"(saturations)); }
#else
inline void count_clipped() { ++saturations; }
#endif

// What small kernels are called within loops as: a call of their own would cost an AVR more than they do.
#ifdef __AVR__
#define HIL_ELEMENTWISE __attribute__((always_inline)) inline
#else
#define HIL_ELEMENTWISE
#endif

// Sum<bits>: the accumulator for dot products proven to fit `bits`, the narrowest type that pays on this chip.
// Wide<bits>: the same for single sums and products, where a plain integer is as good; on AVR 16 bits where they hold them.
template <int Class>
struct AccumulatorType {
    using type = int64_t;
};
template <>
struct AccumulatorType<32> {
    using type = int32_t;
};
#ifdef __AVR__
template <>
struct AccumulatorType<16> {
    using type = int16_t;
};
template <>
struct AccumulatorType<24> {
    using type = __int24;
};
template <>
struct AccumulatorType<40> {
    using type = Acc40;
};
template <>
struct AccumulatorType<48> {
    using type = Acc48;
};
template <int Bits>
using Sum = typename AccumulatorType<(Bits <= 24)       ? 24
                                         : (Bits <= 32) ? 32
                                         : (Bits <= 40) ? 40
                                         : (Bits <= 48) ? 48
                                                        : 64>::type;
template <int Bits>
using Wide = typename AccumulatorType<(Bits <= 16)       ? 16
                                          : (Bits <= 32) ? 32
                                                         : 64>::type;
#else
template <int Bits>
using Sum = typename AccumulatorType<(Bits <= 32) ? 32 : 64>::type;
template <int Bits>
using Wide = typename AccumulatorType<(Bits <= 32) ? 32 : 64>::type;
#endif

// floor(value / 2^shift): right shifts of negative numbers are arithmetic in gcc.
template <class Number, class Shift>
inline Number shift_right(Number value, Shift shift) {
    return static_cast<Number>(value >> int(shift));
}

// value * 2^shift for a value of at most 16 bits
template <class Shift>
inline uint32_t shift_left(uint16_t value, Shift shift) {
    return static_cast<uint32_t>(value) << int(shift);
}

#ifdef __AVR__
template <int N>
inline int32_t shift_right(int32_t value, Const<N>) {
    return shift_right_const<(N < 32 ? N : 31)>(value);
}
template <int N>
inline int16_t shift_right(int16_t value, Const<N>) {
    return shift_right_const<(N < 16 ? N : 15)>(value);
}
template <int N>
inline uint32_t shift_left(uint16_t value, Const<N>) {
    return shift_left_const<N>(value);
}
#endif

template <class T>
struct Limits;
template <>
struct Limits<int8_t> {
    static constexpr int8_t lowest = -128, highest = 127;
};
template <>
struct Limits<int16_t> {
    static constexpr int16_t lowest = -32768, highest = 32767;
};
template <>
struct Limits<int32_t> {
    static constexpr int32_t lowest = -2147483647 - 1, highest = 2147483647;
};

template <class Out>
struct Saturate {
    template <class Number>
    static Out of(Number value) {
        const Out low = static_cast<Out>(value);
        if (low == value) return low;
        count_clipped();
        return value < 0 ? Limits<Out>::lowest : Limits<Out>::highest;
    }
};

#if defined(__AVR__) && !defined(HIL_UNCOUNTED)
// Six cycles for a number of 16 bits that a byte holds
template <>
struct Saturate<int8_t> {
    static int8_t of(int16_t value) {
        uint8_t sign;
        asm("mov %[sign], %A[v]\n"
            "lsl %[sign]\n"
            "sbc %[sign], %[sign]\n"
            "cp %[sign], %B[v]\n"
            "breq 1f\n"
            "%~call hil_clipped\n"
            "mov %A[v], %B[v]\n"
            "lsl %A[v]\n"
            "sbc %A[v], %A[v]\n"
            "ldi %[sign], 0x7F\n"
            "eor %A[v], %[sign]\n"
            "1:\n"
            : [v] "+r"(value), [sign] "=&d"(sign), "+m"(saturations));
        return static_cast<int8_t>(value);
    }
    template <class Number>
    static int8_t of(Number value) {
        const int8_t low = static_cast<int8_t>(value);
        if (low == value) return low;
        count_clipped();
        return value < 0 ? -128 : 127;
    }
};
#endif

template <int Bits>
struct Saturate<Fixed<Bits>> {
    template <class Number>
    static Fixed<Bits> of(Number value) {
        using Code = typename Fixed<Bits>::Code;
        constexpr Code highest = static_cast<Code>((int32_t(1) << (Bits - 1)) - 1), lowest = static_cast<Code>(-highest - 1);
        if (value >= lowest && value <= highest) return {static_cast<Code>(value)};
        count_clipped();
        return {value < 0 ? lowest : highest};
    }
};

template <int Bits>
struct Saturate<Unsigned<Bits>> {
    template <class Number>
    static Unsigned<Bits> of(Number value) {
        constexpr int16_t highest = (int16_t(1) << Bits) - 1;
        if (value >= 0 && value <= highest) return {static_cast<typename Unsigned<Bits>::Code>(value)};
        count_clipped();
        return {static_cast<typename Unsigned<Bits>::Code>(value < 0 ? 0 : highest)};
    }
};

// A sign is in range whatever the number.
template <>
struct Saturate<Signed> {
    template <class Number>
    static Signed of(Number value) {
        return {static_cast<int8_t>(value < 0 ? -1 : 1)};
    }
};

template <class Out, class Number>
inline Out saturate(Number value) {
    return Saturate<Out>::of(value);
}

// value * 2^shift, exact; accumulators that are no integers overload it
template <class Number, class Shift>
inline Number scaled(Number value, Shift shift) {
    return static_cast<Number>(value * (static_cast<Number>(1) << int(shift)));
}

// a * b as an accumulator: integers widen by their own rules, which chips have instructions for
template <class Acc>
struct Multiply {
    template <class A, class B>
    static Acc of(A a, B b) {
        return static_cast<Acc>(static_cast<Acc>(a) * b);
    }
};

// One factor of several products
template <class Acc>
struct FactorIn {
    template <class T>
    static Acc of(T x) {
        return static_cast<Acc>(x);
    }
};

#if __ARM_ARCH_ISA_THUMB == 1
// ARMv6-M multiplies to 32 bits alone: of two numbers of 16 bits that is the whole product, wider ones are a call.
template <>
struct Multiply<int64_t> {
    template <class A, class B>
    static int64_t of(A a, B b) {
        return static_cast<int64_t>(a) * b;
    }
    static int64_t of(int16_t a, int16_t b) { return static_cast<int32_t>(a) * b; }
    static int64_t of(int8_t a, int16_t b) { return static_cast<int32_t>(a) * b; }
};
template <>
struct FactorIn<int64_t> {
    template <class T>
    static T of(T x) {
        return x;
    }
};
#endif

// What elements are compared as: integers need no more than their own 16 bits.
template <class Acc>
struct Compared {
    using type = Acc;
};
template <>
struct Compared<int32_t> {
    using type = int16_t;
};
template <>
struct Compared<int64_t> {
    using type = int16_t;
};

// What at most 2^14 elements are summed in
template <class Acc>
struct Plain {
    using type = Acc;
};
template <>
struct Plain<int64_t> {
    using type = int32_t;
};

// The sum a layer starts from: bias * 2^shift
template <class Acc>
struct Start {
    template <class Bias, class Shift>
    static Acc of(Bias bias, Shift shift) {
        return Acc(static_cast<int64_t>(bias) * (int64_t(1) << int(shift)));
    }
};

template <bool Condition, class T = void>
struct EnableIf {};
template <class T>
struct EnableIf<true, T> {
    using type = T;
};

// What elements of A and B are added and multiplied in for a result in Out: Acc, or less where that gives the same.
template <class Acc, class Out, class A, class B, class = void>
struct Working {
    using type = Acc;
};

// Coded elements and accumulators that are no integers: they bring a requantize of their own (real.hpp).
template <class T>
struct IsSpecial {
    static constexpr bool value = false;
};
// Elements that are a sign: of whole numbers nothing is rounded.
template <class T>
struct IsSign {
    static constexpr bool value = false;
};
template <>
struct IsSign<Signed> {
    static constexpr bool value = true;
};
template <>
struct IsSpecial<Signed> {
    static constexpr bool value = true;
};
template <class Out, class Number>
using WholeOut = typename EnableIf<!IsSpecial<Out>::value && !IsSpecial<Number>::value, Out>::type;
template <class Out, class Number>
using SignOut = typename EnableIf<IsSign<Out>::value && !IsSpecial<Number>::value, Out>::type;
template <class Out, class Number>
using SpecialOut = typename EnableIf<(IsSpecial<Out>::value && !IsSign<Out>::value) || IsSpecial<Number>::value, Out>::type;

// The shift of output channel n, and those from channel n on: one for all, unless there is a record of many (affine.hpp).
template <class Shift>
inline const Shift &of_channel(const Shift &shift, Size) {
    return shift;
}
template <class Shift>
inline const Shift &from_channel(const Shift &shift, Size) {
    return shift;
}

// sum * 2^-shift, to nearest, ties towards plus infinity, saturated. The width proof of the sum covers the rounding
// addend (shift > 0) or the left shift (shift < 0).
template <class Out, class Number>
inline WholeOut<Out, Number> requantize(Number sum, int shift) {
    if (shift > 0) return saturate<Out>(static_cast<Number>((sum + (static_cast<Number>(1) << (shift - 1))) >> shift));
    return saturate<Out>(static_cast<Number>(sum * (static_cast<Number>(1) << -shift)));
}

template <class Out, class Number, int N>
inline WholeOut<Out, Number> requantize(Number sum, Const<N>) {
    constexpr int right = N > 0 ? N : 0, left = N < 0 ? -N : 0;
    constexpr Number half = right > 0 ? static_cast<Number>(1) << (right > 0 ? right - 1 : 0) : 0;
    if (right > 0) return saturate<Out>(shift_right(static_cast<Number>(sum + half), Const<right>()));
    return saturate<Out>(static_cast<Number>(sum * (static_cast<Number>(1) << left)));
}

template <class Number>
inline bool is_negative(Number x) {
    return x < 0;
}
#ifdef __AVR__
inline bool is_negative(Acc40 x) { return x.wide() < 0; }
inline bool is_negative(Acc48 x) { return x.wide() < 0; }
#endif
template <class Out, class Number, class Shift>
inline SignOut<Out, Number> requantize(Number sum, Shift) {
    return Out(is_negative(sum) ? -1 : 1);
}

#ifdef __AVR__
template <>
struct Multiply<__int24> {
    template <class A, class B>
    static __int24 of(A a, B b) {
        return static_cast<__int24>(static_cast<int32_t>(a) * b);
    }
};
template <>
struct Start<__int24> {
    template <class Bias, int N>
    static __int24 of(Bias bias, Const<N>) {
        return lift24<(N < 24 ? N : 0)>(static_cast<__int24>(bias));
    }
    template <class Bias>
    static __int24 of(Bias bias, int shift) {
        return static_cast<__int24>(static_cast<int32_t>(bias) * (int32_t(1) << shift));
    }
};
template <>
struct Start<int32_t> {
    template <class Bias, int N>
    static int32_t of(Bias bias, Const<N>) {
        if (N > 30) return static_cast<int32_t>(static_cast<int64_t>(bias) * (int64_t(1) << (N > 30 ? N : 0)));
        return static_cast<int32_t>(bias) * (int32_t(1) << (N > 30 ? 0 : N));
    }
    template <class Bias>
    static int32_t of(Bias bias, int shift) {
        return static_cast<int32_t>(static_cast<int64_t>(bias) * (int64_t(1) << shift));
    }
};
// The byte below the rounding point is dropped first.
template <class Out, int N>
inline WholeOut<Out, __int24> requantize(__int24 sum, Const<N>) {
    if (N <= 0 || N > 22) return requantize<Out>(static_cast<int32_t>(sum), Const<N>());
    sum = static_cast<__int24>(sum + (static_cast<__int24>(1) << (N > 0 && N < 23 ? N - 1 : 0)));
    if (N >= 5 && N < 8) {  // left by the bits that are missing to a byte
        const int32_t wide = shift_left_sum<(N >= 5 && N < 8 ? 8 - N : 0)>(sum);
        return saturate<Out>(static_cast<__int24>(wide >> 8));
    }
    if (N < 8) return saturate<Out>(shift_right_const<(N > 0 && N < 8 ? N : 0)>(sum));
    return saturate<Out>(shift_right_const<(N >= 8 && N < 23 ? N - 8 : 0)>(static_cast<int16_t>(static_cast<__uint24>(sum) >> 8)));
}
template <class Out>
inline WholeOut<Out, __int24> requantize(__int24 sum, int shift) {
    return requantize<Out>(static_cast<int32_t>(sum), shift);
}
template <class Out, int N>
inline WholeOut<Out, Acc48> requantize(Acc48 sum, Const<N> shift) {
    return requantize<Out>(sum.wide(), shift);
}
template <class Out>
inline WholeOut<Out, Acc48> requantize(Acc48 sum, int shift) {
    return requantize<Out>(sum.wide(), shift);
}
template <class Out>
inline WholeOut<Out, Acc40> requantize(Acc40 sum, int shift) {
    return requantize<Out>(sum.wide(), shift);
}
template <class Out, int N>
inline WholeOut<Out, Acc40> requantize(Acc40 sum, Const<N>) {
    if (N < 8) return requantize<Out>(sum.wide(), Const<N>());
    // the byte below the rounding point is dropped first: floor(floor(s / 2^8) / 2^(n-8)) = floor(s / 2^n)
    sum.add_power(N - 1);
    return saturate<Out>(shift_right(sum.upper(), Const<(N > 8 ? N - 8 : 0)>()));
}
#endif

}  // namespace hil
