// Cortex-M4: blocks of four rows in pairs and the rounding of asymmetric integers (rescaled.hpp) behind them in one piece of assembler.
// Both take all registers; what compilers do to get from one to the other is a tenth of the time of a pointwise layer.
#pragma once
#include "firmware/kernels/arm/rescaled.hpp"

#ifdef HIL_LOADS_IN_A_ROW
namespace hil {

// The products of a row's sums; the second form is one less where a sum is below 0
#define HIL_PRODUCTS(a, b) \
    "smmlar " a ", " a ", r1, r3\n" \
    "smmlar " b ", " b ", r1, r3\n"
#define HIL_SIGNED_PRODUCTS(a, b) \
    "add r0, r3, " a ", asr #31\n" \
    "add r3, r3, " b ", asr #31\n" \
    "smmlar " a ", " a ", r1, r0\n" \
    "smmlar " b ", " b ", r1, r3\n"
// Results of a row for two pixels: its sums, moved by `how`, join the bias; a record is bias, multiplier and shift
#define HIL_ROUNDED_ROW(products, a, b, how, bias, multiplier, right) \
    "ldr r0, [r4, #" bias "]\n" \
    "ldr r1, [r4, #" multiplier "]\n" \
    "ldr r2, [r4, #" right "]\n" \
    "ldr r3, [sp, #76]\n" \
    "add " a ", r0, " a ", " how "\n" \
    "add " b ", r0, " b ", " how "\n" \
    "lsl.w r3, r3, r2\n" products(a, b) "asr.w " a ", " a ", r2\n" \
                                        "asr.w " b ", " b ", r2\n" \
                                        "ssat " a ", #8, " a ", asr #1\n" \
                                        "ssat " b ", #8, " b ", asr #1\n"
#define HIL_WRITTEN_ROW(a, b) \
    "strb " a ", [r0]\n" \
    "strb " b ", [r0, r1]\n" \
    "add.w r0, r0, r2\n"
#define HIL_AT_ZERO \
    "movs r6, #0\n" \
    "movs r7, #0\n" \
    "mov r8, r6\n" \
    "mov r9, r6\n" \
    "mov r10, r6\n" \
    "mov r11, r6\n" \
    "mov r12, r6\n" \
    "mov lr, r6\n"
// Where the sums of a window start, and those of two rows
#define HIL_AT_STARTS \
    "ldr r6, [sp, #80]\n" \
    "ldr r7, [sp, #84]\n" \
    "add r8, r6, r6, lsl #8\n" \
    "add r9, r7, r7, lsl #8\n" \
    "mov r10, r6\n" \
    "mov r11, r7\n" \
    "mov r12, r8\n" \
    "mov lr, r9\n"
#define HIL_BLOCK_STARTS(starts) \
    "ldr r0, [sp, #60]\n" \
    "ldr r1, [sp, #56]\n" \
    "ldr r4, [sp, #64]\n" starts "subs r5, r5, r1\n"
#define HIL_BLOCK_ROUNDED(products) \
    "ldr r4, [sp, #40]\n" \
    "sub.w r8, r8, r6\n" \
    "sub.w r9, r9, r7\n" \
    "sub.w r12, r12, r10\n" \
    "sub.w lr, lr, r11\n" HIL_ROUNDED_ROW(products, "r6", "r7", "lsl #1", "0", "4", "8") \
        HIL_ROUNDED_ROW(products, "r8", "r9", "asr #7", "12", "16", "20") \
            HIL_ROUNDED_ROW(products, "r10", "r11", "lsl #1", "24", "28", "32") \
                HIL_ROUNDED_ROW(products, "r12", "lr", "asr #7", "36", "40", "44")
#define HIL_BLOCK_WRITTEN \
    "ldr r0, [sp, #44]\n" \
    "ldr r1, [sp, #48]\n" \
    "ldr r2, [sp, #52]\n" \
    "ldr r3, [sp, #72]\n" \
    "adds r4, #48\n" HIL_WRITTEN_ROW("r6", "r7") HIL_WRITTEN_ROW("r8", "r9") HIL_WRITTEN_ROW("r10", "r11") \
        HIL_WRITTEN_ROW("r12", "lr") "cmp r4, r3\n" \
                                     "str r4, [sp, #40]\n" \
                                     "str r0, [sp, #44]\n"
#define HIL_RESCALED_BLOCKS(products, starts) \
    asm("push {r0, r1, r2, r3}\n" \
        "push {r4, r5, r6, r7, r8, r9, r10, r11, lr}\n" \
        "mov r5, r0\n" \
        "0:\n" HIL_BLOCK_STARTS(starts) HIL_ALL_OF_FOUR_ROWS("[sp, #68]") HIL_BLOCK_ROUNDED(products) HIL_BLOCK_WRITTEN \
        "bne 0b\n" \
        "pop {r4, r5, r6, r7, r8, r9, r10, r11, lr}\n" \
        "add sp, #16\n" \
        "bx lr\n")

// All blocks of two pixels. Operands, of which the assembler pushes the first four on top of the others: weights, records, result,
// distance of the pixels and of rows, bytes of weights that are left out to a multiple of 16 elements and those of code, patches without
// as many bytes, their end and that of the records, and what moved left by a shift is zero point and rounding half; of raised blocks,
// where the sums of either pixel start, too. `Signs`: results may be below the zero point.
template <bool Signs>
__attribute__((naked, noinline, noipa)) void rescaled_blocks(const int8_t *, const int32_t *, int8_t *, Position, Size, Size, Size,
                                                             const uint32_t *, const uint32_t *, const int32_t *, int32_t) {
    HIL_RESCALED_BLOCKS(HIL_SIGNED_PRODUCTS, HIL_AT_ZERO);
}
template <>
__attribute__((naked, noinline, noipa)) inline void rescaled_blocks<false>(const int8_t *, const int32_t *, int8_t *, Position, Size, Size,
                                                                           Size, const uint32_t *, const uint32_t *, const int32_t *,
                                                                           int32_t) {
    HIL_RESCALED_BLOCKS(HIL_PRODUCTS, HIL_AT_ZERO);
}
template <bool Signs>
__attribute__((naked, noinline, noipa)) void raised_blocks(const int8_t *, const int32_t *, int8_t *, Position, Size, Size, Size,
                                                           const uint32_t *, const uint32_t *, const int32_t *, int32_t, int32_t, int32_t) {
    HIL_RESCALED_BLOCKS(HIL_SIGNED_PRODUCTS, HIL_AT_STARTS);
}
template <>
__attribute__((naked, noinline, noipa)) inline void raised_blocks<false>(const int8_t *, const int32_t *, int8_t *, Position, Size, Size,
                                                                         Size, const uint32_t *, const uint32_t *, const int32_t *, int32_t,
                                                                         int32_t, int32_t) {
    HIL_RESCALED_BLOCKS(HIL_PRODUCTS, HIL_AT_STARTS);
}
// Twice the results of a row with one rounding: half a result and the zero point are in r5, a record is left behind
#define HIL_ROW_ROUNDED_ONCE(a, b, how) \
    "ldmia r4!, {r0, r1, r2}\n" \
    "add.w " a ", r0, " a how "\n" \
    "add.w " b ", r0, " b how "\n" \
    "lsl.w r3, r5, r2\n" \
    "smmla " a ", " a ", r1, r3\n" \
    "smmla " b ", " b ", r1, r3\n" \
    "asr.w " a ", " a ", r2\n" \
    "asr.w " b ", " b ", r2\n"
#define HIL_BLOCK_ROUNDED_ONCE \
    "str r5, [sp, #36]\n" \
    "ldr r4, [sp, #40]\n" \
    "ldr r5, [sp, #76]\n" \
    "sub.w r8, r8, r6\n" \
    "sub.w r9, r9, r7\n" \
    "sub.w r12, r12, r10\n" \
    "sub.w lr, lr, r11\n" HIL_ROW_ROUNDED_ONCE("r6", "r7", "") HIL_ROW_ROUNDED_ONCE("r8", "r9", ", asr #8") \
        HIL_ROW_ROUNDED_ONCE("r10", "r11", "") HIL_ROW_ROUNDED_ONCE("r12", "lr", ", asr #8")
#define HIL_HALVES_WRITTEN(a, b, at) \
    "ssat r2, #8, " a ", asr #1\n" \
    "strb r2, [r0, #" at "]\n" \
    "ssat r2, #8, " b ", asr #1\n" \
    "strb r2, [r1, #" at "]\n"
#define HIL_BLOCK_WRITTEN_ONCE \
    "ldr r0, [sp, #44]\n" \
    "ldr r1, [sp, #48]\n" \
    "ldr r3, [sp, #72]\n" \
    "ldr r5, [sp, #36]\n" \
    "str r4, [sp, #40]\n" \
    "add.w r1, r1, r0\n" HIL_HALVES_WRITTEN("r6", "r7", "0") HIL_HALVES_WRITTEN("r8", "r9", "1") HIL_HALVES_WRITTEN("r10", "r11", "2") \
        HIL_HALVES_WRITTEN("r12", "lr", "3") "adds r0, #4\n" \
                                             "str r0, [sp, #44]\n"
#define HIL_HALF_COUNTED(twice) \
    "ssat r2, #8, " twice ", asr #1\n" \
    "cmp r2, " twice ", asr #1\n" \
    "it ne\n" \
    "addne r0, #1\n"
#define HIL_BLOCK_COUNTED \
    HIL_HALF_COUNTED("r6") \
    HIL_HALF_COUNTED("r7") \
    HIL_HALF_COUNTED("r8") \
    HIL_HALF_COUNTED("r9") HIL_HALF_COUNTED("r10") HIL_HALF_COUNTED("r11") HIL_HALF_COUNTED("r12") HIL_HALF_COUNTED("lr")
// The same of matrix products, whose results lie behind each other and are rounded once. The operand after the distance of the rows is 0;
// what is returned: how many of the results were clipped. Whether one of a block was is what the status says (bit 27).
__attribute__((naked, noinline, noipa)) inline uint32_t blocks_rounded_once(const int8_t *, const int32_t *, int8_t *, Position, uint32_t,
                                                                            Size, Size, const uint32_t *, const uint32_t *, const int32_t *,
                                                                            int32_t) {
    asm("push {r0, r1, r2, r3}\n"
        "push {r4, r5, r6, r7, r8, r9, r10, r11, lr}\n"
        "mov r5, r0\n"
        "4:\n"
        "movs r0, #0\n"
        "msr apsr_nzcvq, r0\n"
        "0:\n" HIL_BLOCK_STARTS(HIL_AT_ZERO) HIL_ALL_OF_FOUR_ROWS("[sp, #68]") HIL_BLOCK_ROUNDED_ONCE HIL_BLOCK_WRITTEN_ONCE
        "mrs r2, apsr\n"
        "lsls r2, r2, #4\n"
        "bmi 3f\n"
        "cmp r4, r3\n"
        "bne 0b\n"
        "2:\n"
        "ldr r0, [sp, #52]\n"
        "pop {r4, r5, r6, r7, r8, r9, r10, r11, lr}\n"
        "add sp, #16\n"
        "bx lr\n"
        "3:\n"
        "ldr r0, [sp, #52]\n" HIL_BLOCK_COUNTED "str r0, [sp, #52]\n"
        "cmp r4, r3\n"
        "bne 4b\n"
        "b 2b\n");
}
#undef HIL_BLOCK_COUNTED
#undef HIL_HALF_COUNTED
#undef HIL_BLOCK_WRITTEN_ONCE
#undef HIL_HALVES_WRITTEN
#undef HIL_BLOCK_ROUNDED_ONCE
#undef HIL_ROW_ROUNDED_ONCE
#undef HIL_RESCALED_BLOCKS
#undef HIL_AT_STARTS
#undef HIL_AT_ZERO
#undef HIL_BLOCK_WRITTEN
#undef HIL_BLOCK_ROUNDED
#undef HIL_BLOCK_STARTS
#undef HIL_ALL_OF_FOUR_ROWS
#undef HIL_TWO_OF_FOUR_ROWS
#undef HIL_WRITTEN_ROW
#undef HIL_ROUNDED_ROW
#undef HIL_SIGNED_PRODUCTS
#undef HIL_PRODUCTS

template <class Acc, class X, int Zero>
inline void outputs_of_pixels(Within<int8_t, -128, 127> *out, Position apart, Size plane, Blocks<int8_t, 4, in_pairs> weights,
                              const uint32_t *patches, Size inner, NoChannelBias, NoChannelBias, Size outputs,
                              Records<false, true, Zero> records, BiasFactor) {
    using Out = Within<int8_t, -128, 127>;
    const Size words = rounded_up(inner, 4), left_out = -words & 12;
    const int32_t *const last = records.at + words_of_a_record * outputs;
    rescaled_blocks<!IsFrom<Out, Zero>::value>(weights.at, records.at, &out->element, apart, plane, 4 * left_out, 24 * left_out,
                                               patches - left_out, patches + words, last, 2 * Zero + 1);
}
template <class Acc, class X, int Zero>
inline void outputs_of_pixels(Within<int8_t, -128, 127> *out, Position apart, Size plane, Blocks<int8_t, 4, in_pairs> weights,
                              const uint32_t *patches, Size inner, CommonStart first, CommonStart second, Size outputs,
                              Records<false, true, Zero> records, BiasFactor) {
    using Out = Within<int8_t, -128, 127>;
    const Size words = rounded_up(inner, 4), left_out = -words & 12;
    const int32_t *const last = records.at + words_of_a_record * outputs;
    raised_blocks<!IsFrom<Out, Zero>::value>(weights.at, records.at, &out->element, apart, plane, 4 * left_out, 24 * left_out,
                                             patches - left_out, patches + words, last, 2 * Zero + 1, first.of, second.of);
}
// How many results of two rows were clipped
template <int Zero>
inline uint32_t rows_rounded_once(int8_t *out, Position apart, const int8_t *weights, const uint32_t *patches, Size inner, Size outputs,
                                  Records<true, false, Zero> records) {
    const Size words = rounded_up(inner, 4), left_out = -words & 12;
    const int32_t *const last = records.at + words_of_a_record * outputs;
    return blocks_rounded_once(weights, records.at, out, apart, 0, 4 * left_out, 24 * left_out, patches - left_out, patches + words, last,
                               2 * Zero + 1);
}
template <class Acc, class X, int Zero>
inline void outputs_of_pixels(int8_t *out, Position apart, Size, Blocks<int8_t, 4, in_pairs> weights, const uint32_t *patches, Size inner,
                              NoChannelBias, NoChannelBias, Size outputs, Records<true, false, Zero> records, BiasFactor) {
    saturations = saturations + rows_rounded_once(out, apart, weights.at, patches, inner, outputs, records);
}
template <class Acc, class X, int Zero>
inline void outputs_of_pixels(Within<int8_t, -128, 127> *out, Position apart, Size, Blocks<int8_t, 4, in_pairs> weights,
                              const uint32_t *patches, Size inner, NoChannelBias, NoChannelBias, Size outputs,
                              Records<true, false, Zero> records, BiasFactor) {
    rows_rounded_once(&out->element, apart, weights.at, patches, inner, outputs, records);
}

}  // namespace hil
#endif
