// Between real numbers and codes, for applications that call a model themselves (tinyhil/formats/codec.py). One rounding.
#pragma once
#include "firmware/kernels/common/real.hpp"

namespace hil {

// Towards zero, as a cast to integers; from 2^23 on all are whole
inline float whole_of(float x) { return x > -8388608.0f && x < 8388608.0f ? static_cast<float>(static_cast<int32_t>(x)) : x; }

// The code of x * 2^-exponent, saturated
template <class Out>
inline Out quantized_by_parts(float x, int exponent) {
    if (x != x) return Pack<Out>::nan();
    Parts made = parts(x);
    made.exponent = static_cast<int16_t>(made.exponent - exponent);
    return Pack<Out>::of(made);
}

// The same of 8 and 16 bits, for cores that shift bit by bit: whole bytes first
template <class Out>
inline Out quantized_in_bytes(float x, int exponent) {
    const uint32_t bits = bits_of(x);
    const uint8_t field = static_cast<uint8_t>(static_cast<uint16_t>(bits >> 16) >> 7);
    const int16_t power = static_cast<int16_t>(field - 127 - exponent);
    if (field == 0 || field == 255 || power > 14) return quantized_by_parts<Out>(x, exponent);
    if (power < -1) return 0;
    const bool negative = bits >> 31;
    const uint32_t mantissa = ((bits & 0x7FFFFF) | 0x800000) - negative;  // ties go up: below zero no tie is left
    const uint8_t drop = static_cast<uint8_t>(22 - power);                // all but the bit that rounds: 8 to 23
    const uint16_t leading = drop < 16 ? static_cast<uint16_t>(static_cast<uint16_t>(mantissa >> 8) >> (drop - 8))
                                       : static_cast<uint16_t>(static_cast<uint16_t>(mantissa >> 16) >> (drop - 16));
    const int32_t whole = static_cast<int32_t>((static_cast<uint32_t>(leading) + 1) >> 1);
    return Saturate<Out>::of(negative ? -whole : whole);
}

template <class Out>
inline Out quantized(float x, int exponent) {
    return quantized_by_parts<Out>(x, exponent);
}
template <>
inline int8_t quantized<int8_t>(float x, int exponent) {
    return quantized_in_bytes<int8_t>(x, exponent);
}
template <>
inline int16_t quantized<int16_t>(float x, int exponent) {
    return quantized_in_bytes<int16_t>(x, exponent);
}

// The code of x / scale + zero, ties to even: a division of 24-bit mantissas bit by bit, exact where that of floats is not
template <class Out>
inline Out quantized_affine(float x, uint32_t scale_bits, int16_t zero) {
    const Parts size = parts(x != x ? 0.0f : x), scale = parts(float_of(scale_bits));
    const int16_t power = static_cast<int16_t>(size.exponent - scale.exponent);  // the quotient is below 2^(power + 1)
    int32_t whole = 0;
    if (power > 16) {
        whole = 100000;
    } else if (size.top != 0 && power >= -1) {
        uint32_t rest = size.top >> 8;
        const uint32_t divisor = scale.top >> 8;
        for (int16_t n = power; n >= 0; --n) {
            whole = 2 * whole + (rest >= divisor);
            rest = 2 * (rest >= divisor ? rest - divisor : rest);
        }
        whole += rest > divisor || (rest == divisor && (whole & 1));
    }
    return Saturate<Out>::of(static_cast<int32_t>((size.negative ? -whole : whole) + zero));
}

}  // namespace hil
