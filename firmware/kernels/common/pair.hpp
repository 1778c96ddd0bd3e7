// Two matrix products in one exact sum (tinyhil/ops/pair.py): (more * y) 2^lift + weights * x + bias 2^bias_shift, one rounding.
#pragma once
#include "firmware/kernels/common/dense.hpp"
#ifndef __AVR__
#include "firmware/kernels/arm/dense_blocks.hpp"
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
template <int N>
inline void lift_sum(Acc40 &sum, Const<N>) {
    if (N != 0) sum = Acc40(static_cast<int64_t>(static_cast<uint64_t>(sum.wide()) << N));
}
template <int N>
inline void lift_sum(Acc48 &sum, Const<N>) {
    if (N != 0) sum = Acc48(static_cast<int64_t>(static_cast<uint64_t>(sum.wide()) << N));
}
#endif

// What a sum has before its second product is added
template <class Acc, class Lift, class B, class BiasShift>
inline void lift_and_start(Acc &sum, Lift lift, const B &bias, Size n, BiasShift bias_shift) {
    lift_sum(sum, lift);
    sum += start_of<Acc>(bias, n, bias_shift);
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
            for (Size i = 0; i < together; ++i) *out++ = requantize<Out>(sums[i], shift);
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
            *out++ = requantize<Out>(sum, shift);
        }
    }
}

#ifdef __AVR__
template <Size Step, class Acc>
inline void add_four_rows(Acc (&sums)[4], Flash<int8_t> &w, Ram<int8_t> x, Size count) {
    if (Step == unless_zero) add_sparse_rows(sums, w, x, count);
    else add_rows(sums, w, x, count);
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
            *out++ = requantize<Out>(add_row<Acc>(sum, w, x, inner), shift);
        }
    }
}
#else
// The operands of two layers with the same rows
struct TwoRows {
    const int8_t *x, *y;
    Size inner, more_inner;
    int lift;
};
struct TwoWeights { const int8_t *w, *v; };

// The outputs [n, n + count) of a block of `Rows`
template <class Tile, Size Rows, class Out, class B, class Shift, class BiasShift>
__attribute__((always_inline)) inline void outputs_of_two(Out *out, TwoWeights &weights, const TwoRows &rows, const B &bias, Size n, Size count,
                                                          const Shift &shift, BiasShift bias_shift) {
    using Rounded = Together<Out, Shift>;
    Column<Rows> sums = {};
    weights.v = add_column<Tile>(sums, weights.v, rows.y, rows.more_inner);
#pragma GCC unroll 8
    for (Size r = 0; r < count; ++r) {
        const int32_t start = start_of<int32_t>(bias, n + r, bias_shift) + Rounded::before(shift);
        sums.of[r] = start + static_cast<int32_t>(static_cast<uint32_t>(sums.of[r]) << rows.lift);
    }
    weights.w = add_column<Tile>(sums, weights.w, rows.x, rows.inner);
    int32_t seen = 0;
#pragma GCC unroll 8
    for (Size r = 0; r < count; ++r) out[n + r] = Rounded::of(sums.of[r], shift, seen);
    if (__builtin_expect(!Rounded::any(seen), 1)) return;
#pragma GCC unroll 1
    for (Size r = 0; r < count; ++r) out[n + r] = Rounded::again(sums.of[r], shift);
}

// The outputs after the last whole block
template <class Tile, Size Rows, class Out, class B, class Shift, class BiasShift>
__attribute__((noinline)) void rest_of_two(Out *out, TwoWeights weights, const TwoRows &rows, const B &bias, Size n, Size outputs,
                                           const Shift &shift, BiasShift bias_shift) {
#pragma GCC unroll 1
    for (; n < outputs; n += Rows) {
        const Size left = outputs - n;
        outputs_of_two<Tile, Rows>(out, weights, rows, bias, n, left < Rows ? left : Rows, shift, bias_shift);
    }
}

template <class Acc, class Out, Size Rows, Size Step, class B, Size MoreStep, class Lift, class Shift, class BiasShift>
void dense_bias_pair(Out *out, Blocks<int8_t, Rows, Step> weights, Ram<int8_t> x, B bias, Blocks<int8_t, Rows, MoreStep> more,
                     Ram<int8_t> y, Size rows, Size outputs, Size inner, Size more_inner, Lift lift, Shift shift, BiasShift bias_shift) {
    static_assert(Step == MoreStep && sizeof(Acc) == 4, "both are arranged alike (codegen/arrange.py)");
    using Tile = OnePixel<Blocks<int8_t, Rows, Step>>;
    const auto rounding = at_run_time(shift);
    const auto by = prepared(rounding);
    const auto add = bias_factor(bias_shift);
    constexpr Size fewest = Tile::rows > 4 ? 2 : 4;
    for (; rows > 0; --rows, x = x + inner, y = y + more_inner, out += outputs) {
        const TwoRows of = {x.at, y.at, inner, more_inner, int(lift)};
        TwoWeights at = {weights.at, more.at};
        Size n = 0;
        for (; n + Tile::rows <= outputs; n += Tile::rows) outputs_of_two<Tile, Tile::rows>(out, at, of, bias, n, Tile::rows, by, add);
        if (n == outputs) continue;
        if (Tile::ends_in_twos(outputs)) rest_of_two<Tile, fewest>(out, at, of, bias, n, outputs, by, add);
        else rest_of_two<Tile, 4>(out, at, of, bias, n, outputs, by, add);
    }
}
#endif

template <class Acc, class Out, class W, class X, class V, class Y, class Lift, class Shift>
void dense_pair(Out *out, W weights, X x, V more, Y y, Size rows, Size outputs, Size inner, Size more_inner, Lift lift, Shift shift) {
    dense_bias_pair<Acc>(out, weights, x, NoBias(), more, y, rows, outputs, inner, more_inner, lift, shift, Const<0>());
}

}  // namespace hil
