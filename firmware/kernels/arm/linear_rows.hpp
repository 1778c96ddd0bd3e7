// Rows of bytes of which each channel has a slope and a start (common/code_table.hpp), four at a time: results are the upper halfwords of
// sums, two of which are clipped together.
#pragma once
#include "firmware/kernels/arm/dsp.hpp"
#include "firmware/kernels/common/code_table.hpp"

namespace hil {

#ifdef __ARM_FEATURE_DSP
#define HIL_COUNTED(shift, pair) \
    shift " r12, " pair ", #16\n" \
          "it ne\n" \
          "addne lr, #1\n"
// Whole fours up to `end`, which may be written over, and how many of them are clipped: 22 instructions for four
__attribute__((naked, noinline, noipa)) inline uint32_t linear_fours(int8_t *, const int8_t *, const int8_t *, const int32_t *) {
    asm("push {r4, r5, r6, r7, r8, r9, r10, r11, lr}\n"
        "movs r4, #0\n"
        "push {r4}\n"
        ".balign 4\n"
        "1:\n"
        "ldr r12, [r1], #4\n"
        "ldmia r3!, {r4, r5, r6, r7, r8, r9, r10, r11}\n"
        "sxtb.w lr, r12\n"
        "mla r5, lr, r4, r5\n"
        "sxtb.w lr, r12, ror #8\n"
        "mla r7, lr, r6, r7\n"
        "sxtb.w lr, r12, ror #16\n"
        "mla r9, lr, r8, r9\n"
        "asr.w lr, r12, #24\n"
        "mla r11, lr, r10, r11\n"
        "pkhtb r5, r9, r5, asr #16\n"
        "pkhtb r7, r11, r7, asr #16\n"
        "ssat16 r4, #8, r5\n"
        "ssat16 r6, #8, r7\n"
        "uxtb16 r8, r4\n"
        "uxtb16 r9, r6\n"
        "cmp r4, r5\n"
        "bne 3f\n"
        "cmp r6, r7\n"
        "bne 3f\n"
        "2:\n"
        "orr r8, r8, r9, lsl #8\n"
        "cmp r1, r2\n"
        "str r8, [r0], #4\n"
        "bne 1b\n"
        "pop {r0}\n"
        "pop {r4, r5, r6, r7, r8, r9, r10, r11, pc}\n"
        "3:\n"
        "ldr lr, [sp]\n"
        "eors r5, r4\n"
        "eors r7, r6\n" HIL_COUNTED("lsls", "r5") HIL_COUNTED("lsrs", "r5") HIL_COUNTED("lsls", "r7")
            HIL_COUNTED("lsrs", "r7") "str lr, [sp]\n"
                                      "b 2b\n");
}
#undef HIL_COUNTED

template <class Acc>
void linear_channels(int8_t *out, Flash<int32_t> forms, Ram<int8_t> x, Size rows, Size channels, Const<1> steps, Const<16> right) {
    const Size fours = channels & ~Size(3);
    for (; rows > 0; --rows, x = x + channels, out += channels) {
        if (fours != 0) saturations = saturations + linear_fours(out, x.at, x.at + fours, forms.at);
        if (fours == channels) continue;
        linear_channels<Acc, int8_t, Flash<int32_t>, Ram<int8_t>, Const<1>, Const<16>>(out + fours, forms + 2 * fours, x + fours, 1,
                                                                                       channels - fours, steps, right);
    }
}
#endif

}  // namespace hil
