// Two matrix products in one exact sum (tinyhil/ops/pair.py): (more * y) 2^lift + weights * x + bias 2^bias_shift, one rounding.
#pragma once
#include "firmware/kernels/common/dense.hpp"
#ifndef __AVR__
#include "firmware/kernels/arm/pair_blocks.hpp"
#endif

namespace hil {

// sum * 2^lift of a sum that is not rounded yet
template <class Acc, class Lift>
inline void lift_sum(Acc &sum, Lift lift) {
    if (int(lift) != 0) sum = scaled(sum, lift);
}
#ifdef __AVR__
template <int N>
inline void lift_sum(__int24 &sum, Const<N>) {
    sum = lift24<N>(sum);
}
template <class Acc, int N>
inline void lift_wide(Acc &sum, Const<N>) {
    for (uint8_t n = 0; n < N; ++n) {
        sum.high = static_cast<decltype(sum.high)>(static_cast<uint16_t>(sum.high) << 1 | (sum.low & 0x80000000 ? 1 : 0));
        sum.low <<= 1;
    }
}
template <int N>
inline void lift_sum(Acc40 &sum, Const<N> lift) {
    lift_wide(sum, lift);
}
template <int N>
inline void lift_sum(Acc48 &sum, Const<N> lift) {
    lift_wide(sum, lift);
}
inline void add_start(Acc40 &sum, Acc40 start) { sum = Acc40(sum.wide() + start.wide()); }
inline void add_start(Acc48 &sum, Acc48 start) { sum = Acc48(sum.wide() + start.wide()); }
#endif
template <class Acc>
inline void add_start(Acc &sum, Acc start) {
    sum += start;
}

// What a sum has before its second product is added
template <class Acc, class Lift, class B, class BiasShift>
inline void lift_and_start(Acc &sum, Lift lift, const B &bias, Size n, BiasShift bias_shift) {
    lift_sum(sum, lift);
    add_start(sum, start_of<Acc>(bias, n, bias_shift));
}
template <class Acc, class Lift, class BiasShift>
inline void lift_and_start(Acc &sum, Lift lift, const NoBias &, Size, BiasShift) {
    lift_sum(sum, lift);
}

template <class Acc, class Out, class W, class X, class B, class V, class Y, class Lift, class Shift, class BiasShift>
void dense_bias_pair(Out *out, W weights, X x, B bias, V more, Y y, Size rows, Size outputs, Size inner, Size more_inner, Lift lift,
                     Shift shift, BiasShift bias_shift) {
    for (; rows > 0; --rows, x = x + inner, y = y + more_inner) {
        Size n = 0;
#ifndef __AVR__
        constexpr Size together = sizeof(Acc) == 4 ? 4 : 2;
        for (; n + together <= outputs; n += together) {
            Acc sums[together] = {};
            accumulate_rows(sums, more + n * more_inner, y, more_inner);
            for (Size i = 0; i < together; ++i) lift_and_start(sums[i], lift, bias, n + i, bias_shift);
            accumulate_rows(sums, weights + n * inner, x, inner);
            for (Size i = 0; i < together; ++i) *out++ = requantize<Out>(sums[i], of_channel(shift, n + i));
        }
        const Size end = n + outputs % together;
#else
        const Size end = outputs;
#endif
        for (; n < end; ++n) {
            Acc sum = Acc(0);
            accumulate(sum, more + n * more_inner, y, more_inner);
            lift_and_start(sum, lift, bias, n, bias_shift);
            accumulate(sum, weights + n * inner, x, inner);
            *out++ = requantize<Out>(sum, of_channel(shift, n));
        }
    }
}

#ifdef __AVR__
template <Size Step, class Acc>
inline void add_four_rows(Acc (&sums)[4], Flash<int8_t> &w, Ram<int8_t> x, Size count) {
    add_rows(Const<Step>(), sums, w, x, count);
}

// Four rows at a time; the rows after the last four lie one after the other
template <class Acc, class Out, Size Step, class B, Size MoreStep, class Lift, class Shift, class BiasShift>
void dense_bias_pair(Out *out, Blocks<int8_t, 4, Step> weights, Ram<int8_t> x, B bias, Blocks<int8_t, 4, MoreStep> more, Ram<int8_t> y,
                     Size rows, Size outputs, Size inner, Size more_inner, Lift lift, Shift shift, BiasShift bias_shift) {
    for (; rows > 0; --rows, x = x + inner, y = y + more_inner) {
        Flash<int8_t> w = flash(weights.at), v = flash(more.at);
        Size n = 0;
        for (; n + 4 <= outputs; n += 4, out += 4) {
            Acc sums[4] = {};
            add_four_rows<MoreStep>(sums, v, y, more_inner);
            lift_and_start(sums[0], lift, bias, n, bias_shift);
            lift_and_start(sums[1], lift, bias, n + 1, bias_shift);
            lift_and_start(sums[2], lift, bias, n + 2, bias_shift);
            lift_and_start(sums[3], lift, bias, n + 3, bias_shift);
            add_four_rows<Step>(sums, w, x, inner);
            FourResults<Acc, Out, Shift>::store(out, 1, sums, shift, n);
        }
        for (; n < outputs; ++n, w = w + inner, v = v + more_inner) {
            Acc sum = add_row<Acc>(Acc(0), v, y, more_inner);
            lift_and_start(sum, lift, bias, n, bias_shift);
            *out++ = requantize<Out>(add_row<Acc>(sum, w, x, inner), of_channel(shift, n));
        }
    }
}
#endif

template <class Acc, class Out, class W, class X, class V, class Y, class Lift, class Shift>
void dense_pair(Out *out, W weights, X x, V more, Y y, Size rows, Size outputs, Size inner, Size more_inner, Lift lift, Shift shift) {
    dense_bias_pair<Acc>(out, weights, x, NoBias(), more, y, rows, outputs, inner, more_inner, lift, shift, Const<0>());
}

}  // namespace hil
