// Element by element (tinyhil/ops/elementwise.py). An operand with a shorter period repeats: trailing broadcast.
#pragma once
#include "firmware/kernels/numeric.hpp"

namespace hil {

// Walks 0, 1, ..., period - 1, 0, 1, ... without a division.
struct Periodic {
    Size period, at;
    explicit Periodic(Size p) : period(p), at(0) {}
    Size next() {
        const Size now = at;
        if (++at == period) at = 0;
        return now;
    }
};

template <class Acc, int Sign, class Out, class A, class B, class AShift, class BShift, class Shift>
inline void aligned_sum(Out *out, A a, B b, Size count, Periodic i, Periodic j, AShift a_shift, BShift b_shift, Shift shift) {
    for (Size n = 0; n < count; ++n) {
        const Acc left = static_cast<Acc>(a[i.next()]) * (static_cast<Acc>(1) << int(a_shift));
        const Acc right = static_cast<Acc>(b[j.next()]) * (static_cast<Acc>(1) << int(b_shift));
        out[n] = requantize<Out>(static_cast<Acc>(Sign > 0 ? left + right : left - right), shift);
    }
}

template <class Acc, class Out, class A, class B, class AShift, class BShift, class Shift>
void add(Out *out, A a, B b, Size count, Size a_period, Size b_period, AShift a_shift, BShift b_shift, Shift shift) {
    aligned_sum<Acc, 1>(out, a, b, count, Periodic(a_period), Periodic(b_period), a_shift, b_shift, shift);
}

template <class Acc, class Out, class A, class B, class AShift, class BShift, class Shift>
void sub(Out *out, A a, B b, Size count, Size a_period, Size b_period, AShift a_shift, BShift b_shift, Shift shift) {
    aligned_sum<Acc, -1>(out, a, b, count, Periodic(a_period), Periodic(b_period), a_shift, b_shift, shift);
}

template <class Acc, class Out, class A, class B, class Shift>
void mul(Out *out, A a, B b, Size count, Size a_period, Size b_period, Shift shift) {
    Periodic i(a_period), j(b_period);
    for (Size n = 0; n < count; ++n) {
        out[n] = requantize<Out>(static_cast<Acc>(static_cast<Acc>(a[i.next()]) * b[j.next()]), shift);
    }
}

template <class Acc, class Out, class X, class Shift>
void relu(Out *out, X x, Size count, Shift shift) {
    for (Size n = 0; n < count; ++n) {
        const Acc value = x[n];
        out[n] = requantize<Out>(static_cast<Acc>(value > 0 ? value : 0), shift);
    }
}

}  // namespace hil
