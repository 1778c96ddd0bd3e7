// Convolutions without a patch (memplan/arena/windows_in_place.py): each output multiplies its window where that lies.
#pragma once
#include "firmware/kernels/common/affine.hpp"
#include "firmware/kernels/common/rows.hpp"

namespace hil {

// What a kernel gets in the place of a patch of elements T
template <class T>
struct InPlace {};
template <class T>
inline InPlace<T> *in_place() {
    return nullptr;
}

// How many outputs share the elements of a window that were loaded
template <class Acc>
struct OutputsAtOnce {
#ifdef __AVR__
    static constexpr Size value = 1;
#else
    static constexpr Size value = sizeof(Acc) == 4 ? 4 : 2;
#endif
};

// What the part of a window outside of its plane adds to the sums of some rows of weights, `inner` apart: nothing, or the
// weights there times the code that stands for nothing
template <class T>
struct Outside;
template <class T>
struct Outside<InPlace<T>> {
    template <class Acc, Size Rows, class W>
    static void add(Acc (&)[Rows], W, Size, Size) {}
};
template <class T, int Zero>
struct Outside<AffineCode<InPlace<T>, Zero>> {
    template <class Acc, Size Rows, class W>
    static void add(Acc (&sums)[Rows], W weights, Size inner, Size count) {
        for (Size r = 0; r < Rows; ++r, weights = weights + inner) {
            for (Size k = 0; k < count; ++k) sums[r] += Multiply<Acc>::of(weights[k], static_cast<T>(Zero));
        }
    }
};

template <class Acc, class W, class X>
inline void accumulate_run(Acc (&sums)[1], W weights, Size, X x, Size count) {
    accumulate_apart(sums[0], weights, x, count);
}
#ifndef __AVR__
template <class Acc, Size Rows, class W, class X>
__attribute__((always_inline)) inline void accumulate_run(Acc (&sums)[Rows], W weights, Size inner, X x, Size count) {
    for (Size k = 0; k < count; ++k, weights = weights + 1) {
        const auto factor = FactorIn<Acc>::of(x[k]);
        W of_row = weights;
#pragma GCC unroll 4
        for (Size r = 0; r < Rows; ++r, of_row = of_row + inner) sums[r] += Multiply<Acc>::of(of_row[0], factor);
    }
}
#endif

// Some rows of weights times one window of `channels` planes, dilated along y alone
template <class T, class Acc, Size Rows, class W, class X>
__attribute__((always_inline)) inline void accumulate_in_place(Acc (&sums)[Rows], W weights, Size inner, X x, Size channels,
                                                               const Span &down, const Span &across, const RowWindow &l) {
    const Size width = l.window.kernel_x, below = l.window.kernel_y - down.end;
    const bool is_inside = covers(down, l.window.kernel_y) && covers(across, width);
    for (; channels > 0; --channels, x = x + l.x_plane, weights = weights + l.window.kernel_y * width) {
        each_kernel_row(x, l, down, [&](X row, Size k) {
            accumulate_run(sums, weights + (k * width + across.first), inner, row + static_cast<Size>(across.at),
                           across.end - across.first);
            if (is_inside) return;
            Outside<T>::add(sums, weights + k * width, inner, across.first);
            Outside<T>::add(sums, weights + (k * width + across.end), inner, width - across.end);
        });
        if (is_inside) continue;
        Outside<T>::add(sums, weights, inner, down.first * width);
        Outside<T>::add(sums, weights + down.end * width, inner, below * width);
    }
}

// A Cortex-M0+ has eight registers at hand: with the window's sizes as constants in a caller the sums lie on the stack, 15
// instructions a product of the CNN on 8 x 8 digits in fixed8 where a function of its own takes 11.
#ifdef __ARM_ARCH_6M__
#define HIL_OF_ITS_OWN __attribute__((noinline, noclone))
#else
#define HIL_OF_ITS_OWN HIL_PER_LAYER
#endif
template <class Acc, class T, class Out, class Rows, class W, class X, class B, class Shift, class BiasShift>
HIL_OF_ITS_OWN void windows_in_place(Out *out, Rows rows, W weights, X x, B bias, const RowWindow &l, Size groups, Size outputs,
                                     Shift shift, BiasShift bias_shift) {
    const Window &w = l.window;
    const Size channels = w.channels / groups, inner = channels * w.kernel_y * w.kernel_x, each = outputs / groups;
    for (Size g = 0; g < groups; ++g, x = x + channels * l.x_plane, weights = weights + each * inner, bias = bias + each) {
        for (Size y = rows[0]; y < rows[1]; ++y) {
            const Span down = inside(origin(y, w.stride_y, w.pad_y), w.kernel_y, w.dilation_y, w.height);
            Out *pixel = out + (g * each * l.out_plane + slot_of(y, l.out_ring) * l.out_row);
            for (Size column = 0; column < w.out_width; ++column, ++pixel) {
                const Span across = inside(origin(column, w.stride_x, w.pad_x), w.kernel_x, w.dilation_x, w.width);
                const auto start = at_pixel(bias, static_cast<Size>(y * w.out_width + column));
                W row = weights;
                Out *at = pixel;
                const auto make = [&](Acc *sums, Size n, Size count) {
                    for (Size r = 0; r < count; ++r, at += l.out_plane) *at = requantize<Out>(sums[r], of_channel(shift, g * each + n + r));
                };
                Size n = 0;
                constexpr Size together = OutputsAtOnce<Acc>::value;
                for (; n + together <= each; n += together, row = row + together * inner) {
                    Acc sums[together];
#ifndef __AVR__
#pragma GCC unroll 4
#endif
                    for (Size r = 0; r < together; ++r) sums[r] = start_of<Acc>(start, n + r, bias_shift);
                    accumulate_in_place<T>(sums, row, inner, x, channels, down, across, l);
                    make(sums, n, together);
                }
                for (; n < each; ++n, row = row + inner) {
                    if (each % together == 0) __builtin_unreachable();
                    Acc sums[1] = {start_of<Acc>(start, n, bias_shift)};
                    accumulate_in_place<T>(sums, row, inner, x, channels, down, across, l);
                    make(sums, n, 1);
                }
            }
        }
    }
}

// All rows of a result
struct AllRows {
    Size height;
    Size operator[](Size n) const { return n ? height : 0; }
};

template <class Acc, class Out, class T, class W, class X, class B, class Shift, class BiasShift>
HIL_PER_LAYER void convolve(Out *out, InPlace<T> *, W weights, X x, B bias, const Window &w, Size groups, Size outputs, Shift shift,
                            BiasShift bias_shift) {
    windows_in_place<Acc, InPlace<T>>(out, AllRows{w.out_height}, weights, x, bias, whole(w), groups, outputs, shift, bias_shift);
}
template <class Acc, class Out, class T, int Pad, class W, class X, class B, class Shift, class BiasShift>
HIL_PER_LAYER void convolve(Out *out, AffineCode<InPlace<T>, Pad> *, W weights, X x, B bias, const Window &w, Size groups, Size outputs,
                            Shift shift, BiasShift bias_shift) {
    using Code = AffineCode<InPlace<T>, Pad>;
    windows_in_place<Acc, Code>(out, AllRows{w.out_height}, weights, x, bias, whole(w), groups, outputs, shift, bias_shift);
}

template <class Acc, class Out, class T, class Rows, class W, class X, class B, class Shift, class BiasShift>
HIL_PER_LAYER void convolve_rows(Out *out, InPlace<T> *, Rows rows, W weights, X x, B bias, const RowWindow &l, Size groups, Size outputs,
                                 Shift shift, BiasShift bias_shift) {
    windows_in_place<Acc, InPlace<T>>(out, rows, weights, x, bias, l, groups, outputs, shift, bias_shift);
}
template <class Acc, class Out, class T, int Pad, class Rows, class W, class X, class B, class Shift, class BiasShift>
HIL_PER_LAYER void convolve_rows(Out *out, AffineCode<InPlace<T>, Pad> *, Rows rows, W weights, X x, B bias, const RowWindow &l,
                                 Size groups, Size outputs, Shift shift, BiasShift bias_shift) {
    windows_in_place<Acc, AffineCode<InPlace<T>, Pad>>(out, rows, weights, x, bias, l, groups, outputs, shift, bias_shift);
}

}  // namespace hil
