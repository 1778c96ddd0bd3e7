// Sums of four rows to asymmetric integers on the ATmega: eight bits below the point decide how nearly all are rounded.
#pragma once
#include "firmware/kernels/avr/affine_avr.hpp"
#include "firmware/kernels/avr/dense_avr.hpp"

namespace hil {

template <class Out, bool Once>
__attribute__((noinline, cold)) Out rescaled_exactly(int32_t sum, Flash<int32_t> multiplier, Flash<int8_t> shift, int16_t zero) {
    return requantize<Out>(sum, Rescale<Once>{multiplier[0], shift[0], zero});
}

// Whether near_units decides the integer, and leaves room to add a zero point in 16 bits
inline bool decides(__int24 near) {
    return static_cast<uint8_t>(near) >= 6 && static_cast<uint8_t>(static_cast<uint8_t>(near >> 16) + 4) < 8;
}

template <class Out, bool Once, class Acc>
HIL_SHARED void store_rescaled(Out *out, Size stride, const Acc *sums, Flash<int32_t> multipliers, Flash<int8_t> shifts, int16_t zero) {
    for (uint8_t left = 4; left > 0; --left, ++sums, out += stride, multipliers = multipliers + 1, shifts = shifts + 1) {
        const uint8_t n = static_cast<uint8_t>(-shifts[0]);
        const __int24 sum = static_cast<__int24>(*sums);
        if (static_cast<uint8_t>(n - 8) < 24 && sum == *sums) {
            const __int24 near = near_units(sum, upper_bytes(multipliers), n);
            if (decides(near)) {
                *out = saturate<Out>(static_cast<int16_t>(static_cast<int16_t>(near >> 8) + zero));
                continue;
            }
        }
        *out = rescaled_exactly<Out, Once>(*sums, multipliers, shifts, zero);
    }
}

template <class Acc, class Out, bool Once>
struct FourResults<Acc, Out, Channels<Flash<int32_t>, Flash<int8_t>, Once>> {
    static void store(Out *out, Size stride, const Acc (&sums)[4], const Channels<Flash<int32_t>, Flash<int8_t>, Once> &to, Size n) {
        store_rescaled<Out, Once>(out, stride, sums, to.multipliers + n, to.shifts + n, to.zero);
    }
};

}  // namespace hil
