// Pooling (tinyhil/ops/pool.py) over planes in NCHW order.
#pragma once
#include "firmware/kernels/common/window.hpp"

namespace hil {

// `visit(x, down, across, y, x)` once per output pixel with the plane and the part of the window inside of it
template <class X, class Visit>
inline void each_window(X x, const Window &w, Visit visit) {
    for (Size c = 0; c < w.channels; ++c, x = x + w.height * w.width) {
        for (Size y = 0; y < w.out_height; ++y) {
            const Span down = inside(origin(y, w.stride_y, w.pad_y), w.kernel_y, w.dilation_y, w.height);
            for (Size column = 0; column < w.out_width; ++column) {
                visit(x, down, inside(origin(column, w.stride_x, w.pad_x), w.kernel_x, w.dilation_x, w.width));
            }
        }
    }
}

// `use(element)` for every element of a window
template <class X, class Use>
inline void each_element(X plane, const Span &down, const Span &across, const Window &w, Use use) {
    X row = plane + static_cast<Size>(down.at) * w.width;
    for (Size k = down.first; k < down.end; ++k, row = row + w.dilation_y * w.width) {
        Size at = static_cast<Size>(across.at);
        for (Size n = across.first; n < across.end; ++n, at += w.dilation_x) use(row[at]);
    }
}

#ifndef __AVR__
// Whether every window is four elements that are there
inline bool is_two_by_two(const Window &w) {
    const bool is_plain = w.kernel_y == 2 && w.kernel_x == 2 && w.pad_y == 0 && w.pad_x == 0 && w.dilation_y == 1 && w.dilation_x == 1;
    return is_plain && (w.out_height - 1) * w.stride_y + 2 <= w.height && (w.out_width - 1) * w.stride_x + 2 <= w.width;
}
// `use(out, largest)` for a row of results of such windows, between two rows of elements
template <class Number, class Out, class X, class Use>
inline void each_largest_of_four(Out *out, X upper, X lower, const Window &w, Use use) {
    for (Size left = w.out_width; left > 0; --left, ++out, upper = upper + w.stride_x, lower = lower + w.stride_x) {
        Number top = static_cast<Number>(upper[0]);
        const auto join = [&](Number value) { top = value > top ? value : top; };
        join(static_cast<Number>(upper[1]));
        join(static_cast<Number>(lower[0]));
        join(static_cast<Number>(lower[1]));
        use(out, top);
    }
}
// `use(out, largest)` for every result of such windows over whole planes
template <class Number, class Out, class X, class Use>
inline void each_largest(Out *out, X x, const Window &w, Use use) {
    for (Size c = 0; c < w.channels; ++c, x = x + w.height * w.width) {
        X row = x;
        for (Size y = 0; y < w.out_height; ++y, row = row + w.stride_y * w.width, out += w.out_width) {
            each_largest_of_four<Number>(out, row, row + w.width, w, use);
        }
    }
}
#endif

template <class Acc, class Out, class X, class Shift>
void max_pool(Out *out, X x, const Window &w, Shift shift) {
#ifndef __AVR__
    using Element = typename Compared<Acc>::type;
    if (is_two_by_two(w)) {
        return each_largest<Element>(out, x, w, [&](Out *at, Element top) { *at = requantize<Out>(static_cast<Acc>(top), shift); });
    }
#endif
    each_window(x, w, [&](X plane, const Span &down, const Span &across) {
        using Number = typename Compared<Acc>::type;
        Number top = static_cast<Number>(plane[static_cast<Size>(down.at) * w.width + static_cast<Size>(across.at)]);
        each_element(plane, down, across, w, [&](decltype(plane[0]) element) {
            const Number value = static_cast<Number>(element);
            top = value > top ? value : top;
        });
        *out++ = requantize<Out>(static_cast<Acc>(top), shift);
    });
}

// The sum of at most 2^14 elements has 30 bits; times its reciprocal it is below 2^(bits - 1 + k), k from reciprocal.py.
template <class Acc, class X>
inline Acc window_sum(X plane, const Span &down, const Span &across, const Window &w) {
    using Number = typename Plain<Acc>::type;
    Number sum = Number(0);
    each_element(plane, down, across, w, [&](decltype(plane[0]) element) { sum += static_cast<Number>(element); });
    return static_cast<Acc>(sum);
}

template <class Acc, class Out, class X, class Shift>
void average_pool(Out *out, X x, const Window &w, int32_t factor, Shift shift) {
    each_window(x, w, [&](X plane, const Span &down, const Span &across) {
        *out++ = requantize<Out>(window_sum<Acc>(plane, down, across, w) * factor, shift);
    });
}

template <class Acc, class Out, class Table, class X, class Shift>
void average_pool_inside(Out *out, Table reciprocals, X x, const Window &w, Shift shift) {
    each_window(x, w, [&](X plane, const Span &down, const Span &across) {
        const Size n = (down.end - down.first) * (across.end - across.first) - 1;
        const int32_t factor = static_cast<int32_t>(reciprocals[2 * n] | (static_cast<uint32_t>(reciprocals[2 * n + 1]) << 16));
        *out++ = requantize<Out>(window_sum<Acc>(plane, down, across, w) * factor, shift);
    });
}

}  // namespace hil
