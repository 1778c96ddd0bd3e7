// Decisions (tinyhil/ops/compare.py).
#pragma once
#include "firmware/kernels/elementwise.hpp"

namespace hil {

// In the order of tinyhil/ops/compare.py.
enum Comparison { less, less_or_equal, equal, both, either };

template <class Acc>
inline bool holds(int mode, Acc a, Acc b) {
    return mode == less            ? a < b
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

template <class Acc, class Out, class X, class Shift>
void truncate(Out *out, X x, Size count, int drop, Shift shift) {
    for (Size n = 0; n < count; ++n) {
        const int32_t value = x[n];
        out[n] = requantize<Out>(static_cast<Acc>(value < 0 ? -(-value >> drop) : value >> drop), shift);
    }
}

template <class Acc, class Out, class C, class A, class B, class Count, class O, class P, class Q, class L, class R>
void where(Out *out, C c, A a, B b, Count count, O c_period, P a_period, Q b_period, L a_shift, R b_shift) {
    auto k = walk(c_period, count);
    auto i = walk(a_period, count);
    auto j = walk(b_period, count);
    for (Size n = 0; n < static_cast<Size>(count); ++n) {
        const Size left = i.next(n), right = j.next(n);
        out[n] = c[k.next(n)] != 0 ? requantize<Out>(static_cast<Acc>(a[left]), a_shift)
                                   : requantize<Out>(static_cast<Acc>(b[right]), b_shift);
    }
}

}  // namespace hil
