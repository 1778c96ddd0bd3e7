// Cortex-M4: depthwise convolutions of 3 x 3 and the rounding of asymmetric integers (rescaled.hpp), two columns of results at a time
// from top to bottom. A row of the window counts for three results below each other, so every word of an operand is loaded and split
// once, and nothing is copied but the two columns at the edges.
#pragma once
#include "firmware/kernels/arm/rescaled.hpp"

namespace hil {

// Two columns of one channel: what is read in every row, then what is in registers. Weights are doubled; `outer`: left and right ones of
// the rows of the window, `middles`: those of the first two rows. Distances in bytes.
struct TwoColumns {
    Size x_row;
    int32_t last_middle, multiplier, addend, right;
    Size apart, out_row;
    const int8_t *end;
    int32_t bias;
    uint32_t pads;
    const int8_t *x;
    int8_t *before;  // where a result above the first would be
    uint32_t outer[3], middles;
    int32_t first;  // what the row above the first adds to the bias
};

#ifdef HIL_LOADS_IN_A_ROW
// The row in r3 and r2, bytes 0 and 2, 1 and 3, is the last of the window of sums r10 and r11
#define HIL_FINISHED \
    "smlad r10, r3, r8, r10\n" \
    "smlabb r10, r2, r1, r10\n" \
    "smlad r11, r2, r8, r11\n" \
    "smlatb r11, r3, r1, r11\n" \
    "ldr r0, [sp, #8]\n" \
    "ldr r1, [sp, #12]\n" \
    "smmlar r10, r10, r0, r1\n" \
    "smmlar r11, r11, r0, r1\n" \
    "ldr r0, [sp, #16]\n" \
    "ldr r1, [sp, #20]\n" \
    "asr.w r10, r10, r0\n" \
    "asr.w r11, r11, r0\n" \
    "ssat r10, #8, r10, asr #1\n" \
    "ssat r11, #8, r11, asr #1\n" \
    "strb r11, [r5, r1]\n" \
    "strb r10, [r5]\n"
// 42 cycles for two results
__attribute__((naked, noinline, noipa)) inline void add_two_columns(const TwoColumns &) {
    asm("push {r4, r5, r6, r7, r8, r9, r10, r11, lr}\n"
        "ldmia r0!, {r1, r2, r3, r4, r5, r6, r7, r8, r9, r10}\n"
        "push {r1, r2, r3, r4, r5, r6, r7, r8, r9, r10}\n"
        "ldmia r0, {r4, r5, r6, r7, r8, r9, r12}\n"
        "mov lr, r12\n"
        "ldr r2, [r4]\n"
        "ldr r0, [sp]\n"
        "sxtb16 r3, r2\n"
        "sxtb16 r2, r2, ror #8\n"
        "adds r4, r4, r0\n"
        "b 2f\n"
        ".balign 4\n"
        "1:\n"
        "ldr r2, [r4]\n"
        "ldr r0, [sp]\n"
        "ldr r1, [sp, #4]\n"
        "adds r4, r4, r0\n"
        "sxtb16 r3, r2\n"
        "sxtb16 r2, r2, ror #8\n" HIL_FINISHED "2:\n"
        "smlad r10, r3, r7, r12\n"
        "smlabt r10, r2, r9, r10\n"
        "smlad r11, r2, r7, lr\n"
        "smlatt r11, r3, r9, r11\n"
        "ldr r0, [sp, #24]\n"
        "ldr r1, [sp, #28]\n"
        "adds r5, r5, r0\n"
        "ldr r0, [sp, #32]\n"
        "smlad r12, r3, r6, r0\n"
        "smlabb r12, r2, r9, r12\n"
        "smlad lr, r2, r6, r0\n"
        "smlatb lr, r3, r9, lr\n"
        "cmp r4, r1\n"
        "bne 1b\n"
        "ldr r2, [sp, #36]\n"
        "ldr r1, [sp, #4]\n"
        "mov r3, r2\n" HIL_FINISHED "add sp, #40\n"
        "pop {r4, r5, r6, r7, r8, r9, r10, r11, pc}\n");
}
#undef HIL_FINISHED

// Words of four neighbours in each row of a plane as the columns at an edge read them, with what a row is padded with
inline void edge_of(uint32_t *to, const int8_t *x, Size row, Size rows, int left, int right, uint32_t pads) {
    for (; rows > 0; --rows, x += row) *to++ = word_at(x) >> right << left | pads;
}

// All results of a channel; `scratch`: a word for each row
template <int Zero, class W>
__attribute__((noinline, noclone)) void columns_of(int8_t *out, uint32_t *scratch, const W *w, const int8_t *x, const RowWindow &l,
                                                   Size step, const Rescaled<false, true, Zero, true> &by, int32_t pad) {
    const Size width = l.window.width, height = l.window.height;
    const uint32_t pads = 0x01010101u * static_cast<uint8_t>(pad);
    const auto halves = [&](Size n, Size m) { return lower_halves(static_cast<uint32_t>(2 * w[n]), static_cast<uint32_t>(2 * w[m])); };
    TwoColumns two = {width,
                      2 * w[7],
                      by.multiplier,
                      by.addend,
                      by.right,
                      step,
                      l.out_row,
                      nullptr,
                      by.bias,
                      even_bytes(pads),
                      nullptr,
                      out - l.out_row,
                      {halves(0, 2), halves(3, 5), halves(6, 8)},
                      halves(1, 4),
                      by.bias + 2 * pad * (w[0] + w[1] + w[2])};
    for (Size column = 0; column < width; column += 2, two.before += 2 * step) {
        const bool is_left = column == 0, is_right = column + 2 >= width;
        two.x = x + column - 1;
        two.x_row = width;
        if (is_left || is_right) {
            const int bits = is_left ? 8 : column + 2 == width ? 8 : 16;
            if (is_left) edge_of(scratch, x, width, height, bits, 0, pads >> 24);
            else edge_of(scratch, x + width - 4, width, height, 0, bits, pads << (32 - bits));
            two.x = reinterpret_cast<const int8_t *>(scratch);
            two.x_row = 4;
        }
        if (column + 1 == width) two.apart = 0;  // the second result is none, and written first
        two.end = two.x + two.x_row * height;
        add_two_columns(two);
    }
}

// Whether the results [begin, end) are all of them, by columns; then they are there. Not if they lie over the operand of the channel:
// they would be written over rows that the next columns read.
template <int Zero, class W>
inline bool by_columns_of(Within<int8_t, -128, 127> *out, int8_t *lines, Size begin, Size end, const W *weights, const int8_t *x,
                          const NoChannelBias &, const RowWindow &l, Size step, const Rescaled<false, true, Zero, true> &by, int32_t pad) {
    const Window &w = l.window;
    const bool is_same = w.stride_x == 1 && w.stride_y == 1 && w.pad_x == 1 && w.pad_y == 1 && w.out_width == w.width && w.width >= 4;
    const bool is_whole = begin == 0 && end == w.height && w.out_height == w.height && l.x_ring >= w.height && l.out_ring >= w.height;
    if (!IsFrom<Within<int8_t, -128, 127>, Zero>::value || !is_same || !is_whole || l.x_row != w.width) return false;
    const int8_t *const first = &out->element;
    if (first < x + w.height * l.x_row && x < first + w.height * l.out_row) return false;
    columns_of(&out->element, reinterpret_cast<uint32_t *>(lines), weights, x, l, step, by, pad);
    return true;
}
#endif

}  // namespace hil
