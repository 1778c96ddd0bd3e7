// Cores without a product of 64 bits: results of asymmetric integers by one product of 32 bits wherever that decides them. The
// multiplier is cut to so many bits that no product exceeds 31 (passes/lanes.py); the exact result lies between two numbers
// then, and where both round to the same code that is it. The others, a few in a hundred, are computed as elsewhere.
#pragma once
#include "firmware/kernels/common/rounding.hpp"

namespace hil {

// The operand: records whose last word is the shift and, 256 times that, the bits behind the point of a product; 0: it decides none
struct NearOperand { const int32_t *at; };
inline NearOperand near_records(const int32_t *p) { return {p}; }

template <bool Once, int Zero>
struct NearRecords {
    const int32_t *at;
};
template <bool Once, int Zero>
inline NearRecords<Once, Zero> from_channel(const NearRecords<Once, Zero> &r, Size n) {
    return {r.at + 3 * n};
}
template <bool Once, int Zero>
inline NearRecords<Once, Zero> of_channel(const NearRecords<Once, Zero> &r, Size n) {
    return from_channel(r, n);
}

// `start` with a sum times `factor` is the lower of the two numbers, `apart` and the size of the sum what the other is above it
template <bool Once, int Zero>
struct Near {
    int32_t bias, multiplier;
    int right, bits;
    uint32_t factor, start, apart;
    uint32_t reach;  // of a fully connected layer: sums up to here leave the product 31 bits
};
constexpr uint32_t never = 0x80000000u;  // `apart` of numbers that never round to the same code
template <bool Once, int Zero>
inline Near<Once, Zero> prepared(const NearRecords<Once, Zero> &r) {
    const int right = r.at[2] & 255, bits = r.at[2] >> 8, cut = 33 + right - bits;
    if (bits == 0) return {r.at[0], r.at[1], right, 31, 0, 0, never, 0};
    const uint32_t half = static_cast<uint32_t>(2 * Zero + 1) << (bits - 1);
    const uint32_t first = Once ? 0 : (uint32_t(1) << 30 >> cut) + 1;  // what the first of two roundings moves a product
    return {r.at[0], r.at[1], right, bits, static_cast<uint32_t>(r.at[1]) >> cut, half - first, 2 * first + 1, uint32_t(1) << (cut - 1)};
}

// floor((sum * multiplier + zero point and halves) / 2^(33 + right)): twice_rescaled in rescaled.hpp, without its last bit
template <bool Once, int Zero>
__attribute__((noinline, noclone)) int32_t exactly(int32_t sum, int32_t multiplier, int right) {
    const int64_t halves = Once ? 0 : (int64_t(1) << 30) - (sum < 0 ? int64_t(1) << 31 : 0);
    const int32_t upper = static_cast<int32_t>((int64_t(sum) * multiplier + halves) >> 32);
    return (upper + (2 * Zero + 1) * (int32_t(1) << right)) >> (right + 1);
}

template <class Out, bool Once, int Zero, bool IsKnown>
struct Together<Out, Near<Once, Zero>, IsKnown> {
    static constexpr bool takes_twice = false;
    static int32_t before(const Near<Once, Zero> &by) { return by.bias; }
    __attribute__((always_inline)) static inline Out of(int32_t sum, const Near<Once, Zero> &by, int32_t &) {
        const int32_t sign = sum >> 31;
        const uint32_t low = static_cast<uint32_t>(sum) * by.factor + static_cast<uint32_t>(sum & sign) + by.start;
        const uint32_t high = low + static_cast<uint32_t>(sum ^ sign) + by.apart;
        const int32_t result = static_cast<int32_t>(low) >> by.bits;
        const bool is_within = !Once || static_cast<uint32_t>(sum) + by.reach < 2 * by.reach;
        if (__builtin_expect(is_within && result == static_cast<int32_t>(high) >> by.bits, 1)) return saturate<Out>(result);
        return saturate<Out>(exactly<Once, Zero>(sum, by.multiplier, by.right));
    }
    static bool any(int32_t) { return false; }
    static Out again(int32_t, const Near<Once, Zero> &) { return {}; }
};

// Codes of `count` sums, which have what joins them
template <class Out, class By>
struct Codes {
    static void of(Out *out, const int32_t *sums, Size count, const By &given) {
        using Rounded = Together<Out, By>;
        const By by = given;  // which results, being bytes, could change
        for (const int32_t *const end = sums + count; sums != end; ++sums, ++out) {
            int32_t seen = 0;
            *out = Rounded::of(*sums, by, seen);
            if (__builtin_expect(Rounded::any(seen), 0)) *out = Rounded::again(*sums, by);
        }
    }
};

// Codes of sums of outputs `n` and on, which `more` joins with their biases
template <class Acc, class Out, class Shift>
struct RowCodes {
    template <class B, class BiasShift>
    static void of(Out *out, const int32_t *sums, Size n, Size count, const B &bias, const Shift &shift, BiasShift bias_shift,
                   int32_t more) {
        using Rounded = Together<Out, PreparedOf<Shift>>;
        for (const Size end = n + count; n < end; ++n, ++sums) {
            const auto by = prepared(of_channel(shift, n));
            const int32_t sum = *sums + start_of<Acc>(bias, n, bias_shift) + Rounded::before(by) + more;
            int32_t seen = 0;
            out[n] = Rounded::of(sum, by, seen);
            if (__builtin_expect(Rounded::any(seen), 0)) out[n] = Rounded::again(sum, by);
        }
    }
};

#if __ARM_ARCH_ISA_THUMB == 1
struct NearNumbers {
    uint32_t factor, start, apart;
    int bits;
};
#define HIL_NEAR_CODES(signs) \
    asm(".syntax unified\n" \
        "push {r4, r5, r6, r7, lr}\n" \
        "mov r4, r8\n" \
        "mov r5, r9\n" \
        "mov r6, r10\n" \
        "mov r7, r11\n" \
        "push {r4, r5, r6, r7}\n" \
        "mov r11, r2\n" \
        "ldmia r3!, {r2, r4, r6}\n" \
        "mov r8, r2\n" \
        "mov r9, r4\n" \
        "mov r10, r6\n" \
        "ldr r5, [r3]\n" \
        "1:\n" \
        "ldmia r1!, {r2}\n" \
        "mov r4, r8\n" \
        "muls r4, r2, r4\n" \
        "add r4, r9\n" signs "add r2, r10\n" \
        "adds r2, r2, r4\n" \
        "asrs r4, r5\n" \
        "asrs r2, r5\n" \
        "cmp r2, r4\n" \
        "bne 3f\n" \
        "sxtb r2, r4\n" \
        "cmp r2, r4\n" \
        "bne 4f\n" \
        "2:\n" \
        "strb r4, [r0]\n" \
        "adds r0, #1\n" \
        "cmp r1, r11\n" \
        "bne 1b\n" \
        "adds r1, #4\n" \
        "3:\n" \
        "subs r0, r1, #4\n" \
        "pop {r4, r5, r6, r7}\n" \
        "mov r8, r4\n" \
        "mov r9, r5\n" \
        "mov r10, r6\n" \
        "mov r11, r7\n" \
        "pop {r4, r5, r6, r7, pc}\n" \
        "4:\n" \
        "asrs r4, r4, #31\n" \
        "movs r2, #127\n" \
        "eors r4, r2\n" \
        "b 2b\n")
// 27 cycles for a code between -128 and 127, 22 if `Signs` do not count: results below the zero point are clamped to it, and so is what
// is computed of sums below 0. Ends at the first sum that is not decided, and says where that is, or at the end.
template <bool Signs>
__attribute__((naked, noinline, noipa)) const int32_t *near_codes(int8_t *, const int32_t *, const int32_t *, const NearNumbers &) {
    HIL_NEAR_CODES("asrs r3, r2, #31\n"
                   "movs r6, r3\n"
                   "ands r6, r2\n"
                   "adds r4, r4, r6\n"
                   "eors r2, r3\n");
}
template <>
__attribute__((naked, noinline, noipa)) inline const int32_t *near_codes<false>(int8_t *, const int32_t *, const int32_t *,
                                                                                const NearNumbers &) {
    HIL_NEAR_CODES("");
}
#undef HIL_NEAR_CODES
// The same of sums that have a record each, which `more` joins with their biases; `half`: twice the zero point and 1. One rounding.
#define HIL_CODES_OF_RECORDS(signs) \
    asm(".syntax unified\n" \
        "push {r4, r5, r6, r7, lr}\n" \
        "mov r4, r8\n" \
        "mov r5, r9\n" \
        "mov r6, r10\n" \
        "push {r4, r5, r6}\n" \
        "ldr r4, [sp, #32]\n" \
        "ldr r5, [sp, #36]\n" \
        "mov r8, r4\n" \
        "mov r9, r5\n" \
        "mov r10, r2\n" \
        "movs r2, r3\n" \
        "1:\n" \
        "ldmia r1!, {r3}\n" \
        "ldmia r2!, {r4, r5, r6}\n" \
        "adds r3, r3, r4\n" \
        "add r3, r8\n" \
        "uxtb r4, r6\n" \
        "asrs r6, r6, #8\n" \
        "beq 3f\n" \
        "adds r4, #33\n" \
        "subs r4, r4, r6\n" \
        "lsrs r5, r4\n" \
        "subs r4, #1\n" \
        "movs r7, r3\n" \
        "asrs r7, r4\n" \
        "adds r7, #1\n" \
        "lsrs r7, r7, #1\n"  /* 0 where the sum is within reach */ \
        "bne 3f\n" \
        "muls r5, r3, r5\n" \
        "mov r4, r9\n" \
        "subs r7, r6, #1\n" \
        "lsls r4, r7\n" \
        "adds r5, r5, r4\n" signs "adds r3, #1\n" \
        "adds r3, r3, r5\n" \
        "asrs r5, r6\n" \
        "asrs r3, r6\n" \
        "cmp r3, r5\n" \
        "bne 3f\n" \
        "sxtb r3, r5\n" \
        "cmp r3, r5\n" \
        "bne 4f\n" \
        "2:\n" \
        "strb r5, [r0]\n" \
        "adds r0, #1\n" \
        "cmp r1, r10\n" \
        "bne 1b\n" \
        "adds r1, #4\n" \
        "3:\n" \
        "subs r0, r1, #4\n" \
        "pop {r4, r5, r6}\n" \
        "mov r8, r4\n" \
        "mov r9, r5\n" \
        "mov r10, r6\n" \
        "pop {r4, r5, r6, r7, pc}\n" \
        "4:\n" \
        "asrs r5, r5, #31\n" \
        "movs r3, #127\n" \
        "eors r5, r3\n" \
        "b 2b\n")
template <bool Signs>
__attribute__((naked, noinline, noipa))
const int32_t *codes_of_records(int8_t *, const int32_t *, const int32_t *, const int32_t *, int32_t, int32_t) {
    HIL_CODES_OF_RECORDS("asrs r4, r3, #31\n"
                         "movs r7, r4\n"
                         "ands r7, r3\n"
                         "adds r5, r5, r7\n"
                         "eors r3, r4\n");
}
template <>
__attribute__((naked, noinline, noipa)) inline const int32_t *codes_of_records<false>(int8_t *, const int32_t *, const int32_t *,
                                                                                      const int32_t *, int32_t, int32_t) {
    HIL_CODES_OF_RECORDS("");
}
#undef HIL_CODES_OF_RECORDS
template <bool Once, int Zero>
struct Codes<Within<int8_t, -128, 127>, Near<Once, Zero>> {
    using Out = Within<int8_t, -128, 127>;
    static void of(Out *out, const int32_t *sums, Size count, const Near<Once, Zero> &by) {
        const NearNumbers numbers = {by.factor, by.start, by.apart, by.bits};
        const int32_t *const end = sums + count;
        const bool decides = by.apart != never;  // without signs, sums below 0 would seem decided
        while (sums != end) {
            const int32_t *const at = !decides ? sums : near_codes<(Zero > -128)>(&out->element, sums, end, numbers);
            out += at - sums;
            sums = at;
            if (sums == end) return;
            *out++ = saturate<Out>(exactly<Once, Zero>(*sums++, by.multiplier, by.right));
        }
    }
};
template <class Acc, int Zero>
struct RowCodes<Acc, Within<int8_t, -128, 127>, NearRecords<true, Zero>> {
    using Out = Within<int8_t, -128, 127>;
    template <class B, class BiasShift>
    static void of(Out *out, const int32_t *sums, Size n, Size count, const B &, const NearRecords<true, Zero> &shift, BiasShift,
                   int32_t more) {
        const int32_t *const end = sums + count, *record = from_channel(shift, n).at;
        for (out += n; sums != end;) {
            const int32_t *const at = codes_of_records<(Zero > -128)>(&out->element, sums, end, record, more, 2 * Zero + 1);
            const Size done = static_cast<Size>(at - sums);
            out += done;
            record += 3 * done;
            sums = at;
            if (sums == end) return;
            *out++ = saturate<Out>(exactly<true, Zero>(*sums++ + record[0] + more, record[1], record[2] & 255));
            record += 3;
        }
    }
};
#endif

}  // namespace hil
