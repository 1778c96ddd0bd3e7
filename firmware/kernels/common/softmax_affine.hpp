// Softmax of 8-bit asymmetric integers as TensorFlow Lite computes it (tinyhil/ops/affine_softmax.py).
#pragma once
#include "firmware/kernels/common/numeric.hpp"

namespace hil {

// The upper half of 2 a b, rounded
inline int32_t doubled_product(int32_t a, int32_t b) {
    return static_cast<int32_t>((static_cast<int64_t>(a) * b + (int64_t(1) << 30)) >> 31);
}

// 1 / total with 31 fraction bits, of a total with 32 of which the highest is set
inline int32_t reciprocal_of_sum(uint32_t total) {
    const int32_t half = static_cast<int32_t>(total >> 1);
    int32_t r = 1515870810L + doubled_product(half, -1010580540L);  // 48/17 - 32/17 half, 29 fraction bits
    for (uint8_t step = 0; step < 3; ++step) r += 4 * doubled_product(r, (int32_t(1) << 29) - doubled_product(half, r));
    return r >= int32_t(1) << 30 ? 0x7FFFFFFFL : 2 * r;  // r <= 2^30
}

// A number that holds codes and the units beyond them
template <bool IsByte>
struct SignedOf {
    typedef int32_t type;
};
template <>
struct SignedOf<true> {
    typedef int16_t type;
};

// Rows of results of so many bits, the lowest code for 0
template <int Bits, class Out, class Table, class X>
void softmax_rows(Out *out, Table exponentials, X x, Size outer, Size count, Size entries) {
    typedef typename SignedOf<Bits <= 8>::type Code;
    const Code least = -Code(Code(1) << (Bits - 1));
    for (; outer > 0; --outer, x = x + count, out += count) {
        int16_t top = x[0];
        for (Size n = 1; n < count; ++n) top = x[n] > top ? x[n] : top;
        uint32_t total = 0;  // at least 2^19, below 2^31
        for (Size n = 0; n < count; ++n) {
            const Size distance = static_cast<Size>(top - x[n]);
            if (distance < entries) total += (static_cast<uint32_t>(exponentials[distance]) + 2048) >> 12;
        }
        uint8_t right = 43 - Bits;  // of what the products with the reciprocal are in units of results
        for (; !(total >> 31); --right) total <<= 1;
        const int32_t r = reciprocal_of_sum(total);
        for (Size n = 0; n < count; ++n) {
            const Size distance = static_cast<Size>(top - x[n]);
            uint32_t units = 0;
            if (distance < entries && right < 32) {
                const uint32_t product = static_cast<uint32_t>(doubled_product(exponentials[distance], r));
                units = (product + (uint32_t(1) << (right - 1))) >> right;
            }
            out[n] = static_cast<Out>(units > (uint32_t(1) << Bits) - 1 ? static_cast<Code>(-least - 1)
                                                                        : static_cast<Code>(static_cast<Code>(units) + least));
        }
    }
}

template <class Acc, class Out, class Table, class X>
void softmax_affine(Out *out, Table exponentials, X x, Size outer, Size count, Size entries) {
    softmax_rows<8>(out, exponentials, x, outer, count, entries);
}

// Into 8 or 16 bits (tinyhil/ops/code_softmax.py)
template <class Acc, class Out, class Table, class X>
void code_softmax(Out *out, Table exponentials, X x, Size outer, Size count, Size entries) {
    softmax_rows<8 * sizeof(Out)>(out, exponentials, x, outer, count, entries);
}

}  // namespace hil
