// Cortex-M3: two rows of weights in one multiplication. Weights and elements are what their codes are above the least, so that no
// product is negative: of a word of two weights, low + 65536 * high, times an element the upper half is the product of one row, and what
// the other row's sum is the sum of whole products says, modulo 2^32. Three instructions of one cycle for two products, where a product
// that joins a sum takes two cycles for one. The words are made in RAM, once for all pixels whose patches lie beside them.
#pragma once
#include "firmware/kernels/arm/lanes.hpp"
#include "firmware/kernels/arm/patches.hpp"
#include "firmware/kernels/common/rounding.hpp"

namespace hil {

// Pixels whose patches are there at a time (passes/row_pairs.py)
constexpr Size most_paired_pixels = 32, paired_patch_bytes = 4608;
inline Size paired_pixels(Size padded, Size of) {
    const Size fit = paired_patch_bytes / padded & ~Size(1), most = of < most_paired_pixels ? rounded_up(of, 2) : most_paired_pixels;
    return fit > most ? most : fit < 2 ? 2 : fit;
}

// Four rows of weights as words, rows 0 and 2 and rows 1 and 3 of each element, and in `starts` what every sum of a row lacks
__attribute__((noinline, noclone)) inline void widen_rows(uint32_t *to, const InLanes *w, Size padded, int32_t (&starts)[4]) {
    constexpr Size most = 256;  // elements, whose sums fit halves of a word
    const uint32_t *from = reinterpret_cast<const uint32_t *>(w);
    for (Size r = 0; r < 4; ++r) starts[r] = 0;
    for (Size left = padded, now; left > 0; left -= now) {
        now = left < most ? left : most;
        uint32_t p = 0, q = 0;
#pragma GCC unroll 4
        for (const uint32_t *const end = from + now; from != end; ++from, to += 2) {
            const uint32_t even = *from & lane_mask, odd = *from >> 8 & lane_mask;
            p += even;
            q += odd;
            to[0] = even;
            to[1] = odd;
        }
        starts[0] -= 128 * static_cast<int32_t>(p & 0xFFFF);
        starts[1] -= 128 * static_cast<int32_t>(q & 0xFFFF);
        starts[2] -= 128 * static_cast<int32_t>(p >> 16);
        starts[3] -= 128 * static_cast<int32_t>(q >> 16);
    }
}

namespace portable {

// What the words of four rows and the patches of two pixels in turn add to sums
inline void add_row_pairs(Sums<4> &sums, const uint32_t *w, const uint8_t *x, const uint8_t *end) {
    uint32_t whole[2][2], upper[2][2];
    for (Size n = 0; n < 4; ++n) {
        upper[n / 2][n % 2] = static_cast<uint32_t>(sums.of[n / 2 + 2][n % 2]);
        whole[n / 2][n % 2] = static_cast<uint32_t>(sums.of[n / 2][n % 2]) + (upper[n / 2][n % 2] << 16);
    }
    for (; x != end; x += 2, w += 2) {
        for (Size n = 0; n < 4; ++n) {
            const uint32_t product = w[n / 2] * x[n % 2];
            whole[n / 2][n % 2] += product;
            upper[n / 2][n % 2] += product >> 16;
        }
    }
    for (Size n = 0; n < 4; ++n) {
        sums.of[n / 2 + 2][n % 2] = static_cast<int32_t>(upper[n / 2][n % 2]);
        sums.of[n / 2][n % 2] = static_cast<int32_t>(whole[n / 2][n % 2] - (upper[n / 2][n % 2] << 16));
    }
}

}  // namespace portable

#if defined(__ARM_ARCH_7M__)
#define HIL_PRODUCTS_OF_AN_ELEMENT(next_words) \
    "mul r5, r2, r3\n" \
    "add r6, r5\n" \
    "add r10, r10, r5, lsr #16\n" \
    "muls r2, r4, r2\n" \
    "add r7, r2\n" \
    "add r11, r11, r2, lsr #16\n" next_words "muls r3, r2, r3\n" \
    "add r8, r3\n" \
    "add r12, r12, r3, lsr #16\n" \
    "muls r4, r2, r4\n" \
    "add r9, r4\n" \
    "add lr, lr, r4, lsr #16\n"
#define HIL_ELEMENT(words, next, first, second) \
    "ldr r2, [r0, #" #words "]\n" \
    "ldrb r3, [r1, #" #first "]\n" \
    "ldrb r4, [r1, #" #second "]\n" HIL_PRODUCTS_OF_AN_ELEMENT("ldr r2, [r0, #" #next "]\n")
// 18 cycles for an element, 8 products; 8 elements in the loop, into whose middle an odd number of fours leads. Pointers are behind what
// the next words and elements are by one of each, and move on with the loads of the last.
__attribute__((naked, noinline, noipa)) inline void add_row_pairs(Sums<4> &, const uint32_t *, const uint8_t *, const uint8_t *) {
    asm(".syntax unified\n"
        "subs r12, r3, r2\n"
        "subs r3, r3, #1\n"
        "push {r0, r3, r4, r5, r6, r7, r8, r9, r10, r11, r12, lr}\n"
        "subs r4, r1, #4\n"
        "subs r5, r2, #1\n"
        "ands r3, r12, #8\n"  // bytes of the patches of four elements
        "mov r1, r5\n"
        "ldmia r0, {r6, r7, r8, r9, r10, r11, r12, lr}\n"
        "mov r0, r4\n"
        "add r6, r6, r10, lsl #16\n"
        "add r7, r7, r11, lsl #16\n"
        "add r8, r8, r12, lsl #16\n"
        "add r9, r9, lr, lsl #16\n"
        "cmp r3, #0\n"
        "beq 1f\n"
        "subs r0, r0, #32\n"
        "subs r1, r1, #8\n"
        "b 2f\n"
        ".balign 16\n"
        "1:\n" HIL_ELEMENT(4, 8, 1, 2) HIL_ELEMENT(12, 16, 3, 4) HIL_ELEMENT(20, 24, 5, 6)
            HIL_ELEMENT(28, 32, 7, 8) "2:\n" HIL_ELEMENT(36, 40, 9, 10) HIL_ELEMENT(44, 48, 11, 12)
                HIL_ELEMENT(52, 56, 13, 14) "ldr r2, [r0, #60]\n"
                                            "ldrb r3, [r1, #15]\n"
                                            "ldrb r4, [r1, #16]!\n" HIL_PRODUCTS_OF_AN_ELEMENT(
                                                "ldr r2, [r0, #64]!\n"
                                                "ldr r5, [sp, #4]\n") "cmp r1, r5\n"
                                                                      "bne 1b\n"
                                                                      "ldr r0, [sp], #8\n"
                                                                      "sub r6, r6, r10, lsl #16\n"
                                                                      "sub r7, r7, r11, lsl #16\n"
                                                                      "sub r8, r8, r12, lsl #16\n"
                                                                      "sub r9, r9, lr, lsl #16\n"
                                                                      "stmia r0, {r6, r7, r8, r9, r10, r11, r12, lr}\n"
                                                                      "pop {r4, r5, r6, r7, r8, r9, r10, r11, r12, pc}\n");
}
#undef HIL_ELEMENT
#undef HIL_PRODUCTS_OF_AN_ELEMENT
#elif !defined(__AVR__)
inline void add_row_pairs(Sums<4> &sums, const uint32_t *w, const uint8_t *x, const uint8_t *end) {
    portable::add_row_pairs(sums, w, x, end);
}
#endif

// ---- elements that are not 0, as lists: eight rows of a pixel at a time

// Elements whose weights are widened at a time: a place among them is a byte
constexpr Size listed_at_once = 256;

namespace portable {

// What the words of eight rows and a list add to sums, those of rows 0, 1, 4, 5, 2, 3, 6, 7
inline void add_listed(int32_t *sums, const uint32_t *w, const uint16_t *list) {
    for (Size left = *list++; left > 0; --left, ++list) {
        const uint32_t x = *list & 0xFF, *const at = w + 4 * (*list >> 8);
        for (Size n = 0; n < 4; ++n) {
            sums[n] = wrapped(sums[n], static_cast<int32_t>((at[n] & 0xFFFF) * x));
            sums[n + 4] = wrapped(sums[n + 4], static_cast<int32_t>((at[n] >> 16) * x));
        }
    }
}

}  // namespace portable

#if defined(__ARM_ARCH_7M__)
#define HIL_LISTED_ROWS(word, whole, upper) \
    "muls " word ", r3, " word "\n" \
    "add " whole ", " word "\n" \
    "add " upper ", " upper ", " word ", lsr #16\n"
#define HIL_LISTED \
    "uxtb r3, r2\n" \
    "lsrs r2, r2, #8\n" \
    "add r2, r0, r2, lsl #4\n" \
    "ldr r4, [r2]\n" \
    "ldr r5, [r2, #4]\n" HIL_LISTED_ROWS("r4", "r6", "r10") \
        HIL_LISTED_ROWS("r5", "r7", "r11") "ldr r4, [r2, #8]\n" \
                                           "ldr r5, [r2, #12]\n" \
                                           "ldrh r2, [r1], #2\n" HIL_LISTED_ROWS("r4", "r8", "r12") HIL_LISTED_ROWS("r5", "r9", "lr")
// 22 cycles for an element, 8 products; into the middle of the loop leads how many there are beyond a multiple of eight. Behind the last
// is 0.
__attribute__((naked, noinline, noipa)) inline void add_listed(int32_t *, const uint32_t *, const uint16_t *) {
    asm(".syntax unified\n"
        "push {r0, r4, r5, r6, r7, r8, r9, r10, r11, lr}\n"
        "ldmia r0, {r6, r7, r8, r9, r10, r11, r12, lr}\n"
        "ldrh r3, [r2], #2\n"
        "mov r0, r1\n"
        "mov r1, r2\n"
        "ldrh r2, [r1], #2\n"
        "cmp r2, #0\n"
        "beq 2f\n"
        "add r6, r6, r10, lsl #16\n"
        "add r7, r7, r11, lsl #16\n"
        "add r8, r8, r12, lsl #16\n"
        "add r9, r9, lr, lsl #16\n"
        "rsbs r3, r3, #0\n"
        "and r3, r3, #7\n"
        "movs r4, #52\n"  // bytes of code for an element
        "muls r3, r4, r3\n"
        ".balign 4\n"
        "add pc, r3\n"
        "nop\n"
        "1:\n" HIL_LISTED HIL_LISTED HIL_LISTED HIL_LISTED HIL_LISTED HIL_LISTED HIL_LISTED HIL_LISTED "cmp r2, #0\n"
        "bne 1b\n"
        "sub r6, r6, r10, lsl #16\n"
        "sub r7, r7, r11, lsl #16\n"
        "sub r8, r8, r12, lsl #16\n"
        "sub r9, r9, lr, lsl #16\n"
        "ldr r0, [sp]\n"
        "stmia r0, {r6, r7, r8, r9, r10, r11, r12, lr}\n"
        "2:\n"
        "pop {r0, r4, r5, r6, r7, r8, r9, r10, r11, pc}\n");
}
#undef HIL_LISTED
#undef HIL_LISTED_ROWS
#elif !defined(__AVR__)
inline void add_listed(int32_t *sums, const uint32_t *w, const uint16_t *list) { portable::add_listed(sums, w, list); }
#endif

// A list of elements of one of two pixels in turn: how many, elements and their places, 0. Elements that are Code count as nothing, others
// as what they are more. Returns the sum of all.
template <uint8_t Code, Size Second>
__attribute__((noinline, noclone)) uint32_t list_elements(uint16_t *to, const uint32_t *x, Size count) {
    uint16_t *at = to + 1;
    uint32_t sum = 0, place = 0;
    const auto add = [&](uint32_t byte) {
        const uint32_t more = (byte & 0xFF) - Code;
        *at = static_cast<uint16_t>(place + more);
        if (more != 0) ++at;
        sum += more;
        place += 256;
    };
#pragma GCC unroll 2
    for (const uint32_t *const end = x + count / 2; x != end; ++x) {
        add(*x >> 8 * Second);
        add(*x >> (16 + 8 * Second));
    }
    *at = 0;
    *to = static_cast<uint16_t>(at - to - 1);
    return sum;
}
template <uint8_t Code>
inline uint32_t list_elements(uint16_t *to, const uint32_t *x, Size count, Size which) {
    return which == 0 ? list_elements<Code, 0>(to, x, count) : list_elements<Code, 1>(to, x, count);
}
inline bool has_below(const uint8_t *x, const uint8_t *end, uint8_t code) {
    for (; x != end; x += 2) {
        if (*x < code) return true;
    }
    return false;
}

// The pixels whose lists are there at a time
struct ListedPixels {
    Size count, first;
    Size places[most_paired_pixels];
    int32_t starts[most_paired_pixels], offsets[most_paired_pixels];  // what sums lack: that, and so many times what a row's weights are
    int32_t sums[most_paired_pixels][8];
};
inline Size listed_bytes(Size padded) { return 2 * (padded + 2 * ((padded + listed_at_once - 1) / listed_at_once)); }
inline Size listed_pixels(Size padded, Size of) {
    constexpr Size most_bytes = 9344;
    const Size fit = most_bytes / listed_bytes(padded) & ~Size(1), most = of < most_paired_pixels ? rounded_up(of, 2) : most_paired_pixels;
    return fit > most ? most : fit < 2 ? 2 : fit;
}

// Eight rows of some elements as words, and their sums if they count
template <bool Counts>
__attribute__((noinline, noclone)) void widen_eight_rows(uint32_t *to, const uint32_t *from, Size count, int32_t (&sums)[8]) {
    uint32_t a = 0, b = 0, c = 0, d = 0;
#pragma GCC unroll 4
    for (const uint32_t *const end = from + 2 * count; from != end; from += 2, to += 4) {
        const uint32_t first = from[0], second = from[1];
        const uint32_t even = first & lane_mask, odd = first >> 8 & lane_mask, third = second & lane_mask, last = second >> 8 & lane_mask;
        to[0] = even;
        to[1] = odd;
        to[2] = third;
        to[3] = last;
        if (!Counts) continue;
        a += even;
        b += odd;
        c += third;
        d += last;
    }
    if (!Counts) return;
    const uint32_t found[] = {a, b, c, d};
    for (Size n = 0; n < 4; ++n) {
        sums[n] += static_cast<int32_t>(found[n] & 0xFFFF);
        sums[n + 4] += static_cast<int32_t>(found[n] >> 16);
    }
}

// Every output of them
template <bool Counts, class Acc, class Out, class B, class Shift, class BiasShift>
__attribute__((noinline, noclone)) void outputs_of_lists(Out *out, uint32_t *rows, const uint16_t *lists, const InLanes *w, const B &bias,
                                                         ListedPixels &pixels, Size plane, Size padded, Size outputs, const Shift &shift,
                                                         BiasShift bias_shift) {
    using Rounded = Together<Out, PreparedOf<Shift>>;
    constexpr uint8_t places[8] = {0, 1, 4, 5, 2, 3, 6, 7};  // of the sums of rows
    const Size apart = listed_bytes(padded) / 2;
    for (Size n = 0; n < outputs; n += 8) {
        int32_t weights[8] = {};
        for (Size p = 0; p < pixels.count; ++p) {
            for (Size r = 0; r < 8; ++r) pixels.sums[p][r] = pixels.starts[p];
        }
        const uint16_t *list = lists;
        for (Size k = 0, now; k < padded; k += now, w += 8 * now, list += now + 2) {
            now = padded - k < listed_at_once ? padded - k : listed_at_once;
            widen_eight_rows<Counts>(rows, reinterpret_cast<const uint32_t *>(w), now, weights);
            const uint16_t *of_pixel = list;
            for (Size p = 0; p < pixels.count; ++p, of_pixel += apart) add_listed(pixels.sums[p], rows, of_pixel);
        }
        for (Size r = 0; r < 8 && n + r < outputs; ++r, out += plane) {
            const auto by = prepared(of_channel(shift, n + r));
            const int32_t of_row = weights[places[r]] - 128 * static_cast<int32_t>(padded);
            const int32_t start = Rounded::before(by) + (VariesByPixel<B>::value ? 0 : start_of<Acc>(bias, n + r, bias_shift));
            for (Size p = 0; p < pixels.count; ++p) {
                int32_t sum = pixels.sums[p][places[r]] + start, seen = 0;
                if (Counts) sum -= pixels.offsets[p] * of_row;
                if (VariesByPixel<B>::value) sum += start_of<Acc>(at_pixel(bias, pixels.first + p), n + r, bias_shift);
                Out *const at = out + pixels.places[p];
                *at = Rounded::of(sum, by, seen);
                if (__builtin_expect(Rounded::any(seen), 0)) *at = Rounded::again(sum, by);
            }
        }
    }
}

// The code of 0, as what it is above the least, and whether elements are below it
template <Size Step>
struct Listing;
template <>
struct Listing<unless_least> {
    static constexpr uint8_t code = 0;  // records hold what that leaves out (passes/affine_layers.py)
    static bool is_below(const uint8_t *, Size) { return false; }
};
template <>
struct Listing<unless_zero> {
    static constexpr uint8_t code = 128;
    static bool is_below(const uint8_t *x, Size bytes) { return has_below(x, x + bytes, code); }
};

// From planes to planes
template <class Acc, class T, Size Step, class Out, class B, class Shift, class BiasShift>
void convolve_blocks(Out *out, uint32_t *rows, Size begin, Size end, Blocks<InLanes, 8, Step> weights, Laid<int8_t, false, false> x,
                     const B &bias, const RowWindow &l, Size outputs, const Shift &shift, BiasShift bias_shift) {
    const Window &w = l.window;
    const Size padded = rounded_up(w.channels * w.kernel_y * w.kernel_x, 4), most = listed_pixels(padded, w.out_height * w.out_width);
    const Size words = 4 * (padded < listed_at_once ? padded : listed_at_once);
    uint16_t *const lists = reinterpret_cast<uint16_t *>(rows + words);
    uint32_t *const patch = rows + words + most * listed_bytes(padded) / 4;
    uint8_t *const bytes = reinterpret_cast<uint8_t *>(patch);
    const Size inner = w.channels * w.kernel_y * w.kernel_x;
    const auto add = bias_factor(bias_shift);
    const auto by = at_run_time(shift);
    const auto next = [&](Pixel p) { return p.column + 1 == w.out_width ? Pixel{p.y + 1, 0} : Pixel{p.y, p.column + 1}; };
    ListedPixels pixels;
    for (Pixel a = {begin, 0}; a.y < end;) {
        pixels.first = a.y * w.out_width + a.column;
        for (pixels.count = 0; pixels.count < most && a.y < end;) {
            Pixel b = next(a);
            const Size both = b.y < end ? 2 : 1;
            if (both == 1) b = a;
            ElementPatches<AboveLeast>::fill(patch, x.at, l, a, b, static_cast<int8_t>(PadCode<T>::value));
            for (Size k = 2 * inner; k < 2 * padded; ++k) bytes[k] = Listing<Step>::code;
            for (Size n = 0; n < both; ++n, ++pixels.count) {
                const Pixel p = n == 0 ? a : b;
                const bool is_below = Listing<Step>::is_below(bytes + n, 2 * padded);
                uint16_t *list = lists + pixels.count * (listed_bytes(padded) / 2);
                uint32_t sum = 0;
                for (Size k = 0, now; k < padded; k += now, list += now + 2) {
                    now = padded - k < listed_at_once ? padded - k : listed_at_once;
                    const uint32_t *const from = patch + k / 2;
                    sum += is_below ? list_elements<0>(list, from, now, n) : list_elements<Listing<Step>::code>(list, from, now, n);
                }
                pixels.offsets[pixels.count] = is_below ? 128 : 0;
                pixels.places[pixels.count] = slot_of(p.y, l.out_ring) * l.out_row + p.column;
                pixels.starts[pixels.count] = -128 * static_cast<int32_t>(sum);
            }
            a = next(b);
        }
        outputs_of_lists<Step != unless_least, Acc>(out, rows, lists, weights.at, bias, pixels, l.out_plane, padded, outputs, by, add);
    }
}

// ---- four rows of two pixels at a time

// Some pixels of a layer that follow each other, an even number: the first, where their results lie, and what every sum of each lacks
struct PairedPixels {
    Size count, first;
    bool is_last_alone;  // the last is the one before it
    Size places[most_paired_pixels];
    int32_t starts[most_paired_pixels];
};

// Every output of them
template <class Acc, class Out, class B, class Shift, class BiasShift>
__attribute__((noinline, noclone)) void outputs_of_row_pairs(Out *out, uint32_t *rows, const uint8_t *patches, const InLanes *w,
                                                             const B &bias, const PairedPixels &pixels, Size plane, Size padded,
                                                             Size outputs, const Shift &shift, BiasShift bias_shift) {
    using Rounded = RoundedBlock<Acc, Out, PreparedOf<Shift>>;
    int32_t starts[4];
    for (Size n = 0; n < outputs; n += 4, out += 4 * plane, w += 4 * padded) {
        const Size count = outputs - n < 4 ? outputs - n : 4;
        const auto by = from_channel(shift, n);
        widen_rows(rows, w, padded, starts);
        for (Size r = 0; r < count; ++r) {
            starts[r] += Rounded::before(prepared(of_channel(by, r)));
            if (!VariesByPixel<B>::value) starts[r] += start_of<Acc>(bias, n + r, bias_shift);
        }
        const uint8_t *patch = patches;
        for (Size p = 0; p < pixels.count; p += 2, patch += 2 * padded) {
            Sums<4> sums;
            for (Size r = 0; r < 4; ++r) {
                sums.of[r][0] = starts[r] + pixels.starts[p];
                sums.of[r][1] = starts[r] + pixels.starts[p + 1];
                if (!VariesByPixel<B>::value || r >= count) continue;
                const Size at = pixels.first + p, next = p + 2 == pixels.count && pixels.is_last_alone ? at : at + 1;
                sums.of[r][0] += start_of<Acc>(at_pixel(bias, at), n + r, bias_shift);
                sums.of[r][1] += start_of<Acc>(at_pixel(bias, next), n + r, bias_shift);
            }
            add_row_pairs(sums, rows, patch, patch + 2 * padded);
            const uint32_t before = saturations;
            const Position apart = static_cast<Position>(pixels.places[p + 1] - pixels.places[p]);
            block_of_results<Rounded>(out + pixels.places[p], apart, plane, sums, count, by);
            if (p + 2 == pixels.count && pixels.is_last_alone) saturations = before + (saturations - before) / 2;  // counted twice
        }
    }
}

// From planes to planes
template <class Acc, class T, class Out, class B, class Shift, class BiasShift>
void convolve_blocks(Out *out, uint32_t *rows, Size begin, Size end, Blocks<InLanes, 4, 1> weights, Laid<int8_t, false, false> x,
                     const B &bias, const RowWindow &l, Size outputs, const Shift &shift, BiasShift bias_shift) {
    const Window &w = l.window;
    const Size padded = rounded_up(w.channels * w.kernel_y * w.kernel_x, 4), most = paired_pixels(padded, w.out_height * w.out_width);
    uint32_t *const patches = rows + 2 * padded;
    const auto add = bias_factor(bias_shift);
    const auto by = at_run_time(shift);
    const auto place = [&](Pixel p) { return slot_of(p.y, l.out_ring) * l.out_row + p.column; };
    const auto next = [&](Pixel p) { return p.column + 1 == w.out_width ? Pixel{p.y + 1, 0} : Pixel{p.y, p.column + 1}; };
    PairedPixels pixels;
    for (Pixel a = {begin, 0}; a.y < end;) {
        pixels.first = a.y * w.out_width + a.column;
        pixels.is_last_alone = false;
        for (pixels.count = 0; pixels.count < most && a.y < end; pixels.count += 2) {
            Pixel b = next(a);
            pixels.is_last_alone = b.y >= end;
            if (pixels.is_last_alone) b = a;
            uint32_t *const patch = patches + pixels.count * (padded / 4);
            ElementPatches<AboveLeast>::fill(patch, x.at, l, a, b, static_cast<int8_t>(PadCode<T>::value));
            const EvenAndOdd sums = ElementPatches<AboveLeast>::sums(patch, padded);
            const Pixel both[] = {a, b};
            for (Size n = 0; n < 2; ++n) {
                pixels.places[pixels.count + n] = place(both[n]);
                pixels.starts[pixels.count + n] = -128 * (n == 0 ? sums.even : sums.odd);
            }
            a = next(b);
        }
        outputs_of_row_pairs<Acc>(out, rows, reinterpret_cast<const uint8_t *>(patches), weights.at, bias, pixels, l.out_plane, padded,
                                  outputs, by, add);
    }
}

}  // namespace hil
