// Element by element (tinyhil/ops/elementwise.py). An operand with a shorter period repeats: trailing broadcast.
#pragma once
#include "firmware/kernels/common/numeric.hpp"
#ifdef __AVR__
#include "firmware/kernels/avr/short_avr.hpp"
#endif

namespace hil {

// The index of element n of an operand that repeats after `period` elements, without a division.
template <class Period, class Count>
class Walk {
public:
    Walk(Period period, Count count) : period_(period), count_(count), at_(0) {}
    Size next(Size n) {
        if (int(period_) == int(count_)) return n;
        if (int(period_) == 1) return 0;
        const Size now = at_;
        if (++at_ == static_cast<Size>(period_)) at_ = 0;
        return now;
    }

private:
    Period period_;
    Count count_;
    Size at_;
};

template <class Period, class Count>
inline Walk<Period, Count> walk(Period period, Count count) { return {period, count}; }

template <class Acc, int Sign, class Out, class A, class B, class Count, class I, class J, class L, class R, class Shift>
inline void aligned_sum(Out *out, A a, B b, Count count, I i, J j, L a_shift, R b_shift, Shift shift) {
    using Number = typename Working<Acc, Out, decltype(a[0]), decltype(b[0])>::type;
    for (Size n = 0; n < static_cast<Size>(count); ++n) {
        const Number left = scaled(static_cast<Number>(a[i.next(n)]), a_shift);
        const Number right = scaled(static_cast<Number>(b[j.next(n)]), b_shift);
        out[n] = requantize<Out>(static_cast<Number>(Sign > 0 ? left + right : left - right), shift);
    }
}

template <class Acc, class Out, class A, class B, class Count, class P, class Q, class L, class R, class Shift>
void add(Out *out, A a, B b, Count count, P a_period, Q b_period, L a_shift, R b_shift, Shift shift) {
    aligned_sum<Acc, 1>(out, a, b, count, walk(a_period, count), walk(b_period, count), a_shift, b_shift, shift);
}

template <class Acc, class Out, class A, class B, class Count, class P, class Q, class L, class R, class Shift>
void sub(Out *out, A a, B b, Count count, P a_period, Q b_period, L a_shift, R b_shift, Shift shift) {
    aligned_sum<Acc, -1>(out, a, b, count, walk(a_period, count), walk(b_period, count), a_shift, b_shift, shift);
}

template <class Acc, class Out, class A, class B, class Count, class P, class Q, class Shift>
void mul(Out *out, A a, B b, Count count, P a_period, Q b_period, Shift shift) {
    auto i = walk(a_period, count);
    auto j = walk(b_period, count);
    for (Size n = 0; n < static_cast<Size>(count); ++n) {
        using Number = typename Working<Acc, Out, decltype(a[0]), decltype(b[0])>::type;
        out[n] = requantize<Out>(Multiply<Number>::of(a[i.next(n)], b[j.next(n)]), shift);
    }
}

template <class Acc, class Out, class X, class Count, class Shift>
void relu(Out *out, X x, Count count, Shift shift) {
    for (Size n = 0; n < static_cast<Size>(count); ++n) {
        const Acc value = static_cast<Acc>(x[n]);
        out[n] = requantize<Out>(value > Acc(0) ? value : Acc(0), shift);
    }
}

}  // namespace hil
