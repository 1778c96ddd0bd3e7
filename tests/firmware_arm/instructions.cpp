// Every function that is an instruction of this chip, or several in a row, against its portable form in C++: on random operands and
// on all extremes. Reports for each how often the two differ (u32); they run on ARM only.
#include "firmware/kernels/kernels.hpp"
#include "model/cases.hpp"

namespace {

uint32_t state = 1;
uint32_t random_word() {  // xorshift
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
}
constexpr uint32_t extremes[] = {0, 0x80808080, 0x7F7F7F7F, 0x807F807F, 0x7F807F80, 0xFFFFFFFF, 0x80008000, 0x7FFF7FFF, 0x80007FFF, 1};
constexpr uint32_t count = sizeof extremes / sizeof *extremes, rounds = 2000;

uint32_t operand(uint32_t round, uint32_t which) {
    for (; which > 0; --which) round /= count;
    return round < count ? extremes[round] : random_word();
}

void tell(uint32_t differences) {
    for (int i = 0; i < 4; ++i) report(static_cast<uint8_t>(differences >> 8 * i));
}

template <class Difference>
void try_all(Difference difference) {
    uint32_t found = 0;
    for (uint32_t round = 0; round < rounds; ++round) found += difference(operand(round % 1000, 0), operand(round % 1000, 1), operand(round % 1000, 2));
    tell(found);
}

template <hil::Size Rows, class Acc>
bool differ(const hil::Sums<Rows, Acc> &a, const hil::Sums<Rows, Acc> &b) { return __builtin_memcmp(&a, &b, sizeof a) != 0; }

template <hil::Size Rows, class X, class W = int8_t, class Acc = int32_t, class Chip, class Portable>
void try_step(Chip chip, Portable portable) {
    try_all([&](uint32_t first, uint32_t second, uint32_t third) {
        uint32_t words[6] = {first, second, third, random_word(), first ^ second, third};
        hil::Sums<Rows, Acc> a, b;
        for (hil::Size n = 0; n < 2 * Rows; ++n) a.of[n / 2][n % 2] = static_cast<Acc>(static_cast<int64_t>(random_word()) << 12);
        b = a;
        const W *w = reinterpret_cast<const W *>(words + 4), *v = w;
        const X *x = reinterpret_cast<const X *>(words), *y = x;
        chip(a, w, x);
        portable(b, v, y);
        return differ(a, b) || w != v || x != y;
    });
}

#ifdef __ARM_FEATURE_DSP
// All of a row: `step` of a multiple of four elements
template <class W, hil::Size Rows = 2, class Chip, class Step>
void try_steps(Chip chip, Step step) {
    try_all([&](uint32_t first, uint32_t second, uint32_t third) {
        uint32_t words[56];
        const uint32_t some[] = {first, second, third, random_word()};
        for (uint32_t n = 0; n < 56; ++n) words[n] = some[n % 4] + n / 4 * (third & 0x01010101);
        hil::Sums<Rows> a, b;
        for (hil::Size n = 0; n < 2 * Rows; ++n) a.of[n / 2][n % 2] = static_cast<int32_t>(random_word());
        b = a;
        const W *w = reinterpret_cast<const W *>(words + 28), *v = w;
        const uint32_t *x = words, *const end = x + 4 + 4 * (random_word() % 6);
        chip(a, w, x, end);
        while (x != end) step(b, v, x);
        return differ(a, b) || w != v;
    });
}
// All registers are for the loop, as in their kernels.
template <class W, void (&Add)(hil::Sums<2> &, const W *&, const uint32_t *, const uint32_t *)>
__attribute__((noinline)) void all_of_a_row(hil::Sums<2> &sums, const W *&w, const uint32_t *x, const uint32_t *end) {
    hil::Sums<2> local = sums;
    Add(local, w, x, end);
    sums = local;
}
void all_of_four_rows(hil::Sums<4> &sums, const int8_t *&w, const uint32_t *x, const uint32_t *end) {
    add_all_pairs(sums, w, x, end);
    w += 4 * (end - x);
}
#endif

// A loop over `count` words or elements of a row, times `Rows` rows of weights
template <hil::Size Rows, class Chip, class Portable>
void try_column(Chip chip, Portable portable) {
    try_all([&](uint32_t first, uint32_t second, uint32_t third) {
        uint32_t words[24];
        const uint32_t some[] = {first, second, third, random_word()};
        for (uint32_t n = 0; n < 24; ++n) words[n] = some[n % 4] + n / 4 * (third & 0x01010101);
        for (uint32_t n = 20; n < 24 && first % 3 == 0; ++n) words[n] &= random_word() & 0xFF00FF00;  // half of them and more are 0
        hil::Column<Rows> a, b;
        for (hil::Size n = 0; n < Rows; ++n) a.of[n] = static_cast<int32_t>(random_word());
        b = a;
        const int8_t *w = reinterpret_cast<const int8_t *>(words), *v = w, *const x = w + 81;
        const hil::Size count = random_word() % (sizeof words / Rows / 4);
        chip(a, w, x, count);
        portable(b, v, x, count);
        return __builtin_memcmp(&a, &b, sizeof a) != 0 || w != v;
    });
}

// Two products in one block; elements of a row are whole words and one more, or whatever number
template <hil::Size Rows, class Chip, class Portable>
void try_products(hil::Size step, Chip chip, Portable portable) {
    try_all([&](uint32_t first, uint32_t second, uint32_t third) {
        uint32_t words[40];
        const uint32_t some[] = {first, second, third, random_word()};
        for (uint32_t n = 0; n < 40; ++n) words[n] = some[n % 4] + n / 4 * (third & 0x01010101);
        const int8_t *const bytes = reinterpret_cast<const int8_t *>(words);
        hil::Factor2 a[2], b[2];
        for (hil::Size n = 0; n < 2; ++n) {
            const int8_t *const x = bytes + 3 * n + random_word() % 9;
            const hil::Size count = random_word() % (20 / step) * step;
            a[n] = {bytes + 4 * n, x, x + count, random_word() % 2 && step > 1 ? bytes + 2 : nullptr, n == 0 ? static_cast<int32_t>(random_word() % 9) : -1};
            b[n] = a[n];
        }
        hil::Column<Rows> left, right;
        chip(left, a);
        portable(right, b);
        return __builtin_memcmp(&left, &right, sizeof left) != 0 || a[0].w != b[0].w || a[1].w != b[1].w;
    });
}

#ifdef __ARM_FEATURE_DSP
// All registers are for the loop, as in their kernels.
template <void (&Add)(hil::Column<4> &, const int8_t *&, const int8_t *, hil::Size)>
__attribute__((noinline)) void words_of_rows(hil::Column<4> &sums, const int8_t *&w, const int8_t *x, hil::Size words) {
    hil::Column<4> local = sums;
    Add(local, w, x, words);
    sums = local;
}
template <class X>
bool differ_expanded(uint32_t a, uint32_t b, uint32_t c) {
    const uint32_t words[] = {a, b, c, a ^ b, b ^ c, c ^ a, ~a};
    const X *const bytes = reinterpret_cast<const X *>(words);
    const hil::Size elements = 4 * (1 + c % 3);
    uint32_t found[13] = {0}, wanted[13] = {0};
    hil::expand<int8_t>(found, bytes + a % 4, bytes + 12 + b % 4, elements);
    hil::portable::expand<int8_t>(wanted, bytes + a % 4, bytes + 12 + b % 4, elements);
    return __builtin_memcmp(found, wanted, sizeof found) != 0;
}
#endif

#if defined(__ARM_ARCH_7M__)
// Four rows of words and two patches in turn, and eight rows and a list of elements that are not 0
bool differ_in_pairs(uint32_t first, uint32_t second, uint32_t third) {
    uint32_t words[56], patches[14];
    const uint32_t some[] = {first, second, third, random_word()};
    for (uint32_t n = 0; n < 56; ++n) words[n] = (some[n % 4] + n * (third & 0x01010101)) & hil::lane_mask;
    for (uint32_t n = 0; n < 14; ++n) patches[n] = some[n % 3] ^ random_word() >> n;
    const uint8_t *const x = reinterpret_cast<const uint8_t *>(patches);
    hil::Sums<4> a, b;
    for (hil::Size n = 0; n < 8; ++n) a.of[n / 2][n % 2] = static_cast<int32_t>(random_word());
    b = a;
    const hil::Size bytes = 8 + 8 * (random_word() % 6);
    hil::add_row_pairs(a, words, x, x + bytes);
    hil::portable::add_row_pairs(b, words, x, x + bytes);
    return differ(a, b);
}
bool differ_in_lists(uint32_t first, uint32_t second, uint32_t third) {
    uint32_t words[80], patches[10];
    const uint32_t some[] = {first, second, third, random_word()};
    for (uint32_t n = 0; n < 80; ++n) words[n] = (some[n % 4] + n * (third & 0x01010101)) & hil::lane_mask;
    for (uint32_t n = 0; n < 10; ++n) patches[n] = some[n % 3] & random_word();
    uint16_t list[22];
    hil::list_elements<0, 1>(list, patches, 4 * (random_word() % 6));
    int32_t a[8], b[8];
    for (hil::Size n = 0; n < 8; ++n) a[n] = b[n] = static_cast<int32_t>(random_word());
    hil::add_listed(a, words, list);
    hil::portable::add_listed(b, words, list);
    return __builtin_memcmp(a, b, sizeof a) != 0;
}
#endif

// A sum below 2^30 as blocks round it, and in the arithmetic of 64 bits
template <class Out, bool Once, bool Doubled, int Zero>
bool differ_rounded(uint32_t sum, uint32_t multiplier, uint32_t more) {
    const int32_t value = static_cast<int32_t>(sum << 1) >> 1 >> (more >> 8) % 30, right = static_cast<int32_t>(more % 23);
    const int32_t record[] = {static_cast<int32_t>(more) >> 8, static_cast<int32_t>(multiplier >> 2 | 0x40000000), right};
    using Records = hil::Records<Once, Doubled, Zero>;
    const auto by = prepared(Records{record});
    using Rounded = hil::Together<Out, hil::PreparedOf<Records>>;
    const int32_t known = Doubled ? 2 * value - record[0] : value;
    hil::saturations = 0;
    int32_t seen = 0;
    Out a = Rounded::of(known, by, seen);
    if (Rounded::any(seen)) a = Rounded::again(known, by);
    const uint32_t counted = hil::saturations;
    hil::saturations = 0;
    const Out b = hil::requantize<Out>(value, hil::Rescale<Once>{record[1], -static_cast<int>(right) - (Doubled ? 1 : 2), Zero});
    return __builtin_memcmp(&a, &b, sizeof a) != 0 || counted != hil::saturations;
}
template <bool Once, bool Doubled>
void try_rounding() {
    try_all([](uint32_t a, uint32_t b, uint32_t c) {
        return differ_rounded<int8_t, Once, Doubled, 5>(a, b, c) || differ_rounded<int16_t, Once, Doubled, 0>(a, b, c) ||
               differ_rounded<hil::NonNegative<int8_t>, Once, Doubled, -128>(a, b, c) ||
               differ_rounded<hil::Within<int8_t, -128, 90>, Once, Doubled, -128>(a, b, c) ||
               differ_rounded<hil::Within<int8_t, -128, 127>, Once, Doubled, 127>(a, b, c) ||
               differ_rounded<hil::Within<int8_t, -128, 0x7FFFFFFF>, Once, Doubled, -128>(a, b, c) ||
               differ_rounded<hil::Within<int8_t, -3, 2000>, Once, Doubled, -3>(a, b, c);
    });
}

#ifdef __ARM_FEATURE_DSP
// The outputs of two pixels by blocks of four rows, and one by one
template <int Zero>
bool differ_in_blocks(uint32_t first, uint32_t second, uint32_t third) {
    using namespace hil;
    using Out = Within<int8_t, -128, 127>;
    using Rounded = Together<Out, Rescaled<false, true, Zero, false>>;
    constexpr Size rows = 8, most = 24, step = rows + 1;
    const uint32_t some[] = {first, second, third, random_word(), first ^ third};
    uint32_t patches[most], weights[2 * most];
    int32_t records[words_of_a_record * rows];
    for (Size n = 0; n < 2 * most; ++n) weights[n] = some[n % 5] + n / 5 * (third & 0x01010101);
    for (Size n = 0; n < most; ++n) patches[n] = some[n % 4] ^ n;
    for (Size n = 0; n < rows; ++n) {
        const int32_t record[] = {static_cast<int32_t>(random_word()) >> 14, static_cast<int32_t>(random_word() >> 2 | 0x40000000),
                                  static_cast<int32_t>(random_word() % 16)};
        __builtin_memcpy(records + words_of_a_record * n, record, sizeof record);
    }
    const Size words = 4 + 4 * (random_word() % 6);
    const Blocks<int8_t, 4, in_pairs> blocks = {reinterpret_cast<const int8_t *>(weights)};
    const Records<false, true, Zero> by = {records};
    int8_t found[2 * step] = {0}, wanted[2 * step] = {0};
    outputs_of_pixels<int32_t, int8_t>(within<-128, 127>(found), step, 1, blocks, patches, words - random_word() % 4, NoChannelBias(),
                                       NoChannelBias(), rows, by, BiasFactor{0});
    const int8_t *w = blocks.at;
    for (Size row = 0; row < rows; row += 4) {
        Sums<4> sums = {};
        for (const uint32_t *x = patches; x != patches + words;) portable::add_pairs(sums, w, x);
        for (Size r = 0; r < 4; ++r) {
            for (Size p = 0; p < 2; ++p) {
                const int32_t twice_sum = r % 2 ? unpaired<true>(sums.of[r - 1][p], sums.of[r][p]) : twice(sums.of[r][p]);
                int32_t seen = 0;
                wanted[step * p + row + r] = Rounded::of(twice_sum, prepared(of_channel(by, row + r)), seen).element;
            }
        }
    }
    return __builtin_memcmp(found, wanted, sizeof found) != 0;
}
// A depthwise layer of planes of any size up to 9 x 9, and element by element. `Over`: its result begins two rows below its operand,
// where plans put it (tinyhil/memplan/arena/lag.py).
template <bool OutInner, bool Over = false>
bool differ_in_depthwise(uint32_t first, uint32_t second, uint32_t third) {
    using namespace hil;
    constexpr int zero = -128, pad = -100;
    constexpr Size channels = 2, most = 9;
    using Out = Within<int8_t, -128, 127>;
    const Size height = 1 + random_word() % most, width = 1 + random_word() % most, stride = 1 + random_word() % 2;
    const Size below = (height - 1) / stride + 1, beside = (width - 1) / stride + 1;
    const Window w = {channels, height, width, below, beside, 3, 3, stride, stride, 1, 1, 1, 1};
    const uint32_t some[] = {first, second, third, random_word(), first ^ third};
    uint32_t planes[channels * most * most / 4 + 2], scratch[80], weights[5];
    for (uint32_t &word : planes) word = some[random_word() % 5] ^ random_word() % 256 * (second & 0x01010101);
    for (uint32_t &word : weights) word = some[random_word() % 5];
    int32_t records[words_of_a_record * channels];
    for (Size n = 0; n < channels; ++n) {
        const int32_t record[] = {static_cast<int32_t>(random_word()) >> 14, static_cast<int32_t>(random_word() >> 2 | 0x40000000), static_cast<int32_t>(random_word() % 12)};
        __builtin_memcpy(records + words_of_a_record * n, record, sizeof record);
    }
    const int8_t *const x = reinterpret_cast<const int8_t *>(planes), *const factors = reinterpret_cast<const int8_t *>(weights);
    const Records<false, true, zero> by = {records};
    int8_t found[(channels * most + 2) * most + 2] = {0}, wanted[channels * most * most] = {0};
    const RowWindow l = distances(Laid<int8_t, false, OutInner>{x}, whole(w), channels);
    int8_t *const over = found + 2 * width;
    if (Over) __builtin_memcpy(over, x, channels * height * width);
    depthwise<OutInner, int32_t, AffineCode<int32_t, pad>>(within<-128, 127>(found), reinterpret_cast<int8_t *>(scratch), 0, below, factors, Over ? over : x, NoChannelBias(), l, by, Const<0>());
    for (Size n = 0; n < channels * below * beside; ++n) {
        const Size c = n / (below * beside), row = n / beside % below, column = n % beside;
        const auto to = early(prepared(of_channel(by, c)));
        int32_t sum = to.bias, seen = 0;
        for (Size k = 0; k < 9; ++k) {
            const Size y = row * stride + k / 3 - 1, at = column * stride + k % 3 - 1;  // large where they are negative
            sum += 2 * factors[9 * c + k] * (y < height && at < width ? x[c * height * width + y * width + at] : pad);
        }
        wanted[OutInner ? (row * beside + column) * channels + c : n] = Together<Out, Rescaled<false, true, zero, true>>::of(sum, to, seen).element;
    }
    return __builtin_memcmp(found, wanted, channels * below * beside) != 0;
}
#endif

}  // namespace

void run_cases() {
    using namespace hil;
    try_all([](uint32_t a, uint32_t, uint32_t) { return even_bytes(a) != portable::even_bytes(a); });
    try_all([](uint32_t a, uint32_t, uint32_t) { return odd_bytes(a) != portable::odd_bytes(a); });
    try_all([](uint32_t a, uint32_t b, uint32_t sum) {
        const int32_t start = static_cast<int32_t>(sum);
        return add_products(start, a, b) != portable::add_products(start, a, b);
    });
    try_all([](uint32_t a, uint32_t b, uint32_t sum) {
        const int32_t start = static_cast<int32_t>(sum), factor = static_cast<int16_t>(b);
        return add_low(start, a, factor) != portable::add_low(start, a, factor) || add_high(start, a, factor) != portable::add_high(start, a, factor);
    });
    try_step<2, uint32_t>([](auto &s, auto &w, auto &x) { add_four(s, w, x); }, [](auto &s, auto &w, auto &x) { portable::add_four(s, w, x); });
    try_step<2, uint32_t>([](auto &s, auto &w, auto &x) { add_pairs(s, w, x); }, [](auto &s, auto &w, auto &x) { portable::add_pairs(s, w, x); });
    try_step<4, int8_t>([](auto &s, auto &w, auto &x) { add_one(s, w, x); }, [](auto &s, auto &w, auto &x) { portable::add_one(s, w, x); });
    try_products<4>(4, [](auto &s, auto *f) { add_paired_products(s, f); }, [](auto &s, auto *f) { portable::add_paired_products(s, f); });
    try_products<8>(1, [](auto &s, auto *f) { add_products_of(s, f); }, [](auto &s, auto *f) { portable::add_products_of(s, f); });
    try_step<2, uint32_t, int16_t>([](auto &s, auto &w, auto &x) { add_two(s, w, x); }, [](auto &s, auto &w, auto &x) { portable::add_two(s, w, x); });
    try_step<2, uint32_t, int16_t, int64_t>([](auto &s, auto &w, auto &x) { add_two(s, w, x); }, [](auto &s, auto &w, auto &x) { portable::add_two(s, w, x); });
    try_step<4, int16_t>([](auto &s, auto &w, auto &x) { add_one(s, w, x); }, [](auto &s, auto &w, auto &x) { portable::add_one(s, w, x); });
    try_step<4, int16_t, int16_t>([](auto &s, auto &w, auto &x) { add_one(s, w, x); }, [](auto &s, auto &w, auto &x) { portable::add_one(s, w, x); });
    try_all([](uint32_t a, uint32_t b, uint32_t sum) {
        const int64_t start = static_cast<int64_t>(static_cast<int32_t>(sum)) << 20;
        return add_products(start, a, b) != portable::add_products(start, a, b);
    });
    try_step<4, int8_t>([](auto &s, auto &w, auto &x) { add_one_unless_zero(s, w, x); }, [](auto &s, auto &w, auto &x) { portable::add_one(s, w, x); });
    try_step<4, int8_t>([](auto &s, auto &w, auto &x) { add_one_unsigned_unless_zero(s, w, x); }, [](auto &s, auto &w, auto &x) { portable::add_one<uint8_t>(s, w, x); });
    try_step<4, int8_t>([](auto &s, auto &w, auto &x) { add_one_unsigned(s, w, x); }, [](auto &s, auto &w, auto &x) { portable::add_one<uint8_t>(s, w, x); });
    try_all([](uint32_t a, uint32_t, uint32_t) {
        return even_unsigned_bytes(a) != portable::even_unsigned_bytes(a) || odd_unsigned_bytes(a) != portable::odd_unsigned_bytes(a);
    });
    try_column<4>([](auto &s, auto &w, auto x, auto n) { add_unsigned_elements(s, w, x, n); }, [](auto &s, auto &w, auto x, auto n) { portable::add_elements<uint8_t>(s, w, x, n); });
    try_column<4>([](auto &s, auto &w, auto x, auto n) { add_unsigned_elements_unless_zero(s, w, x, n); }, [](auto &s, auto &w, auto x, auto n) { portable::add_elements<uint8_t>(s, w, x, n); });
    try_column<8>([](auto &s, auto &w, auto x, auto n) { add_unsigned_elements_unless_zero(s, w, x, n); }, [](auto &s, auto &w, auto x, auto n) { portable::add_elements<uint8_t>(s, w, x, n); });
#ifdef __ARM_FEATURE_DSP
    try_steps<int8_t>(all_of_a_row<int8_t, add_all_fours>, [](auto &s, auto &w, auto &x) { portable::add_four(s, w, x); });
    try_steps<int8_t>(all_of_a_row<int8_t, add_all_pairs>, [](auto &s, auto &w, auto &x) { portable::add_pairs(s, w, x); });
    try_steps<int8_t, 4>(all_of_four_rows, [](auto &s, auto &w, auto &x) { portable::add_pairs(s, w, x); });
    try_steps<int16_t>(all_of_a_row<int16_t, add_all_twos>, [](auto &s, auto &w, auto &x) { portable::add_two(s, w, x); });
    try_all(differ_expanded<int8_t>);
    try_all(differ_expanded<uint8_t>);
    try_all(differ_in_blocks<-128>);
    try_all(differ_in_blocks<7>);
    try_all(differ_in_depthwise<false>);
    try_all(differ_in_depthwise<true>);
    try_all(differ_in_depthwise<false, true>);
    try_column<4>(words_of_rows<add_words>, [](auto &s, auto &w, auto x, auto n) { portable::add_words(s, w, x, n); });
    try_column<4>(words_of_rows<add_paired_words>, [](auto &s, auto &w, auto x, auto n) { portable::add_paired_words(s, w, x, n); });
    try_column<4>(words_of_rows<add_unsigned_words>, [](auto &s, auto &w, auto x, auto n) { portable::add_words<uint8_t>(s, w, x, n); });
    try_column<4>(words_of_rows<add_paired_unsigned_words>, [](auto &s, auto &w, auto x, auto n) { portable::add_paired_words<uint8_t>(s, w, x, n); });
#else
    try_all(differ_in_pairs);
    try_all(differ_in_lists);
    try_column<8>([](auto &s, auto &w, auto x, auto n) { add_unsigned_elements(s, w, x, n); }, [](auto &s, auto &w, auto x, auto n) { portable::add_elements<uint8_t>(s, w, x, n); });
    try_column<8>([](auto &s, auto &w, auto x, auto n) { add_elements(s, w, x, n); }, [](auto &s, auto &w, auto x, auto n) { portable::add_elements(s, w, x, n); });
    try_column<4>([](auto &s, auto &w, auto x, auto n) { add_paired_words(s, w, x, n); }, [](auto &s, auto &w, auto x, auto n) { portable::add_paired_words(s, w, x, n); });
#endif
    try_column<4>([](auto &s, auto &w, auto x, auto n) { add_elements(s, w, x, n); }, [](auto &s, auto &w, auto x, auto n) { portable::add_elements(s, w, x, n); });
    try_column<4>([](auto &s, auto &w, auto x, auto n) { add_elements_unless_zero(s, w, x, n); }, [](auto &s, auto &w, auto x, auto n) { portable::add_elements(s, w, x, n); });
    try_column<8>([](auto &s, auto &w, auto x, auto n) { add_elements_unless_zero(s, w, x, n); }, [](auto &s, auto &w, auto x, auto n) { portable::add_elements(s, w, x, n); });
    try_column<4>([](auto &s, auto &w, auto x, auto n) { add_elements_above_least(s, w, x, n); }, [](auto &s, auto &w, auto x, auto n) { portable::add_elements(s, w, x, n, -128); });
    try_column<8>([](auto &s, auto &w, auto x, auto n) { add_elements_above_least(s, w, x, n); }, [](auto &s, auto &w, auto x, auto n) { portable::add_elements(s, w, x, n, -128); });
    try_column<2>([](auto &s, auto &w, auto x, auto n) { add_elements(s, w, x, n); }, [](auto &s, auto &w, auto x, auto n) { portable::add_elements(s, w, x, n); });
    try_all([](uint32_t a, uint32_t b, uint32_t) { return upper_product(static_cast<int32_t>(a), static_cast<int32_t>(b)) != portable::upper_product(static_cast<int32_t>(a), static_cast<int32_t>(b)); });
    try_all([](uint32_t a, uint32_t, uint32_t) { return clamped_to_byte(static_cast<int32_t>(a)) != portable::clamped_to_byte(static_cast<int32_t>(a)); });
    try_all([](uint32_t a, uint32_t b, uint32_t) {
        const int32_t value = static_cast<int32_t>(a) >> b % 32;
        return clamped_to_unsigned_byte(value) != portable::clamped_to_unsigned_byte(value);
    });
    try_all([](uint32_t a, uint32_t b, uint32_t c) {
        const int32_t x = static_cast<int32_t>(a), y = static_cast<int32_t>(b), sum = static_cast<int32_t>(c);
        return add_upper(sum, x, y) != portable::add_upper(sum, x, y) || add_upper_rounded(sum, x, y) != portable::add_upper_rounded(sum, x, y) ||
               upper_of_sum(sum, a ^ b, x, y) != portable::upper_of_sum(sum, a ^ b, x, y);
    });
    try_rounding<true, false>();
    try_rounding<false, false>();
    try_rounding<false, true>();
}
