// Shifts by a constant on an ATmega, which shifts one bit of one byte per instruction: move whole bytes first, then the
// few bits that are left, in the direction that is nearer. avr-gcc's own code is a loop over all bytes.
// The compiler takes each line of an asm for two words and does not know .rept: the empty lines make up for what .rept
// repeats (28, 12 and 15 words at most), or short branches across it would not reach.
#pragma once
#include <stdint.h>

namespace hil {

// floor(value / 2^N), 0 <= N < 32
template <int N>
inline int32_t shift_right_const(int32_t value) {
    if (N >= 24) return static_cast<int8_t>(value >> 24) >> (N >= 24 ? N - 24 : 0);
    if (N >= 16) return static_cast<int16_t>(value >> 16) >> (N >= 16 ? N - 16 : 0);
    if (N >= 13) {  // left by 16 - N through a fifth byte, then two bytes down
        uint8_t top = value < 0 ? 0xFF : 0;
        asm(".rept %[bits]\n"
            "lsl %A[v]\n"
            "rol %B[v]\n"
            "rol %C[v]\n"
            "rol %D[v]\n"
            "rol %[top]\n"
            ".endr\n\n\n"
            : [v] "+r"(value), [top] "+r"(top)
            : [bits] "i"(N < 16 ? 16 - N : 0));
        const uint16_t low = static_cast<uint16_t>(static_cast<uint32_t>(value) >> 16);
        return static_cast<int32_t>(low | (static_cast<uint32_t>(static_cast<int16_t>(static_cast<int8_t>(top))) << 16));
    }
    if (N >= 8) {  // after the byte move the highest byte holds only copies of the sign
        value >>= 8;
        asm(".rept %[bits]\n"
            "asr %C[v]\n"
            "ror %B[v]\n"
            "ror %A[v]\n"
            ".endr\n\n\n"
            : [v] "+r"(value)
            : [bits] "i"(N >= 8 ? N - 8 : 0));
        return value;
    }
    asm(".rept %[bits]\n"
        "asr %D[v]\n"
        "ror %C[v]\n"
        "ror %B[v]\n"
        "ror %A[v]\n"
        ".endr\n\n\n\n\n\n\n\n\n\n"
        : [v] "+r"(value)
        : [bits] "i"(N < 8 ? N : 0));
    return value;
}

// value * 2^N for a 16-bit value, 0 <= N <= 16
template <int N>
inline uint32_t shift_left_const(uint16_t value) {
    const uint32_t wide = value;
    if (N >= 12) return (wide << 16) >> (N <= 16 ? 16 - N : 0);
    if (N >= 8) return (wide << 8) << (N >= 8 ? N - 8 : 0);
    if (N >= 4) return (wide << 8) >> (N <= 8 ? 8 - N : 0);
    return wide << N;
}

// The same for sums of 24 bits, 0 <= N < 8, and of 16 bits, 0 <= N < 16
template <int N>
inline __int24 shift_right_const(__int24 value) {
    asm(".rept %[bits]\n"
        "asr %C[v]\n"
        "ror %B[v]\n"
        "ror %A[v]\n"
        ".endr\n\n\n\n\n\n\n"
        : [v] "+r"(value)
        : [bits] "i"(N));
    return value;
}
template <int N>
inline int16_t shift_right_const(int16_t value) {
    if (N >= 8) return static_cast<int16_t>(static_cast<int8_t>(value >> 8) >> (N >= 8 ? N - 8 : 0));
    if (N >= 6) return static_cast<int16_t>(value >> N);  // what the compiler has four and five instructions for
    asm(".rept %[bits]\n"
        "asr %B[v]\n"
        "ror %A[v]\n"
        ".endr\n\n\n\n"
        : [v] "+r"(value)
        : [bits] "i"(N));
    return value;
}

// value * 2^N in 32 bits, N < 8
template <int N>
inline int32_t shift_left_sum(int32_t value) {
    asm(".rept %[bits]\n"
        "lsl %A[v]\n"
        "rol %B[v]\n"
        "rol %C[v]\n"
        "rol %D[v]\n"
        ".endr\n\n\n\n\n\n\n"
        : [v] "+r"(value)
        : [bits] "i"(N));
    return value;
}

// value * 2^N modulo 2^24
template <int N>
inline __int24 lift24(__int24 value) {
    if (N >= 16) return static_cast<__int24>(static_cast<__uint24>(value) << 16) * (1 << (N >= 16 ? N - 16 : 0));
    if (N >= 8) value = static_cast<__int24>(static_cast<__uint24>(value) << 8);
    asm(".rept %[bits]\n"
        "lsl %A[v]\n"
        "rol %B[v]\n"
        "rol %C[v]\n"
        ".endr\n\n\n\n\n\n\n"
        : [v] "+r"(value)
        : [bits] "i"(N & 7));
    return value;
}

}  // namespace hil
