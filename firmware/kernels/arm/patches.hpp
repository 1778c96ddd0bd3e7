// The patches of two pixels as blocks read them (blocks.hpp). Elements are in the order kernel row, channel, kernel
// column, in which codegen/arrange.py has put the weights.
#pragma once
#include "firmware/kernels/arm/blocks.hpp"
#include "firmware/kernels/common/window.hpp"

namespace hil {

struct Pixel { Size y, column; };

// `channels` stretches of `count` elements, `plane` apart, one after another; `Step` between the elements they become
template <Size Step>
inline int8_t *copy_stretches(int8_t *to, const int8_t *from, Size channels, Size plane, Size count) {
    for (; channels > 0; --channels, from += plane) {
        for (Size n = 0; n < count; ++n, to += Step) *to = from[n];
    }
    return to;
}
// Three elements as a word of four: one more than there is room for is read and written, and written over.
inline int8_t *copy_words(int8_t *to, const int8_t *from, Size channels, Size plane) {
    for (; channels > 0; --channels, from += plane, to += 3) __builtin_memcpy(to, from, 4);
    return to;
}

template <Size Step>
inline int8_t *copy_at_edge(int8_t *to, const int8_t *row, Position column, const RowWindow &l, int8_t pad) {
    const Window &w = l.window;
    for (Size c = 0; c < w.channels; ++c, row += l.x_plane) {
        Position at = column;
        for (Size n = 0; n < w.kernel_x; ++n, at += static_cast<Position>(w.dilation_x), to += Step) {
            *to = at >= 0 && at < static_cast<Position>(w.width) ? row[at] : pad;
        }
    }
    return to;
}

// The window of one pixel; room for one element more
template <Size Step>
__attribute__((noinline, noclone)) void copy_window(int8_t *to, const int8_t *x, const RowWindow &l, Pixel pixel, int8_t pad) {
    const Window &w = l.window;
    const Position column = origin(pixel.column, w.stride_x, w.pad_x), width = static_cast<Position>(w.width);
    const Position right = column + static_cast<Position>((w.kernel_x - 1) * w.dilation_x);
    const bool within = column >= 0 && right < width && w.dilation_x == 1;
    Position y = origin(pixel.y, w.stride_y, w.pad_y);
    const bool is_whole = y >= 0 && y + static_cast<Position>(w.kernel_y) <= static_cast<Position>(w.height) && w.dilation_y == 1;
    if (within && is_whole && w.kernel_x == 3 && l.x_ring == w.height) {  // nothing hangs over, no slot comes again
        const int8_t *row = x + static_cast<Size>(y) * l.x_row + column;
        const bool by_words = Step == 1 && column + 3 < width;
        for (Size k = w.kernel_y; k > 0; --k, row += l.x_row) {
            if (by_words) to = copy_words(to, row, w.channels, l.x_plane);
            else to = copy_stretches<Step>(to, row, w.channels, l.x_plane, 3);
        }
        return;
    }
    for (Size k = 0; k < w.kernel_y; ++k, y += static_cast<Position>(w.dilation_y)) {
        const Size count = w.channels * w.kernel_x;
        if (y < 0 || y >= static_cast<Position>(w.height)) {
            for (Size n = 0; n < count; ++n, to += Step) *to = pad;
            continue;
        }
        const int8_t *const row = x + static_cast<Size>(y) % l.x_ring * l.x_row;
        if (!within) to = copy_at_edge<Step>(to, row, column, l, pad);
        else if (Step == 1 && w.kernel_x == 3 && column + 3 < width) to = copy_words(to, row + column, w.channels, l.x_plane);
        else if (w.kernel_x == 3) to = copy_stretches<Step>(to, row + column, w.channels, l.x_plane, 3);
        else to = copy_stretches<Step>(to, row + column, w.channels, l.x_plane, w.kernel_x);
    }
}

inline bool is_pointwise(const Window &w) { return w.kernel_y == 1 && w.kernel_x == 1 && w.pad_y == 0 && w.pad_x == 0; }
inline const int8_t *element_at(const int8_t *x, const RowWindow &l, Pixel p) {
    return x + p.y * l.window.stride_y % l.x_ring * l.x_row + p.column * l.window.stride_x;
}

template <class Weights>
struct PatchesOf;

template <>
struct PatchesOf<Blocks<int8_t, 2, 4>> {
    static uint32_t pair(int8_t low, int8_t high) {
        return (static_cast<uint32_t>(int32_t(low)) & 0xFFFF) | (static_cast<uint32_t>(int32_t(high)) << 16);
    }
    // One element per channel, straight to halfwords; what is beyond the last meets weights of 0
    __attribute__((noinline, noclone)) static void columns(uint32_t *to, const int8_t *a, const int8_t *b, Size channels, Size plane) {
        const Size two = 2 * plane, three = 3 * plane;
        Size c = 0;
        for (; c + 4 <= channels; c += 4, a += 4 * plane, b += 4 * plane, to += 4) {
            to[0] = pair(a[0], a[two]);
            to[1] = pair(b[0], b[two]);
            to[2] = pair(a[plane], a[three]);
            to[3] = pair(b[plane], b[three]);
        }
        if (c == channels) return;
        const auto element = [&](const int8_t *x, Size n) { return c + n < channels ? x[n * plane] : int8_t(0); };
        to[0] = pair(a[0], element(a, 2));
        to[1] = pair(b[0], element(b, 2));
        to[2] = pair(element(a, 1), 0);
        to[3] = pair(element(b, 1), 0);
    }
    __attribute__((noinline, noclone)) static void expand(uint32_t *to, const int8_t *a, const int8_t *b, Size count) {
        for (Size k = 0; k < count; k += 4, to += 4) {
            const uint32_t x = word_at(a + k), y = word_at(b + k);
            to[0] = even_bytes(x);
            to[1] = even_bytes(y);
            to[2] = odd_bytes(x);
            to[3] = odd_bytes(y);
        }
    }
    static void fill(uint32_t *to, const int8_t *x, const RowWindow &l, Pixel a, Pixel b, int8_t pad) {
        const Window &w = l.window;
        if (is_pointwise(w)) return columns(to, element_at(x, l, a), element_at(x, l, b), w.channels, l.x_plane);
        const Size inner = rounded_up(w.channels * w.kernel_y * w.kernel_x, 4);
        int8_t *const first = reinterpret_cast<int8_t *>(to + inner), *const second = first + inner + 4;
        __builtin_memset(first + inner - 4, 0, 4);
        __builtin_memset(second + inner - 4, 0, 4);
        copy_window<1>(first, x, l, a, pad);
        copy_window<1>(second, x, l, b, pad);
        expand(to, first, second, inner);
    }
};

template <>
struct PatchesOf<Blocks<int8_t, 2, in_pairs>> : PatchesOf<Blocks<int8_t, 2, 4>> {};

template <>
struct PatchesOf<Blocks<int8_t, 4, 1>> {
    __attribute__((noinline, noclone)) static void columns(int8_t *to, const int8_t *a, const int8_t *b, Size channels, Size plane) {
        for (; channels > 0; --channels, a += plane, b += plane, to += 2) {
            to[0] = *a;
            to[1] = *b;
        }
    }
    static void fill(uint32_t *words, const int8_t *x, const RowWindow &l, Pixel a, Pixel b, int8_t pad) {
        int8_t *const to = reinterpret_cast<int8_t *>(words);
        if (is_pointwise(l.window)) return columns(to, element_at(x, l, a), element_at(x, l, b), l.window.channels, l.x_plane);
        copy_window<2>(to, x, l, a, pad);
        copy_window<2>(to + 1, x, l, b, pad);
    }
};

template <>
struct PatchesOf<Blocks<int8_t, 4, unless_zero>> : PatchesOf<Blocks<int8_t, 4, 1>> {};

}  // namespace hil
