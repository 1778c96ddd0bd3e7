// Piecewise linear functions (tinyhil/ops/piecewise.py).
#pragma once
#include "firmware/kernels/common/elementwise.hpp"

namespace hil {

template <class Number>
inline Number clamp(Number value, Number low, Number high) {
    return value < low ? low : value > high ? high : value;
}

template <class Acc, class Out, class X, class Shift>
HIL_ELEMENTWISE void clip(Out *out, X x, Size count, int16_t low, int16_t high, Shift shift) {
    for (Size n = 0; n < count; ++n) out[n] = requantize<Out>(static_cast<Acc>(clamp<int16_t>(x[n], low, high)), shift);
}

template <class Acc, class Out, class X, class Shift>
HIL_ELEMENTWISE void slopes(Out *out, X x, Size count, Acc below, Acc above, Shift shift) {
    for (Size n = 0; n < count; ++n) {
        const Acc value = static_cast<Acc>(x[n]);
        out[n] = requantize<Out>(static_cast<Acc>(value * (value < 0 ? below : above)), shift);
    }
}

template <class Acc, class Out, class X, class Shift>
void hard_sigmoid(Out *out, X x, Size count, Acc factor, Acc offset, Acc one, Shift shift) {
    for (Size n = 0; n < count; ++n) { out[n] = requantize<Out>(clamp<Acc>(static_cast<Acc>(x[n]) * factor + offset, 0, one), shift); }
}

template <class Acc, class Out, class X, class Shift>
void hard_swish(Out *out, X x, Size count, Acc factor, Acc offset, Acc one, Shift shift) {
    for (Size n = 0; n < count; ++n) {
        const Acc value = static_cast<Acc>(x[n]);
        out[n] = requantize<Out>(static_cast<Acc>(value * clamp<Acc>(value * factor + offset, 0, one)), shift);
    }
}

template <class Acc, bool Larger, class Out, class A, class B, class Count, class I, class J, class L, class R, class Shift>
HIL_ELEMENTWISE void extreme(Out *out, A a, B b, Count count, I i, J j, L a_shift, R b_shift, Shift shift) {
    for (Size n = 0; n < static_cast<Size>(count); ++n) {
        const Acc left = scaled(static_cast<Acc>(a[i.next(n)]), a_shift);
        const Acc right = scaled(static_cast<Acc>(b[j.next(n)]), b_shift);
        out[n] = requantize<Out>((left < right) == Larger ? right : left, shift);
    }
}

template <class Acc, class Out, class A, class B, class Count, class P, class Q, class L, class R, class Shift>
HIL_ELEMENTWISE void minimum(Out *out, A a, B b, Count count, P a_period, Q b_period, L a_shift, R b_shift, Shift shift) {
    extreme<Acc, false>(out, a, b, count, walk(a_period, count), walk(b_period, count), a_shift, b_shift, shift);
}

template <class Acc, class Out, class A, class B, class Count, class P, class Q, class L, class R, class Shift>
HIL_ELEMENTWISE void maximum(Out *out, A a, B b, Count count, P a_period, Q b_period, L a_shift, R b_shift, Shift shift) {
    extreme<Acc, true>(out, a, b, count, walk(a_period, count), walk(b_period, count), a_shift, b_shift, shift);
}

}  // namespace hil
