// Small floating-point numbers (tinyhil/formats/minifloat.py states the rules).
#pragma once
#include "firmware/kernels/common/element.hpp"

namespace hil {

// What the codes at the top stand for: numbers; all ones is NaN; the highest exponent is infinity and NaNs.
enum class Top { Finite, Nan, Ieee };

// Codes without a sign, of parts and for `Mantissa` mantissa bits with a smallest step of 2^Granule; not limited above.
template <int Mantissa, int Granule>
HIL_SHARED inline uint32_t rounded_fields(const Parts &x) {
    if (x.top == 0 || x.exponent < Granule - 1) return 0;
    const int16_t above = static_cast<int16_t>(x.exponent - Mantissa - Granule);
#ifdef __AVR__  // which shifts by constants in bytes, else bit by bit
    if (above >= 0 && Mantissa <= 10) {
        const uint16_t top = static_cast<uint16_t>(x.top >> 16), whole = top >> (Mantissa <= 10 ? 15 - Mantissa : 0);
        const uint16_t first = static_cast<uint16_t>(top << (Mantissa <= 10 ? Mantissa + 1 : 0));
        const bool more = (first & 0x7FFF) || static_cast<uint16_t>(x.top) || x.sticky;
        return (static_cast<uint32_t>(above) << Mantissa) + whole + ((first & 0x8000) && (more || (whole & 1)));
    }
#endif
    const uint32_t steps = above > 0 ? static_cast<uint32_t>(above) : 0;
    const uint8_t drop = static_cast<uint8_t>(31 - Mantissa + (above < 0 ? -above : 0));  // 1 to 32
    const uint32_t whole = drop < 32 ? x.top >> drop : 0, rest = x.top << (32 - drop);
    const uint32_t body = (steps << Mantissa) + whole;
    const bool up = (rest & 0x80000000) && ((rest & 0x7FFFFFFF) || x.sticky || (body & 1));
    return body + up;
}

#ifdef __AVR__
// The same for codes of at most 8 bits
template <int Mantissa, int Granule>
inline uint16_t rounded_top(uint16_t top, int16_t exponent, bool sticky) {
    if (exponent < Granule - 1) return 0;
    const int16_t above = static_cast<int16_t>(exponent - (Mantissa + Granule));
    uint16_t body = 0;
    uint8_t bits = Mantissa + 1;
    if (above > 0) {
        body = static_cast<uint16_t>(above << Mantissa);
    } else {
        bits = static_cast<uint8_t>(bits + above);
    }
    uint8_t whole = 0;
    shift_in(whole, top, bits);
    body = static_cast<uint16_t>(body + whole);
    const bool up = top > 0x8000 || (top == 0x8000 && (sticky || (body & 1)));
    return static_cast<uint16_t>(body + up);
}
#endif

template <int Exponent, int Mantissa, int Bias, Top Policy>
struct Minifloat {
    static constexpr int bits = 1 + Exponent + Mantissa;
    static constexpr int mantissa_bits = Mantissa + 1;
    static constexpr int granule = 1 - Bias - Mantissa, top = (1 << Exponent) - (Policy == Top::Ieee ? 1 : 0) - Bias;
    static constexpr bool is_small = bits <= 8 && granule > -128 && mantissa_bits < 8;
    using Code = typename CodeOf<bits>::type;
    Code code;

    static constexpr uint32_t sign = uint32_t(1) << (bits - 1);
    static constexpr uint32_t highest = sign - (Policy == Top::Finite ? 1 : Policy == Top::Nan ? 2 : (uint32_t(1) << Mantissa) + 1);

    static Minifloat nan() {
        ++saturations;
        return {static_cast<Code>(Policy == Top::Finite    ? 0
                                      : Policy == Top::Nan ? sign - 1
                                      : Mantissa == 0      ? 0
                                                           : highest + 1 + (uint32_t(1) << Mantissa >> 1))};
    }

    // NaN and infinity, which no encoder makes of numbers, count as 0.
    static constexpr Real decode(Code code) {
        return (code & (sign - 1)) > highest ? Real(0, 0)
                                             : fields((code & sign) != 0, static_cast<int>((code & (sign - 1)) >> Mantissa),
                                                      static_cast<int32_t>(code & ((uint32_t(1) << Mantissa) - 1)));
    }
    static constexpr Real fields(bool negative, int field, int32_t fraction) {
        return Real((negative ? -1 : 1) * (field == 0 ? fraction : fraction + (int32_t(1) << Mantissa)),
                    static_cast<int16_t>((field == 0 ? 0 : field - 1) + granule));
    }
    static Real unpack(Minifloat x) { return Decoded<Minifloat>::at(x.code); }
    explicit operator float() const { return to_float(*this); }

#ifdef __AVR__
    HIL_SHARED static Minifloat pack_top(uint16_t top, int16_t exponent, bool negative, bool sticky) {
        if (top == 0) return {0};
        uint16_t body = static_cast<uint16_t>(sign);
        if (exponent <= 300) body = rounded_top<(is_small ? Mantissa : 0), granule>(top, exponent, sticky);
        if (body > static_cast<uint16_t>(highest)) {
            ++saturations;
            body = static_cast<uint16_t>(highest);
        }
        return {static_cast<Code>(negative ? body | static_cast<uint16_t>(sign) : body)};
    }
#endif

    HIL_SHARED static Minifloat pack(Parts x) {
#ifdef __AVR__
        if (is_small) return pack_upper<Minifloat>(x);
#endif
        if (x.top == 0) return {0};
        uint32_t body = x.exponent > 300 ? sign : rounded_fields<Mantissa, granule>(x);
        if (body > highest) {
            ++saturations;
            body = highest;
        }
        return {static_cast<Code>(x.negative ? body | sign : body)};
    }
};

template <int E, int M, int B, Top P>
struct IsElement<Minifloat<E, M, B, P>> : ElementTrait<Minifloat<E, M, B, P>> {};
template <int E, int M, int B, Top P>
struct IsSpecial<Minifloat<E, M, B, P>> {
    static constexpr bool value = true;
};

}  // namespace hil
