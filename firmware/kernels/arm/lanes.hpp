// Cortex-M0+: two products in one multiplication. A word holds two bytes, low + 65536 * high as integers; of two such words
// (a, b) and (c, d) the product modulo 2^32 is a * c + 65536 * (a * d + b * c), and what counts is the sum in the upper half. The
// lower product has less than 16 bits, so it takes one from the upper half where it is negative, which is its highest bit: a shift
// to the right by 16 leaves that bit in the carry, and an addition with carry gives the one back. No pair of weights has absolute
// values of more than 255 (passes/lanes.py): the upper sum has 16 bits then whatever the other bytes are.
#pragma once
#include "firmware/kernels/arm/dense_blocks.hpp"
#include "firmware/kernels/arm/near.hpp"
#include "firmware/kernels/arm/patches.hpp"
#include "firmware/kernels/common/rounding.hpp"

namespace hil {

// Weights as bytes that are 128 more than they, in rows whose fours lie as 2, 3, 0, 1
struct InLanes { int8_t code; };
template <Size Rows, Size Step>
inline Blocks<InLanes, Rows, Step> in_lanes(Blocks<int8_t, Rows, Step> b) {
    return {reinterpret_cast<const InLanes *>(b.at)};
}

// Pixels whose patches are there at a time, so that a row of weights is widened once for all of them (passes/lanes.py)
constexpr Size most_lane_pixels = 32, lane_patch_bytes = 8192;
inline Size lane_pixels(Size padded, Size of) {
    const Size fit = lane_patch_bytes / (2 * padded) & ~Size(1), most = of < most_lane_pixels ? rounded_up(of, 2) : most_lane_pixels;
    return fit > most ? most : fit < 2 ? 2 : fit;
}

constexpr uint32_t lane_mask = 0x00FF00FF, lane_middle = 0x00800080;
// Bytes 0 and 2, and 1 and 3, of a word whose bytes are 128 more than they stand for
inline uint32_t even_lanes(uint32_t word) { return (word & lane_mask) - lane_middle; }
inline uint32_t odd_lanes(uint32_t word) { return (word >> 8 & lane_mask) - lane_middle; }

// A row of `padded` weights, a word for two
#if __ARM_ARCH_ISA_THUMB == 1
#define HIL_WIDENED_FOUR \
    "ldmia r1!, {r4}\n" \
    "movs r3, r5\n" \
    "ands r3, r4\n" \
    "subs r4, r4, r3\n" \
    "lsrs r4, r4, #8\n" \
    "subs r3, r3, r6\n" \
    "subs r4, r4, r6\n" \
    "stmia r0!, {r3, r4}\n"
// 11 cycles for four
__attribute__((naked, noinline, noipa)) inline void widen_row(uint32_t *, const InLanes *, Size) {
    asm(".syntax unified\n"
        "push {r4, r5, r6, lr}\n"
        "adds r2, r2, r1\n"
        "movs r3, #255\n"
        "lsls r5, r3, #16\n"
        "adds r5, r5, r3\n"
        "movs r3, #128\n"
        "lsls r6, r3, #16\n"
        "adds r6, r6, r3\n"
        "subs r3, r2, r1\n"
        "lsrs r3, r3, #3\n"  // an odd number of fours
        "bcs 2f\n"
        "1:\n" HIL_WIDENED_FOUR "2:\n" HIL_WIDENED_FOUR "cmp r1, r2\n"
        "bne 1b\n"
        "pop {r4, r5, r6, pc}\n");
}
#undef HIL_WIDENED_FOUR
#else
inline void widen_row(uint32_t *to, const InLanes *w, Size padded) {
    const uint32_t *from = reinterpret_cast<const uint32_t *>(w), *const end = from + padded / 4;
    for (; from != end; to += 2) {
        const uint32_t word = *from++;
        to[0] = even_lanes(word);
        to[1] = odd_lanes(word);
    }
}
#endif
// The same of elements, beside those of another pixel
#if __ARM_ARCH_ISA_THUMB == 1
// 17 cycles for four
__attribute__((naked, noinline, noipa)) inline void widen_patch(uint32_t *, const int8_t *, Size) {
    asm(".syntax unified\n"
        "push {r4, r5, r6, r7, lr}\n"
        "adds r2, r2, r1\n"
        "movs r3, #255\n"
        "lsls r5, r3, #16\n"
        "adds r5, r5, r3\n"
        "movs r3, #128\n"
        "lsls r6, r3, #16\n"
        "adds r6, r6, r3\n"
        "lsls r7, r6, #8\n"
        "adds r7, r7, r6\n"
        "1:\n"
        "ldmia r1!, {r4}\n"
        "eors r4, r7\n"
        "movs r3, r5\n"
        "ands r3, r4\n"
        "subs r4, r4, r3\n"
        "lsrs r4, r4, #8\n"
        "subs r3, r3, r6\n"
        "subs r4, r4, r6\n"
        "str r3, [r0]\n"
        "str r4, [r0, #8]\n"
        "adds r0, #16\n"
        "cmp r1, r2\n"
        "bne 1b\n"
        "pop {r4, r5, r6, r7, pc}\n");
}
#else
inline void widen_patch(uint32_t *to, const int8_t *x, Size padded) {
    const uint32_t *from = reinterpret_cast<const uint32_t *>(x), *const end = from + padded / 4;
    for (; from != end; to += 4) {
        const uint32_t word = *from++ ^ 0x80808080u;
        to[0] = even_lanes(word);
        to[2] = odd_lanes(word);
    }
}
#endif
inline uint32_t lanes_of(int32_t low, int32_t high) { return static_cast<uint32_t>(low) + (static_cast<uint32_t>(high) << 16); }
// One element per channel of planes; what is beyond the last meets weights of 0
__attribute__((noinline, noclone)) inline void widen_pixel(uint32_t *to, const int8_t *x, Size channels, Size plane) {
    for (; channels >= 4; channels -= 4, to += 4) {
        const int32_t a = *x, b = *(x += plane), c = *(x += plane), d = *(x += plane);
        x += plane;
        to[0] = lanes_of(a, c);
        to[2] = lanes_of(b, d);
    }
    if (channels == 0) return;
    to[0] = lanes_of(x[0], channels > 2 ? x[2 * plane] : 0);
    to[2] = lanes_of(channels > 1 ? x[plane] : 0, 0);
}

namespace portable {

inline int32_t upper_lane(uint32_t product) { return (static_cast<int32_t>(product) >> 16) + static_cast<int32_t>(product >> 15 & 1); }
// Two sums for each pair of pixels, whose words lie in turn: `start`, and what a row gives with them
inline void add_lanes(int32_t *sums, const uint32_t *row, const uint32_t *row_end, const uint32_t *patches, const uint32_t *end,
                      int32_t start) {
    for (; patches != end; sums += 2) {
        sums[0] = sums[1] = start;
        for (const uint32_t *w = row; w != row_end; ++w, patches += 2) {
            sums[0] += upper_lane(patches[0] * *w);
            sums[1] += upper_lane(patches[1] * *w);
        }
    }
}

}  // namespace portable

#if __ARM_ARCH_ISA_THUMB == 1
#define HIL_TWO_PIXELS(w) \
    "ldmia r1!, {r4, r5}\n" \
    "muls r4, " w ", r4\n" \
    "asrs r4, r4, #16\n" \
    "adcs r6, r4\n" \
    "muls r5, " w ", r5\n" \
    "asrs r5, r5, #16\n" \
    "adcs r7, r5\n"
#define HIL_FOUR_ELEMENTS "ldmia r0!, {r2, r3}\n" HIL_TWO_PIXELS("r2") HIL_TWO_PIXELS("r3")
// 21 cycles for 8 products. Into the middle of the loop leads how many fours a row has beyond a multiple of four.
__attribute__((naked, noinline, noipa)) inline void add_lanes(int32_t *, const uint32_t *, const uint32_t *, const uint32_t *,
                                                              const uint32_t *, int32_t) {
    asm(".syntax unified\n"
        "push {r4, r5, r6, r7, lr}\n"
        "mov r4, r8\n"
        "mov r5, r9\n"
        "mov r6, r10\n"
        "mov r7, r11\n"
        "push {r4, r5, r6, r7}\n"
        "ldr r4, [sp, #36]\n"
        "ldr r5, [sp, #40]\n"
        "mov r11, r4\n"
        "mov lr, r5\n"
        "mov r8, r1\n"
        "mov r9, r0\n"
        "mov r10, r2\n"
        "subs r2, r1, r2\n"
        "movs r4, #24\n"
        "ands r2, r4\n"
        "lsls r4, r2, #2\n"  // 30 bytes of code for four elements, which are 8 bytes of a row
        "lsrs r5, r2, #2\n"
        "subs r4, r4, r5\n"
        "mov r12, r4\n"
        "mov r1, r3\n"
        "2:\n"
        "mov r6, lr\n"
        "mov r7, lr\n"
        "mov r0, r8\n"
        "mov r2, r12\n"
        ".balign 4\n"
        "add pc, r2\n"
        "nop\n"
        "1:\n" HIL_FOUR_ELEMENTS HIL_FOUR_ELEMENTS HIL_FOUR_ELEMENTS HIL_FOUR_ELEMENTS "cmp r0, r10\n"
        "bne 1b\n"
        "mov r0, r9\n"
        "stmia r0!, {r6, r7}\n"
        "mov r9, r0\n"
        "cmp r1, r11\n"
        "bne 2b\n"
        "pop {r4, r5, r6, r7}\n"
        "mov r8, r4\n"
        "mov r9, r5\n"
        "mov r10, r6\n"
        "mov r11, r7\n"
        "pop {r4, r5, r6, r7, pc}\n");
}
#undef HIL_FOUR_ELEMENTS
#undef HIL_TWO_PIXELS
#else
inline void add_lanes(int32_t *sums, const uint32_t *row, const uint32_t *row_end, const uint32_t *patches, const uint32_t *end,
                      int32_t start) {
    portable::add_lanes(sums, row, row_end, patches, end, start);
}
#endif

// ---- matrix products: an element of four rows is a word, whose lanes of two rows meet one element of the operand

namespace portable {

// Sums of the bytes themselves
inline void add_quads(const int8_t *w, const int8_t *x, Size count, Column<4> *sums) {
    Column<4> s = {};
    for (; count > 0; --count, ++x, w += 4) {
        for (Size r = 0; r < 4; ++r) s.of[r] = wrapped(s.of[r], static_cast<uint8_t>(w[r]) * *x);
    }
    *sums = s;
}

}  // namespace portable

inline int32_t sum_of_codes(const int8_t *x, Size count) {
    int32_t sum = 0;
    for (Size k = 0; k < count; ++k) sum += x[k];
    return sum;
}

#if __ARM_ARCH_ISA_THUMB == 1
#define HIL_LANES(word, whole, upper) \
    "muls " word ", r4, " word "\n" \
    "add " whole ", " word "\n" \
    "asrs " word ", " word ", #16\n" \
    "adcs " upper ", " word "\n"
// One element of four rows; what is behind it goes on
#define HIL_FOUR_ROWS(element) \
    "ldmia r0!, {r3}\n" element "mov r5, r10\n" \
    "ands r5, r3\n" \
    "subs r3, r3, r5\n" \
    "lsrs r3, r3, #8\n" HIL_LANES("r5", "r8", "r6") HIL_LANES("r3", "r9", "r7")
#define HIL_QUADS(loop) \
    asm(".syntax unified\n" \
        "push {r3, r4, r5, r6, r7, lr}\n" \
        "mov r4, r8\n" \
        "mov r5, r9\n" \
        "mov r6, r10\n" \
        "mov r7, r11\n" \
        "push {r4, r5, r6, r7}\n" \
        "movs r6, #0\n" \
        "movs r7, #0\n" \
        "mov r8, r6\n" \
        "mov r9, r6\n" \
        "movs r5, #255\n" \
        "lsls r4, r5, #16\n" \
        "adds r4, r4, r5\n" \
        "mov r10, r4\n" \
        "adds r2, r2, r1\n" \
        "mov r11, r2\n" \
        "1:\n" loop "cmp r1, r11\n" \
        "bne 1b\n" \
        "pop {r0, r1, r2, r3}\n" \
        "mov r4, r8\n" \
        "mov r5, r9\n" \
        "mov r8, r0\n" \
        "mov r9, r1\n" \
        "mov r10, r2\n" \
        "mov r11, r3\n" \
        "pop {r3}\n" \
        "lsls r0, r6, #16\n" \
        "subs r4, r4, r0\n" \
        "lsls r0, r7, #16\n" \
        "subs r5, r5, r0\n" \
        "stmia r3!, {r4, r5, r6, r7}\n" \
        "pop {r4, r5, r6, r7, pc}\n")
// 18 cycles for 4 products, beside what weights wait for flash, and three for the loop
__attribute__((naked, noinline, noipa)) inline void add_quads_by_bytes(const int8_t *, const int8_t *, Size, Column<4> *) {
    HIL_QUADS(HIL_FOUR_ROWS("movs r4, #0\n"
                            "ldrsb r4, [r1, r4]\n"
                            "adds r1, #1\n"));
}
// 16 cycles: elements in whole words, at least one
__attribute__((naked, noinline, noipa)) inline void add_quads_by_words(const int8_t *, const int8_t *, Size, Column<4> *) {
#define HIL_BYTE "sxtb r4, r2\n"
#define HIL_NEXT_BYTE HIL_BYTE "lsrs r2, r2, #8\n"
    HIL_QUADS("ldmia r1!, {r2}\n" HIL_FOUR_ROWS(HIL_NEXT_BYTE) HIL_FOUR_ROWS(HIL_NEXT_BYTE) HIL_FOUR_ROWS(HIL_NEXT_BYTE)
                  HIL_FOUR_ROWS(HIL_BYTE));
}
#undef HIL_QUADS
// 15 cycles, of weights of which none is -128: a lower product is then negative where the element is, so what the upper sums of all rows
// lack is how many elements are; `sums` begin with it. They need no carry, and the mask has a register that instructions name.
__attribute__((naked, noinline, noipa)) inline void add_quads_above_least(const int8_t *, const int8_t *, Size, Column<4> *) {
#define HIL_LANES_ABOVE(word, whole, upper) \
    "muls " word ", r4, " word "\n" \
    "add " whole ", " word "\n" \
    "asrs " word ", " word ", #16\n" \
    "add " upper ", " word "\n"
#define HIL_FOUR_ABOVE(element) \
    "ldmia r0!, {r3}\n" element "lsrs r5, r3, #8\n" \
    "ands r5, r6\n" \
    "ands r3, r6\n" HIL_LANES_ABOVE("r3", "r8", "r10") HIL_LANES_ABOVE("r5", "r9", "r11")
#define HIL_WORD_ABOVE \
    "ldmia r1!, {r2}\n" HIL_FOUR_ABOVE(HIL_NEXT_BYTE) HIL_FOUR_ABOVE(HIL_NEXT_BYTE) HIL_FOUR_ABOVE(HIL_NEXT_BYTE) HIL_FOUR_ABOVE(HIL_BYTE)
    asm(".syntax unified\n"
        "push {r3, r4, r5, r6, r7, lr}\n"
        "mov r4, r8\n"
        "mov r5, r9\n"
        "mov r6, r10\n"
        "mov r7, r11\n"
        "push {r4, r5, r6, r7}\n"
        "ldr r4, [r3]\n"
        "mov r10, r4\n"
        "mov r11, r4\n"
        "movs r5, #0\n"
        "mov r8, r5\n"
        "mov r9, r5\n"
        "movs r5, #255\n"
        "lsls r6, r5, #16\n"
        "adds r6, r6, r5\n"
        "adds r7, r2, r1\n"
        "lsls r5, r2, #30\n"  // an odd number of words
        "bcs 2f\n"
        "1:\n" HIL_WORD_ABOVE "2:\n" HIL_WORD_ABOVE "cmp r1, r7\n"
        "bne 1b\n"
        "mov r4, r8\n"
        "mov r5, r9\n"
        "mov r6, r10\n"
        "mov r7, r11\n"
        "lsls r0, r6, #16\n"
        "subs r4, r4, r0\n"
        "lsls r0, r7, #16\n"
        "subs r5, r5, r0\n"
        "ldr r3, [sp, #16]\n"
        "stmia r3!, {r4, r5, r6, r7}\n"
        "pop {r0, r1, r2, r3}\n"
        "mov r8, r0\n"
        "mov r9, r1\n"
        "mov r10, r2\n"
        "mov r11, r3\n"
        "pop {r3, r4, r5, r6, r7, pc}\n");
#undef HIL_WORD_ABOVE
#undef HIL_FOUR_ABOVE
#undef HIL_LANES_ABOVE
}
#undef HIL_NEXT_BYTE
#undef HIL_BYTE
#undef HIL_FOUR_ROWS
#undef HIL_LANES

inline bool are_words(const int8_t *x, Size count) { return ((count | reinterpret_cast<uintptr_t>(x)) & 3) == 0; }
inline void add_quads(const int8_t *w, const int8_t *x, Size count, Column<4> *sums) {
    if (are_words(x, count)) add_quads_by_words(w, x, count, sums);
    else add_quads_by_bytes(w, x, count, sums);
}
inline int32_t negatives(const int8_t *x, Size count) {
    const uint32_t *word = reinterpret_cast<const uint32_t *>(x), *const end = word + count / 4;
    uint32_t signs = 0;
    for (; word != end; ++word) signs += (*word >> 7 & 0x01010101u) * 0x01010101u >> 24;
    return static_cast<int32_t>(signs);
}
#else
inline void add_quads(const int8_t *w, const int8_t *x, Size count, Column<4> *sums) { portable::add_quads(w, x, count, sums); }
#endif

// Fours of rows against one operand
template <Size Step>
struct QuadsBy {
    const int8_t *x;
    Size count;
    QuadsBy(const int8_t *of, Size inner) : x(of), count(inner) {}
    void add(const int8_t *w, Column<4> *sums) const { add_quads(w, x, count, sums); }
};
#if __ARM_ARCH_ISA_THUMB == 1
// Rows are whole words, and no weight is -128
template <>
struct QuadsBy<4> {
    const int8_t *x;
    Size count;
    bool in_words;
    int32_t lack;
    QuadsBy(const int8_t *of, Size inner)
        : x(of), count(inner), in_words(are_words(of, inner)), lack(in_words ? negatives(of, inner) : 0) {}
    void add(const int8_t *w, Column<4> *sums) const {
        sums->of[0] = lack;
        if (in_words) add_quads_above_least(w, x, count, sums);
        else add_quads_by_bytes(w, x, count, sums);
    }
};
#endif

template <Size Step, class Acc, class Out, class B, class Shift, class BiasShift>
__attribute__((noinline, noclone)) void outputs_of_quads(Out *out, const int8_t *w, const int8_t *x, const B &bias, Size outputs,
                                                         Size inner, const Shift &shift, BiasShift bias_shift) {
    constexpr Size most = 32;  // sums at a time
    const int32_t more = -128 * sum_of_codes(x, inner);
    const QuadsBy<Step> quads(x, inner);
    Column<4> sums[most / 4];
    for (Size n = 0; n < outputs; n += most) {
        const Size count = outputs - n < most ? outputs - n : most;
        for (Size r = 0; r < count; r += 4, w += 4 * inner) quads.add(w, sums + r / 4);
        RowCodes<Acc, Out, Shift>::of(out, sums[0].of, n, count, bias, shift, bias_shift, more);
    }
}

template <class Acc, Size Step, class Out, class B, class Shift, class BiasShift>
void dense_bias(Out *out, Blocks<InLanes, 4, Step> weights, Ram<int8_t> x, B bias, Size rows, Size outputs, Size inner, Shift shift,
                BiasShift bias_shift) {
    const auto add = bias_factor(bias_shift);
    const auto by = at_run_time(shift);
    for (; rows > 0; --rows, x = x + inner, out += outputs, next_row(bias, outputs)) {
        outputs_of_quads<Step, Acc>(out, &weights.at->code, x.at, bias, outputs, inner, by, add);
    }
}

// Some pixels of a layer that follow each other: the first, and in how many stretches of how many their results lie
struct LanePixels { Size count, first, places[most_lane_pixels]; };

// Every output of them
template <class Acc, class Out, class B, class Shift, class BiasShift>
__attribute__((noinline, noclone)) void outputs_of_lanes(Out *out, uint32_t *row, const uint32_t *patches, const InLanes *w, const B &bias,
                                                         const LanePixels &pixels, Size plane, Size padded, Size outputs,
                                                         const Shift &shift, BiasShift bias_shift) {
    using By = PreparedOf<Shift>;
    const Size count = pixels.count, pairs = (count + 1) / 2;
    const bool is_stretch = pixels.places[count - 1] - pixels.places[0] == count - 1;
    const uint32_t *const end = patches + pairs * padded;
    int32_t sums[most_lane_pixels];
    for (Size n = 0; n < outputs; ++n, out += plane, w += padded) {
        const By by = prepared(of_channel(shift, n));
        const int32_t before = Together<Out, By>::before(by);
        const int32_t start = VariesByPixel<B>::value ? before : start_of<Acc>(bias, n, bias_shift) + before;
        widen_row(row, w, padded);
        add_lanes(sums, row, row + padded / 2, patches, end, start);
        for (Size p = 0; VariesByPixel<B>::value && p < count; ++p) {
            sums[p] += start_of<Acc>(at_pixel(bias, pixels.first + p), n, bias_shift);
        }
        if (is_stretch) {
            Codes<Out, By>::of(out + pixels.places[0], sums, count, by);
            continue;
        }
        for (Size p = 0; p < count; ++p) Codes<Out, By>::of(out + pixels.places[p], sums + p, 1, by);
    }
}

// The bytes of one window, element by element: here words are no faster
__attribute__((noinline, noclone)) inline void gather_window(int8_t *to, const int8_t *x, const RowWindow &l, Pixel pixel, int8_t pad) {
    const Window &w = l.window;
    const Size channels = w.channels, plane = l.x_plane, kernel = w.kernel_x, width = w.width;
    const Size first = static_cast<Size>(origin(pixel.column, w.stride_x, w.pad_x));  // large where it is negative
    const bool is_whole = kernel == 3 && w.dilation_x == 1 && first < width && first + 2 < width;
    Size y = static_cast<Size>(origin(pixel.y, w.stride_y, w.pad_y));
    for (Size k = w.kernel_y; k > 0; --k, y += w.dilation_y) {
        const bool is_there = y < w.height;
        const int8_t *const row = x + (is_there ? slot_of(y, l.x_ring) * l.x_row : 0);
        if (is_whole && is_there) {
            const int8_t *from = row + first;
            for (Size c = channels; c > 0; --c, from += plane, to += 3) {
                const int8_t a = from[0], b = from[1], d = from[2];
                to[0] = a;
                to[1] = b;
                to[2] = d;
            }
            continue;
        }
        Size column = first;
        for (Size n = 0; n < kernel; ++n, column += w.dilation_x) {
            int8_t *at = to + n;
            if (is_there && column < width) {
                const int8_t *from = row + column;
                for (Size c = channels; c > 0; --c, from += plane, at += kernel) *at = *from;
            } else {
                for (Size c = channels; c > 0; --c, at += kernel) *at = pad;
            }
        }
        to += kernel * channels;
    }
}
inline void widen_window(uint32_t *to, int8_t *bytes, const int8_t *x, const RowWindow &l, Pixel pixel, int8_t pad, Size padded) {
    const Window &w = l.window;
    if (is_pointwise(w)) return widen_pixel(to, element_at(x, l, pixel), w.channels, l.x_plane);
    gather_window(bytes, x, l, pixel, pad);
    widen_patch(to, bytes, padded);
}

}  // namespace hil
