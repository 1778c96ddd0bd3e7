// Dot products with an exact accumulator. The generic loop defines the result; chip versions are held to the same bits.
#pragma once
#include "firmware/kernels/common/numeric.hpp"

namespace hil {

template <class Acc, class A, class B>
inline void accumulate(Acc &sum, A a, B b, Size count) {
    for (Size i = 0; i < count; ++i) sum += Multiply<Acc>::of(a[i], b[i]);
}

// The same beside a window, which needs registers, too (avr/dot_avr.hpp).
template <class Acc, class A, class B>
inline void accumulate_apart(Acc &sum, A a, B b, Size count) {
    accumulate(sum, a, b, count);
}

#ifdef __AVR__
// Sums of these operands that `Shift` brings to the result's scale leave no registers for a loop inside (affine.hpp).
template <class Acc, class Shift, class A, class B>
struct IsApart {
    static constexpr bool value = false;
};
template <class Acc, class A, class B>
__attribute__((noinline)) void accumulate_called(Acc &sum, A a, B b, Size count) {
    accumulate(sum, a, b, count);
}
#endif

inline int32_t sum_of(Ram<int8_t> x, Size count) {
    int32_t sum = 0;
    for (Size k = 0; k < count; ++k) sum += x[k];
    return sum;
}

#ifndef __AVR__
// Sums of neighbouring rows: each element of x is loaded once for all of them. ARM has registers for four sums
// of 32 bits or two of 64.
template <class Acc, class W, class X>
inline void accumulate_rows(Acc (&sums)[4], W weights, X x, Size count) {
    const W second = weights + count, third = second + count, fourth = third + count;
    Acc a = sums[0], b = sums[1], c = sums[2], d = sums[3];
    for (Size i = 0; i < count; ++i) {
        const auto factor = FactorIn<Acc>::of(x[i]);
        a += Multiply<Acc>::of(weights[i], factor);
        b += Multiply<Acc>::of(second[i], factor);
        c += Multiply<Acc>::of(third[i], factor);
        d += Multiply<Acc>::of(fourth[i], factor);
    }
    sums[0] = a;
    sums[1] = b;
    sums[2] = c;
    sums[3] = d;
}

template <class Acc, class W, class X>
inline void accumulate_rows(Acc (&sums)[2], W weights, X x, Size count) {
    const W second = weights + count;
    Acc a = sums[0], b = sums[1];
    for (Size i = 0; i < count; ++i) {
        const auto factor = FactorIn<Acc>::of(x[i]);
        a += Multiply<Acc>::of(weights[i], factor);
        b += Multiply<Acc>::of(second[i], factor);
    }
    sums[0] = a;
    sums[1] = b;
}
#endif

}  // namespace hil

#ifdef __AVR__
#include "firmware/kernels/avr/dot_avr.hpp"
#endif

#if defined(__ARM_FEATURE_DSP) || defined(HIL_DSP_PORTABLE)
#include "firmware/kernels/arm/dot_dsp.hpp"
#endif
