// Depthwise convolutions of 3 x 3 with sums of 32 bits, on chips with 32-bit registers: two neighbouring outputs at once
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

constexpr Size rows_of_a_band = 8;  // results whose lines are in scratch at a time (codegen/arrange.py)

// Bytes from one line to the next: all that the pairs of a row read
inline Size line_bytes(const Window &w) { return rounded_up(rounded_up(w.out_width, 2) * w.stride_x + 2, 4); }

// ---- the products of one row of the kernel with neighbours at x, of two outputs that are Stride apart

struct PlainRow {
    int32_t left, middle, right;
    PlainRow(int32_t l, int32_t m, int32_t r) : left(l), middle(m), right(r) {}
    int32_t of(int32_t t0, int32_t t1, int32_t t2, int32_t sum) const { return sum + left * t0 + middle * t1 + right * t2; }
    int32_t of(const int8_t *x) const { return of(x[0], x[1], x[2], 0); }
    template <Size Stride>
    void add(int32_t &a, int32_t &b, const int8_t *x) const {
        const int32_t t0 = x[0], t1 = x[1], t2 = x[2], t3 = x[3];
        a += left * t0 + middle * t1 + right * t2;
        if (Stride == 1) b += left * t1 + middle * t2 + right * t3;
        else b += left * t2 + middle * t3 + right * x[4];
    }
};
struct PairedRow {
    uint32_t outer;  // left and right
    int32_t middle;
    PairedRow(int32_t l, int32_t m, int32_t r) : outer((static_cast<uint32_t>(l) & 0xFFFF) | (static_cast<uint32_t>(r) << 16)), middle(m) {}
    template <Size Stride>
    void add(int32_t &a, int32_t &b, const int8_t *x) const {
        const Pairs t = split(word_at(x));
        a = add_low(add_products(a, t.first, outer), t.second, middle);
        if (Stride == 1) b = add_high(add_products(b, t.second, outer), t.first, middle);
        else b = add_high(add_products(b, even_bytes(word_at(x + 2)), outer), t.second, middle);
    }
};
#if defined(__ARM_FEATURE_DSP) || defined(HIL_DSP_PORTABLE)
using KernelRow = PairedRow;
constexpr bool by_columns = false;
#else
using KernelRow = PlainRow;
constexpr bool by_columns = true;
#endif

// ---- lines

// One row of a plane with what it is padded with on both sides; nothing of it if `row` is null
inline void copy_line(int8_t *to, const int8_t *row, const Window &w, Size bytes, uint32_t pads) {
    const Size count = w.width < bytes - w.pad_x ? w.width : bytes - w.pad_x;
    for (Size n = 0; n < bytes; n += 4) __builtin_memcpy(to + n, &pads, 4);
    if (row == nullptr) return;
    to += w.pad_x;
    for (Size n = 0; n + 4 <= count; n += 4) __builtin_memcpy(to + n, row + n, 4);
    for (Size n = count & ~Size(3); n < count; ++n) to[n] = row[n];
}

// What the results [y, y + rows) of one channel read
__attribute__((noinline, noclone)) inline void copy_lines(int8_t *to, const int8_t *plane, const RowWindow &l, Size y, Size rows,
                                                          uint32_t pads) {
    const Window &w = l.window;
    const Size bytes = line_bytes(w), lines = (rows - 1) * w.stride_y + 3;
    Size at = static_cast<Size>(origin(y, w.stride_y, w.pad_y));  // wraps where it is negative
    for (Size n = 0; n < lines; ++n, ++at, to += bytes)
        copy_line(to, at < w.height ? plane + at % l.x_ring * l.x_row : nullptr, w, bytes, pads);
}

// ---- one channel

template <Size Stride, class Out, class B, class Shift, class BiasShift>
__attribute__((noinline, noclone)) void depthwise_rows(Out *out, const int8_t *lines, Size y, Size rows, const int8_t *weights,
                                                       const B &bias, const RowWindow &l, Shift shift, BiasShift bias_shift) {
    const Window &w = l.window;
    const Size bytes = line_bytes(w), width = w.out_width;
    using Rounded = Together<Out, Shift>;
    const auto row = [&](Size n) {
        constexpr int32_t times = Rounded::takes_twice ? 2 : 1;
        return KernelRow(times * weights[n], times * weights[n + 1], times * weights[n + 2]);
    };
    const KernelRow first = row(0), second = row(3), third = row(6);
    const int32_t before = Rounded::before(shift);
    const auto start = [&](Size pixel) { return start_of<int32_t>(at_pixel(bias, pixel), 0, bias_shift) + before; };
    const int32_t same = VariesByPixel<B>::value ? 0 : start(0);
    for (Size end = y + rows; y < end; ++y, lines += w.stride_y * bytes) {
        Out *at = out + y % l.out_ring * l.out_row;
        const int8_t *x = lines;
        int32_t a, b, seen;
        const auto add = [&] {
            first.template add<Stride>(a, b, x);
            second.template add<Stride>(a, b, x + bytes);
            third.template add<Stride>(a, b, x + 2 * bytes);
        };
        Out *const last = at + (width & ~Size(1));
        for (Size pixel = y * width; at != last; at += 2, x += 2 * Stride, pixel += 2) {
            a = VariesByPixel<B>::value ? start(pixel) : same;
            b = VariesByPixel<B>::value ? start(pixel + 1) : same;
            add();
            seen = 0;
            at[0] = Rounded::of(a, shift, seen);
            at[1] = Rounded::of(b, shift, seen);
            if (__builtin_expect(Rounded::any(seen), 0)) {
                at[0] = Rounded::again(a, shift);
                at[1] = Rounded::again(b, shift);
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
template <class Out, class B, class Shift, class BiasShift>
__attribute__((noinline, noclone)) void depthwise_columns(Out *out, const int8_t *lines, Size y, Size rows, const int8_t *weights,
                                                          const B &bias, const RowWindow &l, Shift shift, BiasShift bias_shift) {
    using Rounded = Together<Out, Shift>;
    static_assert(!by_columns || !Rounded::takes_twice, "this core needs no sum twice");
    const Size bytes = line_bytes(l.window), width = l.window.out_width;
    const PlainRow first(weights[0], weights[1], weights[2]), second(weights[3], weights[4], weights[5]),
        third(weights[6], weights[7], weights[8]);
    const auto start = [&](Size pixel) { return start_of<int32_t>(at_pixel(bias, pixel), 0, bias_shift) + Rounded::before(shift); };
    const int32_t same = VariesByPixel<B>::value ? 0 : start(0);
    out += y % l.out_ring * l.out_row;
    for (Size column = 0; column < width; ++column) {
        Size pixel = y * width + column;
        const auto next = [&](bool is_within) {
            if (!VariesByPixel<B>::value) return same;
            const int32_t sum = is_within ? start(pixel) : 0;
            pixel += width;
            return sum;
        };
        const int8_t *x = lines + column;
        int32_t upper = next(true) + first.of(x) + second.of(x + bytes);
        int32_t middle = next(rows > 1) + first.of(x + bytes);
        x += 2 * bytes;
        Out *at = out + column;
        for (Size left = rows; left > 0; --left, x += bytes, at += l.out_row) {
            const int32_t t0 = x[0], t1 = x[1], t2 = x[2];
            const int32_t sum = third.of(t0, t1, t2, upper);
            int32_t seen = 0;
            *at = Rounded::of(sum, shift, seen);
            if (__builtin_expect(Rounded::any(seen), 0)) *at = Rounded::again(sum, shift);
            upper = second.of(t0, t1, t2, middle);
            middle = first.of(t0, t1, t2, next(left > 2));
        }
    }
}

// The output rows [begin, end) of all channels
template <class T, class Out, class B, class Shift, class BiasShift>
void depthwise(Out *out, int8_t *lines, Size begin, Size end, const int8_t *weights, const int8_t *x, B bias, const RowWindow &l,
               const Shift &shift, BiasShift bias_shift) {
    const Window &w = l.window;
    const uint32_t pads = 0x01010101u * static_cast<uint8_t>(PadCode<T>::value);
    const auto add = bias_factor(bias_shift);
    for (Size c = 0; c < w.channels; ++c, out += l.out_plane, weights += 9, x += l.x_plane, bias = bias + 1) {
        const auto by = early(prepared(at_run_time(of_channel(shift, c))));
        for (Size y = begin, rows; y < end; y += rows) {
            const Size to_the_end = end - y, to_the_edge = l.out_ring - y % l.out_ring;
            const Size most = to_the_end < to_the_edge ? to_the_end : to_the_edge;
            rows = most < rows_of_a_band ? most : rows_of_a_band;
            copy_lines(lines, x, l, y, rows, pads);
            if (by_columns && w.stride_x == 1 && w.stride_y == 1) depthwise_columns(out, lines, y, rows, weights, bias, l, by, add);
            else if (w.stride_x == 1) depthwise_rows<1>(out, lines, y, rows, weights, bias, l, by, add);
            else depthwise_rows<2>(out, lines, y, rows, weights, bias, l, by, add);
        }
    }
}

}  // namespace hil
