// Exponential and logarithm (tinyhil/ops/exponential.py derives tables and error bounds).
#pragma once
#include "firmware/kernels/common/numeric.hpp"

namespace hil {

// 2^(t / 2^20) = mantissa * 2^(exponent - 29)
struct Power {
    uint32_t mantissa;  // below 2^30 + 2^7
    int16_t exponent;
};

namespace portable {

template <class Table>
inline Power power_of_two(Table table, int32_t t) {
    const uint32_t fraction = static_cast<uint32_t>(t) & 0xFFFFF;
    const uint32_t r = fraction & 0x7FFF;
    const uint32_t z = (r * 45426) >> 16;  // log(2) * 2^16
    const uint32_t q = z + ((z * z) >> 21);
    const uint32_t a = 65536 + static_cast<uint32_t>(table[static_cast<Size>(fraction >> 15)]);
    return {(a << 13) + ((a * q) >> 7), static_cast<int16_t>(t >> 20)};
}

// factor * x / 2^drop, kept within +-2^30
inline int32_t power_exponent(int16_t x, int32_t factor, int drop) {
    const int64_t product = static_cast<int64_t>(x) * factor;  // at most 39 bits
    const int64_t t = drop >= 0 ? product >> drop : product * (int64_t(1) << -drop);
    constexpr int32_t most = int32_t(1) << 30;
    return t > most ? most : t < -most ? -most : static_cast<int32_t>(t);
}

// mantissa * 2^-right to nearest, 0 < right < 31
inline int32_t rounded_mantissa(uint32_t mantissa, int right) {
    return static_cast<int32_t>((mantissa + (uint32_t(1) << (right - 1))) >> right);
}

}  // namespace portable
#ifdef __AVR__
}  // namespace hil
#include "firmware/kernels/avr/exponential_avr.hpp"
namespace hil {
#else
using portable::power_exponent;
using portable::power_of_two;
using portable::rounded_mantissa;
#endif

template <class Acc, class Out, class Table, class X>
void exp(Out *out, Table table, X x, Size count, int32_t factor, int drop, int shift) {
    for (Size n = 0; n < count; ++n) {
        const Power power = power_of_two(table, power_exponent(x[n], factor, drop));
        const int right = shift - power.exponent;
        if (right > 30) {
            out[n] = 0;
        } else {
            out[n] = saturate<Out>(rounded_mantissa(power.mantissa, right < 1 ? 1 : right));
        }
    }
}

// log(x) * 2^22 for 0 < x < 2^15
template <class Table>
inline int32_t natural_log(Table table, uint16_t x) {
    int32_t power = 15;
    for (; !(x & 0x8000); x = static_cast<uint16_t>(x << 1)) --power;
    const uint16_t c = x & 0xFC00;
    const uint32_t s = (static_cast<uint32_t>(x - c) << 22) / (static_cast<uint32_t>(x) + c);  // below 2^16
    const uint32_t cube = (s * ((s * s) >> 22)) >> 22;
    const uint32_t of_step = static_cast<uint32_t>(table[static_cast<Size>((c >> 10) & 31)]) << 6;
    return power * 2907270 + static_cast<int32_t>(of_step + 2 * s + 2 * cube / 3);  // log(2) * 2^22
}

template <class Acc, class Out, class Table, class X, class Shift>
void log(Out *out, Table table, X x, Size count, int32_t offset, Shift shift) {
    for (Size n = 0; n < count; ++n) {
        const int16_t value = x[n];
        if (value > 0) {
            out[n] = requantize<Out>(static_cast<Acc>(natural_log(table, static_cast<uint16_t>(value))) + offset, shift);
        } else {
            out[n] = saturate<Out>(static_cast<int32_t>(-65536));
        }
    }
}

}  // namespace hil
