// Activations inside of a layer's one rounding (tinyhil/ops/limits.py): a layer writes through one of these outputs.
#pragma once
#include "firmware/kernels/common/real.hpp"

namespace hil {

// An element that is never below zero
template <class T>
struct NonNegative {
    T element;
};
// An element between two codes; ends outside of the format saturate and count like any other value
template <class T, int32_t Low, int32_t High>
struct Within {
    T element;
};
// An element that is within its format, by proof (passes/ranges.py)
template <class T>
struct Unclipped {
    T element;
};

template <class T>
inline NonNegative<T> *non_negative(T *out) {
    return reinterpret_cast<NonNegative<T> *>(out);
}
template <int32_t Low, int32_t High, class T>
inline Within<T, Low, High> *within(T *out) {
    return reinterpret_cast<Within<T, Low, High> *>(out);
}

template <class T>
inline Unclipped<T> *unclipped(T *out) {
    return reinterpret_cast<Unclipped<T> *>(out);
}

template <class T>
struct IsSpecial<NonNegative<T>> : IsSpecial<T> {};
template <class T, int32_t Low, int32_t High>
struct IsSpecial<Within<T, Low, High>> : IsSpecial<T> {};

template <class T>
struct Saturate<NonNegative<T>> {
    template <class Number>
    static NonNegative<T> of(Number value) {
        if (value < 0) return {T()};
        return {Saturate<T>::of(value)};
    }
};

template <class T>
struct Saturate<Unclipped<T>> {
    template <class Number>
    static Unclipped<T> of(Number value) {
        return {element_of<T>(value, 0)};
    }
};

template <class T, int32_t Low, int32_t High>
struct Saturate<Within<T, Low, High>> {
    template <class Number>
    static Within<T, Low, High> of(Number value) {
        if (value < Low) value = static_cast<Number>(Low);
        if (value > High) value = static_cast<Number>(High);
        return {Saturate<T>::of(value)};
    }
};

#ifndef __AVR__
// saturate<Out> where most values are within the format: what is not is counted elsewhere
template <class Out>
__attribute__((noinline, noclone, cold)) Out saturated(int32_t value) {
    return saturate<Out>(value);
}

template <class Out>
struct Limited {
    static Out of(int32_t value) { return saturate<Out>(value); }
};
template <>
struct Limited<int8_t> {
    static int8_t of(int32_t value) { return static_cast<int8_t>(value) == value ? static_cast<int8_t>(value) : saturated<int8_t>(value); }
};
template <>
struct Limited<int16_t> {
    static int16_t of(int32_t value) {
        return static_cast<int16_t>(value) == value ? static_cast<int16_t>(value) : saturated<int16_t>(value);
    }
};
template <class T>
struct LimitedBelow {
    static NonNegative<T> of(int32_t value) {
        value &= ~(value >> 31);
        return value <= Limits<T>::highest ? NonNegative<T>{static_cast<T>(value)} : saturated<NonNegative<T>>(value);
    }
};
template <>
struct Limited<NonNegative<int8_t>> : LimitedBelow<int8_t> {};
template <>
struct Limited<NonNegative<int16_t>> : LimitedBelow<int16_t> {};
namespace portable {
inline int32_t clamped_to_byte(int32_t value) { return value < -128 ? -128 : value > 127 ? 127 : value; }
inline int32_t clamped_to_unsigned_byte(int32_t value) { return value < 0 ? 0 : value > 255 ? 255 : value; }
}  // namespace portable
#if __ARM_ARCH_ISA_THUMB == 2
inline int32_t clamped_to_byte(int32_t value) {
    int32_t clamped;
    asm("ssat %0, #8, %1" : "=r"(clamped) : "r"(value));
    return clamped;
}
inline int32_t clamped_to_unsigned_byte(int32_t value) {
    int32_t clamped;
    asm("usat %0, #8, %1" : "=r"(clamped) : "r"(value));
    return clamped;
}
#else
inline int32_t clamped_to_unsigned_byte(int32_t value) { return portable::clamped_to_unsigned_byte(value); }
inline int32_t clamped_to_byte(int32_t value) { return portable::clamped_to_byte(value); }
#endif
// Within the ends of an activation; an upper one beyond a byte is none
template <int32_t Low, int32_t High>
inline int32_t clamped_within(int32_t value) {
    constexpr bool of_bytes = Low == -128;
    if (of_bytes) value = clamped_to_byte(value);
    else if (value < Low) value = Low;
    if (High < (of_bytes ? 127 : 128) && value > High) value = High;
    return value;
}
// What an activation limits is not counted; an end beyond the format is none.
template <int32_t Low, int32_t High>
struct Limited<Within<int8_t, Low, High>> {
    static Within<int8_t, Low, High> of(int32_t value) {
        using Out = Within<int8_t, Low, High>;
        if (Low < -128) return saturate<Out>(value);
        if (High > 127 && value > 127) return saturated<Out>(value);
        return {static_cast<int8_t>(clamped_within<Low, High>(value))};
    }
};
template <class Out>
inline Out limited(int32_t value) {
    return Limited<Out>::of(value);
}
#endif

// Sums that are no integers are limited before they are packed: a zero has no sign then.
template <class T>
struct Pack<NonNegative<T>> {
    static NonNegative<T> of(Parts x) { return {Pack<T>::of(x.negative ? parts(int32_t(0)) : x)}; }
    static NonNegative<T> nan() { return {Pack<T>::nan()}; }
};

}  // namespace hil
