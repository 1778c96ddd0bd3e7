// The patches of two pixels as blocks read them (blocks.hpp). Elements are in the order kernel row, channel, kernel
// column, in which passes/arrange.py has put the weights.
#pragma once
#include "firmware/kernels/arm/halves.hpp"
#include "firmware/kernels/common/window.hpp"

namespace hil {

struct Pixel { Size y, column; };

// An element of a patch as what its code is above the least, -128
struct AboveLeast {
    uint8_t value;
    AboveLeast &operator=(int8_t code) {
        value = static_cast<uint8_t>(code) ^ 0x80;
        return *this;
    }
};

// `channels` stretches of `count` elements, `plane` apart, one after another; `Step` between the elements they become
template <Size Step, class E, class X>
inline E *copy_stretches(E *to, const X *from, Size channels, Size plane, Size count) {
    for (; channels > 0; --channels, from += plane) {
        for (Size n = 0; n < count; ++n, to += Step) *to = from[n];
    }
    return to;
}
// Three elements as whole words of four: one more than there is room for is read and written, and written over.
template <class X>
inline X *copy_words(X *to, const X *from, Size channels, Size plane) {
    for (; channels > 0; --channels, from += plane, to += 3) __builtin_memcpy(to, from, 4 * sizeof(X));
    return to;
}
template <class E, class X>
inline E *copy_words(E *to, const X *from, Size channels, Size plane) {
    return copy_stretches<1>(to, from, channels, plane, 3);
}

template <Size Step, class E, class X>
inline E *copy_at_edge(E *to, const X *row, Position column, const RowWindow &l, X pad) {
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
template <Size Step, class E, class X>
__attribute__((noinline, noclone)) void copy_window(E *to, const X *x, const RowWindow &l, Pixel pixel, X pad) {
    const Window &w = l.window;
    const Position column = origin(pixel.column, w.stride_x, w.pad_x), width = static_cast<Position>(w.width);
    const Position right = column + static_cast<Position>((w.kernel_x - 1) * w.dilation_x);
    const bool within = column >= 0 && right < width && w.dilation_x == 1;
    Position y = origin(pixel.y, w.stride_y, w.pad_y);
    const bool is_whole = y >= 0 && y + static_cast<Position>(w.kernel_y) <= static_cast<Position>(w.height) && w.dilation_y == 1;
    if (within && is_whole && w.kernel_x == 3 && l.x_ring == w.height) {  // nothing hangs over, no slot comes again
        const X *row = x + static_cast<Size>(y) * l.x_row + column;
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
        const X *const row = x + static_cast<Size>(y) % l.x_ring * l.x_row;
        if (!within) to = copy_at_edge<Step>(to, row, column, l, pad);
        else if (Step == 1 && w.kernel_x == 3 && column + 3 < width) to = copy_words(to, row + column, w.channels, l.x_plane);
        else if (w.kernel_x == 3) to = copy_stretches<Step>(to, row + column, w.channels, l.x_plane, 3);
        else to = copy_stretches<Step>(to, row + column, w.channels, l.x_plane, w.kernel_x);
    }
}

inline bool is_pointwise(const Window &w) { return w.kernel_y == 1 && w.kernel_x == 1 && w.pad_y == 0 && w.pad_x == 0; }
template <class X>
inline const X *element_at(const X *x, const RowWindow &l, Pixel p) {
    return x + p.y * l.window.stride_y % l.x_ring * l.x_row + p.column * l.window.stride_x;
}

// `use(word)` for every stretch of a pixel's window of three columns, where its right neighbour's is one element on: a word of four
// has both. False, and nothing is used, where they are not such windows or reach over an edge.
template <class Use>
__attribute__((always_inline)) inline bool each_word_of_neighbours(const int8_t *x, const RowWindow &l, Pixel a, Pixel b, Use use) {
    const Window &w = l.window;
    const Position column = origin(a.column, 1, w.pad_x), y = origin(a.y, w.stride_y, w.pad_y);
    const bool is_known = w.stride_x == 1 && w.dilation_x == 1 && w.dilation_y == 1;
    const bool are_neighbours = a.y == b.y && a.column + 1 == b.column;
    const bool is_within = column >= 0 && column + 3 < static_cast<Position>(w.width) && y >= 0 &&
        y + static_cast<Position>(w.kernel_y) <= static_cast<Position>(w.height);
    if (!is_known || !are_neighbours || !is_within) return false;
    for (Size k = 0; k < w.kernel_y; ++k) {
        const int8_t *at = x + (static_cast<Size>(y) + k) % l.x_ring * l.x_row + column;
#pragma GCC unroll 2
        for (Size c = w.channels; c > 0; --c, at += l.x_plane) use(word_at(at));
    }
    return true;
}
// Two such windows one after another, as copy_words writes them, and element by element in turn; elements of 16 bits have no such words
__attribute__((noinline, noclone)) inline bool copy_neighbours(int8_t *to, int8_t *beside, const int8_t *x, const RowWindow &l, Pixel a,
                                                               Pixel b) {
    int8_t *first = to, *second = beside;
    return each_word_of_neighbours(x, l, a, b, [&](uint32_t word) {
        const uint32_t next = word >> 8;
        __builtin_memcpy(first, &word, 4);
        __builtin_memcpy(second, &next, 4);
        first += 3;
        second += 3;
    });
}
template <uint32_t Signs>
__attribute__((noinline, noclone)) bool copy_bytes_in_turn(int8_t *to, const int8_t *x, const RowWindow &l, Pixel a, Pixel b) {
    return each_word_of_neighbours(x, l, a, b, [&](uint32_t word) {
        word ^= Signs;
        for (Size n = 0; n < 3; ++n, word >>= 8, to += 2) __builtin_memcpy(to, &word, 2);
    });
}
inline bool copy_neighbours_in_turn(int8_t *to, const int8_t *x, const RowWindow &l, Pixel a, Pixel b) {
    return copy_bytes_in_turn<0>(to, x, l, a, b);
}
inline bool copy_neighbours_in_turn(AboveLeast *to, const int8_t *x, const RowWindow &l, Pixel a, Pixel b) {
    return copy_bytes_in_turn<0x80808080>(reinterpret_cast<int8_t *>(to), x, l, a, b);
}
// Bytes without a sign are the same bytes
inline bool copy_neighbours(uint8_t *to, uint8_t *beside, const uint8_t *x, const RowWindow &l, Pixel a, Pixel b) {
    const auto bytes = [](uint8_t *p) { return reinterpret_cast<int8_t *>(p); };
    return copy_neighbours(bytes(to), bytes(beside), reinterpret_cast<const int8_t *>(x), l, a, b);
}
inline bool copy_neighbours_in_turn(uint8_t *to, const uint8_t *x, const RowWindow &l, Pixel a, Pixel b) {
    return copy_bytes_in_turn<0>(reinterpret_cast<int8_t *>(to), reinterpret_cast<const int8_t *>(x), l, a, b);
}
template <class E, class X>
inline bool copy_neighbours(E *, E *, const X *, const RowWindow &, Pixel, Pixel) {
    return false;
}
template <class E, class X>
inline bool copy_neighbours_in_turn(E *, const X *, const RowWindow &, Pixel, Pixel) {
    return false;
}

// ---- channels innermost: element after element of a pixel, pixel after pixel; `l.x_row` is a row of them

// `rows` of so many elements behind each other
template <class X>
__attribute__((noinline, noclone)) void copy_rows(X *to, const X *from, Size count, Size rows, Size apart) {
    for (; rows > 0; --rows, to += count, from += apart) copy_elements(to, from, count);
}
// The window of a pixel that hangs over nowhere; null if it does, or if its rows are not one below the other
template <class X>
inline const X *whole_window(const X *x, const RowWindow &l, Pixel pixel) {
    const Window &w = l.window;
    const Size y = pixel.y * w.stride_y - w.pad_y, column = pixel.column * w.stride_x - w.pad_x;  // large where they are negative
    const bool is_within = y + w.kernel_y <= w.height && column + w.kernel_x <= w.width && y < w.height && column < w.width;
    if (!is_within || l.x_ring < w.height || w.dilation_y != 1 || w.dilation_x != 1) return nullptr;
    return x + y * l.x_row + column * w.channels;
}
template <class X>
__attribute__((noinline, noclone)) void copy_window_innermost(X *to, const X *x, const RowWindow &l, Pixel pixel, X pad) {
    const Window &w = l.window;
    Size y = pixel.y * w.stride_y - w.pad_y;  // large where it is negative
    for (Size k = 0; k < w.kernel_y; ++k, y += w.dilation_y) {
        const X *const row = x + y % l.x_ring * l.x_row;
        Size column = pixel.column * w.stride_x - w.pad_x;
        for (Size n = 0; n < w.kernel_x; ++n, column += w.dilation_x, to += w.channels) {
            if (y < w.height && column < w.width) copy_elements(to, row + column * w.channels, w.channels);
            else
                for (Size c = 0; c < w.channels; ++c) to[c] = pad;
        }
    }
}

// Four elements of two patches as halfwords, in the order in which weights are split: bytes (0, 2) and (1, 3), others as they are
template <class W>
struct InTurn;
template <>
struct InTurn<int8_t> {
    static constexpr Size second = 2, third = 1;  // elements of the first word's upper half and the second's lower one
    static Pairs of(const int8_t *x) { return split(x); }
    static Pairs of(const uint8_t *x) { return split(x); }
    static Pairs of(const int16_t *x) {
        const uint32_t low = word_at(x), high = word_at(x + 2);
        return {lower_halves(low, high), upper_halves(low, high)};
    }
};
template <>
struct InTurn<int16_t> {
    static constexpr Size second = 1, third = 2;
    static Pairs of(Pairs s) { return {lower_halves(s.first, s.second), upper_halves(s.first, s.second)}; }
    static Pairs of(const int8_t *x) { return of(split(x)); }
    static Pairs of(const uint8_t *x) { return of(split(x)); }
    static Pairs of(const int16_t *x) { return {word_at(x), word_at(x + 2)}; }
};

namespace portable {

// `count` elements of two patches as halfwords in turn, four at a time
template <class W, class X>
inline void expand(uint32_t *to, const X *a, const X *b, Size count) {
    for (Size k = 0; k < count; k += 4, to += 4) {
        const Pairs x = InTurn<W>::of(a + k), y = InTurn<W>::of(b + k);
        to[0] = x.first;
        to[1] = y.first;
        to[2] = x.second;
        to[3] = y.second;
    }
}

}  // namespace portable

template <class W, class X>
__attribute__((noinline, noclone)) void expand(uint32_t *to, const X *a, const X *b, Size count) {
    portable::expand<W>(to, a, b, count);
}
#ifdef __ARM_FEATURE_DSP
#define HIL_EXPAND(Byte, extend) \
    template <class W> \
    __attribute__((noinline, noclone)) void expand(uint32_t *to, const Byte *a, const Byte *b, Size count) { \
        const Byte *const end = a + count; \
        uint32_t p, q, even, half; \
        if (sizeof(W) != 1 || count == 0) return portable::expand<W>(to, a, b, count); \
        asm volatile(".balign 8\n" \
                     "1:\n" \
                     "ldr %[p], [%[a]], #4\n" \
                     "ldr %[q], [%[b]], #4\n" \
                     "cmp %[a], %[end]\n" extend " %[even], %[p]\n" extend " %[half], %[q]\n" \
                     "str %[even], [%[to]], #16\n" extend " %[p], %[p], ror #8\n" \
                     "str %[half], [%[to], #-12]\n" extend " %[q], %[q], ror #8\n" \
                     "str %[p], [%[to], #-8]\n" \
                     "str %[q], [%[to], #-4]\n" \
                     "blo 1b\n" \
                     : [to] "+r"(to), [a] "+r"(a), [b] "+r"(b), [p] "=&r"(p), [q] "=&r"(q), [even] "=&r"(even), [half] "=&r"(half) \
                     : [end] "r"(end) \
                     : "cc", "memory"); \
    }
HIL_EXPAND(int8_t, "sxtb16")
HIL_EXPAND(uint8_t, "uxtb16")
#undef HIL_EXPAND
#endif

// What pairs of halfwords in words one after the other, of two patches in turn, add up to, of each patch
inline EvenAndOdd sums_of_halfwords(const uint32_t *words, const uint32_t *end) {
    constexpr uint32_t ones = 0x00010001;
    EvenAndOdd sums = {0, 0};
    for (; words != end; words += 4) {
        sums.even = add_products(add_products(sums.even, words[0], ones), words[2], ones);
        sums.odd = add_products(add_products(sums.odd, words[1], ones), words[3], ones);
    }
    return sums;
}

// Cortex-M7: the patches as halfwords
template <class W>
struct HalfwordPatches {
    // Whatever follows the last of `inner` elements counts nothing. Of bytes.
    __attribute__((noinline, noclone)) static EvenAndOdd sums(const uint32_t *patches, Size inner) {
        const uint32_t *const last = patches + (inner & ~Size(3));
        EvenAndOdd found = sums_of_halfwords(patches, last);
        const Size left = inner & 3;
        if (left == 0) return found;
        const uint32_t first = left > 2 ? 0x00010001 : 1, second = left > 1;  // elements 0 and 2, 1 and 3
        found.even = add_products(add_products(found.even, last[0], first), last[2], second);
        found.odd = add_products(add_products(found.odd, last[1], first), last[3], second);
        return found;
    }
    static uint32_t pair(int32_t low, int32_t high) { return (static_cast<uint32_t>(low) & 0xFFFF) | (static_cast<uint32_t>(high) << 16); }
    // One element per channel, straight to halfwords; what is beyond the last meets weights of 0
    template <class X>
    __attribute__((noinline, noclone)) static void columns(uint32_t *to, const X *a, const X *b, Size channels, Size plane) {
        const Size second = InTurn<W>::second * plane, third = InTurn<W>::third * plane, last = 3 * plane;
        Size c = 0;
        for (; c + 4 <= channels; c += 4, a += 4 * plane, b += 4 * plane, to += 4) {
            to[0] = pair(a[0], a[second]);
            to[1] = pair(b[0], b[second]);
            to[2] = pair(a[third], a[last]);
            to[3] = pair(b[third], b[last]);
        }
        if (c == channels) return;
        const auto element = [&](const X *x, Size n) { return c + n < channels ? x[n * plane] : X(0); };
        to[0] = pair(a[0], element(a, InTurn<W>::second));
        to[1] = pair(b[0], element(b, InTurn<W>::second));
        to[2] = pair(element(a, InTurn<W>::third), 0);
        to[3] = pair(element(b, InTurn<W>::third), 0);
    }
    template <class X>
    static void pixels(uint32_t *to, const X *a, const X *b, Size channels) {
        expand<W>(to, a, b, channels);
    }
    // With channels innermost; elements are in the order kernel row, kernel column, channel, and so are the weights. Rows of windows
    // that are no whole words are copied behind each other first; whatever follows the last element meets weights of 0.
    template <class X>
    __attribute__((noinline, noclone)) static void fill_innermost(uint32_t *to, const X *x, const RowWindow &l, Pixel a, Pixel b, X pad) {
        const Window &w = l.window;
        const Size row = w.kernel_x * w.channels, inner = rounded_up(row * w.kernel_y, 4);
        const bool by_words = row % 4 == 0;
        X *const first = reinterpret_cast<X *>(to + inner), *const second = first + inner + 4;
        const X *const p = whole_window(x, l, a), *const q = whole_window(x, l, b);
        if (p == nullptr || q == nullptr) {
            copy_window_innermost(first, x, l, a, pad);
            copy_window_innermost(second, x, l, b, pad);
        } else if (by_words) {
            for (Size k = 0; k < w.kernel_y; ++k) expand<W>(to + k * row, p + k * l.x_row, q + k * l.x_row, row);
            return;
        } else {
            copy_rows(first, p, row, w.kernel_y, l.x_row);
            copy_rows(second, q, row, w.kernel_y, l.x_row);
        }
        expand<W>(to, first, second, inner);
    }
    template <class X>
    static void fill(uint32_t *to, const X *x, const RowWindow &l, Pixel a, Pixel b, X pad) {
        const Window &w = l.window;
        if (is_pointwise(w)) return columns(to, element_at(x, l, a), element_at(x, l, b), w.channels, l.x_plane);
        const Size inner = rounded_up(w.channels * w.kernel_y * w.kernel_x, 4);
        X *const first = reinterpret_cast<X *>(to + inner), *const second = first + inner + 4;
        __builtin_memset(first + inner - 4, 0, 4 * sizeof(X));
        __builtin_memset(second + inner - 4, 0, 4 * sizeof(X));
        if (w.kernel_x != 3 || !copy_neighbours(first, second, x, l, a, b)) {
            copy_window<1>(first, x, l, a, pad);
            copy_window<1>(second, x, l, b, pad);
        }
        expand<W>(to, first, second, inner);
    }
};

template <class E>
struct SignsOf {
    static constexpr uint32_t value = 0x80808080;
};
template <>
struct SignsOf<AboveLeast> {
    static constexpr uint32_t value = 0;
};
// Cortex-M3: the elements in turn, bytes where weights and operand are bytes
template <class E>
struct ElementPatches {
    __attribute__((noinline, noclone)) static EvenAndOdd sums(const uint32_t *patches, Size inner) {
        return sums_of_bytes<SignsOf<E>::value>(reinterpret_cast<const int8_t *>(patches), 2 * inner);
    }
    template <class X>
    __attribute__((noinline, noclone)) static void columns(E *to, const X *a, const X *b, Size channels, Size plane) {
        for (; channels > 0; --channels, a += plane, b += plane, to += 2) {
            to[0] = *a;
            to[1] = *b;
        }
    }
    template <class X>
    static void fill(uint32_t *words, const X *x, const RowWindow &l, Pixel a, Pixel b, X pad) {
        E *const to = reinterpret_cast<E *>(words);
        if (is_pointwise(l.window)) return columns(to, element_at(x, l, a), element_at(x, l, b), l.window.channels, l.x_plane);
        if (l.window.kernel_x == 3 && copy_neighbours_in_turn(to, x, l, a, b)) return;
        copy_window<2>(to, x, l, a, pad);
        copy_window<2>(to + 1, x, l, b, pad);
    }
};

template <class Weights, class X>
struct PatchesOf;
template <class W, Size Step, class X>
struct PatchesOf<Blocks<W, 2, Step>, X> : HalfwordPatches<W> {};
template <class W, Size Step, class X>
struct PatchesOf<Blocks<W, 4, Step>, X> : ElementPatches<int16_t> {};
template <Size Step>
struct PatchesOf<Blocks<int8_t, 4, Step>, int8_t> : ElementPatches<int8_t> {};
template <Size Step>
struct PatchesOf<Blocks<int8_t, 4, Step>, uint8_t> : ElementPatches<uint8_t> {};
template <class X>
struct PatchesOf<Blocks<int8_t, 4, in_pairs>, X> : HalfwordPatches<int8_t> {};
template <>
struct PatchesOf<Blocks<int8_t, 4, in_pairs>, int8_t> : HalfwordPatches<int8_t> {};
template <>
struct PatchesOf<Blocks<int8_t, 4, in_pairs>, uint8_t> : HalfwordPatches<int8_t> {};
template <>
struct PatchesOf<Blocks<int8_t, 4, unless_least>, int8_t> : ElementPatches<AboveLeast> {};

}  // namespace hil
