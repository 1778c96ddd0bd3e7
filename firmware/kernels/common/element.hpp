// What element types are and share: their trait, their storage, and decoding 8-bit codes by a table made at compile time.
//
// An element type of the coded domain (tinyhil/formats/format.py) is a struct of one code. Kernels ask of it:
//   bits, mantissa_bits      widths of a code and of the largest mantissa, sign left out
//   granule, top             every number is a multiple of 2^granule, every magnitude below 2^top
//   is_small                 at most 8 bits of code and 7 of mantissa
//   Code, code               its storage (CodeOf<bits>::type), its only member
//   Real decode(Code)        constexpr; codes that are no numbers are 0
//   Real unpack(T)           the same at run time, as fast as can be (Decoded<T> where is_small)
//   T pack(Parts)            one rounding of an exact number; counts `saturations`
//   T nan()                  what becomes of a number that is none; counted
//   explicit operator float  what it is in single precision: to_float(*this)
//   T pack_top(top, exponent, negative, sticky)   pack() from 16 bits: on AVR, where is_small
// and beside it `IsElement<T> : ElementTrait<T>` (which names what is missing) and `IsSpecial<T>`. Its file is included in quire.hpp.
#pragma once
#include "firmware/kernels/common/real.hpp"
#include "firmware/kernels/common/table.hpp"

namespace hil {

template <class Number>
float to_float(Number x);  // of single.hpp

template <int Bytes>
struct CodeOfBytes {
    using type = uint32_t;
};
template <>
struct CodeOfBytes<1> {
    using type = uint8_t;
};
template <>
struct CodeOfBytes<2> {
    using type = uint16_t;
};
template <int Bits>
struct CodeOf : CodeOfBytes<(Bits <= 8        ? 1
                                 : Bits <= 16 ? 2
                                              : 4)> {};

template <class T>
struct ElementTrait {
    static constexpr bool value = true;

private:
    template <class E>
    static char has_bits(decltype(E::bits) *);
    template <class E>
    static long has_bits(...);
    static_assert(sizeof(has_bits<T>(nullptr)) == 1, "an element type needs `bits`");
    template <class E>
    static char has_mantissa_bits(decltype(E::mantissa_bits) *);
    template <class E>
    static long has_mantissa_bits(...);
    static_assert(sizeof(has_mantissa_bits<T>(nullptr)) == 1, "an element type needs `mantissa_bits`");
    template <class E>
    static char has_granule(decltype(E::granule) *);
    template <class E>
    static long has_granule(...);
    static_assert(sizeof(has_granule<T>(nullptr)) == 1, "an element type needs `granule`");
    template <class E>
    static char has_top(decltype(E::top) *);
    template <class E>
    static long has_top(...);
    static_assert(sizeof(has_top<T>(nullptr)) == 1, "an element type needs `top`");
    template <class E>
    static char has_is_small(decltype(E::is_small) *);
    template <class E>
    static long has_is_small(...);
    static_assert(sizeof(has_is_small<T>(nullptr)) == 1, "an element type needs `is_small`");
    template <class E>
    static char has_Code(typename E::Code *);
    template <class E>
    static long has_Code(...);
    static_assert(sizeof(has_Code<T>(nullptr)) == 1, "an element type needs `Code`");
    template <class E>
    static char has_decode(decltype(E::decode(0)) *);
    template <class E>
    static long has_decode(...);
    static_assert(sizeof(has_decode<T>(nullptr)) == 1, "an element type needs `decode`");
    template <class E>
    static char has_unpack(decltype(E::unpack(E())) *);
    template <class E>
    static long has_unpack(...);
    static_assert(sizeof(has_unpack<T>(nullptr)) == 1, "an element type needs `unpack`");
    template <class E>
    static char has_pack(decltype(E::pack(Parts())) *);
    template <class E>
    static long has_pack(...);
    static_assert(sizeof(has_pack<T>(nullptr)) == 1, "an element type needs `pack`");
    template <class E>
    static char has_nan(decltype(E::nan()) *);
    template <class E>
    static long has_nan(...);
    static_assert(sizeof(has_nan<T>(nullptr)) == 1, "an element type needs `nan`");
    template <class E>
    static char has_float(decltype(static_cast<float>(E())) *);
    template <class E>
    static long has_float(...);
    static_assert(sizeof(has_float<T>(nullptr)) == 1, "an element type needs `explicit operator float`");
#ifdef __AVR__
    template <class E>
    static char has_pack_top(decltype(E::pack_top(0, 0, false, false)) *);
    template <class E>
    static long has_pack_top(...);
    static_assert(!T::is_small || sizeof(has_pack_top<T>(nullptr)) == 1, "an element type needs `pack_top`");
#endif
};

struct SmallReal { int8_t mantissa, exponent; };
constexpr SmallReal small(Real x) { return {static_cast<int8_t>(x.mantissa), static_cast<int8_t>(x.exponent)}; }

// What a code of an element stands for
template <class Element>
constexpr Real decoded(int code) {
    return Element::decode(static_cast<typename Element::Code>(code));
}
constexpr int32_t size_of(Real x) { return x.mantissa < 0 ? -x.mantissa : x.mantissa; }

template <class Element>
struct DecodingTable {
    SmallReal entries[1 << Element::bits];
    constexpr DecodingTable() : DecodingTable(typename UpTo<(1 << Element::bits)>::type()) {}
    template <int... Codes>
    constexpr DecodingTable(Indices<Codes...>) : entries{small(decoded<Element>(Codes))...} {}
};

template <class Element, bool Small = (Element::bits <= 8 && Element::granule > -128 && Element::mantissa_bits < 8)>
struct Decoded {
    static const DecodingTable<Element> table;
    static Real at(uint8_t code) {
        const SmallReal x = Flash<SmallReal>{table.entries}[code];
        return Real(x.mantissa, x.exponent);
    }
};
template <class Element, bool Small>
const DecodingTable<Element> Decoded<Element, Small>::table HIL_FLASH = DecodingTable<Element>();

template <class Element>
struct Decoded<Element, false> {
    static Real at(typename Element::Code code) { return Element::decode(code); }
};

}  // namespace hil
