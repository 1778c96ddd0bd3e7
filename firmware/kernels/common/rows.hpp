// Row-wise execution (tinyhil/ops/rows.py): the kernels of windows and of single elements, restricted to the output rows
// rows[0] to rows[1] - 1. Operands and results may be line buffers: row y of a plane is at slot y % ring.
#pragma once
#include "firmware/kernels/common/activation.hpp"
#include "firmware/kernels/common/code_table.hpp"
#include "firmware/kernels/common/conv.hpp"
#include "firmware/kernels/common/elementwise.hpp"
#include "firmware/kernels/common/piecewise.hpp"
#include "firmware/kernels/common/pool.hpp"

namespace hil {

// Distances in elements between the channels and between the slots of operand and result.
struct Lines {
    Size channels, width, x_plane, x_row, x_ring, out_plane, out_row, out_ring;
#ifdef __AVR__  // as in window.hpp
    Lines(Size channels_, Size width_, Size x_plane_, Size x_row_, Size x_ring_, Size out_plane_, Size out_row_, Size out_ring_)
        : channels(channels_), width(width_), x_plane(x_plane_), x_row(x_row_), x_ring(x_ring_), out_plane(out_plane_), out_row(out_row_),
          out_ring(out_ring_) {}
#endif
};

// What a kernel is told of the row `y` alone
struct OneRow {
    Size y;
    Size operator[](Size n) const { return static_cast<Size>(y + n); }
};

// The slot of another tensor's line buffer in which the row to be made, or to be read, lies (Moves in tinyhil/ops/rows.py)
template <class Rows>
inline Size moved(Rows rows, Size pace, Size phase, Size slots) {
    return slot_of(static_cast<Size>(pace * static_cast<Size>(rows[0]) + phase), slots);
}

// `use(row, k)` for the kernel rows inside of the plane, with the operand's row each of them meets
template <class X, class Use>
inline void each_kernel_row(X x, const RowWindow &l, const Span &down, Use use) {
    Size slot = slot_of(static_cast<Size>(down.at), l.x_ring);
    const Size step = slot_of(l.window.dilation_y, l.x_ring);
    for (Size k = down.first; k < down.end; ++k) {
        use(x + slot * l.x_row, k);
        slot += step;
        if (slot >= l.x_ring) slot -= l.x_ring;
    }
}

// The window of one group, as conv.hpp's gather leaves it.
template <class T, class X>
inline void gather_lines(T *to, X x, Size channels, const Span &down, const Span &across, const RowWindow &l) {
    const Window &w = l.window;
#ifdef __AVR__
    if (covers(down, w.kernel_y) && covers(across, w.kernel_x) && w.dilation_x == 1) {
        x = x + static_cast<Size>(across.at);
        for (; channels > 0; --channels, x = x + l.x_plane) {
            each_kernel_row(x, l, down, [&](X row, Size) {
                for (Size n = w.kernel_x; n > 0; --n, row = row + 1) *to++ = row[0];
            });
        }
        return;
    }
#endif
    const Span outside = {w.kernel_x, w.kernel_x, 0};
    for (; channels > 0; --channels, x = x + l.x_plane) {
        for (Size k = 0; k < down.first; ++k) to = gather_row(to, x, outside, w);
        each_kernel_row(x, l, down, [&](X row, Size) { to = gather_row(to, row, across, w); });
        for (Size k = down.end; k < w.kernel_y; ++k) to = gather_row(to, x, outside, w);
    }
}

template <class Acc, class Out, class T, class Rows, class W, class X, class B, class Shift, class BiasShift>
HIL_PER_LAYER void convolve_rows(Out *out, T *patch, Rows rows, W weights, X x, B bias, const RowWindow &l, Size groups, Size outputs,
                                 Shift shift, BiasShift bias_shift) {
    const Window &w = l.window;
    const Size channels = w.channels / groups, inner = channels * w.kernel_y * w.kernel_x, each = outputs / groups;
    const bool depthwise = PadsWithZero<T>::value && channels == 1 && each == 1 && w.dilation_x == 1;
    for (Size g = 0; g < groups; ++g) {
        for (Size y = rows[0]; y < rows[1]; ++y) {
            const Span down = inside(origin(y, w.stride_y, w.pad_y), w.kernel_y, w.dilation_y, w.height);
            Out *at = out + (g * each * l.out_plane + slot_of(y, l.out_ring) * l.out_row);
            for (Size column = 0; column < w.out_width; ++column, ++at) {
                const Span across = inside(origin(column, w.stride_x, w.pad_x), w.kernel_x, w.dilation_x, w.width);
                const auto start = at_pixel(bias, static_cast<Size>(y * w.out_width + column));
                if (depthwise) {
                    Acc sum = start_of<Acc>(start, 0, bias_shift);
                    each_kernel_row(x, l, down, [&](X row, Size k) {
                        accumulate_apart(sum, weights + (k * w.kernel_x + across.first), row + static_cast<Size>(across.at),
                                         across.end - across.first);
                    });
                    *at = requantize<Out>(sum, of_channel(shift, g));
                    continue;
                }
                gather_lines(patch, x, channels, down, across, l);
                channels_of_pixel<Acc>(at, l.out_plane, weights, ram(patch), start, each, inner, from_channel(shift, g * each), bias_shift);
            }
        }
        x = x + channels * l.x_plane;
        weights = weights + each * inner;
        bias = bias + each;
    }
}

template <class Acc, class Out, class T, class Rows, class W, class X, class B, class Y, class Shift, class BiasShift>
HIL_PER_LAYER void conv_bias_rows(Out *out, T *patch, Rows rows, W weights, X x, B bias, Y, const RowWindow &l, Size groups, Size outputs,
                                  Shift shift, BiasShift bias_shift) {
    convolve_rows<Acc>(out, patch, rows, weights, x, bias, l, groups, outputs, shift, bias_shift);
}

template <class Acc, class Out, class T, class Rows, class W, class X, class Y, class Shift>
HIL_PER_LAYER void conv_rows(Out *out, T *patch, Rows rows, W weights, X x, Y, const RowWindow &l, Size groups, Size outputs, Shift shift) {
    convolve_rows<Acc>(out, patch, rows, weights, x, NoChannelBias(), l, groups, outputs, shift, Const<0>());
}

// `visit(out, plane, down, across)` once per output pixel of these rows
template <class Out, class Rows, class X, class Visit>
inline void each_window_of_rows(Out *out, Rows rows, X x, const RowWindow &l, Visit visit) {
    const Window &w = l.window;
    for (Size c = 0; c < w.channels; ++c, x = x + l.x_plane, out += l.out_plane) {
        for (Size y = rows[0]; y < rows[1]; ++y) {
            const Span down = inside(origin(y, w.stride_y, w.pad_y), w.kernel_y, w.dilation_y, w.height);
            Out *at = out + slot_of(y, l.out_ring) * l.out_row;
            for (Size column = 0; column < w.out_width; ++column, ++at) {
                visit(at, x, down, inside(origin(column, w.stride_x, w.pad_x), w.kernel_x, w.dilation_x, w.width));
            }
        }
    }
}

template <class X, class Use>
inline void each_element_of_lines(X x, const RowWindow &l, const Span &down, const Span &across, Use use) {
    each_kernel_row(x, l, down, [&](X row, Size) {
        Size at = static_cast<Size>(across.at);
        for (Size n = across.first; n < across.end; ++n, at += l.window.dilation_x) use(row[at]);
    });
}

#ifndef __AVR__
// `use(out, largest)` for every result of windows of four elements that are there
template <class Number, class Out, class Rows, class X, class Use>
inline void each_largest_of_rows(Out *out, Rows rows, X x, const RowWindow &l, Use use) {
    for (Size c = 0; c < l.window.channels; ++c, x = x + l.x_plane, out += l.out_plane) {
        for (Size y = rows[0]; y < rows[1]; ++y) {
            const Size first = y * l.window.stride_y;
            const X upper = x + slot_of(first, l.x_ring) * l.x_row, lower = x + slot_of(first + 1, l.x_ring) * l.x_row;
            each_largest_of_four<Number>(out + slot_of(y, l.out_ring) * l.out_row, upper, lower, l.window, use);
        }
    }
}
#endif

template <class Acc, class Out, class Rows, class X, class Y, class Shift>
HIL_PER_LAYER void max_pool_rows(Out *out, Rows rows, X x, Y, const RowWindow &l, Shift shift) {
#ifndef __AVR__
    using Element = typename Compared<Acc>::type;
    if (is_two_by_two(l.window)) {
        return each_largest_of_rows<Element>(out, rows, x, l,
                                             [&](Out *at, Element top) { *at = requantize<Out>(static_cast<Acc>(top), shift); });
    }
#endif
    each_window_of_rows(out, rows, x, l, [&](Out *at, X plane, const Span &down, const Span &across) {
        using Number = Ordered<Acc, decltype(plane[0])>;
        Number top = static_cast<Number>(plane[slot_of(static_cast<Size>(down.at), l.x_ring) * l.x_row + static_cast<Size>(across.at)]);
        each_element_of_lines(plane, l, down, across, [&](decltype(plane[0]) element) {
            const Number value = static_cast<Number>(element);
            top = value > top ? value : top;
        });
        *at = requantize<Out>(static_cast<Acc>(top), shift);
    });
}

template <class Acc, class X>
inline Acc sum_of_lines(X plane, const RowWindow &l, const Span &down, const Span &across) {
    using Number = typename Plain<Acc>::type;
    Number sum = Number(0);
    each_element_of_lines(plane, l, down, across, [&](decltype(plane[0]) element) { sum += static_cast<Number>(element); });
    return static_cast<Acc>(sum);
}

template <class Acc, class Out, class Rows, class X, class Y, class Shift>
HIL_PER_LAYER void average_pool_rows(Out *out, Rows rows, X x, Y, const RowWindow &l, int32_t factor, Shift shift) {
    each_window_of_rows(out, rows, x, l, [&](Out *at, X plane, const Span &down, const Span &across) {
        *at = requantize<Out>(sum_of_lines<Acc>(plane, l, down, across) * factor, shift);
    });
}

template <class Acc, class Out, class Rows, class Table, class X, class Y, class Shift>
void average_pool_inside_rows(Out *out, Rows rows, Table reciprocals, X x, Y, const RowWindow &l, Shift shift) {
    each_window_of_rows(out, rows, x, l, [&](Out *at, X plane, const Span &down, const Span &across) {
        const Size n = (down.end - down.first) * (across.end - across.first) - 1;
        const int32_t factor = static_cast<int32_t>(reciprocals[2 * n] | (static_cast<uint32_t>(reciprocals[2 * n + 1]) << 16));
        *at = requantize<Out>(sum_of_lines<Acc>(plane, l, down, across) * factor, shift);
    });
}

// `use(out, x, count)` for every stretch of elements of these rows that follow each other in both
template <class Out, class Rows, class X, class Use>
inline void each_stretch(Out *out, Rows rows, X x, const Lines &l, Use use) {
    const bool together = l.x_plane == l.width && l.out_plane == l.width;
    const Size channels = together ? 1 : l.channels, count = together ? l.channels * l.width : l.width;
    for (Size y = rows[0]; y < rows[1]; ++y) {
        Out *to = out + slot_of(y, l.out_ring) * l.out_row;
        X from = x + slot_of(y, l.x_ring) * l.x_row;
        for (Size c = 0; c < channels; ++c, to += l.out_plane, from = from + l.x_plane) use(to, from, count);
    }
}

#define HIL_MAPPED_ROWS(kernel) \
    template <class Acc, class Out, class Rows, class X, class Y, class... Params> \
    void kernel##_rows(Out *out, Rows rows, X x, Y, const Lines &l, Params... params) { \
        each_stretch(out, rows, x, l, [&](Out *to, X from, Size n) { kernel<Acc>(to, from, n, params...); }); \
    }
HIL_MAPPED_ROWS(relu)
HIL_MAPPED_ROWS(clip)
HIL_MAPPED_ROWS(slopes)
HIL_MAPPED_ROWS(hard_sigmoid)
HIL_MAPPED_ROWS(hard_swish)
#undef HIL_MAPPED_ROWS

#define HIL_TABLED_ROWS(kernel) \
    template <class Acc, class Out, class Rows, class Table, class X, class Y, class... Params> \
    void kernel##_rows(Out *out, Rows rows, Table table, X x, Y, const Lines &l, Params... params) { \
        each_stretch(out, rows, x, l, [&](Out *to, X from, Size n) { kernel<Acc>(to, table, from, n, params...); }); \
    }
HIL_TABLED_ROWS(sigmoid)
HIL_TABLED_ROWS(tanh)
HIL_TABLED_ROWS(code_table)
#undef HIL_TABLED_ROWS

// `use(out, a, b, count)` for every stretch of elements of these rows that follow each other in all three
template <class Out, class Rows, class A, class B, class Use>
inline void each_stretch_of_two(Out *out, Rows rows, A a, B b, const Lines &l, Size b_plane, Size b_row, Size b_ring, Use use) {
    const bool together = l.x_plane == l.width && b_plane == l.width && l.out_plane == l.width;
    const Size channels = together ? 1 : l.channels, count = together ? l.channels * l.width : l.width;
    for (Size y = rows[0]; y < rows[1]; ++y) {
        Out *to = out + slot_of(y, l.out_ring) * l.out_row;
        A left = a + slot_of(y, l.x_ring) * l.x_row;
        B right = b + slot_of(y, b_ring) * b_row;
        for (Size c = 0; c < channels; ++c, to += l.out_plane, left = left + l.x_plane, right = right + b_plane)
            use(to, left, right, count);
    }
}

#define HIL_PAIRED_ROWS(kernel) \
    template <class Acc, class Out, class Rows, class A, class B, class Y, class... Params> \
    void kernel##_rows(Out *out, Rows rows, A a, B b, Y, const Lines &l, Size b_plane, Size b_row, Size b_ring, Params... params) { \
        each_stretch_of_two(out, rows, a, b, l, b_plane, b_row, b_ring, \
                            [&](Out *to, A left, B right, Size n) { kernel<Acc>(to, left, right, n, n, n, params...); }); \
    }
HIL_PAIRED_ROWS(add)
HIL_PAIRED_ROWS(sub)
HIL_PAIRED_ROWS(mul)
#undef HIL_PAIRED_ROWS

// `use(element, out)` for every element of these rows, `x_step` apart in an operand that is no planes
template <class Out, class Rows, class X, class Use>
inline void each_element_moved(Out *out, Rows rows, X x, const Lines &l, Size x_step, Use use) {
    for (Size y = rows[0]; y < rows[1]; ++y) {
        Out *to = out + slot_of(y, l.out_ring) * l.out_row;
        for (Size c = 0; c < l.channels; ++c, to += l.out_plane) {
            Size at = slot_of(y, l.x_ring) * l.x_row + c * l.x_plane;
            for (Size n = 0; n < l.width; ++n, at += x_step) use(x[at], to + n);
        }
    }
}

template <class Acc, class Out, class Rows, class X, class Y, class Shift>
void move_rows(Out *out, Rows rows, X x, Y, const Lines &l, Size x_step, Shift shift) {
    each_element_moved(out, rows, x, l, x_step,
                       [&](decltype(x[0]) from, Out *to) { *to = requantize<Out>(static_cast<Acc>(from), shift); });
}

}  // namespace hil
