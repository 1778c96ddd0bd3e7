// Functions in IEEE single precision as fixed sequences of operations: the same as tinyhil/formats/single_functions.py,
// operation by operation. No library function is called; compile with -ffp-contract=off.
#pragma once
#include "firmware/kernels/common/single.hpp"

namespace hil {
namespace single {

constexpr float log2_e = 1.44269504f, ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;
constexpr float rounder = 12582912.0f, exp_over = 88.8f, exp_under = -104.0f;

inline float infinity() { return float_of(0x7F800000); }
inline float not_a_number() { return float_of(0x7FC00000); }
inline float magnitude(float x) { return float_of(bits_of(x) & 0x7FFFFFFF); }

inline float exp_polynomial(float x) {
    float y = 0.000199193804f;
    y = y * x + 0.00139472249f;
    y = y * x + 0.00833326299f;
    y = y * x + 0.0416662544f;
    y = y * x + 0.166666672f;
    y = y * x + 0.5f;
    return y;
}

inline float log_polynomial(float x) {
    float y = 0.0691560134f;
    y = y * x + -0.117941029f;
    y = y * x + 0.118750788f;
    y = y * x + -0.123837985f;
    y = y * x + 0.142183259f;
    y = y * x + -0.166692704f;
    y = y * x + 0.200022429f;
    y = y * x + -0.249999866f;
    y = y * x + 0.333333105f;
    return y;
}

inline float tanh_polynomial(float x) {
    float y = 0.00239899592f;
    y = y * x + -0.00841679052f;
    y = y * x + 0.0217837673f;
    y = y * x + -0.0539597906f;
    y = y * x + 0.133332953f;
    y = y * x + -0.333333313f;
    return y;
}

inline float erf_polynomial(float x) {
    float y = -9.68013683e-06f;
    y = y * x + 0.000112705449f;
    y = y * x + -0.000848471129f;
    y = y * x + 0.00522107491f;
    y = y * x + -0.0268654451f;
    y = y * x + 0.112837829f;
    y = y * x + -0.376126379f;
    y = y * x + 1.12837923f;
    return y;
}

inline float erfc_polynomial(float x) {
    float y = 2.16868502e-05f;
    y = y * x + -0.000441336364f;
    y = y * x + 0.00420456193f;
    y = y * x + -0.0252082571f;
    y = y * x + 0.108418576f;
    y = y * x + 0.633219898f;
    y = y * x + 1.12957847f;
    y = y * x + -0.000188040227f;
    return y;
}

HIL_SHARED inline float exp(float x) {
    if (x != x) return x;
    if (x > exp_over) return infinity();
    if (x < exp_under) return 0;
    const float whole = (x * log2_e + rounder) - rounder;
    const float r = (x - whole * ln2_high) - whole * ln2_low;
    const float power = (exp_polynomial(r) * (r * r) + r) + 1.0f;
    return scaled(power, static_cast<int>(whole));
}

inline float log(float x) {
    if (!(x > 0)) return x == 0 ? -infinity() : not_a_number();
    if (bits_of(x) == 0x7F800000) return x;
    const Parts p = parts(x);
    int16_t power = static_cast<int16_t>(p.exponent + 1);
    float mantissa = float_of(((p.top << 1) >> 9) | (126ul << 23));  // 1/2 <= mantissa < 1
    if (mantissa < 0.70710678f) {
        mantissa = mantissa + mantissa;
        --power;
    }
    const float e = static_cast<float>(power), f = mantissa - 1.0f, square = f * f;
    const float rest = (log_polynomial(f) * f) * square + e * ln2_low;
    return ((rest - square * 0.5f) + f) + e * ln2_high;
}

// Correctly rounded, as IEEE division is: parts in, an infinity instead of saturation out
HIL_SHARED inline float rounded(const Parts &x) {
    const uint32_t sign = x.negative ? 0x80000000 : 0;
    const uint32_t body = rounded_fields<23, -149>(x);
    return float_of(sign | (body > 0x7F800000 ? 0x7F800000 : body));
}

#ifdef __AVR__
// avr-libc's division rounds some subnormal quotients wrongly: those are divided here, bit by bit.
HIL_SHARED inline float divide(float a, float b) {
    const float fast = a / b;
    const uint32_t body = bits_of(fast) & 0x7FFFFFFF;
    if (body > 0x00800000 || a == 0 || b - b != 0) return fast;
    const Parts x = parts(a), y = parts(b);
    uint32_t rest = x.top >> 8, divisor = y.top >> 8, quotient = 0;  // 24 bits each
    for (uint8_t bit = 0; bit < 32; ++bit) {
        quotient <<= 1;
        if (rest >= divisor) {
            rest -= divisor;
            quotient |= 1;
        }
        rest <<= 1;
    }
    return rounded(parts_of(x.negative != y.negative, quotient, static_cast<int16_t>(x.exponent - y.exponent - 31), rest != 0));
}
#else
HIL_SHARED inline float divide(float a, float b) { return a / b; }
#endif

// What a / b leaves, subtracted bit by bit: every difference, double and half is exact
inline float remainder(float a, float b, bool truncates) {
    const float size = magnitude(b);
    float rest = magnitude(a), unit = size;
    if (size == 0 || a - a != 0 || b - b != 0) return not_a_number();
    while (unit <= rest * 0.5f) unit = unit + unit;
    for (; unit > size; unit = unit * 0.5f) {
        if (rest >= unit) rest = rest - unit;
    }
    if (rest >= size) rest = rest - size;
    if (a < 0) rest = -rest;
    return !truncates && rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

inline float whole_quotient(float a, float b, float rest) {
    const float quotient = divide(a - rest, b);
    return magnitude(quotient) < 4194304.0f ? (quotient + rounder) - rounder : quotient;
}

inline float reciprocal(float x) { return divide(1.0f, x); }

// Correctly rounded
#if defined(__ARM_FP) && (__ARM_FP & 4)
HIL_SHARED inline float sqrt(float x) {
    float root;
    __asm__("vsqrt.f32 %0, %1" : "=t"(root) : "t"(x));
    return root;
}
#else
HIL_SHARED inline float sqrt(float x) {
    if (x == 0 || x != x || bits_of(x) == 0x7F800000) return x;
    if (x < 0) return not_a_number();
    const Parts p = parts(x);
    // radicand = 24 bits at an even exponent, two bits brought down per bit of the root
    const bool odd = p.exponent & 1;
    uint32_t radicand = odd ? p.top : p.top >> 1, rest = 0, root = 0;
    for (uint8_t bit = 0; bit < 26; ++bit) {
        rest = (rest << 2) | (radicand >> 30);
        radicand <<= 2;
        root <<= 1;
        if (rest > root << 1) {
            rest -= (root << 1) | 1;
            root |= 1;
        }
    }
    const int16_t half = static_cast<int16_t>((p.exponent - odd) / 2);
    return rounded(parts_of(false, root, static_cast<int16_t>(half - 25), rest != 0));
}
#endif

inline float rsqrt(float x) { return divide(1.0f, sqrt(x)); }

inline float sigmoid(float x) {
    const float e = exp(-magnitude(x));
    return divide(x < 0 ? e : 1.0f, e + 1.0f);
}

inline float tanh(float x) {
    const float size = magnitude(x), square = size * size;
    float result;
    if (size < 0.55f) result = (tanh_polynomial(square) * square) * size + size;
    else result = 1.0f - divide(2.0f, exp(size + size) + 1.0f);
    return x < 0 ? -result : result;
}

inline float erf(float x) {
    if (x != x) return x;
    const float size = magnitude(x);
    float result = 1.0f;
    if (size < 1.0f) result = erf_polynomial(size * size) * size;
    else if (size < 4.0f) result = 1.0f - exp(-erfc_polynomial(size));
    return x < 0 ? -result : result;
}

}  // namespace single
}  // namespace hil
