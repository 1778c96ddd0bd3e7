// Holds assembler of the kernels against C++ on random and extreme operands: how many results differ, per routine.
#include "print.hpp"

#include "firmware/kernels/kernels.hpp"

namespace hil {
uint32_t saturations;
}

namespace {

uint32_t state = 1;
uint8_t random_byte() {
    state = state * 1664525 + 1013904223;
    return static_cast<uint8_t>(state >> 24);
}
int8_t some(uint8_t kind) {
    const uint8_t byte = random_byte();
    if (kind == 4) return byte & 3 ? 0 : static_cast<int8_t>(byte);  // mostly zeros
    return kind == 0 ? static_cast<int8_t>(byte) : kind == 1 ? -128 : kind == 2 ? 127 : byte & 1 ? -128 : 127;
}

constexpr hil::Size most = 33;
// weights lie in flash: all bytes in an order in which every kind of product comes up
const uint8_t weights[4 * most] HIL_FLASH = {
#define HIL_EIGHT(n) n, 255 - n, 128, 127, 129, 0, 255, (n * 37) & 255,
    HIL_EIGHT(1) HIL_EIGHT(5) HIL_EIGHT(9) HIL_EIGHT(20) HIL_EIGHT(33) HIL_EIGHT(47) HIL_EIGHT(64) HIL_EIGHT(80) HIL_EIGHT(99)
    HIL_EIGHT(113) HIL_EIGHT(126) HIL_EIGHT(135) HIL_EIGHT(150) HIL_EIGHT(177) HIL_EIGHT(200) HIL_EIGHT(240) 3, 7, 31, 211};

template <class Acc, hil::Size Step>
uint16_t rows_differ(const int8_t *x, hil::Size count, int16_t zero) {
    Acc one[4], other[4];
    for (uint8_t r = 0; r < 4; ++r) one[r] = other[r] = static_cast<Acc>(static_cast<int16_t>(some(0) * 100));
    hil::Flash<int8_t> w = {reinterpret_cast<const int8_t *>(weights)}, v = w;
    hil::Ram<int8_t> at = {x}, again = at;
    hil::add_rows(hil::Const<Step>(), one, w, at, count);
    hil::portable::add_rows(other, v, again, count, zero);
    uint16_t wrong = w.at != v.at || at.at != again.at;
    for (uint8_t r = 0; r < 4; ++r) wrong += one[r] != other[r];
    return wrong;
}

template <class Acc>
uint16_t rows_that_differ() {
    int8_t x[most];
    uint16_t wrong = 0;
    for (hil::Size count = 1; count <= most; ++count) {
        for (uint8_t kind = 0; kind < 5; ++kind) {
            for (hil::Size k = 0; k < count; ++k) x[k] = some(kind);
            wrong += rows_differ<Acc, 1>(x, count, 0) + rows_differ<Acc, hil::unless_zero>(x, count, 0);
            for (hil::Size k = 0; kind == 4 && k < count; ++k) x[k] ^= -128;
            wrong += rows_differ<Acc, hil::unless_least>(x, count, -128);
        }
    }
    return wrong;
}

__int24 extreme_sum(uint8_t n) {
    const __int24 ends[] = {0, 1, -1, 127, 128, -128, -129, 0x7F7F, 0x7F80, -0x8080, -0x8081, 0x3FFFFF, -0x400000};
    if (n < 13) return ends[n];
    return static_cast<__int24>(static_cast<__uint24>(random_byte()) | (static_cast<__uint24>(random_byte()) << 8) |
                                (static_cast<__uint24>(random_byte() & 0x3F) << 16)) - 0x200000;
}

template <int N>
uint16_t roundings_that_differ() {
    uint16_t wrong = 0;
    for (uint8_t n = 0; n < 60; ++n) {
        for (uint8_t mask = 0; mask < 2; ++mask) {
            __int24 sums[4];
            int8_t bytes[4];
            for (uint8_t r = 0; r < 4; ++r) sums[r] = extreme_sum(static_cast<uint8_t>(n + 5 * r));
            hil::saturations = 0;
            hil::round_rows(bytes, sums, N, mask ? 0 : 0xFF);
            const uint32_t counted = hil::saturations;
            hil::saturations = 0;
            for (uint8_t r = 0; r < 4; ++r) wrong += bytes[r] != hil::portable::round_row(sums[r], N, mask != 0);
            wrong += counted != hil::saturations;
            for (uint8_t r = 0; r < 4; ++r) wrong += hil::requantize<int8_t>(sums[r], hil::Const<N>()) != hil::portable::round_row(sums[r], N, false);
        }
    }
    return wrong;
}

uint16_t bytes_that_differ() {
    uint16_t wrong = 0;
    for (int32_t value = -32768; value < 32768; ++value) {
        const int16_t narrow = static_cast<int16_t>(value);
        const uint32_t before = hil::saturations;
        const int8_t found = hil::saturate<int8_t>(narrow);
        const int8_t nearest = narrow > 127 ? 127 : narrow < -128 ? -128 : static_cast<int8_t>(narrow);
        wrong += found != nearest || hil::saturations - before != static_cast<uint32_t>(nearest != narrow);
    }
    return wrong;
}

template <int N>
uint16_t shifts_that_differ() {
    uint16_t wrong = 0;
    for (uint8_t n = 0; n < 60; ++n) {
        const __int24 sum = extreme_sum(n);
        const int16_t word = static_cast<int16_t>(sum);
        wrong += hil::shift_right_const<(N < 8 ? N : 0)>(sum) != (sum >> (N < 8 ? N : 0));
        wrong += hil::shift_right_const<N>(word) != (word >> N);
        wrong += hil::lift24<N>(sum) != static_cast<__int24>(static_cast<__uint24>(sum) << N);
    }
    return wrong;
}

uint16_t squares_that_differ() {
    int8_t x[most];
    uint16_t wrong = 0;
    for (hil::Size count = 1; count <= most; ++count) {
        for (uint8_t kind = 0; kind < 4; ++kind) {
            for (hil::Size k = 0; k < count; ++k) x[k] = some(kind);
            const hil::Flash<int8_t> w = {reinterpret_cast<const int8_t *>(weights)};
            __int24 one = some(0), other = one, swapped = one;
            hil::add_squares(one, hil::ram(x), w, count);
            hil::add_squares(swapped, w, hil::ram(x), count, hil::Const<0>(), hil::Const<0>(), hil::Const<0>());
            hil::portable::add_squares(other, hil::ram(x), w, count);
            wrong += one != other || swapped != other;
        }
    }
    return wrong;
}

int16_t some_word(uint8_t kind) {
    const int16_t ends[] = {-32768, 32767, -1, 0, 1, -32767, 32766, 255};
    return kind ? ends[random_byte() & 7] : static_cast<int16_t>(random_byte() | some(0) * 256);
}

// Of words, beside the same kernel for words that both lie in RAM
template <int AShift, int Drop>
uint16_t squares_of_words_that_differ() {
    static const int16_t words[16] HIL_FLASH = {-32768, 32767, 12345, -1, 0, 1, 2, -2, -32767, 32766, 255, 256, -256, -30000, 31999, 7};
    int16_t x[16], w[16];
    uint16_t wrong = 0;
    for (hil::Size count = 0; count <= 16; ++count) {
        for (uint8_t round = 0; round < 40; ++round) {
            for (hil::Size k = 0; k < count; ++k) {
                x[k] = some_word(round & 1);
                w[k] = hil::Flash<int16_t>{words}[k];
            }
            hil::Acc40 one(some(0)), other = one;
            hil::saturations = 0;
            hil::add_squares(one, hil::ram(x), hil::Flash<int16_t>{words}, count, hil::Const<AShift>(), hil::Const<0>(), hil::Const<Drop>());
            const uint32_t counted = hil::saturations;
            hil::saturations = 0;
            hil::add_squares(other, hil::ram(x), hil::ram(w), count, hil::Const<AShift>(), hil::Const<0>(), hil::Const<Drop>());
            wrong += one.low != other.low || one.high != other.high || counted != hil::saturations;
        }
    }
    return wrong;
}

int16_t elements[600];

// Steps of the stream are whatever the weights are: at most 255 each, the elements lie anywhere in RAM
uint16_t streams_that_differ() {
    uint16_t wrong = 0;
    int8_t *const x = reinterpret_cast<int8_t *>(elements);
    for (hil::Size k = 0; k < sizeof elements; ++k) x[k] = some(k % 5 ? 0 : 3);
    for (uint8_t count = 0; count < 8; ++count) {
        for (uint8_t first = 0; first < 60; ++first) {
            hil::Flash<uint8_t> w = {weights + first}, v = w;
            __int24 one = some(0) * 100, other = one;
            hil::add_stream(one, w, hil::ram(x), count);
            hil::portable::add_stream(other, v, hil::ram(x), count);
            wrong += one != other || w.at != v.at;
        }
    }
    return wrong;
}

__attribute__((noinline)) uint16_t streams_of_words_that_differ() {
    static const uint8_t stream[] HIL_FLASH = {0, 0, 128, 1, 255, 127, 255, 1, 128, 0, 255, 255, 3, 0, 0, 7, 128, 0, 2, 57, 48, 90, 199, 207, 1, 0, 255};
    uint16_t wrong = 0;
    for (hil::Size k = 0; k < 600; ++k) elements[k] = some_word(k % 3 != 0);
    for (uint8_t count = 0; count <= 9; ++count) {
        for (uint8_t first = 0; first < 200; ++first) {
            hil::Flash<uint8_t> w = {stream}, v = w;
            hil::Acc40 one(some(0) * 100), other = one;
            hil::add_stream(one, w, hil::ram(elements + first), count);
            hil::add_stream<hil::Acc40>(other, v, hil::ram(elements + first), count);
            wrong += one.low != other.low || one.high != other.high || w.at != v.at;
        }
    }
    return wrong;
}

int32_t some_long() {
    return static_cast<int32_t>(static_cast<uint32_t>(some_word(0)) << 16 | static_cast<uint16_t>(some_word(random_byte() & 1)));
}
__attribute__((noinline)) uint16_t powers_that_differ() {
    static const uint16_t table[32] HIL_FLASH = {0, 1435, 2902, 4400, 65535, 1};
    uint16_t wrong = 0;
    for (uint16_t n = 0; n < 1500; ++n) {
        const int32_t t = some_long();
        const hil::Power one = hil::power_of_two(hil::Flash<uint16_t>{table}, t), other = hil::portable::power_of_two(hil::Flash<uint16_t>{table}, t);
        wrong += one.mantissa != other.mantissa || one.exponent != other.exponent;
        const int right = 1 + static_cast<int>(n % 30);
        wrong += hil::rounded_mantissa(one.mantissa, right) != hil::portable::rounded_mantissa(one.mantissa, right);
        const int32_t factor = n & 1 ? t >> 8 : n & 2 ? -(int32_t(1) << 23) : (int32_t(1) << 23) - 1;  // 23 bits and a sign
        const int16_t x = some_word(n >> 2 & 1);
        const int drop = static_cast<int>(n % 83) - 20;
        const int32_t found = hil::power_exponent(x, factor, drop);
        wrong += found != hil::portable::power_exponent(x, factor, drop);
    }
    return wrong;
}

template <int32_t Factor>
__attribute__((noinline)) uint16_t products_that_differ() {
    uint16_t wrong = 0;
    for (int16_t x = -128; x < 128; ++x) {
        const int8_t other = some(0);
        const int32_t start = static_cast<int32_t>(state >> 4);
        wrong += hil::sum_of_products<Factor, 77777>(start, static_cast<int8_t>(x), other) !=
                 hil::portable::sum_of_products<Factor, 77777>(start, static_cast<int8_t>(x), other);
    }
    return wrong;
}

const int32_t multipliers[8] HIL_FLASH = {0x40000000, 0x7FFFFFFF, 0x40000001, 0x5A5A5A5A, 0x7F000000, 0x400000FF, 0x6789ABCD, 0x55555555};
const int8_t shifts[7] HIL_FLASH = {-8, -9, -10, -11, -14, -19, -24};
constexpr int32_t rounded(int32_t multiplier, int right) { return ((multiplier >> (right - 1)) + 1) >> 1; }
constexpr int32_t near_to(int32_t multiplier, int right) {
    return rounded(multiplier, right) < 0xFFFFFF ? rounded(multiplier, right) : 0xFFFFFF;
}
#define HIL_NEAR_TO(m, right) near_to(m, right) & 255, near_to(m, right) >> 8 & 255, near_to(m, right) >> 16
#define HIL_NEAR_ALL(right) \
    HIL_NEAR_TO(0x40000000, right), HIL_NEAR_TO(0x7FFFFFFF, right), HIL_NEAR_TO(0x40000001, right), HIL_NEAR_TO(0x5A5A5A5A, right), \
    HIL_NEAR_TO(0x7F000000, right), HIL_NEAR_TO(0x400000FF, right), HIL_NEAR_TO(0x6789ABCD, right), HIL_NEAR_TO(0x55555555, right)
const uint8_t near_ones[7 * 24] HIL_FLASH = {HIL_NEAR_ALL(7), HIL_NEAR_ALL(8), HIL_NEAR_ALL(9), HIL_NEAR_ALL(10), HIL_NEAR_ALL(13),
    HIL_NEAR_ALL(18), HIL_NEAR_ALL(23)};

// Sums of all lengths, with ties of a multiplier of 2^30, and what is next to them
__int24 any_sum(uint8_t n, int8_t shift, uint8_t lift) {
    const __int24 random = extreme_sum(static_cast<uint8_t>(n + 13)) >> lift;
    if (n % 3 || shift < -14) return n % 5 ? random : random >> 8;
    return static_cast<__int24>(((2 * static_cast<int32_t>(some(0)) + 1) << -shift) + (n / 3) % 3 - 1);
}

// What differs from the portable form, and what is decided and not rounded as the exact multiplier rounds
uint16_t near_rows_that_differ() {
    uint16_t wrong = 0, undecided = 0;
    for (uint8_t step = 0; step < 56; ++step) {
        const uint8_t lift = step & 3, half = step >> 2 & 1, at = static_cast<uint8_t>(step >> 3);
        const hil::Flash<int32_t> m = {multipliers + 4 * half};
        const int8_t shift = static_cast<int8_t>(hil::Flash<int8_t>{shifts}[at] + lift);
        const int zero = step % 3 == 0 ? -128 : step % 3 == 1 ? 127 : some(0);
        for (uint8_t n = 0; n < 90; ++n) {
            __int24 sums[4];
            int8_t bytes[4];
            uint32_t counted = 0;
            for (uint8_t r = 0; r < 4; ++r) sums[r] = any_sum(n, shift, lift);
            const uint8_t *near = near_ones + 24 * at + 12 * half, ends = static_cast<uint8_t>(n << 2 & 12);
            hil::saturations = 0;
            const uint8_t found = hil::round_near_rows(bytes, sums, near, hil::near_start(zero, lift), lift | ends);
            for (uint8_t r = 0; r < 4; ++r) {
                const hil::Flash<uint8_t> number = {near_ones + 24 * at + 12 * half + 3 * r};
                const uint32_t three = number[0] | static_cast<uint16_t>(number[1] << 8) | static_cast<uint32_t>(number[2]) << 16;
                int8_t byte;
                uint8_t clips;
                const bool decides = hil::portable::near_byte(byte, clips, sums[r], three, hil::near_start(zero, lift), lift);
                wrong += decides != !(found & (0x10 << r));
                undecided += !decides;
                if (!decides) continue;
                counted += (clips & ends) != 0;
                const int32_t once = hil::rescale_once(sums[r], m[r], shift) + zero, twice = hil::rescale(sums[r], m[r], shift) + zero;
                wrong += (bytes[r] != byte) + (byte != hil::saturate<int8_t>(once)) + (byte != hil::saturate<int8_t>(twice));
                hil::saturations -= once > 127 || once < -128;
                hil::saturations -= twice > 127 || twice < -128;
            }
            wrong += hil::saturations != counted;
        }
    }
    return wrong + (undecided > 6000);
}

const uint8_t byte_ones[8] HIL_FLASH = {255, 1, 128, 127, 0, 3, 200, 64};

// Factors of one byte: bytes and what is counted, of results that 16 bits hold
uint16_t byte_factors_that_differ() {
    uint16_t wrong = 0;
    for (uint16_t n = 0; n < 700; ++n) {
        const int16_t zero = n % 3 == 0 ? -128 : n % 3 == 1 ? 127 : some(0);
        const uint8_t first = n & 4, ends = static_cast<uint8_t>(n << 2 & 12), *at = byte_ones + first;
        __int24 sums[4];
        int8_t bytes[4];
        for (uint8_t r = 0; r < 4; ++r) sums[r] = extreme_sum(static_cast<uint8_t>(n + 5 * r)) >> (n % 7);
        hil::saturations = 0;
        hil::round_byte_factors(bytes, sums, at, zero, ends);
        uint32_t counted = 0;
        __int24 one[4], other[4];
        for (uint8_t r = 0; r < 4; ++r) one[r] = other[r] = sums[r] >> 1;
        const uint8_t *begins = weights + n % 100, *again = begins;
        hil::add_begins(one, begins);
        hil::portable::add_begins(other, again);
        for (uint8_t r = 0; r < 4; ++r) wrong += one[r] != other[r];
        wrong += begins != again;
        wrong += at != byte_ones + first + 4;
        for (uint8_t r = 0; r < 4; ++r) {
            uint8_t clips;
            wrong += bytes[r] != hil::portable::byte_of_factor(clips, sums[r], hil::Flash<uint8_t>{byte_ones}[first + r], zero);
            counted += (clips & ends) != 0;
        }
        wrong += hil::saturations != counted;
    }
    return wrong;
}

}  // namespace

int main() {
    print_init();
    wait_for_host();
    print_number(rows_that_differ<__int24>());
    print_number(rows_that_differ<int32_t>());
    print_number(roundings_that_differ<1>() + roundings_that_differ<5>() + roundings_that_differ<7>() + roundings_that_differ<8>() +
                 roundings_that_differ<9>() + roundings_that_differ<13>());
    print_number(bytes_that_differ());
    print_number(shifts_that_differ<0>() + shifts_that_differ<1>() + shifts_that_differ<3>() + shifts_that_differ<6>() +
                 shifts_that_differ<7>() + shifts_that_differ<8>() + shifts_that_differ<11>() + shifts_that_differ<15>());
    print_number(squares_that_differ() + squares_of_words_that_differ<0, 0>() + squares_of_words_that_differ<0, 1>() +
                 squares_of_words_that_differ<1, 1>());
    print_number(streams_that_differ() + streams_of_words_that_differ());
    print_number(products_that_differ<1>() + products_that_differ<255>() + products_that_differ<-40000>() + products_that_differ<65536>() +
                 products_that_differ<65535>() + products_that_differ<8323199>() + products_that_differ<-7340033>());
    print_number(near_rows_that_differ());
    print_number(powers_that_differ());
    print_number(byte_factors_that_differ());
    print_char('\n');
    print_end();
}
