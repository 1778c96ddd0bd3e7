// Squared differences and streams of sparse weights of bytes on the ATmega, cycles per term with loads and loop: 17 and 17.5.
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

}  // namespace hil
