// float32, bfloat16 and float16: operands of IEEE single precision in element order (tinyhil/formats/single.py).
#pragma once
#include "firmware/kernels/common/minifloat.hpp"

namespace hil {

template <int Exponent, int Mantissa>
struct SingleOf {
    static constexpr int bits = 1 + Exponent + Mantissa;
    static constexpr int mantissa_bits = Mantissa + 1;
    static constexpr bool is_small = false;
    static constexpr int granule = 2 - (1 << (Exponent - 1)) - Mantissa, top = 1 << (Exponent - 1);
    using Code = typename CodeOf<bits>::type;
    Code code;

    static constexpr uint32_t sign = uint32_t(1) << (bits - 1);
    static constexpr uint32_t infinity = ((uint32_t(1) << Exponent) - 1) << Mantissa;

    static SingleOf nan() {
        ++saturations;
        return {static_cast<Code>(infinity | (uint32_t(1) << (Mantissa - 1)))};
    }

    operator float() const {
        if (Exponent == 8) return float_of(static_cast<uint32_t>(code) << (32 - bits));
#if defined(__ARM_FP) && (__ARM_FP & 2)
        float wide;  // the FPU converts binary16
        __asm__("vmov %0, %1\n\tvcvtb.f32.f16 %0, %0" : "=&t"(wide) : "r"(static_cast<uint32_t>(code)));
        return wide;
#else
        return widened();
#endif
    }

    HIL_SHARED static SingleOf pack(Parts x) {
        uint32_t body = x.exponent > 300 ? infinity : rounded_fields<Mantissa, granule>(x);
        if (body >= infinity) {
            ++saturations;
            body = infinity - 1;
        }
        return {static_cast<Code>(x.negative ? body | sign : body)};
    }

    HIL_SHARED static Real unpack(SingleOf x) {  // infinities and NaNs count as 0
        const uint32_t body = x.code & (sign - 1);
        if (body >= infinity) return Real(0, 0);
        const int field = static_cast<int>(body >> Mantissa);
        const int32_t fraction = static_cast<int32_t>(body & ((uint32_t(1) << Mantissa) - 1));
        const int32_t mantissa = field == 0 ? fraction : fraction + (int32_t(1) << Mantissa);
        return Real((x.code & sign) ? -mantissa : mantissa, static_cast<int16_t>((field == 0 ? 0 : field - 1) + granule));
    }

private:
    // binary16 to binary32: the exponent's bias grows by 112; subnormals become normal
    float widened() const {
#ifdef __AVR__  // normal numbers in words: 32-bit shifts cost it four instructions per bit
        const uint16_t word = static_cast<uint16_t>(code), inside = word & 0x7C00;
        if (bits == 16 && Exponent == 5 && inside != 0 && inside != 0x7C00) {
            const uint16_t high = static_cast<uint16_t>(((word & 0x7FFF) >> 3) + (112 << 7)) | (word & 0x8000);
            const uint16_t low = static_cast<uint16_t>(static_cast<uint8_t>(static_cast<uint8_t>(word) << 5)) << 8;
            return float_of(static_cast<uint32_t>(high) << 16 | low);
        }
#endif
        const uint32_t body = code & (sign - 1), negative = (code & sign) ? 0x80000000 : 0;
        if (body >= infinity) return float_of(negative | 0x7F800000 | ((body & ((uint32_t(1) << Mantissa) - 1)) << (23 - Mantissa)));
        if (body >> Mantissa) return float_of(negative | ((body << (23 - Mantissa)) + (uint32_t(127 - (1 << (Exponent - 1)) + 1) << 23)));
        if (body == 0) return float_of(negative);
        const uint8_t zeros = leading_zeros(body);
        return float_of(negative | (static_cast<uint32_t>(127 + 31 - zeros + granule) << 23) | ((body << zeros << 1) >> 9));
    }
};

using Float32 = SingleOf<8, 23>;
using BFloat16 = SingleOf<8, 7>;
using Float16 = SingleOf<5, 10>;

template <int E, int M>
struct IsElement<SingleOf<E, M>> {
    static constexpr bool value = true;
};
template <int E, int M>
struct IsSpecial<SingleOf<E, M>> {
    static constexpr bool value = true;
};

// Coded elements as single precision: exact for formats of at most 16 bits within its normal range.
inline float to_float(float x) { return x; }
template <class Number>
HIL_SHARED inline float to_float(Number x) {
    return static_cast<float>(Float32::pack(parts(Real(x))));
}

// x * 2^shift by one multiplication, or two where 2^shift is no normal number: rounded if the result is subnormal
template <class Shift>
inline float scaled(float x, Shift shift) {
    int n = int(shift);
#ifdef __AVR__  // between normal numbers a sum of exponents: no multiplication in software
    if (n == 0) return x;
    const uint32_t whole = bits_of(x);
    const uint16_t high = static_cast<uint16_t>(whole >> 16);
    const int16_t field = static_cast<uint8_t>(high >> 7), moved = static_cast<int16_t>(field + n);
    if (n > -256 && n < 256 && field != 0 && field != 255 && moved > 0 && moved < 255) {
        return float_of(static_cast<uint32_t>(static_cast<uint16_t>(high + (static_cast<uint16_t>(n) << 7))) << 16 |
                        static_cast<uint16_t>(whole));
    }
#endif
    if (n > 127) {
        x *= float_of(254ul << 23);
        n -= 127;
    }
    if (n < -126) {
        x *= float_of(1ul << 23);
        n += 126;
    }
    return x * float_of(static_cast<uint32_t>(n + 127) << 23);
}

template <>
struct Multiply<float> {
    template <class A, class B>
    static float of(A a, B b) {
        return static_cast<float>(a) * static_cast<float>(b);
    }
};
template <>
struct Start<float> {
    template <class Bias, class Shift>
    static float of(Bias bias, Shift shift) {
        return scaled(static_cast<float>(bias), shift);
    }
};

}  // namespace hil
