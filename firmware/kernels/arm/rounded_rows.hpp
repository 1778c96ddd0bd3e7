// Rows of exact sums that decide what floats define (decided.hpp), rounded four at a time until one of them is open.
#pragma once
#include "firmware/kernels/arm/decided.hpp"

namespace hil {

// How sums become approximations t and these codes: t = start and the upper half of sum * m after a shift to the left. The assembler reads
// it by offsets; `rest`: 32 less `right`, `apart`: from row to row of results.
struct Rounder {
    int32_t m, start;
    int left, right, rest;
    uint32_t open;
    Size apart;
    int32_t of_sum(int32_t sum) const { return add_upper(start, static_cast<int32_t>(static_cast<uint32_t>(sum) << left), m); }
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

}  // namespace portable

#ifdef __ARM_FEATURE_DSP
#define HIL_NOT_OPEN(t) \
    "lsl r2, " t ", r12\n" \
    "cmp r2, lr\n" \
    "bls 2f\n"
#define HIL_ROUNDED(t, at) \
    "asr " t ", " t ", r11\n" \
    "ssat " t ", #8, " t "\n" \
    "strb " t ", [r0, #" at "]\n"
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
    HIL_ROUNDED("r4", first) \
    HIL_ROUNDED("r5", second) \
    HIL_ROUNDED("r6", third) \
    HIL_ROUNDED("r7", last)
// Rows of sums until one of a row is open: its first sum, or the end, and in the upper word the status, whose bit 27 says that one was
// clipped
__attribute__((naked, noinline, noipa)) inline uint64_t round_rows(int8_t *, const int32_t *, const int32_t *, const Rounder &) {
    asm("push {r4, r5, r6, r7, r8, r9, r10, r11, lr}\n"
        "ldr r4, [r3, #24]\n"
        "movs r5, #0\n"
        "msr apsr_nzcvq, r5\n"
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
                                                        "mrs r1, apsr\n"
                                                        "add sp, #8\n"
                                                        "pop {r4, r5, r6, r7, r8, r9, r10, r11, pc}\n");
}
__attribute__((noinline, cold)) inline void count_clipped_sums(const int8_t *out, const int32_t *sums, const int32_t *end,
                                                               const Rounder &by) {
    for (; sums != end; sums += sums_of_a_row, out += by.apart) {
        for (Size c = 0; c < sums_of_a_row && (has_an_end(word_at(out)) || has_an_end(word_at(out + 4))); ++c) {
            const int32_t code = by.of_sum(sums[c]) >> by.right;
            if (code != static_cast<int8_t>(code)) count_clipped();
        }
    }
}
inline const int32_t *round_sums(int8_t *out, const int32_t *sums, const int32_t *end, const Rounder &by) {
    const uint64_t stopped = round_rows(out, sums, end, by);
    const int32_t *const at = reinterpret_cast<const int32_t *>(static_cast<uint32_t>(stopped));
    if (__builtin_expect(stopped >> 59 & 1, 0)) count_clipped_sums(out, sums, at, by);
    return at;
}
#undef HIL_FOUR_ROUNDED
#undef HIL_FOUR_SCALED
#undef HIL_ROUNDED
#undef HIL_NOT_OPEN
#else
inline const int32_t *round_sums(int8_t *out, const int32_t *sums, const int32_t *end, const Rounder &by) {
    return portable::round_sums(out, sums, end, by);
}
#endif

}  // namespace hil
