// The integers of windows (quire.hpp) on the ATmega: byte by byte, as shifts of 64 bits go bit by bit there.
#pragma once
#include "firmware/kernels/avr/short_avr.hpp"

namespace hil {

// units += product * 2^shift, shift < 64: by bits within a byte, by bytes in memory
HIL_SHARED inline void add_shifted(int64_t &units, int32_t product, uint8_t shift) {
    uint8_t *at = reinterpret_cast<uint8_t *>(&units) + (shift >> 3);
    uint8_t left = static_cast<uint8_t>(8 - (shift >> 3)), bits = shift & 7, top, sign;
    asm volatile("mov %[sign], %D[p]\n"
                 "lsl %[sign]\n"
                 "sbc %[sign], %[sign]\n"
                 "mov %[top], %[sign]\n"
                 "rjmp 2f\n"
                 "1:\n"
                 "lsl %A[p]\n"
                 "rol %B[p]\n"
                 "rol %C[p]\n"
                 "rol %D[p]\n"
                 "rol %[top]\n"
                 "2:\n"
                 "dec %[bits]\n"
                 "brpl 1b\n"
                 "ld r0, Z\n"
                 "add r0, %A[p]\n"
                 "st Z+, r0\n"
                 "dec %[left]\n"
                 "breq 4f\n"
                 "ld r0, Z\n"
                 "adc r0, %B[p]\n"
                 "st Z+, r0\n"
                 "dec %[left]\n"
                 "breq 4f\n"
                 "ld r0, Z\n"
                 "adc r0, %C[p]\n"
                 "st Z+, r0\n"
                 "dec %[left]\n"
                 "breq 4f\n"
                 "ld r0, Z\n"
                 "adc r0, %D[p]\n"
                 "st Z+, r0\n"
                 "dec %[left]\n"
                 "breq 4f\n"
                 "ld r0, Z\n"
                 "adc r0, %[top]\n"
                 "st Z+, r0\n"
                 "dec %[left]\n"
                 "breq 4f\n"
                 "3:\n"
                 "ld r0, Z\n"
                 "adc r0, %[sign]\n"
                 "st Z+, r0\n"
                 "dec %[left]\n"
                 "brne 3b\n"
                 "4:\n"
                 : [p] "+r"(product), [left] "+r"(left), [bits] "+r"(bits), [top] "=&r"(top), [sign] "=&r"(sign), "+z"(at)
                 :
                 : "r0", "memory");
}
inline void add_shifted(int32_t &, int32_t, uint8_t) {}  // windows of 32 bits do not come here

// A number of units of 2^low, its lowest byte first; the bytes become its magnitude
template <class Out>
HIL_SHARED Out pack_bytes(uint8_t *bytes, uint8_t count, int16_t low) {
    const bool negative = bytes[count - 1] & 0x80;
    if (negative) {
        uint8_t carry = 1;
        for (uint8_t i = 0; i < count; ++i) {
            bytes[i] = static_cast<uint8_t>(~bytes[i] + carry);
            carry &= bytes[i] == 0;
        }
    }
    const uint8_t *at = bytes + count - 1;
    low = static_cast<int16_t>(low + 8 * count - 1);
    for (; *at == 0; --at) {
        if (at == bytes) return {0};
        low = static_cast<int16_t>(low - 8);
    }
    uint16_t top = static_cast<uint16_t>(*at << 8);
    uint8_t next = 0, rest = 0;
    if (at > bytes) top |= *--at;
    if (at > bytes) next = *--at;
    while (at > bytes) rest |= *--at;
    uint8_t up = 0;
    for (; top < 0x8000; ++up) {
        top = static_cast<uint16_t>(top << 1 | next >> 7);
        next = static_cast<uint8_t>(next << 1);
    }
    return Out::pack_top(top, static_cast<int16_t>(low - up), negative, (next | rest) != 0);
}

}  // namespace hil
