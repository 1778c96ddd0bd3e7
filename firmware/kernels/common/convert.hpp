// Between real numbers and codes, for applications that call a model themselves (tinyhil/formats/codec.py). One rounding.
#pragma once
#include "firmware/kernels/common/real.hpp"

namespace hil {

// Towards zero, as a cast to integers; from 2^23 on all are whole
inline float whole_of(float x) { return x > -8388608.0f && x < 8388608.0f ? static_cast<float>(static_cast<int32_t>(x)) : x; }

// The code of x * 2^-exponent, saturated
template <class Out>
inline Out quantized(float x, int exponent) {
    if (x != x) return Pack<Out>::nan();
    Parts made = parts(x);
    made.exponent = static_cast<int16_t>(made.exponent - exponent);
    return Pack<Out>::of(made);
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
