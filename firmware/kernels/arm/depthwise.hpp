// Depthwise convolutions of 3 x 3, on chips with 32-bit registers: two neighbouring outputs at once
// share what they load. A few rows of one channel are copied into lines that have the padding in place, so that no
// output lies at an edge.
#pragma once
#include "firmware/kernels/arm/blocks.hpp"
#include "firmware/kernels/common/rounding.hpp"
#include "firmware/kernels/common/window.hpp"

namespace hil {

// The code that stands for nothing in a window that hangs over
template <class T>
struct PadCode {
    static constexpr int32_t value = 0;
};

constexpr Size rows_of_a_band = 8;  // results whose lines are in scratch at a time (passes/arrange.py)

// Elements from one line to the next: all that the pairs of a row read
inline Size line_elements(const Window &w) { return rounded_up(rounded_up(w.out_width, 2) * w.stride_x + 2, 4); }

// ---- the products of one row of the kernel with neighbours at x, of two outputs that are Stride apart

// The sum of a row's products has 32 bits, whatever Acc has
struct PlainRow {
    int32_t left, middle, right;
    PlainRow(int32_t l, int32_t m, int32_t r) : left(l), middle(m), right(r) {}
    template <class Acc>
    Acc of(int32_t t0, int32_t t1, int32_t t2, Acc sum) const {
        if (sizeof(Acc) > 4) return sum + (left * t0 + middle * t1 + right * t2);
        return sum + left * t0 + middle * t1 + right * t2;
    }
    template <class X>
    int32_t of(const X *x) const {
        return of<int32_t>(x[0], x[1], x[2], 0);
    }
    template <Size Stride, class Acc, class X>
    void add(Acc &a, Acc &b, const X *x) const {
        const int32_t t0 = x[0], t1 = x[1], t2 = x[2], t3 = x[3];
        a = of(t0, t1, t2, a);
        if (Stride == 1) b = of(t1, t2, t3, b);
        else b = of(t2, t3, x[4], b);
    }
};
struct PairedRow {
    uint32_t outer;  // left and right
    int32_t middle;
    PairedRow(int32_t l, int32_t m, int32_t r) : outer(lower_halves(static_cast<uint32_t>(l), static_cast<uint32_t>(r))), middle(m) {}
    template <Size Stride, class Byte>
    void add(int32_t &a, int32_t &b, const Byte *x) const {
        const Pairs t = split(x);
        a = add_low(add_products(a, t.first, outer), t.second, middle);
        if (Stride == 1) b = add_high(add_products(b, t.second, outer), t.first, middle);
        else b = add_high(add_products(b, even_bytes_at(x + 2), outer), t.second, middle);
    }
};
// With neighbours of 16 bits
struct HalvesRow {
    uint32_t first;  // left and middle
    int32_t right;
    HalvesRow(int32_t l, int32_t m, int32_t r) : first(lower_halves(static_cast<uint32_t>(l), static_cast<uint32_t>(m))), right(r) {}
    template <Size Stride, class Acc>
    void add(Acc &a, Acc &b, const int16_t *x) const {
        const uint32_t more = word_at(x + 2);
        a = add_low(add_products(a, word_at(x), first), more, right);
        if (Stride == 1) b = add_high(add_products(b, word_at(x + 1), first), more, right);
        else b = add_low(add_products(b, more, first), static_cast<uint16_t>(x[4]), right);
    }
};
#if defined(__ARM_FEATURE_DSP) || defined(HIL_DSP_PORTABLE)
template <class X>
struct RowOf {
    using type = HalvesRow;
};
template <>
struct RowOf<int8_t> {
    using type = PairedRow;
};
template <>
struct RowOf<uint8_t> {
    using type = PairedRow;
};
template <class X>
using KernelRow = typename RowOf<X>::type;
constexpr bool by_columns = false;
#else
template <class X>
using KernelRow = PlainRow;
constexpr bool by_columns = true;
#endif

// ---- lines

template <class X>
inline void fill_line(X *to, Size first, Size count, uint32_t pads) {
    for (Size n = first; n < count; n += 4 / sizeof(X)) __builtin_memcpy(to + n, &pads, 4);
}

// What the results [y, y + rows) of one channel read, with what it is padded with on both sides: at most a word of it before a line
template <class X>
__attribute__((noinline, noclone)) void copy_lines(X *to, const X *plane, const RowWindow &l, Size y, Size rows, uint32_t pads) {
    const Window &w = l.window;
    const Size count = line_elements(w), before = w.pad_x, height = w.height, x_row = l.x_row, ring = l.x_ring;
    const Size there = w.width < count - before ? w.width : count - before;
    const Size after = (before + there) & ~Size(4 / sizeof(X) - 1);
    Size at = static_cast<Size>(origin(y, w.stride_y, w.pad_y));  // wraps where it is negative
    Size slot = at < height ? at % ring : 0;
    for (Size lines = (rows - 1) * w.stride_y + 3; lines > 0; --lines, ++at, to += count) {
        if (at >= height) {
            fill_line(to, 0, count, pads);
            continue;
        }
        fill_line(to, 0, before, pads);
        fill_line(to, after, count, pads);
        copy_elements(to + before, plane + slot * x_row, there);
        slot = slot + 1 == ring ? 0 : slot + 1;
    }
}

// ---- one channel

// `OutInner`: results have their channels innermost
template <Size Stride, bool OutInner, class Acc, class Out, class X, class W, class B, class Shift, class BiasShift>
__attribute__((noinline, noclone)) void depthwise_rows(Out *out, const X *lines, Size y, Size rows, const W *weights, const B &bias,
                                                       const RowWindow &l, Shift shift, BiasShift bias_shift) {
    const Window &w = l.window;
    const Size line = line_elements(w), width = w.out_width, step = OutInner ? w.channels : 1;
    using Rounded = RoundedBlock<Acc, Out, Shift>;
    const auto row = [&](Size n) {
        constexpr int32_t times = Rounded::takes_twice ? 2 : 1;
        return KernelRow<X>(times * weights[n], times * weights[n + 1], times * weights[n + 2]);
    };
    const KernelRow<X> first = row(0), second = row(3), third = row(6);
    const int32_t before = Rounded::before(shift);
    const auto start = [&](Size pixel) { return start_of<Acc>(at_pixel(bias, pixel), 0, bias_shift) + before; };
    const Acc same = VariesByPixel<B>::value ? 0 : start(0);
    const Size x_step = w.stride_y * line, out_step = l.out_row;
    out += y % l.out_ring * out_step;  // no row is beyond the ring's edge
    for (Size end = y + rows; y < end; ++y, lines += x_step, out += out_step) {
        Out *at = out;
        const X *x = lines;
        Acc a, b;
        int32_t seen;
        const auto add = [&] {
            first.template add<Stride>(a, b, x);
            second.template add<Stride>(a, b, x + line);
            third.template add<Stride>(a, b, x + 2 * line);
        };
        Out *const last = at + (width & ~Size(1)) * step;
        for (Size pixel = y * width; at != last; at += 2 * step, x += 2 * Stride, pixel += 2) {
            a = VariesByPixel<B>::value ? start(pixel) : same;
            b = VariesByPixel<B>::value ? start(pixel + 1) : same;
            add();
            seen = 0;
            at[0] = Rounded::of(a, shift, seen);
            at[step] = Rounded::of(b, shift, seen);
            if (__builtin_expect(Rounded::any(seen), 0)) {
                at[0] = Rounded::again(a, shift);
                at[step] = Rounded::again(b, shift);
            }
        }
        if ((width & 1) == 0) continue;
        a = b = VariesByPixel<B>::value ? start(y * width + width - 1) : same;
        add();
        seen = 0;
        at[0] = Rounded::of(a, shift, seen);
        if (__builtin_expect(Rounded::any(seen), 0)) at[0] = Rounded::again(a, shift);
    }
}

// The same with a stride of 1, column by column: a row of the window counts for three results below each other, so every element
// of a column is loaded once. For chips that multiply one element at a time.
template <class Acc, class Out, class X, class W, class B, class Shift, class BiasShift>
__attribute__((noinline, noclone)) void depthwise_columns(Out *out, const X *lines, Size y, Size rows, const W *weights, const B &bias,
                                                          const RowWindow &l, Shift shift, BiasShift bias_shift) {
    using Rounded = RoundedBlock<Acc, Out, Shift>;
    static_assert(!by_columns || !Rounded::takes_twice, "this core needs no sum twice");
    const Size line = line_elements(l.window), width = l.window.out_width;
    const PlainRow first(weights[0], weights[1], weights[2]), second(weights[3], weights[4], weights[5]),
        third(weights[6], weights[7], weights[8]);
    const auto start = [&](Size pixel) { return start_of<Acc>(at_pixel(bias, pixel), 0, bias_shift) + Rounded::before(shift); };
    const Acc same = VariesByPixel<B>::value ? 0 : start(0);
    out += y % l.out_ring * l.out_row;
    for (Size column = 0; column < width; ++column) {
        Size pixel = y * width + column;
        const auto next = [&](bool is_within) {
            if (!VariesByPixel<B>::value) return same;
            const Acc sum = is_within ? start(pixel) : 0;
            pixel += width;
            return sum;
        };
        const X *x = lines + column;
        Acc upper = next(true) + first.of(x) + second.of(x + line);
        Acc middle = next(rows > 1) + first.of(x + line);
        x += 2 * line;
        Out *at = out + column;
        for (Size left = rows; left > 0; --left, x += line, at += l.out_row) {
            const int32_t t0 = x[0], t1 = x[1], t2 = x[2];
            const Acc sum = third.of(t0, t1, t2, upper);
            int32_t seen = 0;
            *at = Rounded::of(sum, shift, seen);
            if (__builtin_expect(Rounded::any(seen), 0)) *at = Rounded::again(sum, shift);
            upper = second.of(t0, t1, t2, middle);
            middle = first.of(t0, t1, t2, next(left > 2));
        }
    }
}

// Whether a chip has another way to the results of a channel, which are there then (rescaled_columns.hpp)
template <class Out, class X, class W, class B, class Shift>
inline bool by_columns_of(Out *, X *, Size, Size, const W *, const X *, const B &, const RowWindow &, Size, const Shift &, int32_t) {
    return false;
}

// The output rows [begin, end) of all channels
template <bool OutInner, class Acc, class T, class Out, class W, class X, class B, class Shift, class BiasShift>
void depthwise(Out *out, X *lines, Size begin, Size end, const W *weights, const X *x, B bias, const RowWindow &l, const Shift &shift,
               BiasShift bias_shift) {
    const Window &w = l.window;
    const uint32_t of_halves = 0x00010001u * static_cast<uint16_t>(PadCode<T>::value),
                   of_bytes = 0x01010101u * static_cast<uint8_t>(PadCode<T>::value);
    const uint32_t pads = sizeof(X) == 1 ? of_bytes : of_halves;
    const auto add = bias_factor(bias_shift);
    for (Size c = 0; c < w.channels; ++c, out += l.out_plane, weights += 9, x += l.x_plane, bias = bias + 1) {
        const auto by = early(prepared(at_run_time(of_channel(shift, c))));
        if (by_columns_of(out, lines, begin, end, weights, x, bias, l, OutInner ? w.channels : 1, by, PadCode<T>::value)) continue;
        for (Size y = begin, rows; y < end; y += rows) {
            const Size to_the_end = end - y, to_the_edge = l.out_ring - y % l.out_ring;
            const Size most = to_the_end < to_the_edge ? to_the_end : to_the_edge;
            rows = most < rows_of_a_band ? most : rows_of_a_band;
            copy_lines(lines, x, l, y, rows, pads);
            if (by_columns && !OutInner && w.stride_x == 1 && w.stride_y == 1)
                depthwise_columns<Acc>(out, lines, y, rows, weights, bias, l, by, add);
            else if (w.stride_x == 1) depthwise_rows<1, OutInner, Acc>(out, lines, y, rows, weights, bias, l, by, add);
            else depthwise_rows<2, OutInner, Acc>(out, lines, y, rows, weights, bias, l, by, add);
        }
    }
}

}  // namespace hil
