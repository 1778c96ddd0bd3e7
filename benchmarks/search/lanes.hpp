// Sixteen samples in the place of one element: kernels of firmware/kernels/common/ on lanes, with shifts and limits that are
// known at run time alone (benchmarks/search/lanes.py).
#pragma once
#include "firmware/kernels/kernels.hpp"

namespace hil {

typedef int32_t Sixteen __attribute__((vector_size(64)));

struct Lanes {
    Sixteen v;
    Lanes() = default;
    explicit Lanes(Sixteen x) : v(x) {}
    explicit Lanes(int32_t x) : v(Sixteen{} + x) {}
    operator Sixteen() const { return v; }
    Lanes operator+(Lanes x) const { return Lanes(v + x.v); }
    Lanes operator-(Lanes x) const { return Lanes(v - x.v); }
    Lanes &operator+=(Lanes x) {
        v += x.v;
        return *this;
    }
};

Sixteen clipped;                      // saturations of each sample
int32_t lowest = -128, highest = 127;  // of results
uint32_t saturations;                 // of functions, which take one sample after the other

template <>
struct Multiply<Lanes> {
    template <class Weight>
    static Lanes of(Weight w, Lanes x) {
        return Lanes(static_cast<int32_t>(w) * x.v);
    }
    static Lanes of(Lanes a, Lanes b) { return Lanes(a.v * b.v); }
};
template <>
struct Start<Lanes> {
    template <class Bias>
    static Lanes of(Bias bias, int shift) {
        return Lanes(static_cast<int32_t>(bias) * (int32_t(1) << shift));
    }
};
template <>
struct Compared<Lanes> {
    using type = Sixteen;
};
template <>
struct Saturate<Lanes> {
    static Lanes of(Lanes x) {
        const Sixteen low = x.v < lowest, high = x.v > highest;
        clipped -= low | high;
        return Lanes(low ? Sixteen{} + lowest : high ? Sixteen{} + highest : x.v);
    }
};
template <>
struct Saturate<NonNegative<Lanes>> {
    static NonNegative<Lanes> of(Lanes x) {
        return {Saturate<Lanes>::of(Lanes(x.v < 0 ? Sixteen{} : x.v))};
    }
};
template <class Shift>
inline Lanes scaled(Lanes x, Shift shift) {
    return Lanes(x.v << int(shift));
}
template <class Out>
Out requantize(Lanes sum, int shift) {
    if (shift > 0) return saturate<Out>(Lanes((sum.v + (int32_t(1) << (shift - 1))) >> shift));
    return saturate<Out>(Lanes(sum.v << -shift));
}

}  // namespace hil
