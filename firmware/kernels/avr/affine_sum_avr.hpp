// Products of signed bytes and constants for the ATmega, 11 to 15 cycles each.
#pragma once
#include <stdint.h>

namespace hil {

// A signed byte times one byte of a constant has its sign in the carry.
#define HIL_BYTES_OF_PRODUCT(first, next)                                                                    \
    "mulsu %[x],%[k0]\n sbc %[sign],%[sign]\n" first " %A[sum],r0\n" next " %B[sum],r1\n" next " %C[sum],%[sign]\n" next " %D[sum],%[sign]\n" \
    "mulsu %[x],%[k1]\n sbc %[sign],%[sign]\n" first " %B[sum],r0\n" next " %C[sum],r1\n" next " %D[sum],%[sign]\n"
#define HIL_THIRD_BYTE(first, next) "mulsu %[x],%[k2]\n" first " %C[sum],r0\n" next " %D[sum],r1\n"
#define HIL_ADD_PRODUCT(columns)                                                                             \
    asm(columns "clr r1\n"                                                                                  \
        : [sum] "+r"(sum), [sign] "=&r"(sign)                                                                \
        : [x] "a"(x), [k0] "a"(k0), [k1] "a"(k1), [k2] "a"(k2)                                               \
        : "r0")

// sum += x * Factor, of at most 24 bits
template <int32_t Factor>
inline void add_product_with(int32_t &sum, int8_t x) {
    constexpr uint32_t size = Factor < 0 ? -static_cast<uint32_t>(Factor) : static_cast<uint32_t>(Factor);
    const uint8_t k0 = static_cast<uint8_t>(size), k1 = static_cast<uint8_t>(size >> 8), k2 = static_cast<uint8_t>(size >> 16);
    uint8_t sign;
    if (Factor < 0 && size < 0x10000) HIL_ADD_PRODUCT(HIL_BYTES_OF_PRODUCT("sub", "sbc"));
    else if (Factor < 0) HIL_ADD_PRODUCT(HIL_BYTES_OF_PRODUCT("sub", "sbc") HIL_THIRD_BYTE("sub", "sbc"));
    else if (size < 0x10000) HIL_ADD_PRODUCT(HIL_BYTES_OF_PRODUCT("add", "adc"));
    else HIL_ADD_PRODUCT(HIL_BYTES_OF_PRODUCT("add", "adc") HIL_THIRD_BYTE("add", "adc"));
}
#undef HIL_ADD_PRODUCT
#undef HIL_THIRD_BYTE
#undef HIL_BYTES_OF_PRODUCT

template <int32_t A, int32_t B>
inline int32_t sum_of_products(int32_t start, int8_t left, int8_t right) {
    add_product_with<A>(start, left);
    add_product_with<B>(start, right);
    return start;
}

}  // namespace hil
