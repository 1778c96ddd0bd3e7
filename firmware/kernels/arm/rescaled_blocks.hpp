// Cortex-M4: blocks of four rows in pairs and the rounding of asymmetric integers (rescaled.hpp) behind them in one piece of assembler.
// They take all registers, and what compilers do to get from one to the other is a tenth of the time of a pointwise layer.
#pragma once
#include "firmware/kernels/arm/rescaled.hpp"

#ifdef HIL_LOADS_IN_A_ROW
namespace hil {

// Results of a row for two pixels, 15 cycles: its sums, moved by `how`, join the bias at `record`; multiplier and shift are behind it
#define HIL_ROUNDED_ROW(a, b, how, record, multiplier, right) \
    "ldr %[p], [%[x], #" #record "]\n" \
    "ldr %[q], [%[x], #" #multiplier "]\n" \
    "ldr %[v], [%[x], #" #right "]\n" \
    "ldr %[u], %[start]\n" \
    "add %[" a "], %[p], %[" a "], " how "\n" \
    "add %[" b "], %[p], %[" b "], " how "\n" \
    "lsls %[u], %[u], %[v]\n" \
    "smmlar %[" a "], %[" a "], %[q], %[u]\n" \
    "smmlar %[" b "], %[" b "], %[q], %[u]\n" \
    "asr %[" a "], %[" a "], %[v]\n" \
    "asr %[" b "], %[" b "], %[v]\n" \
    "ssat %[" a "], #8, %[" a "], asr #1\n" \
    "ssat %[" b "], #8, %[" b "], asr #1\n"
// The same of a row and of the next one, whose sums are those of both
#define HIL_ROUNDED_PAIR(a, b, c, d, first, second) \
    "sub %[" c "], %[" c "], %[" a "]\n" \
    "sub %[" d "], %[" d "], %[" b "]\n" \
    HIL_ROUNDED_ROW(a, b, "lsl #1", first) HIL_ROUNDED_ROW(c, d, "asr #7", second)
#define HIL_WRITTEN_ROW(a, b) \
    "strb %[" a "], [%[p]]\n" \
    "strb %[" b "], [%[p], %[q]]\n" \
    "adds %[p], %[p], %[v]\n"
#define HIL_NUMBERS(...) __VA_ARGS__

// All outputs of two pixels, whole blocks; `start` moved left by the shift of a record is zero point and rounding half
__attribute__((noinline, noclone)) inline void rescaled_blocks(int8_t *out, Position apart, Size plane, const int8_t *w, const uint32_t *x,
                                                               Size inner, const int32_t *records, Size outputs, int32_t start) {
    const Size words = rounded_up(inner, 4), left_out = words_left_out(words), code = bytes_of_a_word * left_out, back = 4 * left_out;
    const uint32_t *const from = x - left_out, *const end = x + words;
    const int32_t *const last = records + words_of_a_record * outputs;
    uint32_t a, b, c, d, e, f, g, h, p, q, v, u;
    asm("0:\n"
        "ldr %[p], %[code]\n"
        "ldr %[q], %[back]\n"
        "ldr %[x], %[from]\n"
        "mov %[a], #0\n"
        "mov %[b], #0\n"
        "mov %[c], #0\n"
        "mov %[d], #0\n"
        "mov %[e], #0\n"
        "mov %[f], #0\n"
        "mov %[g], #0\n"
        "mov %[h], #0\n"
        "subs %[w], %[w], %[q]\n"
        HIL_ALL_OF_FOUR_ROWS
        "ldr %[x], %[records]\n"
        HIL_ROUNDED_PAIR("a", "b", "c", "d", HIL_NUMBERS(0, 4, 8), HIL_NUMBERS(12, 16, 20))
        HIL_ROUNDED_PAIR("e", "f", "g", "h", HIL_NUMBERS(24, 28, 32), HIL_NUMBERS(36, 40, 44))
        "ldr %[p], %[out]\n"
        "ldr %[q], %[apart]\n"
        "ldr %[v], %[plane]\n"
        "ldr %[u], %[last]\n"
        "adds %[x], #48\n"
        HIL_WRITTEN_ROW("a", "b") HIL_WRITTEN_ROW("c", "d") HIL_WRITTEN_ROW("e", "f") HIL_WRITTEN_ROW("g", "h")
        "cmp %[x], %[u]\n"
        "str %[x], %[records]\n"
        "str %[p], %[out]\n"
        "bne 0b\n"
        : [a] "=&r"(a), [b] "=&r"(b), [c] "=&r"(c), [d] "=&r"(d), [e] "=&r"(e), [f] "=&r"(f), [g] "=&r"(g), [h] "=&r"(h), [p] "=&l"(p),
          [q] "=&l"(q), [v] "=&l"(v), [u] "=&l"(u), [x] "=&l"(x), [w] "+l"(w), [records] "+m"(records), [out] "+m"(out)
        : [code] "m"(code), [back] "m"(back), [from] "m"(from), [end] "m"(end), [last] "m"(last), [apart] "m"(apart), [plane] "m"(plane),
          [start] "m"(start)
        : "cc", "memory");
}
#undef HIL_NUMBERS
#undef HIL_WRITTEN_ROW
#undef HIL_ROUNDED_PAIR
#undef HIL_ROUNDED_ROW

template <class Acc, class X, int Zero>
inline void outputs_of_pixels(Within<int8_t, -128, 127> *out, Position apart, Size plane, Blocks<int8_t, 4, in_pairs> weights,
                              const uint32_t *patches, Size inner, NoChannelBias, NoChannelBias, Size outputs,
                              Records<false, true, Zero> records, BiasFactor) {
    rescaled_blocks(&out->element, apart, plane, weights.at, patches, inner, records.at, outputs, 2 * Zero + 1);
}

}  // namespace hil
#endif
