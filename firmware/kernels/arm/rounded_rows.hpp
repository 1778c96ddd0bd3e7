// Rows of exact integers that decide what floats define (decided.hpp), rounded four at a time until one of them is open or clipped.
#pragma once
#include "firmware/kernels/arm/decided.hpp"

namespace hil {

// How integers become approximations t and these codes: t = start + n * m, of sums the upper half of that after a shift to the left. The
// assembler reads it by offsets; `rest`: 32 less `right`, `apart`: from row to row of results.
struct Rounder {
    int32_t m, start;
    int left, right, rest;
    uint32_t open;
    Size apart;
    int32_t of_sum(int32_t sum) const { return add_upper(start, static_cast<int32_t>(static_cast<uint32_t>(sum) << left), m); }
    int32_t of_code(int32_t code) const {
        return static_cast<int32_t>(static_cast<uint32_t>(start) + static_cast<uint32_t>(code) * static_cast<uint32_t>(m));
    }
    bool is_open(int32_t t) const { return (static_cast<uint32_t>(t) << rest) <= open; }
};
constexpr Size sums_of_a_row = 8;

namespace portable {

inline bool round_one(int8_t *out, int32_t t, const Rounder &by) {
    *out = static_cast<int8_t>(t >> by.right);
    return !by.is_open(t) && t >> by.right == *out;
}
// Rows of sums until one of a row is open or clipped: its first sum, or the end
inline const int32_t *round_sums(int8_t *out, const int32_t *sums, const int32_t *end, const Rounder &by) {
    for (; sums != end; sums += sums_of_a_row, out += by.apart) {
        for (Size c = 0; c < sums_of_a_row; ++c) {
            if (!round_one(out + c, by.of_sum(sums[c]), by)) return sums;
        }
    }
    return end;
}
// Fours of codes until one is
inline const int8_t *round_codes(int8_t *out, const int8_t *x, const int8_t *end, const Rounder &by) {
    for (; x != end; x += 4, out += 4) {
        for (Size n = 0; n < 4; ++n) {
            if (!round_one(out + n, by.of_code(x[n]), by)) return x;
        }
    }
    return end;
}

}  // namespace portable

#ifdef __ARM_FEATURE_DSP
#define HIL_NOT_OPEN(t) \
    "lsl r2, " t ", r12\n" \
    "cmp r2, lr\n" \
    "bls 2f\n"
#define HIL_FOUR_SCALED \
    "lsl r4, r4, r10\n" \
    "lsl r5, r5, r10\n" \
    "smmla r4, r4, r8, r9\n" \
    "lsl r6, r6, r10\n" \
    "smmla r5, r5, r8, r9\n" \
    "lsl r7, r7, r10\n" \
    "smmla r6, r6, r8, r9\n" \
    "smmla r7, r7, r8, r9\n"
#define HIL_FOUR_ROUNDED(first, second, third, last) \
    HIL_NOT_OPEN("r4") \
    HIL_NOT_OPEN("r5") \
    HIL_NOT_OPEN("r6") \
    HIL_NOT_OPEN("r7") \
    "asr r4, r4, r11\n" \
    "strb r4, [r0, #" first "]\n" \
    "asr r5, r5, r11\n" \
    "strb r5, [r0, #" second "]\n" \
    "asr r6, r6, r11\n" \
    "strb r6, [r0, #" third "]\n" \
    "asr r7, r7, r11\n" \
    "strb r7, [r0, #" last "]\n" \
    "eor r4, r4, r4, asr #31\n" \
    "eor r5, r5, r5, asr #31\n" \
    "eor r6, r6, r6, asr #31\n" \
    "orr r4, r4, r5\n" \
    "eor r7, r7, r7, asr #31\n" \
    "orr r6, r6, r7\n" \
    "orr r4, r4, r6\n" \
    "cmp r4, #127\n" \
    "bgt 2f\n"
__attribute__((naked, noinline, noipa)) inline const int32_t *round_sums(int8_t *, const int32_t *, const int32_t *, const Rounder &) {
    asm("push {r4, r5, r6, r7, r8, r9, r10, r11, lr}\n"
        "ldr r4, [r3, #24]\n"
        "push {r2, r4}\n"
        "ldmia r3, {r8, r9, r10, r11, r12, lr}\n"
        ".balign 8\n"
        "1:\n"
        "ldmia r1, {r4, r5, r6, r7}\n" HIL_FOUR_SCALED HIL_FOUR_ROUNDED(
            "0", "1", "2", "3") "add r3, r1, #16\n"
                                "ldmia r3, {r4, r5, r6, r7}\n" HIL_FOUR_SCALED HIL_FOUR_ROUNDED(
                                    "4", "5", "6", "7") "ldr r2, [sp]\n"
                                                        "ldr r3, [sp, #4]\n"
                                                        "adds r1, #32\n"
                                                        "add r0, r3\n"
                                                        "cmp r1, r2\n"
                                                        "bne 1b\n"
                                                        "2:\n"
                                                        "mov r0, r1\n"
                                                        "add sp, #8\n"
                                                        "pop {r4, r5, r6, r7, r8, r9, r10, r11, pc}\n");
}
__attribute__((naked, noinline, noipa)) inline const int8_t *round_codes(int8_t *, const int8_t *, const int8_t *, const Rounder &) {
    asm("push {r4, r5, r6, r7, r8, r9, r10, r11, lr}\n"
        "ldmia r3, {r8, r9, r10, r11, r12, lr}\n"
        "mov r10, r2\n"
        ".balign 8\n"
        "1:\n"
        "ldr r7, [r1]\n"
        "sxtb r4, r7\n"
        "sxtb r5, r7, ror #8\n"
        "mla r4, r4, r8, r9\n"
        "sxtb r6, r7, ror #16\n"
        "mla r5, r5, r8, r9\n"
        "asr r7, r7, #24\n"
        "mla r6, r6, r8, r9\n"
        "mla r7, r7, r8, r9\n" HIL_FOUR_ROUNDED("0", "1", "2", "3") "adds r1, #4\n"
                                                                    "adds r0, #4\n"
                                                                    "cmp r1, r10\n"
                                                                    "bne 1b\n"
                                                                    "2:\n"
                                                                    "mov r0, r1\n"
                                                                    "pop {r4, r5, r6, r7, r8, r9, r10, r11, pc}\n");
}
#undef HIL_FOUR_ROUNDED
#undef HIL_FOUR_SCALED
#undef HIL_NOT_OPEN
#else
inline const int32_t *round_sums(int8_t *out, const int32_t *sums, const int32_t *end, const Rounder &by) {
    return portable::round_sums(out, sums, end, by);
}
inline const int8_t *round_codes(int8_t *out, const int8_t *x, const int8_t *end, const Rounder &by) {
    return portable::round_codes(out, x, end, by);
}
#endif

// A row of codes: fours that are neither open nor clipped at once, elements of others and those that are left by `one`
template <class One>
inline void round_bytes(int8_t *out, const int8_t *x, Size along, const Rounder &by, One one) {
    const int8_t *const fours = x + (along & ~Size(3));
    Size k = 0;
    while (x + k != fours) {
        k = static_cast<Size>(round_codes(out + k, x + k, fours, by) - x);
        if (x + k == fours) break;
        for (const Size end = k + 4; k < end; ++k) one(k);
    }
    for (; k < along; ++k) one(k);
}

}  // namespace hil
