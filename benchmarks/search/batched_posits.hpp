// The same for posits, decoded to doubles: the sums' units, the format and the largest product are known at run time
// alone. One rounding is the engine's own (search/engine/batch_store.hpp): there is no other for sixteen numbers.
#pragma once
#include "firmware/kernels/kernels.hpp"
#include "search/engine/batch_store.hpp"

namespace hil {

typedef double Numbers __attribute__((vector_size(128)));
typedef int64_t Longs __attribute__((vector_size(128)));

double low, unit, ceiling;  // one unit of sums, how many of them are 1, and what no product reaches
bool cuts;                  // whether products have bits below a unit
batch_engine::Tensor format;
int32_t clipped[16];      // saturations of each sample: of results, of products
Longs cut_off;

inline void window(int bits, int lowest, int guard, bool floors) {
    low = std::ldexp(1.0, lowest), unit = std::ldexp(1.0, -lowest), ceiling = std::ldexp(1.0, bits - 1 - guard), cuts = floors;
}
inline void posits(int bits, int es) {
    format.bits = bits, format.es = es, format.largest = std::ldexp(1.0, (bits - 2) << es);
}
template <class Posit>
inline bool decode(const Posit *codes, double *numbers, int count) {
    for (int n = 0; n < count; ++n) {
        const Real x = Posit::decode(codes[n].code);
        numbers[n] = std::ldexp(x.mantissa, x.exponent);
    }
    return true;
}
// Of weights: the largest sum of a row's magnitudes, and the largest one
struct RowSums {
    double sum, weight;
    RowSums(const double *w, int count, int rows) : sum(0), weight(0) {
        for (int first = 0; first < count; first += count / rows) {
            double total = 0;
            for (int k = first; k < first + count / rows; ++k) total += std::fabs(w[k]), weight = std::fmax(weight, std::fabs(w[k]));
            sum = std::fmax(sum, total);
        }
    }
};
inline Numbers floors(Numbers x) {
    for (int s = 0; s < 16; ++s) x[s] = std::floor(x[s]);
    return x;
}

struct Batch {
    Numbers v;
    Batch() = default;
    explicit Batch(Numbers x) : v(x) {}
    explicit Batch(double x) : v(Numbers{} + x) {}
    operator Numbers() const { return v; }
};

// Whether doubles hold all sums of 64 bits over these elements, none of whose products saturates
inline bool is_short(const Batch *x, int count, RowSums w, const double *bias, int outputs, int shift) {
    Numbers most = {};
    for (int k = 0; k < count; ++k) most = x[k].v > most ? x[k].v : -x[k].v > most ? -x[k].v : most;
    double top = 0, start = 0;
    for (int s = 0; s < 16; ++s) top = std::fmax(top, most[s]);
    for (int n = 0; n < outputs; ++n) start = std::fmax(start, std::fabs(bias[n]));
    return top * w.weight * unit < ceiling && (top * w.sum + std::ldexp(start, shift)) * unit + count < 4503599627370496.0;
}

// Sums that doubles hold; sums of 64 bits, products of which saturate
struct ShortUnits {
    Numbers v;
    ShortUnits() = default;
    explicit ShortUnits(Numbers x) : v(x) {}
    explicit ShortUnits(Batch x) : v(x.v * unit) {}
    ShortUnits &operator+=(ShortUnits x) {
        v += x.v;
        return *this;
    }
};
struct LongUnits {
    Longs v;
    Numbers factor;
    LongUnits() = default;
    explicit LongUnits(Longs x) : v(x) {}
    explicit LongUnits(Batch x) : factor(x.v * unit) {}
    LongUnits &operator+=(LongUnits x) {
        v += x.v;
        return *this;
    }
    static LongUnits cut(Numbers product) {
        const Numbers whole = floors(product);
        const Longs most = Longs{} + (static_cast<int64_t>(ceiling) - 1);
        const Longs over = whole >= ceiling, under = whole <= -ceiling;
        cut_off -= over | under;
        return LongUnits(over ? most : under ? -most : __builtin_convertvector(whole, Longs));
    }
};

template <>
struct Multiply<ShortUnits> {
    static ShortUnits of(double w, ShortUnits x) { return ShortUnits(cuts ? floors(w * x.v) : w * x.v); }
    static ShortUnits of(double w, Batch x) { return of(w, ShortUnits(x)); }
};
template <>
struct Multiply<LongUnits> {
    static LongUnits of(double w, LongUnits x) { return LongUnits::cut(w * x.factor); }
    static LongUnits of(double w, Batch x) { return of(w, LongUnits(x)); }
};
template <>
struct Start<ShortUnits> {
    static ShortUnits of(double bias, int shift) { return ShortUnits(floors(Numbers{} + std::ldexp(bias * unit, shift))); }
};
template <>
struct Start<LongUnits> {
    static LongUnits of(double bias, int shift) { return LongUnits::cut(Numbers{} + std::ldexp(bias * unit, shift)); }
};
template <>
struct Compared<Batch> {
    using type = Numbers;
};

template <class Out>
struct Ends {
    static Out of(Batch x) { return x; }
};
template <>
struct Ends<NonNegative<Batch>> {
    static NonNegative<Batch> of(Batch x) { return {Batch(x.v < 0 ? Numbers{} : x.v)}; }
};
template <class Out>
inline Out rounded(Numbers value, const double *rest) {
    Numbers made;
    if (rest == nullptr) batch_engine::to_posit<false>(format, (const double *)&value, rest, (double *)&made, clipped);
    else batch_engine::to_posit<true>(format, (const double *)&value, rest, (double *)&made, clipped);
    return Ends<Out>::of(Batch(made));
}
template <class Out>
Out requantize(ShortUnits sum, int shift) {
    return rounded<Out>(sum.v * std::ldexp(low, -shift), nullptr);
}
template <class Out>
Out requantize(LongUnits sum, int shift) {
    const Numbers value = __builtin_convertvector(sum.v, Numbers);
    const Numbers rest = __builtin_convertvector(sum.v - __builtin_convertvector(value, Longs), Numbers);
    return rounded<Out>(value * std::ldexp(low, -shift), (const double *)&rest);
}
template <class Out>
Out requantize(Batch x, int shift) {
    return shift == 0 ? x : rounded<Out>(x.v * std::ldexp(1.0, -shift), nullptr);
}

}  // namespace hil
