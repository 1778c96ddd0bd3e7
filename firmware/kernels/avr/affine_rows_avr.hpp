// Sums of four rows to asymmetric integers on the ATmega: eight bits below the point decide how nearly all are rounded.
#pragma once
#include "firmware/kernels/avr/affine_avr.hpp"
#include "firmware/kernels/avr/dense_avr.hpp"

namespace hil {

namespace portable {

// sum * multiplier * 2^(shift - 31), eight bits below the point kept, and 3 of their units more: within 3 of that number
inline __int24 near_units(__int24 sum, int32_t multiplier, int8_t shift) {
    return static_cast<__int24>(((static_cast<int64_t>(sum) * multiplier) >> (23 - shift)) + 0x83);
}

}  // namespace portable

template <class Out, bool Once>
__attribute__((noinline, cold)) Out rescaled_exactly(int32_t sum, Flash<int32_t> multiplier, Flash<int8_t> shift, int16_t zero) {
    return requantize<Out>(sum, Rescale<Once>{multiplier[0], shift[0], zero});
}

// Whether such a number decides the integer it is rounded to, and leaves room to add a zero point in 16 bits
inline bool decides(__int24 near) {
    return static_cast<uint8_t>(near) >= 6 && static_cast<uint8_t>(static_cast<uint8_t>(near >> 16) + 4) < 8;
}

// The routine behind near_rows: near_units of the sums from r2, r6, r10 and r14 on in their place, multipliers at Z, shifts at X.
// The upper three bytes of a multiplier and the columns of their products that matter, about 80 cycles; shifts of -8 to -31,
// nothing decided for others.
#define HIL_COLUMN(a, b, low, middle, high) "mul " a "," b "\nadd " low ",r0\nadc " middle ",r1\nadc " high ",r9\n"
#define HIL_NEAR(a, b, c) \
    "movw r0,r30\nmovw r30,r26\nlpm r21,Z+\nmovw r26,r30\nmovw r30,r0\n" \
    "lpm r0,Z+\nlpm r18,Z+\nlpm r19,Z+\nlpm r20,Z+\n" \
    "neg r21\nsubi r21,8\ncpi r21,24\nbrsh 5f\n" \
    "clr r22\nclr r23\nclr r24\n" \
    "mul " a ",r19\nmov r5,r1\nmul " b ",r18\nadd r5,r1\nadc r22,r9\n" \
    HIL_COLUMN(a, "r20", "r5", "r22", "r23") HIL_COLUMN(b, "r19", "r5", "r22", "r23") HIL_COLUMN(c, "r18", "r5", "r22", "r23") \
    HIL_COLUMN(b, "r20", "r22", "r23", "r24") HIL_COLUMN(c, "r19", "r22", "r23", "r24") \
    "mul " c ",r20\nadd r23,r0\nadc r24,r1\n" \
    "sbrs " c ",7\nrjmp 1f\nsub r22,r18\nsbc r23,r19\nsbc r24,r20\n1:\n" \
    "dec r21\nbreq 4f\nbrmi 3f\n" \
    "2:\nasr r24\nror r23\nror r22\ndec r21\nbrne 2b\nrjmp 4f\n" \
    "3:\nlsl r5\nrol r22\nrol r23\nrol r24\n" \
    "4:\nsubi r22,0x7D\nsbci r23,0xFF\nsbci r24,0xFF\n" \
    "mov " b ",r23\nmov " c ",r24\nrjmp 6f\n" \
    "5:\nclr r22\n6:\nmov " a ",r22\n"
__attribute__((naked, noinline)) inline void near_rows_routine() {
    asm volatile("clr r9\n" HIL_NEAR("r2", "r3", "r4") HIL_NEAR("r6", "r7", "r8") HIL_NEAR("r10", "r11", "r12")
                 HIL_NEAR("r14", "r15", "r16") "clr r1\nret\n");
}
#undef HIL_NEAR
#undef HIL_COLUMN
inline void near_rows(__int24 (&sums)[4], Flash<int32_t> multipliers, Flash<int8_t> shifts) {
    register __int24 a asm("r2") = sums[0];
    register __int24 b asm("r6") = sums[1];
    register __int24 c asm("r10") = sums[2];
    register __int24 d asm("r14") = sums[3];
    asm volatile("%~call %x[routine]\n"
                 : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+z"(multipliers.at), "+x"(shifts.at)
                 : [routine] "i"(near_rows_routine)
                 : "r0", "r5", "r9", "r18", "r19", "r20", "r21", "r22", "r23", "r24");
    sums[0] = a;
    sums[1] = b;
    sums[2] = c;
    sums[3] = d;
}

template <class Acc, class Out, bool Once>
struct FourResults<Acc, Out, Channels<Flash<int32_t>, Flash<int8_t>, Once>> {
    using Rescales = Channels<Flash<int32_t>, Flash<int8_t>, Once>;
    static void store(Out *out, Size stride, const int32_t (&sums)[4], const Rescales &to, Size n) {
        for (Size r = 0; r < 4; ++r) out[r * stride] = requantize<Out>(sums[r], of_channel(to, n + r));
    }
    static void store(Out *out, Size stride, const __int24 (&sums)[4], const Rescales &to, Size n) {
        __int24 near[4] = {sums[0], sums[1], sums[2], sums[3]};
        near_rows(near, to.multipliers + n, to.shifts + n);
        put(out, near[0], sums[0], to, n);
        put(out + stride, near[1], sums[1], to, n + 1);
        put(out + 2 * stride, near[2], sums[2], to, n + 2);
        put(out + 3 * stride, near[3], sums[3], to, n + 3);
    }

private:
    __attribute__((always_inline)) static void put(Out *out, __int24 near, __int24 sum, const Rescales &to, Size n) {
        if (decides(near)) {
            *out = saturate<Out>(static_cast<int16_t>(static_cast<int16_t>(near >> 8) + to.zero));
        } else {
            *out = rescaled_exactly<Out, Once>(sum, to.multipliers + n, to.shifts + n, to.zero);
        }
    }
};

}  // namespace hil
