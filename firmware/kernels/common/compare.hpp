// Decisions (tinyhil/ops/decisions.py).
#pragma once
#include "firmware/kernels/common/elementwise.hpp"
#include "firmware/kernels/common/single.hpp"

namespace hil {

// In the order of tinyhil/ops/decisions.py.
enum Comparison { less, less_or_equal, equal, both, either };

template <class Acc>
inline bool holds(int mode, Acc a, Acc b) {
    return mode == less         ? a < b
        : mode == less_or_equal ? a <= b
        : mode == equal         ? a == b
        : mode == both          ? a != Acc(0) && b != Acc(0)
                                : a != Acc(0) || b != Acc(0);
}

template <class Acc, class Out, class A, class B, class Count, class P, class Q, class L, class R, class Mode>
void compare(Out *out, A a, B b, Count count, P a_period, Q b_period, L a_shift, R b_shift, int one, Mode mode) {
    auto i = walk(a_period, count);
    auto j = walk(b_period, count);
    for (Size n = 0; n < static_cast<Size>(count); ++n) {
        const Acc left = scaled(static_cast<Acc>(a[i.next(n)]), a_shift);
        const Acc right = scaled(static_cast<Acc>(b[j.next(n)]), b_shift);
        out[n] = static_cast<Out>(holds(int(mode), left, right) ? one : 0);
    }
}

template <class Acc, class Out, class X>
void sign(Out *out, X x, Size count, int below, int zero, int above) {
    for (Size n = 0; n < count; ++n) {
        const Acc value = static_cast<Acc>(x[n]);
        out[n] = static_cast<Out>(value < Acc(0) ? below : value > Acc(0) ? above : zero);
    }
}

// value * 2^-drop without its fraction
template <class Number>
inline Number without_fraction(Number value, int drop) {
    return static_cast<Number>(value < 0 ? -(-value >> drop) : value >> drop);
}
template <class Mantissa>
inline RealOf<Mantissa> without_fraction(RealOf<Mantissa> value, int drop) {
    const int16_t exponent = static_cast<int16_t>(value.exponent - drop);
    if (exponent >= 0) return {value.mantissa, exponent};
    const auto magnitude = magnitude_of(value.mantissa);
    const Mantissa whole = -exponent < static_cast<int>(8 * sizeof(Mantissa)) ? static_cast<Mantissa>(magnitude >> -exponent) : 0;
    return {value.mantissa < 0 ? static_cast<Mantissa>(-whole) : whole, 0};
}
inline float without_fraction(float value, int drop) {
    const float moved = scaled(value, -drop);
    return moved < 8388608.0f && moved > -8388608.0f ? static_cast<float>(static_cast<int32_t>(moved)) : moved;
}

template <class Acc, class Out, class X, class Shift>
void truncate(Out *out, X x, Size count, int drop, Shift shift) {
    for (Size n = 0; n < count; ++n) out[n] = requantize<Out>(without_fraction(static_cast<Acc>(x[n]), drop), shift);
}

template <class Acc, class Out, class C, class A, class B, class Count, class O, class P, class Q, class L, class R>
void where(Out *out, C c, A a, B b, Count count, O c_period, P a_period, Q b_period, L a_shift, R b_shift) {
    auto k = walk(c_period, count);
    auto i = walk(a_period, count);
    auto j = walk(b_period, count);
    for (Size n = 0; n < static_cast<Size>(count); ++n) {
        const Size left = i.next(n), right = j.next(n);
        out[n] =
            c[k.next(n)] != 0 ? requantize<Out>(static_cast<Acc>(a[left]), a_shift) : requantize<Out>(static_cast<Acc>(b[right]), b_shift);
    }
}

}  // namespace hil
