// Powers of two without a zero and a sign (tinyhil/formats/e8m0.py states the rules).
#pragma once
#include "firmware/kernels/common/element.hpp"

namespace hil {

enum class Towards { Up, Down, Nearest };

template <Towards Rounding>
struct E8M0 {
    static constexpr int bits = 8, mantissa_bits = 1, granule = -127, top = 128;
    static constexpr bool is_small = true;
    using Code = uint8_t;
    Code code;

    static E8M0 nan() {
        ++saturations;
        return {255};
    }

    // NaN counts as 0.
    static constexpr Real decode(Code code) { return code == 255 ? Real(0, 0) : Real(1, static_cast<int16_t>(code - 127)); }
    static Real unpack(E8M0 x) { return Decoded<E8M0>::at(x.code); }
    explicit operator float() const { return to_float(*this); }

    // The highest 16 bits decide; `sticky`: there is more below them.
    static E8M0 pack_top(uint16_t upper, int16_t exponent, bool negative, bool sticky) {
        const bool up = Rounding == Towards::Up ? (upper & 0x7FFF) != 0 || sticky : Rounding == Towards::Nearest && (upper & 0x4000) != 0;
        const bool low = negative || upper == 0 || exponent < granule;
        const int16_t code = low ? int16_t(0) : static_cast<int16_t>((exponent > 127 ? 128 : exponent) + 127 + up);
        if (low || code > 254) ++saturations;
        return {static_cast<Code>(code > 254 ? 254 : code)};
    }

    static E8M0 pack(Parts x) {
        return pack_top(static_cast<uint16_t>(x.top >> 16), x.exponent, x.negative, x.sticky || static_cast<uint16_t>(x.top) != 0);
    }
};

template <Towards R>
struct IsElement<E8M0<R>> : ElementTrait<E8M0<R>> {};
template <Towards R>
struct IsSpecial<E8M0<R>> {
    static constexpr bool value = true;
};

}  // namespace hil
