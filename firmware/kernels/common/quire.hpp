// Exact dot products of coded formats: an integer window of Bits bits whose lowest weighs 2^Low (tinyhil/formats/quire.py
// computes both). Each product is cut to floor(product / 2^Low). Guard = 0: the constants prove that no sum overflows.
// Guard > 0: products saturate at +-(2^(Bits - 1 - Guard) - 1) and are counted; 2^Guard of them cannot overflow the sum.
#pragma once
#include "firmware/kernels/common/e8m0.hpp"
#include "firmware/kernels/common/minifloat.hpp"
#include "firmware/kernels/common/posit.hpp"
#include "firmware/kernels/common/single.hpp"

namespace hil {

template <int Bits>
struct WindowInteger {
    using type = int64_t;
    using unsigned_type = uint64_t;
};
template <>
struct WindowInteger<32> {
    using type = int32_t;
    using unsigned_type = uint32_t;
};

template <class T>
struct MantissaBits {
    static constexpr int value = T::mantissa_bits;
};
template <>
struct MantissaBits<int8_t> {
    static constexpr int value = 8;
};
template <>
struct MantissaBits<uint8_t> {
    static constexpr int value = 8;
};
template <>
struct MantissaBits<int16_t> {
    static constexpr int value = 16;
};
template <>
struct MantissaBits<int32_t> {
    static constexpr int value = 32;
};

template <int Bits, int Low, int Guard = 0>
struct Quire {
    using Whole = typename WindowInteger<Bits>::type;
    static constexpr Whole limit = static_cast<Whole>((uint64_t(1) << (Bits - 1 - Guard)) - 1);
    using Unsigned = typename WindowInteger<Bits>::unsigned_type;
    Whole units;

    Quire() : units(0) {}
    explicit Quire(Whole u) : units(u) {}

    HIL_SHARED static Whole cut(int64_t product, int16_t exponent) {
        const int16_t shift = static_cast<int16_t>(exponent - Low);
        if (shift <= 0) {
            const int64_t floored = shift > -63 ? product >> -shift : product < 0 ? -1 : 0;
            return Guard > 0 ? clipped(floored) : static_cast<Whole>(floored);
        }
        if (Guard > 0 && (shift >= Bits - 1 - Guard || product > (int64_t(limit) >> shift) || product < -(int64_t(limit) >> shift))) {
            if (product == 0) return 0;
            ++saturations;
            return product < 0 ? -limit : limit;
        }
        return static_cast<Whole>(static_cast<uint64_t>(product) << shift);
    }
    // The same for products of less than `Most` bits, by shifts of 32 bits where nothing can clip
    template <int Most>
    static Whole cut_short(int32_t product, int16_t exponent) {
        const int16_t shift = static_cast<int16_t>(exponent - Low);
        if (Guard > 0 && (Bits < 64 || shift > Bits - 1 - Guard - Most)) return cut(product, exponent);
        if (shift < 0) return product >> (shift > -31 ? -shift : 31);
        return static_cast<Whole>(static_cast<Unsigned>(static_cast<Whole>(product)) << (shift & (Bits - 1)));
    }
    static Whole clipped(int64_t x) {
        if (x >= -int64_t(limit) && x <= int64_t(limit)) return static_cast<Whole>(x);
        ++saturations;
        return x < 0 ? -limit : limit;
    }

    Quire &operator+=(Quire other) {
        units += other.units;
        return *this;
    }
};

template <int Bits, int Low, int Guard>
struct IsSpecial<Quire<Bits, Low, Guard>> {
    static constexpr bool value = true;
};

template <int Bits, int Low, int Guard>
inline Parts parts(Quire<Bits, Low, Guard> x) {
    return parts_of(x.units < 0, magnitude_of(x.units), Low);
}

template <int Bits, int Low, int Guard>
struct Multiply<Quire<Bits, Low, Guard>> {
    using Sum = Quire<Bits, Low, Guard>;
    template <class A, class B>
    static Sum of(A a, B b) {
#ifdef __AVR__
        constexpr int left = MantissaBits<A>::value, right = MantissaBits<B>::value;
        if (left < 16 && right < 16) {  // multiplied as words
            const Real x(a), y(b);
            const int32_t product = static_cast<int32_t>(static_cast<int16_t>(x.mantissa)) * static_cast<int16_t>(y.mantissa);
            return Sum(
                Sum::template cut_short<(left + right < 31 ? left + right : 30)>(product, static_cast<int16_t>(x.exponent + y.exponent)));
        }
#endif
        return decoded<MantissaBits<A>::value + MantissaBits<B>::value>(Real(a), Real(b));
    }

    // `Most`: bits of the longest product
    template <int Most>
    static Sum decoded(Real x, Real y) {
        const int16_t exponent = static_cast<int16_t>(x.exponent + y.exponent);
        if (Most < 32) return Sum(Sum::template cut_short<(Most < 32 ? Most : 31)>(x.mantissa * y.mantissa, exponent));
        return Sum(Sum::cut(static_cast<int64_t>(x.mantissa) * y.mantissa, exponent));
    }
};

template <int Bits, int Low, int Guard>
struct Start<Quire<Bits, Low, Guard>> {
    using Sum = Quire<Bits, Low, Guard>;
    template <class Bias, class Shift>
    static Sum of(Bias bias, Shift shift) {
        const Real x(bias);
        return Sum(Sum::cut(x.mantissa, static_cast<int16_t>(x.exponent + int(shift))));
    }
};

template <class A, class B>
inline void accumulate(float &sum, A a, B b, Size count) {
    for (Size i = 0; i < count; ++i) sum += static_cast<float>(a[i]) * static_cast<float>(b[i]);
}

}  // namespace hil

#ifdef __AVR__
#include "firmware/kernels/avr/quire_avr.hpp"
#else
#include "firmware/kernels/common/quire_table.hpp"
#endif
