// Squared differences and streams of sparse weights on the ATmega, cycles per term with loads and loop: of bytes 17 and 17.5,
// of words 40 and 46.
#pragma once
#include "firmware/kernels/common/numeric.hpp"

namespace hil {

namespace portable {

inline void add_squares(__int24 &sum, Ram<int8_t> x, Flash<int8_t> w, Size count) {
    for (Size k = 0; k < count; ++k) {
        const int16_t difference = static_cast<int16_t>(x[k] - w[k]);
        sum = static_cast<__int24>(sum + static_cast<int32_t>(difference) * difference);
    }
}
inline void add_stream(__int24 &sum, Flash<uint8_t> &stream, Ram<int8_t> x, uint8_t count) {
    for (; count > 0; --count, stream = stream + 2) {
        x = x + stream[0];
        sum = static_cast<__int24>(sum + static_cast<int8_t>(stream[1]) * x[0]);
    }
}

}  // namespace portable

// The magnitude of a difference of two signed bytes is an unsigned one.
inline void add_squares(__int24 &sum, Ram<int8_t> x, Flash<int8_t> w, Size count) {
    if (count == 0) return;
    uint8_t weight, element, zero, low = static_cast<uint8_t>(count), high = static_cast<uint8_t>((count + 255) >> 8);
    asm volatile("clr %[zero]\n"
                 "1:\n"
                 "lpm %[w], Z+\n"
                 "ld %[x], X+\n"
                 "sub %[x], %[w]\n"
                 "brge 2f\n"
                 "neg %[x]\n"
                 "2:\n"
                 "mul %[x], %[x]\n"
                 "add %A[sum], r0\n"
                 "adc %B[sum], r1\n"
                 "adc %C[sum], %[zero]\n"
                 "dec %[low]\n"
                 "brne 1b\n"
                 "dec %[high]\n"
                 "brne 1b\n"
                 "clr r1\n"
                 : [sum] "+r"(sum), "+z"(w.at), "+x"(x.at), [low] "+r"(low), [high] "+r"(high), [w] "=&r"(weight),
                   [x] "=&r"(element), [zero] "=&r"(zero)
                 :
                 : "r0", "memory");
}
inline void add_squares(__int24 &sum, Ram<int8_t> a, Flash<int8_t> b, Size count, Const<0>, Const<0>, Const<0>) {
    add_squares(sum, a, b, count);
}
inline void add_squares(__int24 &sum, Flash<int8_t> a, Ram<int8_t> b, Size count, Const<0>, Const<0>, Const<0>) {
    add_squares(sum, b, a, count);
}

// The same of words, whose difference has 17 bits. `before`: what is done with a word of b; `magnitude`: of the difference, to 16
// bits; what it leaves out of the way stands at `rare`, behind the loop.
#define HIL_SQUARES(before, magnitude, rare) \
    "clr %[zero]\n" \
    "1:\n" \
    "ld %A[d], X+\n" \
    "ld %B[d], X+\n" \
    "lpm %A[w], Z+\n" \
    "lpm %B[w], Z+\n" before \
    "sub %A[d], %A[w]\n" \
    "sbc %B[d], %B[w]\n" magnitude \
    "4:\n" \
    "mul %A[d], %A[d]\n" \
    "movw %A[w], r0\n" \
    "mul %B[d], %B[d]\n" \
    "movw %A[upper], r0\n" \
    "lsl %B[d]\n" /* of 2^15 the lower byte is 0 */ \
    "mul %B[d], %A[d]\n" \
    "add %B[w], r0\n" \
    "adc %A[upper], r1\n" \
    "adc %B[upper], %[zero]\n" \
    "add %A[low], %A[w]\n" \
    "adc %B[low], %B[w]\n" \
    "adc %C[low], %A[upper]\n" \
    "adc %D[low], %B[upper]\n" \
    "adc %[high], %[zero]\n" \
    "dec %[few]\n" \
    "brne 1b\n" \
    "dec %[many]\n" \
    "brne 1b\n" \
    "rjmp 5f\n" \
    "2:\n" \
    "com %B[d]\n" \
    "neg %A[d]\n" \
    "sbci %B[d], 0xFF\n" \
    "rjmp 3b\n" rare \
    "5:\n" \
    "clr r1\n"
// Half of it, ties up: one more before it is halved, if it is positive; 2^15 is too much.
#define HIL_HALF "brlt 2f\nsubi %A[d], 0xFF\nsbci %B[d], 0xFF\nbrcc 6f\n3:\nlsr %B[d]\nror %A[d]\n"
#define HIL_HALF_RARE "6:\n" HIL_COUNT "ldi %A[d], 0xFF\nldi %B[d], 0x7F\nrjmp 4b\n"
#define HIL_WHOLE "brvs 6f\nbrmi 2f\n3:\n"
#define HIL_WHOLE_RARE "6:\nbrpl 7f\n" HIL_COUNT "ldi %A[d], 0xFF\nldi %B[d], 0x7F\nrjmp 4b\n" \
    "7:\n" HIL_COUNT "ldi %A[d], 0\nldi %B[d], 0x80\nrjmp 4b\n"
#ifdef HIL_UNCOUNTED
#define HIL_COUNT ""
#define HIL_COUNTS
#else
#define HIL_COUNT "%~call hil_clipped\n"
#define HIL_COUNTS , "+m"(saturations)
#endif
#define HIL_ADD_SQUARES(AShift, Drop, before, magnitude, rare) \
    inline void add_squares(Acc40 &sum, Ram<int16_t> a, Flash<int16_t> b, Size count, Const<AShift>, Const<0>, Const<Drop>) { \
        if (count == 0) return; \
        uint16_t d, w, upper; \
        uint8_t zero, few = static_cast<uint8_t>(count), many = static_cast<uint8_t>((count + 255) >> 8); \
        uint32_t low = sum.low; \
        int8_t high = sum.high; \
        asm volatile(HIL_SQUARES(before, magnitude, rare) \
                     : [low] "+r"(low), [high] "+r"(high), "+z"(b.at), "+x"(a.at), [few] "+r"(few), [many] "+r"(many), [d] "=&d"(d), \
                       [w] "=&r"(w), [upper] "=&r"(upper), [zero] "=&r"(zero) HIL_COUNTS \
                     : \
                     : "r0", "memory"); \
        sum.low = low; \
        sum.high = high; \
    }
HIL_ADD_SQUARES(0, 0, "", HIL_WHOLE, HIL_WHOLE_RARE)
HIL_ADD_SQUARES(0, 1, "", HIL_HALF, HIL_HALF_RARE)
// (2 a - b + 1) / 2 rounded down is a - b / 2 rounded down.
HIL_ADD_SQUARES(1, 1, "asr %B[w]\nror %A[w]\n", HIL_WHOLE, HIL_WHOLE_RARE)
#undef HIL_ADD_SQUARES
#undef HIL_COUNTS
#undef HIL_COUNT
#undef HIL_WHOLE_RARE
#undef HIL_WHOLE
#undef HIL_HALF_RARE
#undef HIL_HALF
#undef HIL_SQUARES

#define HIL_STEP_AND_WEIGHT \
    "lpm %[w], Z+\n" \
    "add r26, %[w]\n" \
    "adc r27, %[zero]\n" \
    "lpm %[w], Z+\n" \
    "ld %[x], X\n" \
    "muls %[w], %[x]\n" \
    "sbc %[sign], %[sign]\n" \
    "add %A[sum], r0\n" \
    "adc %B[sum], r1\n" \
    "adc %C[sum], %[sign]\n"
// Two weights per round; an odd number of them begins with the second.
inline void add_stream(__int24 &sum, Flash<uint8_t> &stream, Ram<int8_t> x, uint8_t count) {
    if (count == 0) return;
    uint8_t weight, element, zero, sign, rounds = static_cast<uint8_t>((count >> 1) + (count & 1));
    asm volatile("clr %[zero]\n"
                 "sbrc %[count], 0\n"
                 "rjmp 2f\n"
                 "1:\n" HIL_STEP_AND_WEIGHT "2:\n" HIL_STEP_AND_WEIGHT
                 "dec %[rounds]\n"
                 "brne 1b\n"
                 "clr r1\n"
                 : [sum] "+r"(sum), "+z"(stream.at), "+x"(x.at), [rounds] "+r"(rounds), [w] "=&d"(weight), [x] "=&d"(element),
                   [zero] "=&r"(zero), [sign] "=&r"(sign)
                 : [count] "r"(count)
                 : "r0", "memory");
}
#undef HIL_STEP_AND_WEIGHT

// Words are read upper byte first: X is one byte beyond the next step's start, which the carry is for.
__attribute__((noinline)) inline void add_stream(Acc40 &sum, Flash<uint8_t> &stream, Ram<int16_t> x, uint8_t count) {
    if (count == 0) return;
    uint8_t zero, wl, wh, xl, xh;
    uint16_t lower, upper;
    uint32_t low = sum.low;
    int8_t high = sum.high;
    asm volatile("clr %[zero]\n"
                 "1:\n"
                 "lpm %[wl], Z+\n"
                 "sec\n"
                 "adc r26, %[wl]\n"
                 "adc r27, %[zero]\n"
                 "add r26, %[wl]\n"
                 "adc r27, %[zero]\n"
                 "lpm %[wl], Z+\n"
                 "lpm %[wh], Z+\n"
                 "ld %[xh], X\n"
                 "ld %[xl], -X\n"
                 "muls %[wh], %[xh]\n"
                 "movw %A[upper], r0\n"
                 "mul %[wl], %[xl]\n"
                 "movw %A[lower], r0\n"
                 "mulsu %[wh], %[xl]\n"
                 "sbc %B[upper], %[zero]\n"
                 "add %B[lower], r0\n"
                 "adc %A[upper], r1\n"
                 "adc %B[upper], %[zero]\n"
                 "mulsu %[xh], %[wl]\n"
                 "sbc %B[upper], %[zero]\n"
                 "add %B[lower], r0\n"
                 "adc %A[upper], r1\n"
                 "adc %B[upper], %[zero]\n"
                 "add %A[low], %A[lower]\n"
                 "adc %B[low], %B[lower]\n"
                 "adc %C[low], %A[upper]\n"
                 "adc %D[low], %B[upper]\n"
                 "adc %[high], %[zero]\n"
                 "sbrc %B[upper], 7\n"
                 "dec %[high]\n"
                 "dec %[count]\n"
                 "brne 1b\n"
                 "clr r1\n"
                 : [low] "+r"(low), [high] "+r"(high), "+z"(stream.at), "+x"(x.at), [count] "+r"(count), [wl] "=&a"(wl), [wh] "=&a"(wh),
                   [xl] "=&a"(xl), [xh] "=&a"(xh), [lower] "=&r"(lower), [upper] "=&r"(upper), [zero] "=&r"(zero)
                 :
                 : "r0", "memory");
    sum.low = low;
    sum.high = high;
}

}  // namespace hil
