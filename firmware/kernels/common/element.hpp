// What element types share: their storage, and decoding 8-bit codes by a table made at compile time.
#pragma once
#include "firmware/kernels/common/real.hpp"
#include "firmware/kernels/common/table.hpp"

namespace hil {

template <int Bytes> struct CodeOfBytes { using type = uint32_t; };
template <> struct CodeOfBytes<1> { using type = uint8_t; };
template <> struct CodeOfBytes<2> { using type = uint16_t; };
template <int Bits> struct CodeOf : CodeOfBytes<(Bits <= 8 ? 1 : Bits <= 16 ? 2 : 4)> {};

struct SmallReal {
    int8_t mantissa, exponent;
};
constexpr SmallReal small(Real x) { return {static_cast<int8_t>(x.mantissa), static_cast<int8_t>(x.exponent)}; }

// What a code of an element stands for
template <class Element>
constexpr Real decoded(int code) { return Element::decode(static_cast<typename Element::Code>(code)); }
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
