// Sums of four rows to asymmetric integers on the ATmega: eight bits below the point decide how nearly all are rounded.
#pragma once
#include "firmware/kernels/avr/affine_avr.hpp"
#include "firmware/kernels/avr/dense_avr.hpp"

namespace hil {

// In the place of biases, per four rows: four biases of three bytes, and four numbers of three bytes near to their multipliers,
// N of which N * 2^(Lift - 32) is multiplier * 2^(shift - 31) (passes/affine_layers.py)
template <uint8_t Lift>
struct NearRows {
    const uint8_t *at;
    NearRows operator+(Size) const { return *this; }  // there is one group of outputs
    int32_t operator[](Size) const { return 0; }      // depthwise layers have no rows
};
template <uint8_t Lift>
inline NearRows<Lift> near_rows(const int32_t *words) {
    return {reinterpret_cast<const uint8_t *>(words)};
}

// Of sums with a zero point, in units of 2^-8: what they begin with, half a unit and more than their error, which is below 7;
// numbers that are further from an integer boundary are rounded as exact ones are.
constexpr uint8_t near_error = 7;
constexpr int16_t near_start(int zero, uint8_t lift) {
    return static_cast<int16_t>((zero * 256 + 128) / (1 << lift) + near_error - 1);
}

namespace portable {

// sum * near * 2^-24 and what it begins with, of products of bytes their high ones alone, lifted; below its last `lift` bits is
// nothing that decides. Returns whether it does.
inline bool near_byte(int8_t &byte, uint8_t &clips, __int24 sum, uint32_t near, int16_t start, uint8_t lift) {
    const uint8_t s[3] = {static_cast<uint8_t>(sum), static_cast<uint8_t>(sum >> 8), static_cast<uint8_t>(sum >> 16)};
    const uint8_t m[3] = {static_cast<uint8_t>(near), static_cast<uint8_t>(near >> 8), static_cast<uint8_t>(near >> 16)};
    const auto product = [&](uint8_t i, uint8_t k) { return static_cast<int32_t>(static_cast<uint16_t>(s[i]) * m[k]); };
    int32_t value = start + (product(0, 2) >> 8) + (product(1, 1) >> 8) + (product(2, 0) >> 8) + product(1, 2) + product(2, 1) +
                    product(2, 2) * 256;
    if (sum < 0) value -= static_cast<int32_t>(near);
    const bool decided = static_cast<uint8_t>(static_cast<uint8_t>(value << lift) >> lift) >= near_error;
    const int16_t units = static_cast<int16_t>(static_cast<__int24>(value << lift) >> 8);
    clips = units > 127 ? 4 : units < -128 ? 8 : 0;
    byte = static_cast<int8_t>(units > 127 ? 127 : units < -128 ? -128 : units);
    return decided;
}

}  // namespace portable

// The routine behind round_near_rows: sums from r2, r6, r10 and r14 on to bytes in r5, r9, r13 and r17, near multipliers at Z, the
// start in r24 to r26. r27: the lift in bits 0 and 1, whether bytes that were clipped to the greatest (bit 2) and to the least
// (bit 3) are counted; bits 4 to 7 are set for what is not decided. 56 cycles per sum.
#define HIL_PRODUCT(a, b) "mul " a "," b "\nadd r22,r0\nadc r23,r1\nadc r21,r17\n"
#define HIL_UPPER_BYTE(a, b) "mul " a "," b "\nadd r22,r1\nadc r23,r17\nadc r21,r17\n"
#define HIL_NEAR(a, b, c, byte, bit) \
    "lpm r18,Z+\nlpm r19,Z+\nlpm r20,Z+\n" \
    "movw r22,r24\nmov r21,r26\n" \
    HIL_UPPER_BYTE(a, "r20") HIL_UPPER_BYTE(b, "r19") HIL_UPPER_BYTE(c, "r18") HIL_PRODUCT(b, "r20") HIL_PRODUCT(c, "r19") \
    "mul " c ",r20\nadd r23,r0\nadc r21,r1\n" \
    "sbrs " c ",7\nrjmp 1f\nsub r22,r18\nsbc r23,r19\nsbc r21,r20\n1:\n" \
    "brtc 1f\nrcall 7f\n1:\n" \
    "cpi r22,7\nbrsh 1f\nori r27," bit "\nrjmp 2f\n1:\n" \
    "mov r18,r23\nlsl r18\nsbc r18,r18\ncpse r18,r21\nrcall 8f\n" \
    "mov " byte ",r23\n2:\n"
#ifdef HIL_UNCOUNTED
#define HIL_COUNT_IF(bit) ""
#else
#define HIL_COUNT_IF(bit) "sbrc r27," bit "\ncall hil_clipped\n"
#endif
__attribute__((naked, noinline)) inline void near_rows_routine() {
    asm volatile("clr r17\nclt\nsbrc r27,0\nset\nsbrc r27,1\nset\n"
                 HIL_NEAR("r2", "r3", "r4", "r5", "0x10") HIL_NEAR("r6", "r7", "r8", "r9", "0x20")
                 HIL_NEAR("r10", "r11", "r12", "r13", "0x40") HIL_NEAR("r14", "r15", "r16", "r17", "0x80")
                 "clr r1\nret\n"
                 "7: mov r18,r27\nandi r18,3\nmov r19,r18\n"
                 "1: lsl r22\nrol r23\nrol r21\ndec r18\nbrne 1b\n"
                 "2: lsr r22\ndec r19\nbrne 2b\nret\n"
                 "8: sbrc r21,7\nrjmp 9f\n" HIL_COUNT_IF("2") "ldi r23,0x7F\nret\n"
                 "9:\n" HIL_COUNT_IF("3") "ldi r23,0x80\nret\n");
}
#undef HIL_COUNT_IF
#undef HIL_NEAR
#undef HIL_UPPER_BYTE
#undef HIL_PRODUCT
// The sums of four rows begin with three bytes each; `at` moves on.
inline void begin_rows(__int24 (&sums)[4], const uint8_t *&at) {
#define HIL_THREE(sum) "lpm %A[" sum "], Z+\nlpm %B[" sum "], Z+\nlpm %C[" sum "], Z+\n"
    asm volatile(HIL_THREE("a") HIL_THREE("b") HIL_THREE("c") HIL_THREE("d")
                 : [a] "=&r"(sums[0]), [b] "=&r"(sums[1]), [c] "=&r"(sums[2]), [d] "=&r"(sums[3]), "+z"(at));
#undef HIL_THREE
}
// `at` moves on. Returns `state` with bits 4 to 7 set for the sums that these multipliers do not decide.
__attribute__((always_inline)) inline uint8_t round_near_rows(int8_t (&bytes)[4], const __int24 (&sums)[4], const uint8_t *&at,
                                                              int16_t begin, uint8_t lift_and_counted) {
    register __int24 a asm("r2") = sums[0];
    register __int24 b asm("r6") = sums[1];
    register __int24 c asm("r10") = sums[2];
    register __int24 d asm("r14") = sums[3];
    register int8_t p asm("r5");
    register int8_t q asm("r9");
    register int8_t r asm("r13");
    register int8_t s asm("r17");
    register int16_t start asm("r24") = begin;
    register uint8_t sign asm("r26") = begin < 0 ? 0xFF : 0;
    register uint8_t state asm("r27") = lift_and_counted;
    asm volatile("%~call %x[routine]\n"
                 : "=&r"(p), "=&r"(q), "=&r"(r), "=&r"(s), "+z"(at), "+r"(state)
#ifndef HIL_UNCOUNTED
                 , "+m"(saturations)
#endif
                 : "r"(a), "r"(b), "r"(c), "r"(d), "r"(start), "r"(sign), [routine] "i"(near_rows_routine)
                 : "r0", "r18", "r19", "r20", "r21", "r22", "r23");
    bytes[0] = p;
    bytes[1] = q;
    bytes[2] = r;
    bytes[3] = s;
    return state;
}

template <class Out, bool Once>
__attribute__((noinline, cold)) Out rescaled_exactly(__int24 sum, const int32_t *multipliers, const int8_t *shifts, Size n, int16_t zero) {
    return requantize<Out>(static_cast<int32_t>(sum), Rescale<Once>{flash(multipliers)[n], flash(shifts)[n], zero});
}

// What an activation makes of a byte, and what of clipped ones counts (near_rows_routine)
template <class Out>
struct OfByte {
    static constexpr uint8_t counted = 4 | 8;
    static Out of(int8_t byte) { return byte; }
};
template <int32_t Low, int32_t High>
struct OfByte<Within<int8_t, Low, High>> {
    static constexpr uint8_t counted = (High > 127 ? 4 : 0) | (Low < -128 ? 8 : 0);
    static Within<int8_t, Low, High> of(int8_t byte) {
        if (Low > -128 && byte < Low) return {static_cast<int8_t>(Low)};
        if (High < 127 && byte > High) return {static_cast<int8_t>(High)};
        return {byte};
    }
};

// In the place of the biases of a pair, per four rows: four biases of three bytes, and four bytes that are their factors in units
// of 2^-16 (passes/affine_layers.py)
struct ByteFactors {
    const uint8_t *at;
    int32_t operator[](Size) const { return 0; }
};
inline ByteFactors byte_factors(const int32_t *words) { return {reinterpret_cast<const uint8_t *>(words)}; }

namespace portable {

// sum * factor / 2^16 + zero to nearest, ties towards plus infinity, as a byte; `clips`: 4 above it, 8 below, else 0
inline int8_t byte_of_factor(uint8_t &clips, __int24 sum, uint8_t factor, int16_t zero) {
    const int32_t units = static_cast<int32_t>((static_cast<int64_t>(sum) * factor + 0x8000) >> 16) + zero;
    clips = units > 127 ? 4 : units < -128 ? 8 : 0;
    return static_cast<int8_t>(units > 127 ? 127 : units < -128 ? -128 : units);
}

}  // namespace portable

// The routine behind round_byte_factors: sums and bytes as in near_rows_routine, factors at Z, the zero point in r24 and r25, what
// is counted in bits 2 and 3 of r27. Results of at most 16 bits; 25 cycles per sum.
#define HIL_FACTOR(a, b, c, byte) \
    "lpm r18,Z+\nmov r19," c "\n" \
    "mul " a ",r18\nmov r22,r1\n" \
    "mul " b ",r18\nmovw r20,r24\n" \
    "add r22,r0\nadc r20,r1\nadc r21,r17\n" \
    "mulsu r19,r18\nlsl r22\nadc r20,r0\nadc r21,r1\n" \
    "mov r18,r20\nlsl r18\nsbc r18,r18\ncpse r18,r21\nrcall 8f\n" \
    "mov " byte ",r20\n"
#ifdef HIL_UNCOUNTED
#define HIL_COUNT_IF(bit) ""
#else
#define HIL_COUNT_IF(bit) "sbrc r27," bit "\ncall hil_clipped\n"
#endif
__attribute__((naked, noinline)) inline void byte_factors_routine() {
    asm volatile("clr r17\n" HIL_FACTOR("r2", "r3", "r4", "r5") HIL_FACTOR("r6", "r7", "r8", "r9")
                 HIL_FACTOR("r10", "r11", "r12", "r13") HIL_FACTOR("r14", "r15", "r16", "r17")
                 "clr r1\nret\n"
                 "8: sbrc r21,7\nrjmp 9f\n" HIL_COUNT_IF("2") "ldi r20,0x7F\nret\n"
                 "9:\n" HIL_COUNT_IF("3") "ldi r20,0x80\nret\n");
}
#undef HIL_COUNT_IF
#undef HIL_FACTOR
// `at` moves on
__attribute__((always_inline)) inline void round_byte_factors(int8_t (&bytes)[4], const __int24 (&sums)[4], const uint8_t *&at,
                                                              int16_t zero, uint8_t counted) {
    register __int24 a asm("r2") = sums[0];
    register __int24 b asm("r6") = sums[1];
    register __int24 c asm("r10") = sums[2];
    register __int24 d asm("r14") = sums[3];
    register int8_t p asm("r5");
    register int8_t q asm("r9");
    register int8_t r asm("r13");
    register int8_t s asm("r17");
    register int16_t start asm("r24") = zero;
    register uint8_t state asm("r27") = counted;
    asm volatile("%~call %x[routine]\n"
                 : "=&r"(p), "=&r"(q), "=&r"(r), "=&r"(s), "+z"(at)
#ifndef HIL_UNCOUNTED
                 , "+m"(saturations)
#endif
                 : "r"(a), "r"(b), "r"(c), "r"(d), "r"(start), "r"(state), [routine] "i"(byte_factors_routine)
                 : "r0", "r18", "r19", "r20", "r21", "r22");
    bytes[0] = p;
    bytes[1] = q;
    bytes[2] = r;
    bytes[3] = s;
}

namespace portable {

inline void add_begins(__int24 (&sums)[4], const uint8_t *&at) {
    for (uint8_t r = 0; r < 4; ++r, at += 3) {
        const Flash<uint8_t> b = {at};
        sums[r] += static_cast<__int24>(b[0] | static_cast<__uint24>(b[1]) << 8 | static_cast<__uint24>(b[2]) << 16);
    }
}

}  // namespace portable

// What four rows begin with, three bytes each, joins their sums; `at` moves on.
inline void add_begins(__int24 (&sums)[4], const uint8_t *&at) {
#define HIL_THREE(sum) "lpm r0, Z+\nadd %A[" sum "], r0\nlpm r0, Z+\nadc %B[" sum "], r0\nlpm r0, Z+\nadc %C[" sum "], r0\n"
    asm volatile(HIL_THREE("a") HIL_THREE("b") HIL_THREE("c") HIL_THREE("d")
                 : [a] "+r"(sums[0]), [b] "+r"(sums[1]), [c] "+r"(sums[2]), [d] "+r"(sums[3]), "+z"(at) : : "r0");
#undef HIL_THREE
}
template <class Lift>
inline void lift_and_begin(__int24 (&sums)[4], Lift lift, const uint8_t *&at) {
    lift_sum(sums[0], lift);
    lift_sum(sums[1], lift);
    lift_sum(sums[2], lift);
    lift_sum(sums[3], lift);
    add_begins(sums, at);
}

// `Count` results of four sums
template <uint8_t Count, class Out, bool Once>
__attribute__((always_inline)) inline void store_rows(Out *out, const __int24 (&sums)[4], ByteFactors, const uint8_t *&at,
                                                      const Channels<Flash<int32_t>, Flash<int8_t>, Once> &to, Size) {
    int8_t bytes[4];
    round_byte_factors(bytes, sums, at, static_cast<int16_t>(to.zero), OfByte<Out>::counted);
    out[0] = OfByte<Out>::of(bytes[0]);
    if (Count > 1) out[1] = OfByte<Out>::of(bytes[1]);
    if (Count > 2) out[2] = OfByte<Out>::of(bytes[2]);
    if (Count > 3) out[3] = OfByte<Out>::of(bytes[3]);
}
template <uint8_t Count, class Out, uint8_t Lift, bool Once>
__attribute__((always_inline)) inline void store_rows(Out *out, const __int24 (&sums)[4], NearRows<Lift>, const uint8_t *&at,
                                                      const Channels<Flash<int32_t>, Flash<int8_t>, Once> &to, Size n) {
    int8_t bytes[4];
    const uint8_t undecided = round_near_rows(bytes, sums, at, near_start(to.zero, Lift), Lift | OfByte<Out>::counted);
    for (uint8_t r = 0; r < Count; ++r) {
        const bool is_near = !(undecided & (0x10 << r));
        out[r] = is_near ? OfByte<Out>::of(bytes[r]) : rescaled_exactly<Out, Once>(sums[r], to.multipliers.at, to.shifts.at, n + r, to.zero);
    }
}

// The rows of a pair (pair.hpp), four at a time; the rows after the last four lie one after the other
template <class Out, Size Step, Size MoreStep, class Begins, class Lift, bool Once>
void rows_of_pair(Out *out, Flash<int8_t> w, Ram<int8_t> x, Begins begins, Flash<int8_t> v, Ram<int8_t> y, Size outputs, Size inner,
                  Size more_inner, Lift lift, const Channels<Flash<int32_t>, Flash<int8_t>, Once> &to) {
    const uint8_t *at = begins.at;
    Size n = 0;
    for (; n + 4 <= outputs; n += 4, out += 4) {
        __int24 sums[4] = {};
        add_four_rows<MoreStep>(sums, v, y, more_inner);
        lift_and_begin(sums, lift, at);
        add_four_rows<Step>(sums, w, x, inner);
        store_rows<4>(out, sums, begins, at, to, n);
    }
    if (n == outputs) return;
    const uint8_t left = static_cast<uint8_t>(outputs - n);
    __int24 sums[4] = {};
    for (uint8_t r = 0; r < left; ++r, v = v + more_inner) sums[r] = add_row(sums[r], v, y, more_inner);
    lift_and_begin(sums, lift, at);
    for (uint8_t r = 0; r < left; ++r, w = w + inner) sums[r] = add_row(sums[r], w, x, inner);
    if (left == 1) store_rows<1>(out, sums, begins, at, to, n);
    else if (left == 2) store_rows<2>(out, sums, begins, at, to, n);
    else store_rows<3>(out, sums, begins, at, to, n);
}

#define HIL_PAIR(Begins) \
    void dense_bias_pair(Out *out, Blocks<int8_t, 4, Step> weights, Ram<int8_t> x, Begins begins, Blocks<int8_t, 4, MoreStep> more, \
                         Ram<int8_t> y, Size rows, Size outputs, Size inner, Size more_inner, Lift lift, \
                         const Channels<Flash<int32_t>, Flash<int8_t>, Once> &to, Const<0>) { \
        for (; rows > 0; --rows, x = x + inner, y = y + more_inner, out += outputs) { \
            rows_of_pair<Out, Step, MoreStep>(out, flash(weights.at), x, begins, flash(more.at), y, outputs, inner, more_inner, lift, to); \
        } \
    }
template <class Acc, class Out, Size Step, Size MoreStep, class Lift, bool Once>
HIL_PAIR(ByteFactors)
template <class Acc, class Out, Size Step, Size MoreStep, uint8_t By, class Lift, bool Once>
HIL_PAIR(NearRows<By>)
#undef HIL_PAIR

inline void start_rows(__int24 (&)[4], Const<0>) {}
inline void start_rows(__int24 (&sums)[4], __int24 start) {
    for (uint8_t r = 0; r < 4; ++r) sums[r] += start;
}
// `start`: what all sums start with, besides
template <Size Step, class Out, uint8_t Lift, bool Once, class Common>
inline void near_rows_of_blocks(Out *out, Size stride, Flash<int8_t> w, Ram<int8_t> x, NearRows<Lift> rows, Common start, Size outputs,
                                Size inner, const Channels<Flash<int32_t>, Flash<int8_t>, Once> &to) {
    const int16_t begin = near_start(to.zero, Lift);
    const uint8_t state = Lift | OfByte<Out>::counted, *at = rows.at;
    Size n = 0;
    const auto result = [&](bool is_near, int8_t byte, __int24 sum, uint8_t r) {
        if (is_near) return OfByte<Out>::of(byte);
        return rescaled_exactly<Out, Once>(sum, to.multipliers.at, to.shifts.at, n + r, to.zero);
    };
    for (; n + 4 <= outputs; n += 4, out += 4 * stride) {
        __int24 sums[4];
        begin_rows(sums, at);
        start_rows(sums, start);
        Ram<int8_t> from = x;
        add_rows(Const<Step>(), sums, w, from, inner);
        int8_t bytes[4];
        const uint8_t undecided = round_near_rows(bytes, sums, at, begin, state);
        out[0] = result(!(undecided & 0x10), bytes[0], sums[0], 0);
        out[stride] = result(!(undecided & 0x20), bytes[1], sums[1], 1);
        out[2 * stride] = result(!(undecided & 0x40), bytes[2], sums[2], 2);
        out[3 * stride] = result(!(undecided & 0x80), bytes[3], sums[3], 3);
    }
    if (n == outputs) return;
    __int24 sums[4];
    begin_rows(sums, at);
    start_rows(sums, start);
    for (uint8_t r = 0; n + r < outputs; ++r, w = w + inner) sums[r] = add_row(sums[r], w, x, inner);
    int8_t bytes[4];
    const uint8_t undecided = round_near_rows(bytes, sums, at, begin, state);
    for (uint8_t r = 0; n + r < outputs; ++r, out += stride) *out = result(!(undecided & (0x10 << r)), bytes[r], sums[r], r);
}
template <class Acc, Size Step, class Out, uint8_t Lift, bool Once>
inline void rows_of_blocks(Out *out, Size stride, Flash<int8_t> w, Ram<int8_t> x, NearRows<Lift> rows, Size outputs, Size inner,
                           const Channels<Flash<int32_t>, Flash<int8_t>, Once> &to, Const<0>) {
    near_rows_of_blocks<Step>(out, stride, w, x, rows, Const<0>(), outputs, inner, to);
}
template <class Acc, Size Step, class Out, uint8_t Lift, bool Once>
inline void rows_of_blocks(Out *out, Size stride, Flash<int8_t> w, Ram<int8_t> x, WithStart<NearRows<Lift>> rows, Size outputs, Size inner,
                           const Channels<Flash<int32_t>, Flash<int8_t>, Once> &to, Const<0>) {
    near_rows_of_blocks<Step>(out, stride, w, x, rows.bias, static_cast<__int24>(rows.start), outputs, inner, to);
}

}  // namespace hil
