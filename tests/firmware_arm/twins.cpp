// Every function that is an instruction of this chip, or several in a row, against its twin in C++: on random operands and
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

template <hil::Size Rows>
bool differ(const hil::Sums<Rows> &a, const hil::Sums<Rows> &b) { return __builtin_memcmp(&a, &b, sizeof a) != 0; }

template <hil::Size Rows, class X, class Chip, class Twin>
void try_step(Chip chip, Twin twin) {
    try_all([&](uint32_t first, uint32_t second, uint32_t third) {
        uint32_t words[6] = {first, second, third, random_word(), first ^ second, third};
        hil::Sums<Rows> a, b;
        for (hil::Size n = 0; n < 2 * Rows; ++n) a.of[n / 2][n % 2] = static_cast<int32_t>(random_word());
        b = a;
        const int8_t *w = reinterpret_cast<const int8_t *>(words + 4), *v = w;
        const X *x = reinterpret_cast<const X *>(words), *y = x;
        chip(a, w, x);
        twin(b, v, y);
        return differ(a, b) || w != v || x != y;
    });
}

}  // namespace

void run_cases() {
    using namespace hil;
    try_all([](uint32_t a, uint32_t, uint32_t) { return even_bytes(a) != twin::even_bytes(a); });
    try_all([](uint32_t a, uint32_t, uint32_t) { return odd_bytes(a) != twin::odd_bytes(a); });
    try_all([](uint32_t a, uint32_t b, uint32_t sum) {
        const int32_t start = static_cast<int32_t>(sum);
        return add_products(start, a, b) != twin::add_products(start, a, b);
    });
    try_all([](uint32_t a, uint32_t b, uint32_t sum) {
        const int32_t start = static_cast<int32_t>(sum), factor = static_cast<int16_t>(b);
        return add_low(start, a, factor) != twin::add_low(start, a, factor) || add_high(start, a, factor) != twin::add_high(start, a, factor);
    });
    try_step<2, uint32_t>([](auto &s, auto &w, auto &x) { add_four(s, w, x); }, [](auto &s, auto &w, auto &x) { twin::add_four(s, w, x); });
    try_step<4, int8_t>([](auto &s, auto &w, auto &x) { add_one(s, w, x); }, [](auto &s, auto &w, auto &x) { twin::add_one(s, w, x); });
}
