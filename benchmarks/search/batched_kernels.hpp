// Sixteen samples in the place of one element: kernels of firmware/kernels/common/ on batches, with shifts and limits that are
// known at run time alone (benchmarks/search/batched_kernels.py).
#pragma once
#include "firmware/kernels/kernels.hpp"

namespace hil {

typedef int32_t Sixteen __attribute__((vector_size(64)));

struct Batch {
    Sixteen v;
    Batch() = default;
    explicit Batch(Sixteen x) : v(x) {}
    explicit Batch(int32_t x) : v(Sixteen{} + x) {}
    operator Sixteen() const { return v; }
    Batch operator+(Batch x) const { return Batch(v + x.v); }
    Batch operator-(Batch x) const { return Batch(v - x.v); }
    Batch &operator+=(Batch x) {
        v += x.v;
        return *this;
    }
};

typedef int64_t SixteenLong __attribute__((vector_size(128)));
Sixteen clipped;                      // saturations of each sample
int32_t lowest = -128, highest = 127;  // of results
int32_t least, most;                   // an activation's ends
template <class T>
inline Within<T, 0, 0> *within_known(T *out, int32_t low, int32_t high) {
    least = low, most = high;
    return reinterpret_cast<Within<T, 0, 0> *>(out);
}
uint32_t saturations;                 // of functions, which take one sample after the other

template <>
struct Multiply<Batch> {
    template <class Weight>
    static Batch of(Weight w, Batch x) {
        return Batch(static_cast<int32_t>(w) * x.v);
    }
    static Batch of(Batch a, Batch b) { return Batch(a.v * b.v); }
};
template <>
struct Start<Batch> {
    template <class Bias>
    static Batch of(Bias bias, int shift) {
        return Batch(static_cast<int32_t>(bias) * (int32_t(1) << shift));
    }
};
template <>
struct Compared<Batch> {
    using type = Sixteen;
};
template <>
struct Saturate<Batch> {
    static Batch of(Batch x) {
        const Sixteen low = x.v < lowest, high = x.v > highest;
        clipped -= low | high;
        return Batch(low ? Sixteen{} + lowest : high ? Sixteen{} + highest : x.v);
    }
};
template <>
struct Saturate<NonNegative<Batch>> {
    static NonNegative<Batch> of(Batch x) {
        return {Saturate<Batch>::of(Batch(x.v < 0 ? Sixteen{} : x.v))};
    }
};
template <>
struct Saturate<Within<Batch, 0, 0>> {
    static Within<Batch, 0, 0> of(Batch x) {
        const Sixteen low = x.v < least, high = x.v > most;
        return {Saturate<Batch>::of(Batch(low ? Sixteen{} + least : high ? Sixteen{} + most : x.v))};
    }
};
template <class Shift>
inline Batch scaled(Batch x, Shift shift) {
    return Batch(x.v << int(shift));
}
template <class Out>
Out requantize(Batch sum, int shift) {
    if (shift > 0) return saturate<Out>(Batch((sum.v + (int32_t(1) << (shift - 1))) >> shift));
    return saturate<Out>(Batch(sum.v << -shift));
}
// As TensorFlow Lite rescales sums of 32 bits (firmware/kernels/common/rescale.hpp)
inline SixteenLong product(Batch x, int32_t factor, int shift) {
    const SixteenLong wide = __builtin_convertvector(x.v, SixteenLong);
    return (shift > 0 ? wide << shift : wide) * int64_t(factor);
}
template <class Out, bool Once>
Out requantize(Batch sum, Rescale<Once> r) {
    Sixteen units;
    if (Once) {
        const SixteenLong wide = __builtin_convertvector(sum.v, SixteenLong) * int64_t(r.multiplier);
        units = __builtin_convertvector((wide + (int64_t(1) << (30 - r.shift))) >> (31 - r.shift), Sixteen);
    } else {
        units = __builtin_convertvector((product(sum, r.multiplier, r.shift) + (int64_t(1) << 30)) >> 31, Sixteen);
        if (r.shift < 0) {
            const Sixteen twice = (units + (units >> 31)) >> (-r.shift - 1);
            units = (twice >> 1) + (twice & 1);
        }
    }
    return saturate<Out>(Batch(units + r.zero));
}

}  // namespace hil
