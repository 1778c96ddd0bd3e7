// Cortex-M0+: depthwise convolutions of 3 x 3. A word holds what two neighbouring results read at a position of the window, so one
// multiplication counts for both; two of them are summed before both lanes are told apart (lanes.hpp).
#pragma once
#include "firmware/kernels/arm/depthwise.hpp"
#include "firmware/kernels/arm/lanes.hpp"

namespace hil {

// A channel's weights, and how its words lie, in bytes: from the third word of a row of the window to the next row, from pair to pair,
// and from the first pair of a row of results to that of the next one
struct PairWindow {
    int32_t weights[9];
    Size row, pair;
    int32_t start;  // of the sums
    Size next;
};

namespace portable {

inline void add_pair_windows(int32_t *sums, const uint32_t *x, const PairWindow &w, Size pairs, Size rows) {
    for (; rows > 0; --rows, x += w.next / 4) {
        const uint32_t *first = x;
        for (Size left = pairs; left > 0; --left, first += w.pair / 4, sums += 2) {
            sums[0] = sums[1] = w.start;
            const uint32_t *at = first;
            for (Size n = 0; n < 9; ++n) {
                const uint32_t product = *at++ * static_cast<uint32_t>(w.weights[n]);
                sums[0] += low_half(product);
                sums[1] += upper_lane(product);
                if (n % 3 == 2 && n < 8) at += w.row / 4;
            }
        }
    }
}

}  // namespace portable

#if __ARM_ARCH_ISA_THUMB == 1
#define HIL_PARTED(x) \
    "add r8, " x "\n" \
    "asrs " x ", " x ", #16\n" \
    "adcs r6, " x "\n"
// 82 cycles for two results. On the stack: four weights, sums, end of a row, pair, start, row, x, next, span of a row, rows.
__attribute__((naked, noinline, noipa)) inline void add_pair_windows(int32_t *, const uint32_t *, const PairWindow &, Size, Size) {
    asm(".syntax unified\n"
        "push {r4, r5, r6, r7, lr}\n"
        "mov r4, r8\n"
        "mov r5, r9\n"
        "mov r6, r10\n"
        "mov r7, r11\n"
        "push {r4, r5, r6, r7}\n"
        "ldr r7, [sp, #36]\n"
        "ldr r5, [r2, #40]\n"
        "muls r3, r5, r3\n"
        "movs r6, r3\n"
        "ldr r5, [r2, #48]\n"
        "movs r4, r1\n"
        "push {r4, r5, r6, r7}\n"  // x, next, span, rows
        "adds r3, r3, r1\n"
        "movs r4, r3\n"
        "ldr r5, [r2, #40]\n"
        "ldr r6, [r2, #44]\n"
        "ldr r7, [r2, #36]\n"
        "movs r3, r0\n"
        "push {r3, r4, r5, r6, r7}\n"  // sums, end, pair, start, row
        "movs r0, r1\n"
        "ldmia r2!, {r3, r4, r5, r6}\n"
        "push {r3, r4, r5, r6}\n"
        "ldmia r2!, {r3, r4, r5, r6, r7}\n"
        "mov r9, r3\n"
        "mov r10, r4\n"
        "mov r11, r5\n"
        "mov r12, r6\n"
        "mov lr, r7\n"
        "1:\n"
        "ldr r6, [sp, #28]\n"
        "lsls r1, r6, #16\n"
        "adds r1, r1, r6\n"
        "mov r8, r1\n"
        "movs r7, r0\n"
        "ldmia r0!, {r1, r2, r3}\n"
        "ldr r4, [sp, #32]\n"
        "adds r0, r0, r4\n"
        "ldr r4, [sp]\n"
        "muls r1, r4, r1\n"
        "ldr r4, [sp, #4]\n"
        "muls r2, r4, r2\n"
        "adds r1, r1, r2\n" HIL_PARTED("r1") "ldr r5, [sp, #8]\n"
                                             "muls r5, r3, r5\n"
                                             "ldmia r0!, {r1, r2, r3}\n"
                                             "ldr r4, [sp, #32]\n"
                                             "adds r0, r0, r4\n"
                                             "ldr r4, [sp, #12]\n"
                                             "muls r1, r4, r1\n"
                                             "adds r5, r5, r1\n" HIL_PARTED(
                                                 "r5") "mov r4, r9\n"
                                                       "muls r2, r4, r2\n"
                                                       "mov r4, r10\n"
                                                       "muls r3, r4, r3\n"
                                                       "adds r2, r2, r3\n" HIL_PARTED(
                                                           "r2") "ldmia r0!, {r1, r2, r3}\n"
                                                                 "mov r4, r11\n"
                                                                 "muls r1, r4, r1\n"
                                                                 "mov r4, r12\n"
                                                                 "muls r2, r4, r2\n"
                                                                 "adds r1, r1, r2\n" HIL_PARTED(
                                                                     "r1") "mov r4, lr\n"
                                                                           "muls r3, r4, r3\n" HIL_PARTED(
                                                                               "r3") "lsls r1, r6, #16\n"
                                                                                     "mov r2, r8\n"
                                                                                     "subs r2, r2, r1\n"
                                                                                     "ldr r1, [sp, #16]\n"
                                                                                     "stmia r1!, {r2, r6}\n"
                                                                                     "str r1, [sp, #16]\n"
                                                                                     "ldr r0, [sp, #24]\n"
                                                                                     "adds r0, r0, r7\n"
                                                                                     "ldr r4, [sp, #20]\n"
                                                                                     "cmp r0, r4\n"
                                                                                     "bne 1b\n"
                                                                                     "ldr r3, [sp, #48]\n"
                                                                                     "subs r3, #1\n"
                                                                                     "beq 2f\n"
                                                                                     "str r3, [sp, #48]\n"
                                                                                     "ldr r0, [sp, #36]\n"
                                                                                     "ldr r3, [sp, #40]\n"
                                                                                     "adds r0, r0, r3\n"
                                                                                     "str r0, [sp, #36]\n"
                                                                                     "ldr r3, [sp, #44]\n"
                                                                                     "adds r3, r3, r0\n"
                                                                                     "str r3, [sp, #20]\n"
                                                                                     "b 1b\n"
                                                                                     "2:\n"
                                                                                     "add sp, #52\n"
                                                                                     "pop {r4, r5, r6, r7}\n"
                                                                                     "mov r8, r4\n"
                                                                                     "mov r9, r5\n"
                                                                                     "mov r10, r6\n"
                                                                                     "mov r11, r7\n"
                                                                                     "pop {r4, r5, r6, r7, pc}\n");
}
#undef HIL_PARTED
#else
inline void add_pair_windows(int32_t *sums, const uint32_t *x, const PairWindow &w, Size pairs, Size rows) {
    portable::add_pair_windows(sums, x, w, pairs, rows);
}
#endif

// `line` words of a row between pads: an element each and the one `Apart` behind it
template <Size Apart>
__attribute__((noinline, noclone)) void widen_line(uint32_t *to, const int8_t *row, Size width, Size before, Size line, int32_t pad) {
    const uint32_t *const end = to + line;
    int32_t last = pad, next = pad;  // those `Apart` and one before the element that comes
    const auto take = [&](int32_t element) {
        *to++ = lanes_of(Apart == 1 ? next : last, element);
        last = next;
        next = element;
    };
    Size n = 0;
    for (; n < Apart; ++n) {  // whose words would be before the first
        last = next;
        next = n < before ? pad : n - before < width ? row[n - before] : pad;
    }
    for (; n < before && to != end; ++n) take(pad);
    const int8_t *x = row + (n - before);
    const Size left = width + before - n, room = static_cast<Size>(end - to);
    if (width + before > n) {
        for (const int8_t *const last_one = x + (left < room ? left : room); x != last_one; ++x) take(*x);
    }
    while (to != end) take(pad);
}

// What the results [y, y + rows) of one channel read
inline void widen_lines(uint32_t *to, const int8_t *plane, const RowWindow &l, Size y, Size rows, int32_t pad) {
    const Window &w = l.window;
    const Size line = line_elements(w);
    Size at = static_cast<Size>(origin(y, w.stride_y, w.pad_y));  // wraps where it is negative
    for (Size lines = (rows - 1) * w.stride_y + 3; lines > 0; --lines, ++at, to += line) {
        const bool is_there = at < w.height;
        const int8_t *const row = plane + (is_there ? slot_of(at, l.x_ring) * l.x_row : 0);
        if (w.stride_x == 1) widen_line<1>(to, row, is_there ? w.width : 0, w.pad_x, line, pad);
        else widen_line<2>(to, row, is_there ? w.width : 0, w.pad_x, line, pad);
    }
}

constexpr Size sums_at_once = 64, lane_words = 512;
// Rows of results whose words are there at a time (passes/lanes.py)
inline Size lane_band(const Window &w) {
    const Size fit = lane_words / (w.stride_y * line_elements(w));
    return fit > rows_of_a_band ? fit : rows_of_a_band;
}

// The results of one channel in some rows, whose lines are there as words
template <class Acc, class Out, class B, class Shift, class BiasShift>
__attribute__((noinline, noclone)) void lane_rows(Out *out, const uint32_t *lines, Size y, Size rows, PairWindow &window, const B &bias,
                                                  const RowWindow &l, const Shift &by, BiasShift bias_shift) {
    const Size width = l.window.out_width, most = width < sums_at_once ? width : sums_at_once, pairs = (most + 1) / 2;
    const Size together = most < width ? 1 : sums_at_once / (2 * pairs);
    const bool is_stretch = width == 2 * pairs && l.out_row == width;
    int32_t sums[sums_at_once];
    const int32_t before = Together<Out, Shift>::before(by);
    window.start = VariesByPixel<B>::value ? before : start_of<Acc>(bias, 0, bias_shift) + before;
    out += slot_of(y, l.out_ring) * l.out_row;  // no row is beyond the ring's edge
    for (const Size end = y + rows; y < end;) {
        const Size count = end - y < together ? end - y : together;
        for (Size column = 0; column < width; column += most) {
            const Size columns = width - column < most ? width - column : most, each = (columns + 1) & ~Size(1);
            add_pair_windows(sums, lines + column / 2 * (window.pair / 4), window, each / 2, count);
            for (Size n = 0; VariesByPixel<B>::value && n < count * each; ++n) {
                if (n % each < columns) {
                    const Size pixel = (y + n / each) * width + column + n % each;
                    sums[n] += start_of<Acc>(at_pixel(bias, pixel), 0, bias_shift);
                }
            }
            if (is_stretch) {
                Codes<Out, Shift>::of(out, sums, count * width, by);
                continue;
            }
            Out *to = out + column;
            for (Size n = 0; n < count; ++n, to += l.out_row) Codes<Out, Shift>::of(to, sums + n * each, columns, by);
        }
        y += count;
        out += count * l.out_row;
        lines += count * (window.next / 4);
    }
}

// The output rows [begin, end) of all channels, from planes to planes
template <class Acc, class T, class Out, class B, class Shift, class BiasShift>
void convolve_blocks(Out *out, uint32_t *words, Size begin, Size end, Blocks<InLanes, 1, 9> weights, Laid<int8_t, false, false> x, B bias,
                     const RowWindow &l, Size, const Shift &shift, BiasShift bias_shift) {
    const Window &w = l.window;
    const auto add = bias_factor(bias_shift);
    const Size line = 4 * line_elements(w), band = lane_band(w);
    PairWindow window = {{}, line - 12, 8 * w.stride_x, 0, w.stride_y * line};
    const int8_t *at = x.at;
    for (Size c = 0; c < w.channels; ++c, out += l.out_plane, weights.at += 9, at += l.x_plane, bias = bias + 1) {
        const auto by = early(prepared(at_run_time(of_channel(shift, c))));
        for (Size n = 0; n < 9; ++n) window.weights[n] = static_cast<uint8_t>(weights.at[n].code) - 128;
        for (Size y = begin, rows; y < end; y += rows) {
            const Size to_the_end = end - y, to_the_edge = l.out_ring - slot_of(y, l.out_ring);
            const Size left = to_the_end < to_the_edge ? to_the_end : to_the_edge;
            rows = left < band ? left : band;
            widen_lines(words, at, l, y, rows, PadCode<T>::value);
            lane_rows<Acc>(out, words, y, rows, window, bias, l, by, add);
        }
    }
}

}  // namespace hil
