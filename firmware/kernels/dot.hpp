// Dot products with an exact accumulator. The generic loop defines the result; chip versions are held to the same bits.
#pragma once
#include "firmware/kernels/numeric.hpp"

namespace hil {

template <class Acc, class A, class B>
inline void accumulate(Acc &sum, A a, B b, Size count) {
    for (Size i = 0; i < count; ++i) sum += static_cast<Acc>(a[i]) * b[i];
}

#ifdef __AVR__
template <class A, class B>
inline void accumulate(Acc40 &sum, A a, B b, Size count) {
    for (Size i = 0; i < count; ++i) sum.add(static_cast<int32_t>(a[i]) * b[i]);
}

// 16 x 16 -> 32 bits, added into 40: four byte products, 39 cycles per element with its loads.
template <>
inline void accumulate<Flash<int16_t>, Ram<int16_t>>(Acc40 &sum, Flash<int16_t> a, Ram<int16_t> b, Size count) {
    if (count == 0) return;
    uint8_t a_low, a_high, b_low, b_high, p0, p1, p2, p3, zero;
    uint32_t low = sum.low;
    uint8_t high = static_cast<uint8_t>(sum.high);
    asm volatile(
        "clr %[zero]\n"
        "1:\n"
        "lpm %[al], Z+\n"
        "lpm %[ah], Z+\n"
        "ld %[bl], X+\n"
        "ld %[bh], X+\n"
        "muls %[ah], %[bh]\n"
        "mov %[p2], r0\n"
        "mov %[p3], r1\n"
        "mul %[al], %[bl]\n"
        "mov %[p0], r0\n"
        "mov %[p1], r1\n"
        "mulsu %[ah], %[bl]\n"  // carry: the product is negative
        "sbc %[p3], %[zero]\n"
        "add %[p1], r0\n"
        "adc %[p2], r1\n"
        "adc %[p3], %[zero]\n"
        "mulsu %[bh], %[al]\n"
        "sbc %[p3], %[zero]\n"
        "add %[p1], r0\n"
        "adc %[p2], r1\n"
        "adc %[p3], %[zero]\n"
        "add %A[low], %[p0]\n"
        "adc %B[low], %[p1]\n"
        "adc %C[low], %[p2]\n"
        "adc %D[low], %[p3]\n"
        "adc %[high], %[zero]\n"
        "sbrc %[p3], 7\n"
        "dec %[high]\n"
        "sbiw %[count], 1\n"
        "brne 1b\n"
        "clr r1\n"
        : [low] "+r"(low), [high] "+r"(high), [count] "+w"(count), "+z"(a.at), "+x"(b.at), [al] "=&a"(a_low),
          [ah] "=&a"(a_high), [bl] "=&a"(b_low), [bh] "=&a"(b_high), [p0] "=&r"(p0), [p1] "=&r"(p1), [p2] "=&r"(p2),
          [p3] "=&r"(p3), [zero] "=&r"(zero)
        :
        : "r0", "memory");
    sum.low = low;
    sum.high = static_cast<int8_t>(high);
}
#endif

}  // namespace hil
