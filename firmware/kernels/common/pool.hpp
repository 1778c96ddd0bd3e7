// Pooling (tinyhil/ops/pool.py) over planes in NCHW order.
#pragma once
#include "firmware/kernels/common/window.hpp"

namespace hil {

// The part of a window that lies inside of its plane
struct Part {
    Span down, across;
    Size width, row_step, step;  // elements of a row, from one row of the window to the next, from one column to the next
    Size count() const { return (down.end - down.first) * (across.end - across.first); }
    Size first() const { return static_cast<Size>(down.at) * width + static_cast<Size>(across.at); }
};

// `visit(out, plane, part)` once per output pixel. All of the window is read before anything is written: bytes that are written could be
// the window, for all that a compiler knows, and then nothing of it would be constant.
template <class Out, class X, class Visit>
inline void each_window(Out *out, X x, const Window &w, Visit visit) {
    const Size channels = w.channels, height = w.height, width = w.width, rows = w.out_height, columns = w.out_width, kernel_y = w.kernel_y,
               kernel_x = w.kernel_x, stride_y = w.stride_y, stride_x = w.stride_x, pad_y = w.pad_y, pad_x = w.pad_x,
               dilation_y = w.dilation_y, dilation_x = w.dilation_x;
    for (Size c = 0; c < channels; ++c, x = x + height * width) {
        for (Size y = 0; y < rows; ++y) {
            const Span down = inside(origin(y, stride_y, pad_y), kernel_y, dilation_y, height);
            for (Size column = 0; column < columns; ++column, ++out) {
                const Span across = inside(origin(column, stride_x, pad_x), kernel_x, dilation_x, width);
                visit(out, x, Part{down, across, width, static_cast<Size>(dilation_y * width), dilation_x});
            }
        }
    }
}

// What elements are compared as: bytes as bytes
template <class Number, class Element>
struct OrderedAs {
    using type = Number;
};
template <>
struct OrderedAs<int16_t, int8_t> {
    using type = int8_t;
};
template <class Acc, class Element>
using Ordered = typename OrderedAs<typename Compared<Acc>::type, Element>::type;

// `use(element)` for every element of a window
template <class X, class Use>
inline void each_element(X plane, const Part &part, Use use) {
    X row = plane + part.first();
    for (Size k = part.down.first; k < part.down.end; ++k, row = row + part.row_step) {
        Size at = 0;
        for (Size n = part.across.first; n < part.across.end; ++n, at += part.step) use(row[at]);
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
    each_window(out, x, w, [=](Out *at, X plane, const Part &part) {
        using Number = Ordered<Acc, decltype(plane[0])>;
        Number top = static_cast<Number>(plane[part.first()]);
        each_element(plane, part, [&](decltype(plane[0]) element) {
            const Number value = static_cast<Number>(element);
            top = value > top ? value : top;
        });
        *at = requantize<Out>(static_cast<Acc>(top), shift);
    });
}

// The sum of at most 2^14 elements has 30 bits; times its reciprocal it is below 2^(bits - 1 + k), k from reciprocal.py.
template <class Acc, class X>
inline Acc window_sum(X plane, const Part &part) {
    using Number = typename Plain<Acc>::type;
    Number sum = Number(0);
    each_element(plane, part, [&](decltype(plane[0]) element) { sum += static_cast<Number>(element); });
    return static_cast<Acc>(sum);
}

template <class Acc, class Out, class X, class Shift>
void average_pool(Out *out, X x, const Window &w, int32_t factor, Shift shift) {
    each_window(out, x, w,
                [=](Out *at, X plane, const Part &part) { *at = requantize<Out>(window_sum<Acc>(plane, part) * factor, shift); });
}

template <class Acc, class Out, class Table, class X, class Shift>
void average_pool_inside(Out *out, Table reciprocals, X x, const Window &w, Shift shift) {
    each_window(out, x, w, [=](Out *at, X plane, const Part &part) {
        const Size n = part.count() - 1;
        const int32_t factor = static_cast<int32_t>(reciprocals[2 * n] | (static_cast<uint32_t>(reciprocals[2 * n + 1]) << 16));
        *at = requantize<Out>(window_sum<Acc>(plane, part) * factor, shift);
    });
}

}  // namespace hil
