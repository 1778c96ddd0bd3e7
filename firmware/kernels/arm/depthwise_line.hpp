// Depthwise convolutions along one axis, on chips with 32-bit registers: four neighbouring outputs at once share what they load.
// A stretch of one channel is copied into a line that has the padding in place, so that no output lies at an edge.
#pragma once
#include "firmware/kernels/arm/depthwise.hpp"

namespace hil {

constexpr Size outputs_of_a_column = 32;  // whose stretch is in scratch at a time; a row is copied as a whole (passes/arrange.py)

// Four weights as pairs
inline Pairs weights_at(const int8_t *w) { return split(word_at(w)); }
template <int By>
inline Pairs weights_at(const Raised<By> *w) {
    const Pairs bytes = weights_at(&w->code);
    constexpr uint32_t by = static_cast<uint16_t>(By) * 0x00010001u;
    return {add_halves(bytes.first, by), add_halves(bytes.second, by)};
}

// Adds the products of weights [w, end), a multiple of four, with the stretches of four outputs next to each other, the first at x
template <class W>
inline void add_line(int32_t (&sums)[4], const W *w, const W *end, const int8_t *x) {
    int32_t a = sums[0], b = sums[1], c = sums[2], d = sums[3];
    if (by_columns) {
        for (; w != end; w += 4, x += 4) {
#pragma GCC unroll 4
            for (Size n = 0; n < 4; ++n) {
                const int32_t factor = w[n];
                a += factor * x[n];
                b += factor * x[n + 1];
                c += factor * x[n + 2];
                d += factor * x[n + 3];
            }
        }
    } else {
        for (Pairs first = split(word_at(x)); w != end; w += 4) {  // elements (0, 2) and (1, 3), then (2, 4) and (3, 5)
            const Pairs by = weights_at(w), second = split(word_at(x + 2)), next = split(word_at(x += 4));
            a = add_products(add_products(a, by.first, first.first), by.second, first.second);
            b = add_products(add_products(b, by.first, first.second), by.second, second.first);
            c = add_products(add_products(c, by.first, second.first), by.second, second.second);
            d = add_products(add_products(d, by.first, second.second), by.second, next.first);
            first = next;
        }
    }
    sums[0] = a, sums[1] = b, sums[2] = c, sums[3] = d;
}

// Planes of one row or one column, of `count` elements of which element n is `x_step` * (n % x_ring) behind the first; `taps` of a window,
// which hangs over by `pad`; `most`: outputs at a time
struct OneAxis { Size channels, count, taps, pad, x_plane, x_step, x_ring, out_plane, out_step, out_ring, most; };
inline OneAxis one_axis_of(const RowWindow &l) {
    const Window &w = l.window;
    if (w.kernel_x > 1) return {w.channels, w.width, w.kernel_x, w.pad_x, l.x_plane, 1, w.width, l.out_plane, 1, w.out_width, w.out_width};
    return {w.channels, w.height,    w.kernel_y, w.pad_y,    l.x_plane,          l.x_row,
            l.x_ring,   l.out_plane, l.out_row,  l.out_ring, outputs_of_a_column};
}

// `count` elements of a plane, from what output n reads first
__attribute__((noinline, noclone)) inline void copy_stretch(int8_t *to, const int8_t *plane, const OneAxis &l, Size n, Size count,
                                                            int8_t pad) {
    const Position size = static_cast<Position>(l.count);
    Position at = origin(n, 1, l.pad);
    int8_t *const end = to + count;
    for (; at < 0 && to != end; ++at) *to++ = pad;
    Size there = at < size ? static_cast<Size>(size - at) : 0;
    if (there > static_cast<Size>(end - to)) there = static_cast<Size>(end - to);
    if (l.x_step == 1 && l.x_ring >= l.count) copy_elements(to, plane + at, there);
    else
        for (Size k = 0; k < there; ++k) to[k] = plane[(static_cast<Size>(at) + k) % l.x_ring * l.x_step];
    for (to += there; to != end;) *to++ = pad;
}

// The `count` outputs of one channel from the first on, `step` apart from each other
template <class Acc, class Out, class W, class B, class Shift, class BiasShift>
__attribute__((noinline, noclone)) void line_of_outputs(Out *out, Size step, const int8_t *line, Size first, Size count, const W *weights,
                                                        const W *end, const B &bias, const Shift &shift, BiasShift bias_shift) {
    using Rounded = RoundedBlock<Acc, Out, Shift>;
    const Shift by = shift;  // in registers
    const int32_t before = Rounded::before(by);
    const auto start = [&](Size n) { return start_of<Acc>(at_pixel(bias, n), 0, bias_shift) + before; };
    const int32_t same = VariesByPixel<B>::value ? 0 : start(0);
    for (Size n = 0; n < count; n += 4, out += 4 * step) {
        const Size left = count - n;
        int32_t sums[4], seen = 0;
#pragma GCC unroll 4
        for (Size r = 0; r < 4; ++r) sums[r] = VariesByPixel<B>::value ? start(first + n + (r < left ? r : 0)) : same;
        add_line(sums, weights, end, line + n);
#pragma GCC unroll 4
        for (Size r = 0; r < 4; ++r) sums[r] = Rounded::takes_twice ? twice(sums[r]) : sums[r];
        Out *at = out;
        if (left >= 4) {
#pragma GCC unroll 4
            for (Size r = 0; r < 4; ++r, at += step) *at = Rounded::of(sums[r], by, seen);
            if (__builtin_expect(!Rounded::any(seen), 1)) continue;
            at = out;
        }
        const int32_t held[4] = {sums[0], sums[1], sums[2], sums[3]};  // in memory here alone
        for (Size r = 0; r < 4 && r < left; ++r, at += step) *at = Rounded::again(held[r], by);
    }
}

// The outputs [begin, end) of all channels
template <class Acc, class T, class Out, class W, class B, class Shift, class BiasShift>
__attribute__((noinline)) void depthwise_line(Out *out, int8_t *scratch, Size begin, Size end, const W *weights, const int8_t *x, B bias,
                                              const OneAxis &l, const Shift &shift, BiasShift bias_shift) {
    const Size taps = rounded_up(l.taps, 4);
    const auto add = bias_factor(bias_shift);
    for (Size c = 0; c < l.channels; ++c, out += l.out_plane, weights += taps, x += l.x_plane, bias = bias + 1) {
        const auto by = prepared(at_run_time(of_channel(shift, c)));
        for (Size n = begin, count; n < end; n += count) {
            const Size slot = slot_of(n, l.out_ring), to_the_end = end - n, to_the_edge = l.out_ring - slot;
            const Size most = to_the_end < to_the_edge ? to_the_end : to_the_edge;
            count = most < l.most ? most : l.most;
            copy_stretch(scratch, x, l, n, count - 1 + l.taps, static_cast<int8_t>(PadCode<T>::value));
            line_of_outputs<Acc>(out + slot * l.out_step, l.out_step, scratch, n, count, weights, weights + taps, bias, by, add);
        }
    }
}

}  // namespace hil
