// Layers that another tensor joins inside of the exact sum (tinyhil/ops/residual.py): the bias of each output is a bias
// and an element of that tensor. The result may lie where the tensor lies: element n is read before it is written.
#pragma once
#include "firmware/kernels/common/rows.hpp"

namespace hil {

template <class B, class A>
struct Joined {
    B bias;
    A addend;
    Size stride;  // between the elements of neighbouring outputs
    Size skew;    // from the number of a pixel to where it lies; wraps like any unsigned number
    Joined operator+(Size n) const { return {bias + n, addend + n * stride, stride, skew}; }
};
template <class BiasShift, class AddShift>
struct JoinedShifts {
    BiasShift bias;
    AddShift addend;
};

// sum += value, and sum += value * 2^16
template <class Acc>
inline void add_whole(Acc &sum, int32_t value) {
    sum += static_cast<Acc>(value);
}
template <class Acc>
inline void add_high(Acc &sum, int32_t value) {
    sum += static_cast<Acc>(static_cast<int64_t>(value) * 65536);
}
#ifdef __AVR__
inline void add_whole(Acc40 &sum, int32_t value) { sum.add(value); }
inline void add_whole(Acc48 &sum, int32_t value) { sum.add(value); }
template <class Acc>
inline void add_parts(Acc &sum, int32_t value) {
    const uint32_t before = sum.low;
    sum.low += static_cast<uint32_t>(value) << 16;
    sum.high = static_cast<decltype(sum.high)>(sum.high + (value >> 16) + (sum.low < before));
}
inline void add_high(Acc40 &sum, int32_t value) { add_parts(sum, value); }
inline void add_high(Acc48 &sum, int32_t value) { add_parts(sum, value); }
#endif

// sum += element * 2^shift; the fusion permits shifts of at most 32 bits (tinyhil/fuse/residual.py): 32 hold an element
// moved left by 16
template <class Acc, class Shift>
inline void add_lifted(Acc &sum, int32_t element, Shift shift) {
    const int by = int(shift);
    if (by <= 16) add_whole(sum, element * (int32_t(1) << (by & 31)));
    else add_high(sum, element * (int32_t(1) << ((by - 16) & 31)));
}
#ifdef __AVR__
template <int N>
inline void add_lifted(__int24 &sum, int16_t element, Const<N>) {
    sum = static_cast<__int24>(sum + Start<__int24>::of(element, Const<N>()));
}
#endif

template <class Acc, class B, class A, class BiasShift, class AddShift>
inline Acc start_of(const Joined<B, A> &joined, Size n, JoinedShifts<BiasShift, AddShift> shifts) {
    Acc sum = Start<Acc>::of(joined.bias[n], shifts.bias);
    add_lifted(sum, joined.addend[n * joined.stride], shifts.addend);
    return sum;
}
#ifndef __AVR__
// The same for sums of 32 bits (rounding.hpp)
struct JoinedFactors { int32_t bias, addend; };
template <class Acc, class B, class A>
inline Acc start_of(const Joined<B, A> &joined, Size n, JoinedFactors by) {
    return static_cast<Acc>(joined.bias[n]) * by.bias + static_cast<Acc>(joined.addend[n * joined.stride]) * by.addend;
}
template <class BiasShift, class AddShift>
inline JoinedFactors bias_factor(JoinedShifts<BiasShift, AddShift> shifts) {
    return {factor_of(int(shifts.bias)), factor_of(int(shifts.addend))};
}
#endif
template <class B, class A>
inline Joined<B, A> at_pixel(const Joined<B, A> &joined, Size pixel) {
    return {joined.bias, joined.addend + static_cast<Size>(pixel + joined.skew), joined.stride, 0};
}
// With channels innermost the elements of a pixel are neighbours.
template <bool Innermost, class B, class A>
inline Joined<B, A> laid_out(const Joined<B, A> &joined) {
    return {joined.bias, joined.addend, Innermost ? 1 : joined.stride, joined.skew};
}
template <class B, class A>
struct VariesByPixel<Joined<B, A>> {
    static constexpr bool value = true;
};
template <class B, class A>
inline void next_row(Joined<B, A> &joined, Size outputs) {
    joined.addend = joined.addend + outputs;
}

template <class Acc, class Out, class W, class X, class B, class A, class Shift, class BiasShift, class AddShift>
void dense_bias_sum(Out *out, W weights, X x, B bias, A addend, Size rows, Size outputs, Size inner, Shift shift, BiasShift bias_shift,
                    AddShift add_shift) {
    const Joined<B, A> joined = {bias, addend, 1, 0};
    const JoinedShifts<BiasShift, AddShift> shifts = {bias_shift, add_shift};
    dense_bias<Acc>(out, weights, x, joined, rows, outputs, inner, shift, shifts);
}

template <class Acc, class Out, class W, class X, class A, class Shift, class AddShift>
void dense_sum(Out *out, W weights, X x, A addend, Size rows, Size outputs, Size inner, Shift shift, AddShift add_shift) {
    dense_bias_sum<Acc>(out, weights, x, NoChannelBias(), addend, rows, outputs, inner, shift, Const<0>(), add_shift);
}

template <class Acc, class Out, class T, class W, class X, class B, class A, class Shift, class BiasShift, class AddShift>
HIL_PER_LAYER void conv_bias_sum(Out *out, T *patch, W weights, X x, B bias, A addend, const Window &w, Size groups, Size outputs,
                                 Shift shift, BiasShift bias_shift, AddShift add_shift) {
    const Joined<B, A> joined = {bias, addend, static_cast<Size>(w.out_height * w.out_width), 0};
    const JoinedShifts<BiasShift, AddShift> shifts = {bias_shift, add_shift};
    convolve<Acc>(out, patch, weights, x, joined, w, groups, outputs, shift, shifts);
}

template <class Acc, class Out, class T, class W, class X, class A, class Shift, class AddShift>
HIL_PER_LAYER void conv_sum(Out *out, T *patch, W weights, X x, A addend, const Window &w, Size groups, Size outputs, Shift shift,
                            AddShift add_shift) {
    conv_bias_sum<Acc>(out, patch, weights, x, NoChannelBias(), addend, w, groups, outputs, shift, Const<0>(), add_shift);
}

// Rows of their results (rows.hpp), one after another: a row of the tensor is anywhere

template <class Acc, class Out, class T, class Rows, class W, class X, class B, class A, class Y, class Shift, class BiasShift,
          class AddShift>
HIL_PER_LAYER void conv_bias_sum_rows(Out *out, T *patch, Rows rows, W weights, X x, B bias, A addend, Y, const RowWindow &l, Size b_plane,
                                      Size b_row, Size b_ring, Size groups, Size outputs, Shift shift, BiasShift bias_shift,
                                      AddShift add_shift) {
    const JoinedShifts<BiasShift, AddShift> shifts = {bias_shift, add_shift};
    for (Size y = rows[0]; y < rows[1]; ++y) {
        const Size skew = static_cast<Size>(slot_of(y, b_ring) * b_row - y * l.window.out_width);
        const Joined<B, A> joined = {bias, addend, b_plane, skew};
        convolve_rows<Acc>(out, patch, OneRow{y}, weights, x, joined, l, groups, outputs, shift, shifts);
    }
}

template <class Acc, class Out, class T, class Rows, class W, class X, class A, class Y, class Shift, class AddShift>
HIL_PER_LAYER void conv_sum_rows(Out *out, T *patch, Rows rows, W weights, X x, A addend, Y present, const RowWindow &l, Size b_plane,
                                 Size b_row, Size b_ring, Size groups, Size outputs, Shift shift, AddShift add_shift) {
    conv_bias_sum_rows<Acc>(out, patch, rows, weights, x, NoChannelBias(), addend, present, l, b_plane, b_row, b_ring, groups, outputs,
                            shift, Const<0>(), add_shift);
}

}  // namespace hil
