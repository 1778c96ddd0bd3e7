// Packed constants in flash, seen as arrays of integers: codebooks (tinyhil/formats/codebook.py) and fixed point of few bits.
#pragma once
#include "firmware/kernels/memory.hpp"

namespace hil {

// Code `i` of a packed array, Bits = 1, 2, 4 or 8: the first code in the lowest bits of the first byte.
template <int Bits>
inline uint8_t packed_code(Flash<uint8_t> bytes, Size i) {
    constexpr Size each = 8 / Bits;
    return static_cast<uint8_t>(bytes[i / each] >> ((i % each) * Bits)) & static_cast<uint8_t>((1 << Bits) - 1);
}

template <int Bits, class Entry>
struct Codebook {
    Flash<uint8_t> indices;
    Flash<Entry> entries;
    Size first;
    Entry operator[](Size i) const { return entries[packed_code<Bits>(indices, first + i)]; }
    Codebook operator+(Size n) const { return {indices, entries, first + n}; }
};

template <int Bits, class Entry>
inline Codebook<Bits, Entry> codebook(const uint8_t *indices, const Entry *entries) {
    return {flash(indices), flash(entries), 0};
}

// Two's complement integers of Bits bits
template <int Bits>
struct Packed {
    Flash<uint8_t> bytes;
    Size first;
    int8_t operator[](Size i) const {
        return static_cast<int8_t>(static_cast<int8_t>(packed_code<Bits>(bytes, first + i) << (8 - Bits)) >> (8 - Bits));
    }
    Packed operator+(Size n) const { return {bytes, first + n}; }
};

template <int Bits>
inline Packed<Bits> packed(const uint8_t *bytes) { return {flash(bytes), 0}; }

}  // namespace hil
