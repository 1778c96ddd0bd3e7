// Convolution (tinyhil/ops/conv.py): a window of one group is gathered into `patch`, then each output channel is a dot
// product of contiguous elements.
#pragma once
#include "firmware/kernels/common/dense.hpp"
#include "firmware/kernels/common/window.hpp"
#ifndef __AVR__
#include "firmware/kernels/arm/conv_blocks.hpp"
#endif

namespace hil {

inline bool covers(const Span &span, Size kernel) { return span.first == 0 && span.end == kernel; }

// One kernel row: zeros where the window hangs over, `to` moves on by kernel_x.
template <class T, class X>
inline T *gather_row(T *to, X row, const Span &across, const Window &w) {
    Size k = 0;
    for (; k < across.first; ++k) *to++ = T();
    for (Size at = static_cast<Size>(across.at); k < across.end; ++k, at += w.dilation_x) *to++ = row[at];
    for (; k < w.kernel_x; ++k) *to++ = T();
    return to;
}

template <class T, class X>
inline void gather_across_edge(T *to, X planes, Size channels, const Span &down, const Span &across, const Window &w) {
    const Size plane = w.height * w.width, step = w.dilation_y * w.width;
    const Size start = static_cast<Size>(down.at) * w.width;
    const Span outside = {w.kernel_x, w.kernel_x, 0};
    for (; channels > 0; --channels, planes = planes + plane) {
        Size at = start;
        for (Size k = 0; k < w.kernel_y; ++k) {
            const bool within = k >= down.first && k < down.end;
            to = gather_row(to, planes + (within ? at : 0), within ? across : outside, w);
            if (within) at += step;
        }
    }
}

// With a constant window the compiler keeps only the branches it needs.
template <class T, class X>
inline void gather(T *to, X planes, Size channels, const Span &down, const Span &across, const Window &w) {
    if (!covers(down, w.kernel_y) || !covers(across, w.kernel_x)) {
        gather_across_edge(to, planes, channels, down, across, w);
        return;
    }
    const Size plane = w.height * w.width, step = w.dilation_y * w.width;
    X corner = planes + (static_cast<Size>(down.at) * w.width + static_cast<Size>(across.at));
    if (w.kernel_y * w.kernel_x == 1) {
        for (; channels > 0; --channels, corner = corner + plane) *to++ = corner[0];
        return;
    }
    for (; channels > 0; --channels, corner = corner + plane) {
        X row = corner;
        for (Size k = w.kernel_y; k > 0; --k, row = row + step) {
            X x = row;
            for (Size n = w.kernel_x; n > 0; --n, x = x + w.dilation_x) *to++ = x[0];
        }
    }
}

// What a window is padded with stands for 0, code and number.
template <class T>
struct PadsWithZero {
    static constexpr bool value = true;
};

// Depthwise: one channel in, one out. Nothing is shared between outputs, so the rows are multiplied where they lie.
template <class Acc, class W, class X>
inline void accumulate_window(Acc &sum, W weights, X plane, const Span &down, const Span &across, const Window &w) {
    const Size count = across.end - across.first;
    X row = plane + (static_cast<Size>(down.at) * w.width + static_cast<Size>(across.at));
    W factors = weights + (down.first * w.kernel_x + across.first);
    for (Size k = down.first; k < down.end; ++k, row = row + w.dilation_y * w.width, factors = factors + w.kernel_x) {
        accumulate_apart(sum, factors, row, count);
    }
}

// out[n * pixels] = sum_k weights[n][k] * patch[k] + bias[n] * 2^bias_shift for n in [0, outputs)
template <class Acc, class Out, class W, class X, class B, class Shift, class BiasShift>
inline void channels_of_pixel(Out *out, Size pixels, W row, X patch, B bias, Size outputs, Size inner, Shift shift, BiasShift bias_shift) {
    const auto start = [&](Size n) { return start_of<Acc>(bias, n, bias_shift); };
    Size n = 0;
#ifndef __AVR__
    constexpr Size together = sizeof(Acc) == 4 ? 4 : 2;
    for (; n + together <= outputs; n += together, row = row + together * inner) {
        Acc sums[together];
        for (Size i = 0; i < together; ++i) sums[i] = start(n + i);
        accumulate_rows(sums, row, patch, inner);
        for (Size i = 0; i < together; ++i, out += pixels) *out = requantize<Out>(sums[i], of_channel(shift, n + i));
    }
    const Size end = n + outputs % together;  // `outputs`, as in dense.hpp
#else
    const Size end = outputs;
#endif
    for (; n < end; ++n, row = row + inner, out += pixels) {
        Acc sum = start(n);
#ifdef __AVR__
        if (IsApart<Acc, Shift, W, X>::value) accumulate_called(sum, row, patch, inner);
        else
#endif
            accumulate_apart(sum, row, patch, inner);
        *out = requantize<Out>(sum, of_channel(shift, n));
    }
}

#ifdef __AVR__
// Four outputs at a time (dense_avr.hpp)
template <class Acc, class Out, Size Step, class B, class Shift, class BiasShift>
inline void channels_of_pixel(Out *out, Size pixels, Blocks<int8_t, 4, Step> weights, Ram<int8_t> patch, B bias, Size outputs, Size inner,
                              Shift shift, BiasShift bias_shift) {
    rows_of_blocks<Acc, Step>(out, pixels, flash(weights.at), patch, bias, outputs, inner, shift, bias_shift);
}
template <class Acc, class Out, int By, Size Step, class B, class Shift, class BiasShift>
inline void channels_of_pixel(Out *out, Size pixels, Blocks<Raised<By>, 4, Step> weights, Ram<int8_t> patch, B bias, Size outputs,
                              Size inner, Shift shift, BiasShift bias_shift) {
    const auto start = raised_start<By>(bias, patch, inner);
    rows_of_blocks<Acc, Step>(out, pixels, flash(&weights.at->code), patch, start, outputs, inner, shift, bias_shift);
}
// Depthwise layers have no blocks of rows.
template <class W, Size Step>
inline void accumulate(__int24 &, Blocks<W, 4, Step>, Ram<int8_t>, Size) {}
template <class W, Size Step>
inline void accumulate(int32_t &, Blocks<W, 4, Step>, Ram<int8_t>, Size) {}
#endif

// An AVR gets one copy per layer, in which the window is constant: that is smaller and faster than one for all, whose
// general case it would have to keep. ARM shares copies between layers.
#ifdef __AVR__
#define HIL_PER_LAYER __attribute__((always_inline)) inline
#else
#define HIL_PER_LAYER
#endif

template <class Acc, class Out, class T, class W, class X, class B, class Shift, class BiasShift>
HIL_PER_LAYER void convolve(Out *out, T *patch, W weights, X x, B bias, const Window &w, Size groups, Size outputs, Shift shift,
                            BiasShift bias_shift) {
    const Size channels = w.channels / groups, inner = channels * w.kernel_y * w.kernel_x;
    const Size pixels = w.out_height * w.out_width, each = outputs / groups;
    const bool depthwise = PadsWithZero<T>::value && channels == 1 && each == 1 && w.dilation_x == 1;
    for (Size g = 0; g < groups; ++g) {
        Out *at = out + g * each * pixels;
        for (Size y = 0; y < w.out_height; ++y) {
            const Span down = inside(origin(y, w.stride_y, w.pad_y), w.kernel_y, w.dilation_y, w.height);
            for (Size column = 0; column < w.out_width; ++column, ++at) {
                const Span across = inside(origin(column, w.stride_x, w.pad_x), w.kernel_x, w.dilation_x, w.width);
                if (depthwise) {
                    Acc sum = start_of<Acc>(at_pixel(bias, y * w.out_width + column), 0, bias_shift);
                    accumulate_window(sum, weights, x, down, across, w);
                    *at = requantize<Out>(sum, of_channel(shift, g));
                    continue;
                }
                gather(patch, x, channels, down, across, w);
                channels_of_pixel<Acc>(at, pixels, weights, ram(patch), at_pixel(bias, y * w.out_width + column), each, inner,
                                       from_channel(shift, g * each), bias_shift);
            }
        }
        x = x + channels * w.height * w.width;
        weights = weights + each * inner;
        bias = bias + each;
    }
}

// out[n][pixel] = sum over the window of weights[n] * x + bias[n] * 2^bias_shift, all inside the exact sum
template <class Acc, class Out, class T, class W, class X, class B, class Shift, class BiasShift>
HIL_PER_LAYER void conv_bias(Out *out, T *patch, W weights, X x, B bias, const Window &w, Size groups, Size outputs, Shift shift,
                             BiasShift bias_shift) {
    convolve<Acc>(out, patch, weights, x, bias, w, groups, outputs, shift, bias_shift);
}

template <class Acc, class Out, class T, class W, class X, class Shift>
HIL_PER_LAYER void conv(Out *out, T *patch, W weights, X x, const Window &w, Size groups, Size outputs, Shift shift) {
    convolve<Acc>(out, patch, weights, x, NoChannelBias(), w, groups, outputs, shift, Const<0>());
}

}  // namespace hil
