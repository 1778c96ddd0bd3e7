// Arrays as kernels see them: in RAM, or constant in flash, which on AVR is another address space.
#pragma once
#include <stdint.h>

#ifdef __AVR__
#include <avr/pgmspace.h>
#define HIL_FLASH PROGMEM
#else
#define HIL_FLASH
#endif

// A memory of the chip beside its main RAM (`regions` in boards.yaml); the linker script has a section of this name. Elsewhere all is one.
#ifdef HIL_HAS_REGIONS
#define HIL_REGION(name) __attribute__((section(".arena_" #name)))
#else
#define HIL_REGION(name)
#endif

// Constants that are copied first to memory without wait states (`hot` in boards.yaml; passes/hot.py)
#ifdef HIL_HAS_HOT
#define HIL_HOT_SECTION ".hot"
#define HIL_HOT __attribute__((section(HIL_HOT_SECTION)))
#else
#define HIL_HOT_SECTION ".rodata.hil"
#define HIL_HOT HIL_FLASH
#endif

namespace hil {

#ifndef __AVR__
using Size = uint32_t;
#else
using Size = uint16_t;
#endif
// As a step of blocks of weights (arm/blocks.hpp, avr/dense_avr.hpp; passes/arrange.py): one element, whose products are left out
// where it is 0, or where it is -128, which is subtracted from all.
constexpr Size unless_zero = 0xFF, unless_least = 0xFE;

template <class T>
struct Ram {
    const T *at;
    T operator[](Size i) const { return at[i]; }
    Ram operator+(Size n) const { return {at + n}; }
};

#ifndef __AVR__
template <class X>
inline void copy_elements(X *to, const X *from, Size count) {
    constexpr Size step = 4 / sizeof(X);
    if (count < step) {
        for (Size n = 0; n < count; ++n) to[n] = from[n];
        return;
    }
    for (Size n = 0; n + step < count; n += step) __builtin_memcpy(to + n, from + n, 4);
    __builtin_memcpy(to + count - step, from + count - step, 4);  // some of them once more
}
#endif

template <class T>
struct Flash {
    const T *at;
    Flash operator+(Size n) const { return {at + n}; }
#ifdef __AVR__
    T operator[](Size i) const {
        const auto bits = read(at + i, Bytes<sizeof(T)>());
        T value;
        __builtin_memcpy(&value, &bits, sizeof(T));
        return value;
    }

private:
    template <int N>
    struct Bytes {};
    static uint8_t read(const T *p, Bytes<1>) { return pgm_read_byte(p); }
    static uint16_t read(const T *p, Bytes<2>) { return pgm_read_word(p); }
    static uint32_t read(const T *p, Bytes<4>) { return pgm_read_dword(p); }
#else
    T operator[](Size i) const { return at[i]; }
#endif
};

template <class T>
inline Ram<T> ram(const T *p) {
    return {p};
}
template <class T>
inline Flash<T> flash(const T *p) {
    return {p};
}

template <bool First, class A, class B>
struct OneOf {
    using type = A;
};
template <class A, class B>
struct OneOf<false, A, B> {
    using type = B;
};

// Fixed point of an odd width: as an operand the integer that stores it, as a result saturated to its own width.
template <int Bits>
struct Fixed {
    using Code = typename OneOf<(Bits <= 8), int8_t, int16_t>::type;
    Code code;
    Fixed() = default;
    constexpr Fixed(Code c) : code(c) {}
};
template <int Bits>
inline Ram<typename Fixed<Bits>::Code> ram(const Fixed<Bits> *p) {
    return {&p->code};
}
template <int Bits>
inline Flash<typename Fixed<Bits>::Code> flash(const Fixed<Bits> *p) {
    return {&p->code};
}

// Fixed point without a sign, 0 to 2^Bits - 1. Below 8 bits kernels see the signed bytes that they know.
template <int Bits>
struct Unsigned {
    using Code = typename OneOf<(Bits == 8), uint8_t, int8_t>::type;
    Code code;
    Unsigned() = default;
    constexpr Unsigned(Code c) : code(c) {}
};
template <int Bits>
inline Ram<typename Unsigned<Bits>::Code> ram(const Unsigned<Bits> *p) {
    return {&p->code};
}

// A weight that is By more than the byte which stands for it (tinyhil/passes/raised.py)
template <int By>
struct Raised {
    int8_t code;
    constexpr operator int16_t() const { return static_cast<int16_t>(code + By); }
};

// One bit: -1 or 1.
struct Signed {
    using Code = int8_t;
    Code code;
    Signed() = default;
    constexpr Signed(Code c) : code(c) {}
};
inline Ram<int8_t> ram(const Signed *p) { return {&p->code}; }

// The code of an element, unsigned.
template <class T>
constexpr auto code_of(T x, int) -> decltype(x.code) {
    return x.code;
}
constexpr uint8_t code_of(int8_t x, long) { return static_cast<uint8_t>(x); }

// The element a code stands for: plain integers are their own code.
template <class T, class Number>
constexpr auto element_of(Number code, int) -> decltype(T{static_cast<typename T::Code>(code)}) {
    return T{static_cast<typename T::Code>(code)};
}
template <class T, class Number>
constexpr T element_of(Number code, long) {
    return static_cast<T>(code);
}

}  // namespace hil
