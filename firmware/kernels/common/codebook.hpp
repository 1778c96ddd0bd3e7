// Packed constants in flash, seen as arrays of integers: codebooks (tinyhil/formats/codebook.py) and fixed point of few bits.
#pragma once
#include "firmware/kernels/common/memory.hpp"

namespace hil {

// Code `i` of a packed array of codes of 1 to 8 bits: the first code in the lowest bits of the first byte. Codes that
// straddle two bytes are read with the byte behind, of which there is one more than codes need.
template <int Bits>
inline uint8_t packed_code(Flash<uint8_t> bytes, Size i) {
    constexpr uint8_t mask = static_cast<uint8_t>((1 << Bits) - 1);
    if (8 % Bits == 0) {
        constexpr Size each = 8 / Bits;
        return static_cast<uint8_t>(bytes[i / each] >> ((i % each) * Bits)) & mask;
    }
    const uint8_t bit = static_cast<uint8_t>((i & 7) * Bits);  // eight codes fill Bits bytes
    const Size byte = (i >> 3) * Bits + (bit >> 3);
    const uint16_t both = static_cast<uint16_t>(bytes[byte] | (bytes[byte + 1] << 8));
    return static_cast<uint8_t>(both >> (bit & 7)) & mask;
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

// What a packed code of an element type is: fixed point extends its sign.
template <class T>
struct Unpacked {
    static constexpr int bits = T::bits;
    using type = T;
    static T of(uint8_t code) { return element_of<T>(code, 0); }
};
template <int Bits>
struct Unpacked<Fixed<Bits>> {
    static constexpr int bits = Bits;
    using type = int8_t;
    static int8_t of(uint8_t code) { return static_cast<int8_t>(static_cast<int8_t>(code << (8 - Bits)) >> (8 - Bits)); }
};

template <>
struct Unpacked<Signed> : Unpacked<Fixed<2>> {};

template <class T>
struct Packed {
    Flash<uint8_t> bytes;
    Size first;
    typename Unpacked<T>::type operator[](Size i) const { return Unpacked<T>::of(packed_code<Unpacked<T>::bits>(bytes, first + i)); }
    Packed operator+(Size n) const { return {bytes, first + n}; }
};

template <class T>
inline Packed<T> packed(const uint8_t *bytes) {
    return {flash(bytes), 0};
}

}  // namespace hil
