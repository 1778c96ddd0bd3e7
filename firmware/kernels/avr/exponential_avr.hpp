// Powers of two by products of 16 bits and shifts by whole bytes first (firmware/kernels/common/exponential.hpp).
#pragma once
#include "firmware/kernels/common/numeric.hpp"

namespace hil {

inline uint32_t product_of_words(uint16_t a, uint16_t b) { return static_cast<uint32_t>(a) * b; }

template <class Table>
inline Power power_of_two(Table table, int32_t t) {
    const uint16_t low = static_cast<uint16_t>(t), high = static_cast<uint16_t>(static_cast<uint32_t>(t) >> 16);
    const uint8_t step = static_cast<uint8_t>((high << 1 | low >> 15) & 31);
    const uint16_t z = static_cast<uint16_t>(product_of_words(low & 0x7FFF, 45426) >> 16);
    const uint16_t q = static_cast<uint16_t>(z + (static_cast<uint16_t>(product_of_words(z, z) >> 16) >> 5));
    const uint16_t more = table[step];  // than one, in units of 2^-16
    const uint32_t sum = (static_cast<uint32_t>(more) << 4) + q;
    return {(uint32_t(1) << 29) + (sum << 9) + (product_of_words(more, q) >> 7), static_cast<int16_t>(static_cast<int16_t>(high) >> 4)};
}

// The product has 39 bits: the upper 32 of 48, and the lower 16
__attribute__((noinline)) inline int32_t power_exponent(int16_t x, int32_t factor, int drop) {
    constexpr int32_t most = int32_t(1) << 30;
    const uint32_t lower = product_of_words(static_cast<uint16_t>(x), static_cast<uint16_t>(factor));
    int32_t upper = static_cast<int32_t>(x) * static_cast<int16_t>(factor >> 16) + static_cast<uint16_t>(lower >> 16);
    if (x < 0) upper -= static_cast<uint16_t>(factor);
    if (drop >= 16) return upper >> (drop < 47 ? drop - 16 : 31);
    uint16_t rest = static_cast<uint16_t>(lower);
    for (int8_t lift = static_cast<int8_t>(16 - drop); lift > 0; --lift, rest = static_cast<uint16_t>(rest << 1)) {
        if (upper >= most / 2 || upper < -most / 2) return upper < 0 ? -most : most;
        upper = static_cast<int32_t>(static_cast<uint32_t>(upper) << 1 | rest >> 15);
    }
    return upper;
}

__attribute__((noinline)) inline int32_t rounded_mantissa(uint32_t mantissa, int right) {
    uint8_t left = static_cast<uint8_t>(right - 1);
    if (left >= 16) {
        uint16_t upper = static_cast<uint16_t>(mantissa >> 16);
        for (left = static_cast<uint8_t>(left - 16); left > 0; --left) upper = static_cast<uint16_t>(upper >> 1);
        return (upper >> 1) + (upper & 1);
    }
    if (left >= 8) {
        mantissa >>= 8;
        left = static_cast<uint8_t>(left - 8);
    }
    for (; left > 0; --left) mantissa >>= 1;
    return static_cast<int32_t>((mantissa >> 1) + (mantissa & 1));
}

}  // namespace hil
