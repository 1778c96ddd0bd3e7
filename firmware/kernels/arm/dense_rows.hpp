// Matrix products of several rows: two at a time, as the pixels of pointwise convolutions, so that every word of weights is read once
// for both, and as many weights at a time as a data cache keeps. `scratch`: the patches of two rows, a word for each element (passes/many_rows.py).
#pragma once
#include "firmware/kernels/arm/rescaled.hpp"
#include "firmware/kernels/common/residual.hpp"

namespace hil {

// Outputs whose weights a data cache keeps while all rows run over them; rows are expanded anew for each so many of them
#ifdef HIL_LOADS_BESIDE_PRODUCTS
constexpr Size cached_bytes = 8192;  // of 16,384
#else
constexpr Size cached_bytes = 1 << 30;  // there is no such cache
#endif
template <class W>
inline Size outputs_at_once(Size inner) {
    const Size fitting = cached_bytes / (inner * static_cast<Size>(sizeof(W))) & ~Size(3);
    return fitting < 4 ? 4 : fitting;
}

// `count` outputs of all rows, whose results lie `outputs` apart
template <class Acc, class Weights, class X, class Out, class B, class Shift, class BiasShift>
void outputs_of_rows(Out *out, uint32_t *patches, Weights weights, const X *x, B bias, Size rows, Size count, Size outputs, Size inner,
                     const Shift &by, BiasShift add) {
    for (; rows > 0; rows -= rows > 1 ? 2 : 1, x += 2 * inner, out += 2 * outputs) {
        const bool is_alone = rows == 1;
        B second = bias;
        if (!is_alone) next_row(second, outputs);
        PatchesOf<Weights, X>::pixels(patches, x, is_alone ? x : x + inner, inner);
        const uint32_t before = saturations;
        outputs_of_pixels<Acc, X>(out, static_cast<Position>(is_alone ? 0 : outputs), 1, weights, patches, inner, bias, second, count, by,
                                  add);
        if (is_alone) saturations = before + (saturations - before) / 2;  // a row without a second one was counted twice
        next_row(bias, 2 * outputs);
    }
}

template <class Acc, class Out, class Word, class W, Size Together, Size Step, class X, class B, class Shift, class BiasShift>
void dense_bias(Out *out, Word *scratch, Blocks<W, Together, Step> weights, Ram<X> x, B bias, Size rows, Size outputs, Size inner,
                Shift shift, BiasShift bias_shift) {
    uint32_t *const patches = reinterpret_cast<uint32_t *>(scratch);
    const auto add = bias_factor(bias_shift);
    const auto by = at_run_time(shift);
    const Size most = outputs_at_once<W>(inner);
    for (Size n = 0; n < outputs; n += most) {
        const Blocks<W, Together, Step> block = {weights.at + n * inner};
        outputs_of_rows<Acc>(out + n, patches, block, x.at, bias + n, rows, outputs - n < most ? outputs - n : most, outputs, inner,
                             from_channel(by, n), add);
    }
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
