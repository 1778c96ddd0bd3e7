// Element by element (tinyhil/ops/elementwise.py). An operand with a shorter period repeats: trailing broadcast.
#pragma once
#include "firmware/kernels/common/numeric.hpp"
#ifdef __AVR__
#include "firmware/kernels/avr/short_avr.hpp"
#endif

namespace hil {

// What BITS of tinyhil/ops/remainder.py has, in its order.
inline int32_t bits_of(int mode, int32_t a, int32_t b) { return mode == 0 ? a & b : mode == 1 ? a | b : a ^ b; }

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
inline Walk<Period, Count> walk(Period period, Count count) {
    return {period, count};
}

template <class T>
struct IsInteger {
    static constexpr bool value = false;
};
template <>
struct IsInteger<int16_t> {
    static constexpr bool value = true;
};
template <>
struct IsInteger<int32_t> {
    static constexpr bool value = true;
};

template <class Out, int Sign, class Number, class L, class R, class Shift>
HIL_ELEMENTWISE Out rounded_sum(Number a, Number b, L a_shift, R b_shift, Shift shift) {
    const Number left = scaled(a, a_shift), right = scaled(b, b_shift);
    return requantize<Out>(static_cast<Number>(Sign > 0 ? left + right : left - right), shift);
}
// What moves back where it came from needs no move: floor((a 2^n + b + 2^(n-1)) / 2^n) = a + floor((b + 2^(n-1)) / 2^n)
template <class Number, int N>
inline Number rounded_down(Number value, Const<N>) {
    return static_cast<Number>(shift_right(static_cast<Number>(value + (static_cast<Number>(1) << (N > 0 ? N - 1 : 0))), Const<N>()));
}
template <class Out, int Sign, class Number, int N, class R>
HIL_ELEMENTWISE typename EnableIf<(N > 0) && IsInteger<Number>::value, WholeOut<Out, Number>>::type rounded_sum(Number a, Number b,
                                                                                                                Const<N>, R b_shift,
                                                                                                                Const<N>) {
    const Number right = scaled(b, b_shift);
    return saturate<Out>(static_cast<Number>(a + rounded_down(static_cast<Number>(Sign > 0 ? right : -right), Const<N>())));
}
template <class Out, int Sign, class Number, int N>
HIL_ELEMENTWISE typename EnableIf<(N > 0) && IsInteger<Number>::value, WholeOut<Out, Number>>::type rounded_sum(Number a, Number b,
                                                                                                                Const<0>, Const<N>,
                                                                                                                Const<N>) {
    const Number left = rounded_down(a, Const<N>());
    return saturate<Out>(static_cast<Number>(Sign > 0 ? left + b : left - b));
}

template <class Acc, int Sign, class Out, class A, class B, class Count, class I, class J, class L, class R, class Shift>
HIL_ELEMENTWISE void aligned_sum(Out *out, A a, B b, Count count, I i, J j, L a_shift, R b_shift, Shift shift) {
    using Number = typename Working<Acc, Out, decltype(a[0]), decltype(b[0])>::type;
    for (Size n = 0; n < static_cast<Size>(count); ++n) {
        const Number left = static_cast<Number>(a[i.next(n)]), right = static_cast<Number>(b[j.next(n)]);
        out[n] = rounded_sum<Out, Sign>(left, right, a_shift, b_shift, shift);
    }
}

template <class Acc, class Out, class A, class B, class Count, class P, class Q, class L, class R, class Shift>
HIL_ELEMENTWISE void add(Out *out, A a, B b, Count count, P a_period, Q b_period, L a_shift, R b_shift, Shift shift) {
    aligned_sum<Acc, 1>(out, a, b, count, walk(a_period, count), walk(b_period, count), a_shift, b_shift, shift);
}

template <class Acc, class Out, class A, class B, class Count, class P, class Q, class L, class R, class Shift>
HIL_ELEMENTWISE void sub(Out *out, A a, B b, Count count, P a_period, Q b_period, L a_shift, R b_shift, Shift shift) {
    aligned_sum<Acc, -1>(out, a, b, count, walk(a_period, count), walk(b_period, count), a_shift, b_shift, shift);
}

template <class Acc, class Out, class A, class B, class Count, class P, class Q, class Shift>
HIL_ELEMENTWISE void mul(Out *out, A a, B b, Count count, P a_period, Q b_period, Shift shift) {
    auto i = walk(a_period, count);
    auto j = walk(b_period, count);
    for (Size n = 0; n < static_cast<Size>(count); ++n) {
        using Number = typename Working<Acc, Out, decltype(a[0]), decltype(b[0])>::type;
        out[n] = requantize<Out>(Multiply<Number>::of(a[i.next(n)], b[j.next(n)]), shift);
    }
}

template <class Acc, class Out, class X, class Count, class Shift>
HIL_ELEMENTWISE void relu(Out *out, X x, Count count, Shift shift) {
    for (Size n = 0; n < static_cast<Size>(count); ++n) {
        const Acc value = static_cast<Acc>(x[n]);
        out[n] = requantize<Out>(value > Acc(0) ? value : Acc(0), shift);
    }
}

}  // namespace hil
