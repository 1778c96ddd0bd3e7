// Matrix products of several rows: two at a time, as the pixels of pointwise convolutions, so that every word of weights is read once
// for both. `scratch`: the patches of two rows, a word for each element (passes/many_rows.py).
#pragma once
#include "firmware/kernels/arm/rescaled.hpp"
#include "firmware/kernels/common/residual.hpp"

namespace hil {

template <class Acc, class Out, class Word, class B, class Shift, class BiasShift>
void dense_bias(Out *out, Word *scratch, Blocks<int8_t, 4, in_pairs> weights, Ram<int8_t> x, B bias, Size rows, Size outputs, Size inner,
                Shift shift, BiasShift bias_shift) {
    uint32_t *const patches = reinterpret_cast<uint32_t *>(scratch);
    const auto add = bias_factor(bias_shift);
    const auto by = at_run_time(shift);
    B second = bias;
    next_row(second, outputs);
    for (; rows > 1; rows -= 2, x = x + 2 * inner, out += 2 * outputs) {
        HalfwordPatches<int8_t>::pixels(patches, x.at, x.at + inner, inner);
        outputs_of_pixels<Acc, int8_t>(out, static_cast<Position>(outputs), 1, weights, patches, inner, bias, second, outputs, by, add);
        next_row(bias, 2 * outputs);
        next_row(second, 2 * outputs);
    }
    if (rows) outputs_of_row(out, weights, x.at, bias, outputs, inner, by, add);
}

template <class Acc, class Out, class Word, class W, class X, class Shift>
void dense(Out *out, Word *scratch, W weights, X x, Size rows, Size outputs, Size inner, Shift shift) {
    dense_bias<Acc>(out, scratch, weights, x, NoChannelBias(), rows, outputs, inner, shift, Const<0>());
}

template <class Acc, class Out, class Word, class W, class X, int Zero, int Twice>
void dense_rescaled(Out *out, Word *scratch, W weights, X x, Flash<int32_t> records, Size rows, Size outputs, Size inner, Const<Zero>,
                    Const<Twice>) {
    const Records<true, Twice != 0, Zero> to = {records.at};
    dense_bias<Acc>(out, scratch, weights, x, NoChannelBias(), rows, outputs, inner, to, Const<0>());
}

template <class Acc, class Out, class Word, class W, class X, class B, class A, class Shift, class BiasShift, class AddShift>
void dense_bias_sum(Out *out, Word *scratch, W weights, X x, B bias, A addend, Size rows, Size outputs, Size inner, Shift shift,
                    BiasShift bias_shift, AddShift add_shift) {
    const Joined<B, A> joined = {bias, addend, 1, 0};
    const JoinedShifts<BiasShift, AddShift> shifts = {bias_shift, add_shift};
    dense_bias<Acc>(out, scratch, weights, x, joined, rows, outputs, inner, shift, shifts);
}

template <class Acc, class Out, class Word, class W, class X, class A, class Shift, class AddShift>
void dense_sum(Out *out, Word *scratch, W weights, X x, A addend, Size rows, Size outputs, Size inner, Shift shift, AddShift add_shift) {
    dense_bias_sum<Acc>(out, scratch, weights, x, NoChannelBias(), addend, rows, outputs, inner, shift, Const<0>(), add_shift);
}

}  // namespace hil
