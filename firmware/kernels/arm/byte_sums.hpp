// Sums of bytes alone, four at a time; counts in whole steps.
#pragma once
#include "firmware/kernels/arm/dsp.hpp"

namespace hil {

constexpr Size rounded_up(Size count, Size step) { return (count + step - 1) / step * step; }

// What bytes at even places add up to, and what those at odd ones do; `Signs`: of those that have any, in what they are above the least
struct EvenAndOdd { int32_t even, odd; };
template <uint32_t Signs = 0x80808080>
inline EvenAndOdd sums_of_bytes(const int8_t *x, Size count) {
    constexpr uint32_t halves = 0x00FF00FF;
    constexpr Size most = 4 * 257;  // of them, whose sums fit halves of a word
    uint32_t even = 0, odd = 0;
    for (Size left = count & ~Size(3), now; left > 0; left -= now) {
        now = left < most ? left : most;
        uint32_t p = 0, q = 0;
        for (const int8_t *const end = x + now; x != end; x += 4) {
            const uint32_t word = word_at(x) ^ Signs;
            p += word & halves;
            q += word >> 8 & halves;
        }
        even += (p & 0xFFFF) + (p >> 16);
        odd += (q & 0xFFFF) + (q >> 16);
    }
    for (Size n = 0; n < (count & 3); ++n) (n % 2 == 0 ? even : odd) += static_cast<uint8_t>(x[n]) ^ (Signs & 0xFF);
    return {static_cast<int32_t>(even - 128 * ((count + 1) / 2)), static_cast<int32_t>(odd - 128 * (count / 2))};
}

}  // namespace hil
