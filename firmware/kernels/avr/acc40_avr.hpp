// Accumulators of 40 and 48 bits for the ATmega: one or two bytes more than a product of two 16-bit numbers, where int64_t
// costs four. For 24 bits the compiler has a type.
#pragma once
#include <stdint.h>

namespace hil {

struct Acc40 {
    uint32_t low;
    int8_t high;

    explicit Acc40(int64_t value = 0) : low(static_cast<uint32_t>(value)), high(static_cast<int8_t>(value >> 32)) {}

    int64_t wide() const { return static_cast<int64_t>(low) + static_cast<int64_t>(high) * 4294967296LL; }

    // floor(value / 2^8); exact because the value has 40 bits
    int32_t upper() const { return static_cast<int32_t>((low >> 8) | (static_cast<uint32_t>(static_cast<uint8_t>(high)) << 24)); }

    void add_power(int exponent) {  // exponent <= 38
        if (exponent >= 32) {
            high = static_cast<int8_t>(high + (1 << (exponent - 32)));
            return;
        }
        const uint32_t before = low;
        low += 1UL << exponent;
        if (low < before) ++high;
    }

    void add(int32_t value) {
        const uint32_t before = low;
        low += static_cast<uint32_t>(value);
        if (low < before) ++high;
        if (value < 0) --high;
    }
};

struct Acc48 {
    uint32_t low;
    int16_t high;

    explicit Acc48(int64_t value = 0) : low(static_cast<uint32_t>(value)), high(static_cast<int16_t>(value >> 32)) {}

    int64_t wide() const { return static_cast<int64_t>(low) + static_cast<int64_t>(high) * 4294967296LL; }

    void add(int32_t value) {
        const uint32_t before = low;
        low += static_cast<uint32_t>(value);
        if (low < before) ++high;
        if (value < 0) --high;
    }

    void add(const Acc40 &part) {
        const uint32_t before = low;
        low += part.low;
        high = static_cast<int16_t>(high + part.high + (low < before));
    }
};

}  // namespace hil
