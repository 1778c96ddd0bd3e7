// Depthwise layers of bytes over planes, as the kernels have them, and a prototype with channels innermost; then what a pointwise layer
// copies of two pixels. Cycles of each, and how many results of the two layouts differ (benchmarks/layout.py).
#include "firmware/hal/hal.hpp"
#include "firmware/kernels/kernels.hpp"
#include "model/cases.hpp"

namespace {

using namespace hil;
constexpr Size most = 18432;  // elements of the largest map
constexpr int shift = 7;
alignas(4) int8_t planes[most], planes_out[most], inner[most + 4], inner_out[most];
alignas(4) int8_t weights[64 * 9], inner_weights[9 * 64];
int8_t biases[64];
alignas(4) uint32_t scratch[2048];

void tell(uint32_t number) {
    for (int i = 0; i < 4; ++i) report(static_cast<uint8_t>(number >> 8 * i));
}

// Four channels of a position
__attribute__((always_inline)) inline void add_position(int32_t (&sums)[4], const int8_t *x, const int8_t *w) {
#ifdef __ARM_FEATURE_DSP
    const Pairs values = split(word_at(x)), factors = split(word_at(w));
    sums[0] += portable::low_half(values.first) * portable::low_half(factors.first);
    sums[2] += portable::high_half(values.first) * portable::high_half(factors.first);
    sums[1] += portable::low_half(values.second) * portable::low_half(factors.second);
    sums[3] += portable::high_half(values.second) * portable::high_half(factors.second);
#else
    sums[0] += x[0] * w[0];
    sums[1] += x[1] * w[1];
    sums[2] += x[2] * w[2];
    sums[3] += x[3] * w[3];
#endif
}

__attribute__((noinline)) void depthwise_innermost(NonNegative<int8_t> *out, const int8_t *x, const Window &w) {
    const auto by = at_run_time(Const<shift>());
    using Rounded = Together<NonNegative<int8_t>, RightRounding>;
    for (Size y = 0; y < w.out_height; ++y) {
        const Span down = inside(origin(y, w.stride_y, w.pad_y), 3, 1, w.height);
        for (Size column = 0; column < w.out_width; ++column) {
            const Span across = inside(origin(column, w.stride_x, w.pad_x), 3, 1, w.width);
            const int8_t *const corner = x + (static_cast<Size>(down.at) * w.width + static_cast<Size>(across.at)) * w.channels;
            for (Size c = 0; c < w.channels; c += 4, out += 4) {
                int32_t sums[4], seen = 0;
#pragma GCC unroll 4
                for (Size n = 0; n < 4; ++n) sums[n] = biases[c + n] + Rounded::before(by);
                const int8_t *row = corner + c;
                if (covers(down, 3) && covers(across, 3)) {
                    const int8_t *factors = inner_weights + c;
#pragma GCC unroll 3
                    for (Size k = 0; k < 3; ++k, row += w.width * w.channels, factors += 3 * w.channels) {
                        add_position(sums, row, factors);
                        add_position(sums, row + w.channels, factors + w.channels);
                        add_position(sums, row + 2 * w.channels, factors + 2 * w.channels);
                    }
                } else for (Size k = down.first; k < down.end; ++k, row += w.width * w.channels) {
                    const int8_t *at = row, *factors = inner_weights + (k * 3 + across.first) * w.channels + c;
                    for (Size n = across.first; n < across.end; ++n, at += w.channels, factors += w.channels) add_position(sums, at, factors);
                }
#pragma GCC unroll 4
                for (Size n = 0; n < 4; ++n) out[n] = Rounded::of(sums[n], by, seen);
                if (!Rounded::any(seen)) continue;
                for (Size n = 0; n < 4; ++n) out[n] = Rounded::again(sums[n], by);
            }
        }
    }
}

#ifdef __ARM_FEATURE_DSP
using Weights = Blocks<int8_t, 2, 4>;
using Gathered = uint32_t;
#else
using Weights = Blocks<int8_t, 4, 1>;
using Gathered = int8_t;
#endif

void gather_planes(const RowWindow &l) {
    const Size pixels = l.out_plane;
    for (Size p = 0; p + 2 <= pixels; p += 2) PatchesOf<Weights, int8_t>::columns(reinterpret_cast<Gathered *>(scratch), planes_out + p, planes_out + p + 1, l.window.channels, pixels);
}
void gather_innermost(const RowWindow &l) {
    const Size channels = l.window.channels;
    for (Size p = 0; p + 2 <= l.out_plane; p += 2) {
        const int8_t *const a = inner_out + p * channels;
#ifdef __ARM_FEATURE_DSP
        PatchesOf<Weights, int8_t>::pixels(scratch, a, a + channels, channels);
#else
        ElementPatches<int8_t>::columns(reinterpret_cast<int8_t *>(scratch), a, a + channels, channels, 1);
#endif
    }
}

template <class Run>
uint32_t cycles_of(Run run) {
    hal::section_begin(0);
    run();
    return hal::section_end();
}

// The patches of all pairs of pixels of a layer of 3 x 3
template <class Fill>
void fill_all(const RowWindow &l, Fill fill) {
    for (Size y = 0; y < l.window.out_height; ++y) {
        for (Size column = 0; column + 2 <= l.window.out_width; column += 2) fill(Pixel{y, column}, Pixel{y, column + 1});
    }
}
void measure_windows(Size channels, Size side, Size stride) {
    const Size made = (side - 1) / stride + 1;
    const RowWindow l = whole(Window{channels, side, side, made, made, 3, 3, stride, stride, 1, 1, 1, 1});
    using Patches = PatchesOf<Weights, int8_t>;
    tell(cycles_of([&] { fill_all(l, [&](Pixel a, Pixel b) { Patches::fill(scratch, planes, l, a, b, int8_t(0)); }); }));
#ifdef __ARM_FEATURE_DSP
    const RowWindow inside = distances(laid<true, false>(inner), l, 1);
    tell(cycles_of([&] { fill_all(l, [&](Pixel a, Pixel b) { Patches::fill_innermost(scratch, inner, inside, a, b, int8_t(0)); }); }));
#else
    tell(0);
#endif
}

void measure(Size channels, Size height, Size width, Size stride) {
    const Size out_height = (height - 1) / stride + 1, out_width = (width - 1) / stride + 1;
    const Window w = {channels, height, width, out_height, out_width, 3, 3, stride, stride, 1, 1, 1, 1};
    const RowWindow l = whole(w);
    const Size pixels = height * width, out_pixels = out_height * out_width;
    uint32_t random = 1;
    const auto next = [&] { return static_cast<int8_t>((random = random * 1664525 + 1013904223) >> 24); };
    for (Size n = 0; n < channels * pixels; ++n) planes[n] = inner[n % pixels * channels + n / pixels] = next();
    for (Size n = 0; n < channels * 9; ++n) weights[n] = inner_weights[n % 9 * channels + n / 9] = static_cast<int8_t>(next() / 4);
    for (Size c = 0; c < channels; ++c) biases[c] = next();
    NonNegative<int8_t> *const one = non_negative(planes_out), *const other = non_negative(inner_out);
    uint32_t cycles[4];
    const auto timed = [&](uint32_t number, auto run) { cycles[number] = cycles_of(run); };
    timed(0, [&] { conv_bias<int32_t>(one, reinterpret_cast<int32_t *>(scratch), blocks<1, 9>(weights), ram(planes), flash(biases), w, channels, channels, Const<shift>(), Const<0>()); });
    timed(1, [&] { depthwise_innermost(other, inner, w); });
    timed(2, [&] { gather_planes(l); });
    timed(3, [&] { gather_innermost(l); });
    uint32_t differ = 0;
    for (Size n = 0; n < channels * out_pixels; ++n) differ += planes_out[n] != inner_out[n % out_pixels * channels + n / out_pixels];
    tell(differ);
    for (const uint32_t count : cycles) tell(count);
}

}  // namespace

void run_cases() {
    HIL_SHAPES
}
