// Rows of codes times a factor: exact integers that decide what floats define (decided.hpp), rounded four at a time until one is open.
#pragma once
#include "firmware/kernels/arm/decided.hpp"

namespace hil {

// Bits behind the point of results, and of what a code is of them. Halfwords hold both parts of a result where there are instructions for
// them; elsewhere a product of 32 bits is all.
#if defined(__ARM_FEATURE_DSP) || defined(HIL_DSP_PORTABLE)
constexpr int code_bits = 16, code_factor_bits = 24;
#else
constexpr int code_bits = 20, code_factor_bits = 20;
#endif
constexpr float code_one = static_cast<float>(1 << code_bits), code_factor_one = static_cast<float>(1 << code_factor_bits);

// How a row's codes become results. Those whose fraction, at the top of a word, is at most `open` are decided by floats.
struct CodeRounder {
    int32_t factor, start;
    uint32_t open;
    int32_t of(int32_t code) const {
        const int64_t product = static_cast<int64_t>(code) * factor;
        return static_cast<int32_t>(static_cast<uint32_t>(start) + static_cast<uint32_t>(product >> (code_factor_bits - code_bits)));
    }
    bool is_open(int32_t t) const { return (static_cast<uint32_t>(t) << (32 - code_bits)) <= open; }
};
constexpr CodeRounder all_open = {0, 0, 0xFFFFFFFFu};
// `start` without the half, the zero point and the bound, which join it here
inline CodeRounder code_rounder(int32_t factor, int32_t start, int32_t bound, int zero) {
    const Decided round = decided(code_bits, bound, zero);
    return {factor, round.start + start, round.open};
}

namespace portable {

// Fours of codes until one of them is open or clipped
inline const int8_t *round_codes(int8_t *out, const int8_t *x, const int8_t *end, const CodeRounder &by) {
    for (; x != end; x += 4, out += 4) {
        for (Size n = 0; n < 4; ++n) {
            const int32_t t = by.of(x[n]);
            out[n] = static_cast<int8_t>(t >> code_bits);
            if (by.is_open(t) || t >> code_bits != out[n]) return x;
        }
    }
    return end;
}

}  // namespace portable

#ifdef __ARM_FEATURE_DSP
// `start` with 128 results more, which makes codes without a sign; `beyond`: one more than what is open, in both halves
struct FourCodes {
    int32_t factor, start;
    uint32_t beyond;
};
// 20 instructions for four: codes stand in the upper bytes of halfwords, 0 and 2, then 1 and 3. Fractions and results of two are in one
// word each; the smaller fractions of two and two tell whether one is open.
#define HIL_FOUR_CODES \
    "ldr r7, [r1], #4\n" \
    "and r6, r10, r7, lsl #8\n" \
    "and r7, r7, r10\n" \
    "smlawb r4, r8, r6, r9\n" \
    "smlawt r6, r8, r6, r9\n" \
    "smlawb r5, r8, r7, r9\n" \
    "smlawt r7, r8, r7, r9\n" \
    "pkhbt r2, r4, r6, lsl #16\n" \
    "pkhtb r4, r6, r4, asr #16\n" \
    "pkhbt r3, r5, r7, lsl #16\n" \
    "pkhtb r5, r7, r5, asr #16\n" \
    "usub16 r12, r2, r3\n" \
    "sel r2, r3, r2\n" \
    "usat16 r4, #8, r4\n" \
    "uqsub16 r2, lr, r2\n" \
    "usat16 r5, #8, r5\n" \
    "cbnz r2, 3f\n" \
    "orr r4, r4, r5, lsl #8\n" \
    "eor r4, r4, #0x80808080\n" \
    "str r4, [r0], #4\n"
// Fours of codes, at least one, until one of them is open: where that is, and in the upper word the status, whose bit 27 says that one was
// clipped
__attribute__((naked, noinline, noipa)) inline uint64_t round_fours(int8_t *, const int8_t *, const int8_t *, const FourCodes &) {
    asm("push {r4, r5, r6, r7, r8, r9, r10, r11, lr}\n"
        "ldmia r3, {r8, r9, lr}\n"
        "mov r11, r2\n"
        "mov r10, #0xFF00FF00\n"
        "movs r3, #0\n"
        "msr apsr_nzcvq, r3\n"
        "subs r2, r2, r1\n"
        "tst r2, #4\n"  // an odd number of fours
        "bne 2f\n"
        ".balign 8\n"
        "1:\n" HIL_FOUR_CODES "2:\n" HIL_FOUR_CODES "cmp r1, r11\n"
        "bne 1b\n"
        "mov r0, r1\n"
        "b 4f\n"
        "3:\n"
        "subs r0, r1, #4\n"
        "4:\n"
        "mrs r1, apsr\n"
        "pop {r4, r5, r6, r7, r8, r9, r10, r11, pc}\n");
}
#undef HIL_FOUR_CODES
__attribute__((noinline, cold)) inline void count_clipped_codes(const int8_t *out, const int8_t *x, const int8_t *end,
                                                                const CodeRounder &by) {
    for (; x != end; x += 4, out += 4) {
        for (Size n = 0; n < 4 && has_an_end(word_at(out)); ++n) {
            const int32_t code = by.of(x[n]) >> code_bits;
            if (code != static_cast<int8_t>(code)) count_clipped();
        }
    }
}
inline const int8_t *round_codes(int8_t *out, const int8_t *x, const int8_t *end, const CodeRounder &by) {
    if (by.open == all_open.open) return x;
    const FourCodes fours = {by.factor, by.start + (128 << code_bits), ((by.open >> (32 - code_bits)) + 1) * 0x10001u};
    const uint64_t stopped = round_fours(out, x, end, fours);
    const int8_t *const at = reinterpret_cast<const int8_t *>(static_cast<uint32_t>(stopped));
    if (__builtin_expect(stopped >> 59 & 1, 0)) count_clipped_codes(out, x, at, by);
    return at;
}
#else
inline const int8_t *round_codes(int8_t *out, const int8_t *x, const int8_t *end, const CodeRounder &by) {
    return portable::round_codes(out, x, end, by);
}
#endif

// A row of codes: fours of which none is open at once, elements of others and those that are left by `one`
template <class One>
inline void round_bytes(int8_t *out, const int8_t *x, Size along, const CodeRounder &by, One one) {
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
