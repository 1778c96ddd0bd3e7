// Convolution with weights in the order of blocks: the patches of two pixels, then blocks of all outputs.
#pragma once
#include "firmware/kernels/arm/depthwise_line.hpp"
#include "firmware/kernels/arm/lanes.hpp"
#include "firmware/kernels/arm/patches.hpp"
#include "firmware/kernels/arm/two_pixels.hpp"
#include "firmware/kernels/common/rounding.hpp"

namespace hil {

// The outputs of a block of which one was clipped
template <class Rounded, Size Rows, class Acc, class Out, class Shift>
__attribute__((noinline, noclone, cold)) void block_again(Out *out, Position apart, Size plane, const Sums<Rows, Acc> &sums, Size count,
                                                          const Shift &shift) {
    for (Size r = 0; r < count; ++r, out += plane) {
        const auto &by = prepared(of_channel(shift, r));
        out[0] = Rounded::again(sums.of[r][0], by);
        out[apart] = Rounded::again(sums.of[r][1], by);
    }
}

// Those of a block, from its sums
template <class Rounded, Size Rows, class Acc, class Out, class Shift>
__attribute__((always_inline)) inline void block_of_results(Out *out, Position apart, Size plane, const Sums<Rows, Acc> &sums, Size count,
                                                            const Shift &shift) {
    int32_t seen = 0;
    Out *at = out;
#pragma GCC unroll 4
    for (Size r = 0; r < Rows; ++r, at += plane) {
        if (r >= count) break;
        const auto &by = prepared(of_channel(shift, r));
        at[0] = Rounded::of(sums.of[r][0], by, seen);
        at[apart] = Rounded::of(sums.of[r][1], by, seen);
    }
    if (__builtin_expect(!Rounded::any(seen), 1)) return;
    const Sums<Rows, Acc> held = sums;  // in memory here alone
    block_again<Rounded>(out, apart, plane, held, count, shift);
}

// `count` outputs from the n-th of two pixels on, at `out` and `out + apart`; w moves on, `shift` is that of the n-th
template <class Tile, class Acc, class Out, class W, class B, class Shift, class BiasShift>
__attribute__((always_inline)) inline void block_of_outputs(Out *out, Position apart, Size plane, const W *&w, const uint32_t *patches,
                                                            Size inner, const B &first, const B &second, Size n, Size count,
                                                            const Shift &shift, BiasShift bias_shift) {
    using Rounded = RoundedBlock<Acc, Out, PreparedOf<Shift>>;
    Sums<Tile::rows, Acc> sums;
#pragma GCC unroll 4
    for (Size r = 0; r < Tile::rows; ++r) {
        const Size of = r < count ? r : 0;
        const int32_t before = Rounded::before(prepared(of_channel(shift, of)));
        sums.of[r][0] = start_of<Acc>(first, n + of, bias_shift) + before;
        sums.of[r][1] = VariesByPixel<B>::value ? start_of<Acc>(second, n + of, bias_shift) + before : sums.of[r][0];
    }
    Tile::template add<Rounded::takes_twice>(sums, w, patches, inner);
    block_of_results<Rounded>(out, apart, plane, sums, count, shift);
}

// Whether there are no outputs but those of whole blocks
template <class Weights>
struct IsWhole {
    static constexpr bool value = false;
};
template <>
struct IsWhole<Blocks<int8_t, 4, in_pairs>> {
    static constexpr bool value = true;
};

template <class Acc, class X, class Weights, class Out, class B, class Shift, class BiasShift>
__attribute__((noinline, noclone)) void outputs_of_pixels(Out *out, Position apart, Size plane, Weights weights, const uint32_t *patches,
                                                          Size inner, B first, B second, Size outputs, Shift shift, BiasShift bias_shift) {
    using Tile = TwoPixels<Weights, X, Acc>;
    auto w = weights.at;
    Size n = 0;
    for (; n + Tile::rows <= outputs; n += Tile::rows, out += Tile::rows * plane) {
        block_of_outputs<Tile, Acc>(out, apart, plane, w, patches, inner, first, second, n, Tile::rows, from_channel(shift, n), bias_shift);
    }
    if (!IsWhole<Weights>::value && n < outputs) {
        block_of_outputs<Tile, Acc>(out, apart, plane, w, patches, inner, first, second, n, outputs - n, from_channel(shift, n),
                                    bias_shift);
    }
}

// An operand and how it and the result lie: in planes, or with channels innermost (passes/layout.py)
template <class X, bool Inner, bool OutInner>
struct Laid {
    const X *at;
};
template <bool Inner, bool OutInner, class X>
inline Laid<X, Inner, OutInner> laid(Ram<X> x) {
    return {x.at};
}

}  // namespace hil
#include "firmware/kernels/arm/lane_windows.hpp"
#include "firmware/kernels/arm/row_pairs.hpp"
namespace hil {

// Distances in these layouts; slots of a line buffer hold a row of every channel in either one
template <class X, bool Inner, bool OutInner>
inline RowWindow distances(Laid<X, Inner, OutInner>, const RowWindow &planes, Size outputs) {
    RowWindow l = planes;
    if (Inner && l.x_ring >= l.window.height) l.x_row *= l.window.channels;
    if (OutInner) l.out_plane = 1;
    if (OutInner && l.out_ring >= l.window.out_height) l.out_row *= outputs;
    return l;
}

template <bool Inner>
struct Filled {
    template <class Patches, class X>
    static void fill(uint32_t *to, const X *x, const RowWindow &l, Pixel a, Pixel b, X pad) {
        Patches::fill(to, x, l, a, b, pad);
    }
};
template <>
struct Filled<true> {
    template <class Patches, class X>
    static void fill(uint32_t *to, const X *x, const RowWindow &l, Pixel a, Pixel b, X pad) {
        const Window &w = l.window;
        const auto at = [&](Pixel p) { return x + slot_of(p.y * w.stride_y, l.x_ring) * l.x_row + p.column * w.stride_x * w.channels; };
        if (is_pointwise(w)) Patches::pixels(to, at(a), at(b), w.channels);
        else Patches::fill_innermost(to, x, l, a, b, pad);
    }
};

// Where all sums of a pixel start with what its weights are more than bytes
template <class Acc, class X, int By, Size Rows, Size Step, class Out, class Shift, class BiasShift>
inline void outputs_of_pixels(Out *out, Position apart, Size plane, Blocks<Raised<By>, Rows, Step> weights, const uint32_t *patches,
                              Size inner, NoChannelBias, NoChannelBias, Size outputs, const Shift &shift, BiasShift bias_shift) {
    const auto bytes = bytes_of(weights);
    const EvenAndOdd sums = PatchesOf<decltype(bytes_of(weights)), X>::sums(patches, inner);
    const CommonStart first = {By * sums.even}, second = {By * sums.odd};
    outputs_of_pixels<Acc, X>(out, apart, plane, bytes, patches, inner, first, second, outputs, shift, bias_shift);
}

// Weights as blocks read them
template <class Weights>
struct AsBytes {
    using type = Weights;
};
template <int By, Size Rows, Size Step>
struct AsBytes<Blocks<Raised<By>, Rows, Step>> {
    using type = Blocks<int8_t, Rows, Step>;
};

// The output rows [begin, end), two pixels at a time
template <class Acc, class T, class Weights, class X, bool Inner, bool OutInner, class Out, class B, class Shift, class BiasShift>
void convolve_blocks(Out *out, uint32_t *patches, Size begin, Size end, Weights weights, Laid<X, Inner, OutInner> x, const B &bias,
                     const RowWindow &l, Size outputs, const Shift &shift, BiasShift bias_shift) {
    const Window &w = l.window;
    const Size step = OutInner ? outputs : 1;
    const auto start = [&](Pixel p) { return at_pixel(laid_out<OutInner>(bias), (p.y * w.out_width + p.column) * step); };
    const Size inner = w.channels * w.kernel_y * w.kernel_x;
    const auto add = bias_factor(bias_shift);
    const auto by = at_run_time(shift);
    const auto place = [&](Size y, Size column) { return slot_of(y, l.out_ring) * l.out_row + column * step; };
    for (Size y = begin, column = 0; y < end;) {
        const bool is_last_of_row = column + 1 == w.out_width;
        const Size next_y = is_last_of_row ? y + 1 : y, next_column = is_last_of_row ? 0 : column + 1;
        const bool is_alone = next_y >= end;
        const Size second_y = is_alone ? y : next_y, second_column = is_alone ? column : next_column;
        const Pixel a = {y, column}, b = {second_y, second_column};
        Filled<Inner>::template fill<PatchesOf<typename AsBytes<Weights>::type, X>>(patches, x.at, l, a, b,
                                                                                    static_cast<X>(PadCode<T>::value));
        const uint32_t before = saturations;
        const Size to = place(y, column);
        outputs_of_pixels<Acc, X>(out + to, static_cast<Position>(place(second_y, second_column) - to), l.out_plane, weights, patches,
                                  inner, start(a), start(b), outputs, by, add);
        if (is_alone) saturations = before + (saturations - before) / 2;  // a pixel without a second one was counted twice
        const bool ends_row = second_column + 1 == w.out_width;
        y = ends_row ? second_y + 1 : second_y;
        column = ends_row ? 0 : second_column + 1;
    }
}

// A depthwise layer has one row of weights per channel, and all of it in turn. It reads planes.
template <class Acc, class T, class Out, class W, class X, bool OutInner, class B, class Shift, class BiasShift>
void convolve_blocks(Out *out, uint32_t *scratch, Size begin, Size end, Blocks<W, 1, 9> weights, Laid<X, false, OutInner> x, const B &bias,
                     const RowWindow &l, Size, const Shift &shift, BiasShift bias_shift) {
    depthwise<OutInner, Acc, T>(out, reinterpret_cast<X *>(scratch), begin, end, weights.at, x.at, bias, l, shift, bias_shift);
}
// The same along one axis, of planes and to planes
template <class Acc, class T, class Out, class W, class X, class B, class Shift, class BiasShift>
void convolve_blocks(Out *out, uint32_t *scratch, Size begin, Size end, Blocks<W, 1, 4> weights, Laid<X, false, false> x, const B &bias,
                     const RowWindow &l, Size, const Shift &shift, BiasShift bias_shift) {
    const OneAxis axis = one_axis_of(l);
    if (l.window.kernel_x > 1) begin = 0, end = l.window.out_width;
    depthwise_line<Acc, T>(out, reinterpret_cast<X *>(scratch), begin, end, weights.at, x.at, bias, axis, shift, bias_shift);
}

// Cortex-M0+, from planes to planes: a row of weights at a time for the patches of several pixels
template <class Acc, class T, class Out, class B, class Shift, class BiasShift>
void convolve_blocks(Out *out, uint32_t *row, Size begin, Size end, Blocks<InLanes, 1, 2> weights, Laid<int8_t, false, false> x,
                     const B &bias, const RowWindow &l, Size outputs, const Shift &shift, BiasShift bias_shift) {
    const Window &w = l.window;
    const Size padded = rounded_up(w.channels * w.kernel_y * w.kernel_x, 4), most = lane_pixels(padded, w.out_height * w.out_width);
    uint32_t *const patches = row + padded / 2;
    int8_t *const bytes = reinterpret_cast<int8_t *>(patches + most * padded / 2);
    const auto add = bias_factor(bias_shift);
    const auto by = at_run_time(shift);
    LanePixels pixels;
    for (Pixel p = {begin, 0}; p.y < end;) {
        Size count = 0;
        pixels.first = p.y * w.out_width + p.column;
        for (; count < most && p.y < end; ++count) {
            pixels.places[count] = slot_of(p.y, l.out_ring) * l.out_row + p.column;
            widen_window(patches + count / 2 * 2 * (padded / 2) + count % 2, bytes, x.at, l, p, static_cast<int8_t>(PadCode<T>::value),
                         padded);
            if (++p.column == w.out_width) p = {p.y + 1, 0};
        }
        pixels.count = count;
        outputs_of_lanes<Acc>(out, row, patches, weights.at, bias, pixels, l.out_plane, padded, outputs, by, add);
    }
}

template <class Acc, class Out, class T, class W, Size Rows, Size Step, class X, class B, class Shift, class BiasShift>
void convolve(Out *out, T *patch, Blocks<W, Rows, Step> weights, Ram<X> x, B bias, const Window &w, Size, Size outputs, Shift shift,
              BiasShift bias_shift) {
    convolve_blocks<Acc, T>(out, reinterpret_cast<uint32_t *>(patch), 0, w.out_height, weights, laid<false, false>(x), bias, whole(w),
                            outputs, shift, bias_shift);
}

template <class Acc, class Out, class T, class Rows, class W, Size Together, Size Step, class X, class B, class Shift, class BiasShift>
void convolve_rows(Out *out, T *patch, Rows rows, Blocks<W, Together, Step> weights, Ram<X> x, B bias, const RowWindow &l, Size,
                   Size outputs, Shift shift, BiasShift bias_shift) {
    convolve_blocks<Acc, T>(out, reinterpret_cast<uint32_t *>(patch), rows[0], rows[1], weights, laid<false, false>(x), bias, l, outputs,
                            shift, bias_shift);
}

// With layouts; not inlined, for the frames of several layers would add up.
template <class Acc, class Out, class T, class W, Size Rows, Size Step, class X, bool I, bool O, class B, class Shift, class BiasShift>
__attribute__((noinline)) void convolve(Out *out, T *patch, Blocks<W, Rows, Step> weights, Laid<X, I, O> x, B bias, const Window &w, Size,
                                        Size outputs, Shift shift, BiasShift bias_shift) {
    convolve_blocks<Acc, T>(out, reinterpret_cast<uint32_t *>(patch), 0, w.out_height, weights, x, bias, distances(x, whole(w), outputs),
                            outputs, shift, bias_shift);
}

template <class Acc, class Out, class T, class Rows, class W, Size Together, Size Step, class X, bool I, bool O, class B, class Shift,
          class BiasShift>
__attribute__((noinline)) void convolve_rows(Out *out, T *patch, Rows rows, Blocks<W, Together, Step> weights, Laid<X, I, O> x, B bias,
                                             const RowWindow &l, Size, Size outputs, Shift shift, BiasShift bias_shift) {
    convolve_blocks<Acc, T>(out, reinterpret_cast<uint32_t *>(patch), rows[0], rows[1], weights, x, bias, distances(x, l, outputs), outputs,
                            shift, bias_shift);
}

}  // namespace hil
