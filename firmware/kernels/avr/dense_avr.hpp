// Layers of bytes on the ATmega: four rows of weights at a time, which lie in turn in flash (passes/arrange.py), so that
// each element of x is loaded once for four products. 9.9 cycles per product, loads and loop included.
#pragma once
#include "firmware/kernels/common/dot.hpp"
#include "firmware/kernels/common/limits.hpp"

namespace hil {

// `Rows` rows of a matrix in turn, `Step` elements of each; the rows after the last whole block lie one after another.
template <class T, Size Rows, Size Step>
struct Blocks {
    const T *at;
    Blocks operator+(Size n) const { return {at + n}; }
};
template <Size Rows, Size Step, class T>
inline Blocks<T, Rows, Step> blocks(const T *p) { return {p}; }
// Weights that are By more than bytes, which the kernels take for them: By times the sum of a row's elements is where its sums start
template <int By, Size Rows, Size Step>
inline Blocks<Raised<By>, Rows, Step> raised(Blocks<int8_t, Rows, Step> b) { return {reinterpret_cast<const Raised<By> *>(b.at)}; }

namespace portable {

// sums[r] += sum of w[k][r] * (x[k] - zero); w and x move on
template <class Acc>
inline void add_rows(Acc (&sums)[4], Flash<int8_t> &w, Ram<int8_t> &x, Size count, int16_t zero = 0) {
    for (; count > 0; --count, w = w + 4, x = x + 1) {
        for (uint8_t r = 0; r < 4; ++r) sums[r] = static_cast<Acc>(sums[r] + static_cast<Acc>(int16_t(w[r]) * (x[0] - zero)));
    }
}

// sum * 2^-shift as requantize rounds it to a byte, clipped results counted; `limited`: negative ones are 0 and do not count
inline int8_t round_row(__int24 sum, int shift, bool limited) {
    if (limited && sum < 0) return 0;
    return requantize<int8_t>(static_cast<int32_t>(sum), shift);
}

}  // namespace portable

// The routines behind add_rows: weights at Z, x at X, r24 rounds (r25 - 1 times 256 more), bit 0 of r22 set if the number of
// elements is odd; sums from r2, r6, r10 and r14 on. All layers share them; they are called by their C++ names, which an
// exported library has for itself.
// A product is negative where muls and mulsu carry.
#define HIL_ROW(mul, low, middle, high, top) \
    "lpm r18, Z+\n" \
    mul " r18, r19\n" \
    "sbc r20, r20\n" \
    "add " low ", r0\n" \
    "adc " middle ", r1\n" \
    "adc " high ", r20\n" top
#define HIL_FOUR_OF_24(mul) \
    HIL_ROW(mul, "r2", "r3", "r4", "") HIL_ROW(mul, "r6", "r7", "r8", "") HIL_ROW(mul, "r10", "r11", "r12", "") \
    HIL_ROW(mul, "r14", "r15", "r16", "")
#define HIL_FOUR_OF_32(mul) \
    HIL_ROW(mul, "r2", "r3", "r4", "adc r5, r20\n") HIL_ROW(mul, "r6", "r7", "r8", "adc r9, r20\n") \
    HIL_ROW(mul, "r10", "r11", "r12", "adc r13, r20\n") HIL_ROW(mul, "r14", "r15", "r16", "adc r17, r20\n")
// Two elements per round; an odd number of them begins with the second.
#define HIL_ROUTINE(name, element) \
    __attribute__((naked, noinline)) inline void name() { \
        asm volatile("sbrc r22, 0\n" \
                     "rjmp 2f\n" \
                     "1: ld r19, X+\n" element "2: ld r19, X+\n" element \
                     "dec r24\n" \
                     "brne 1b\n" \
                     "dec r25\n" \
                     "brne 1b\n" \
                     "clr r1\n" \
                     "ret\n"); \
    }
HIL_ROUTINE(add_rows_24, HIL_FOUR_OF_24("muls"))
HIL_ROUTINE(add_rows_32, HIL_FOUR_OF_32("muls"))
// The same, but a zero costs 9 cycles instead of some 40; every other element 2 or 3 more (passes/arrange.py).
#define HIL_SPARSE_ROUTINE(name, test, element) \
    __attribute__((naked, noinline)) inline void name() { \
        asm volatile("sbrc r22, 0\n" \
                     "rjmp 2f\n" \
                     "rjmp 1f\n" \
                     "3: adiw r30, 4\n" \
                     "rjmp 2f\n" \
                     "1: ld r19, X+\n" \
                     test \
                     "breq 3b\n" element "2: ld r19, X+\n" \
                     test \
                     "breq 4f\n" element "5: dec r24\n" \
                     "brne 1b\n" \
                     "dec r25\n" \
                     "breq 6f\n" \
                     "rjmp 1b\n" \
                     "4: adiw r30, 4\n" \
                     "rjmp 5b\n" \
                     "6: clr r1\n" \
                     "ret\n"); \
    }
HIL_SPARSE_ROUTINE(add_rows_sparse_24, "tst r19\n", HIL_FOUR_OF_24("muls"))
HIL_SPARSE_ROUTINE(add_rows_sparse_32, "tst r19\n", HIL_FOUR_OF_32("muls"))
HIL_SPARSE_ROUTINE(add_rows_above_24, "subi r19, 0x80\n", HIL_FOUR_OF_24("mulsu"))
HIL_SPARSE_ROUTINE(add_rows_above_32, "subi r19, 0x80\n", HIL_FOUR_OF_32("mulsu"))

// No templates: gcc 5.4 puts a constant anywhere in the place of a template's register variable.
#define HIL_ADD_ROWS(Step, Acc, name) \
    __attribute__((always_inline)) inline void add_rows(Const<Step>, Acc (&sums)[4], Flash<int8_t> &w, Ram<int8_t> &x, Size count) { \
        const Size pairs = (count + 1) >> 1; \
        register Acc a asm("r2") = sums[0]; \
        register Acc b asm("r6") = sums[1]; \
        register Acc c asm("r10") = sums[2]; \
        register Acc d asm("r14") = sums[3]; \
        register uint8_t rounds asm("r24") = static_cast<uint8_t>(pairs); \
        register uint8_t more asm("r25") = static_cast<uint8_t>((pairs + 255) >> 8); \
        register uint8_t odd asm("r22") = static_cast<uint8_t>(count); \
        asm volatile("%~call %x[rows]\n" \
                     : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+z"(w.at), "+x"(x.at), "+r"(rounds), "+r"(more) \
                     : "r"(odd), [rows] "i"(name) \
                     : "r0", "r18", "r19", "r20", "memory"); \
        sums[0] = a; \
        sums[1] = b; \
        sums[2] = c; \
        sums[3] = d; \
    }
HIL_ADD_ROWS(1, __int24, add_rows_24)
HIL_ADD_ROWS(1, int32_t, add_rows_32)
HIL_ADD_ROWS(unless_zero, __int24, add_rows_sparse_24)
HIL_ADD_ROWS(unless_zero, int32_t, add_rows_sparse_32)
HIL_ADD_ROWS(unless_least, __int24, add_rows_above_24)
HIL_ADD_ROWS(unless_least, int32_t, add_rows_above_32)

// The routine behind round_rows: sums as above to bytes in r3, r7, r11 and r15. They are moved by r24 bits, to the left or, if
// bit 0 of r22 is set, to the right, until eight bits lie below the point; r25 is what is kept of negative ones (0 or 0xFF).
#define HIL_FOR_SUMS(step) step("r2", "r3", "r4", "r5") step("r6", "r7", "r8", "r9") step("r10", "r11", "r12", "r13") \
    step("r14", "r15", "r16", "r17")
#define HIL_EXTEND(a, b, c, d) \
    "sbrs " c ", 7\n" \
    "rjmp 1f\n" \
    "and " a ", r25\n" \
    "and " b ", r25\n" \
    "and " c ", r25\n" \
    "1: mov " d ", " c "\n" \
    "lsl " d "\n" \
    "sbc " d ", " d "\n"
#define HIL_LEFT(a, b, c, d) "lsl " a "\nrol " b "\nrol " c "\nrol " d "\n"
#define HIL_RIGHT(a, b, c, d) "asr " c "\nror " b "\nror " a "\n"
#define HIL_ROUND(a, b, c, d) \
    "add " a ", r18\n" \
    "adc " b ", r1\n" \
    "adc " c ", r1\n" \
    "adc " d ", r1\n" \
    "mov r19, " b "\n" \
    "lsl r19\n" \
    "sbc r19, r19\n" \
    "cp " c ", r19\n" \
    "cpc " d ", r19\n" \
    "breq 1f\n" \
    "call hil_clipped\n" \
    "mov " b ", " d "\n" \
    "lsl " b "\n" \
    "sbc " b ", " b "\n" \
    "ldi r19, 0x7F\n" \
    "eor " b ", r19\n" \
    "1:\n"
#ifndef HIL_UNCOUNTED
__attribute__((naked, noinline)) inline void round_rows_routine() {
    asm volatile(HIL_FOR_SUMS(HIL_EXTEND)
                 "tst r24\n"
                 "breq 5f\n"
                 "sbrc r22, 0\n"
                 "rjmp 4f\n"
                 "3:\n" HIL_FOR_SUMS(HIL_LEFT)
                 "dec r24\n"
                 "brne 3b\n"
                 "rjmp 5f\n"
                 "4:\n" HIL_FOR_SUMS(HIL_RIGHT)
                 "dec r24\n"
                 "brne 4b\n"
                 "5: ldi r18, 0x80\n" HIL_FOR_SUMS(HIL_ROUND)
                 "ret\n");
}
inline void round_rows(int8_t (&bytes)[4], const __int24 (&sums)[4], int shift, uint8_t negative) {
    register __int24 a asm("r2") = sums[0];
    register __int24 b asm("r6") = sums[1];
    register __int24 c asm("r10") = sums[2];
    register __int24 d asm("r14") = sums[3];
    register uint8_t by asm("r24") = static_cast<uint8_t>(shift > 8 ? shift - 8 : 8 - shift);
    register uint8_t sign asm("r25") = negative;
    register uint8_t right asm("r22") = shift > 8;
    asm volatile("%~call %x[routine]\n"
                 : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(by), "+m"(saturations)
                 : "r"(sign), "r"(right), [routine] "i"(round_rows_routine)
                 : "r5", "r9", "r13", "r17", "r18", "r19");
    bytes[0] = static_cast<int8_t>(static_cast<__uint24>(a) >> 8);
    bytes[1] = static_cast<int8_t>(static_cast<__uint24>(b) >> 8);
    bytes[2] = static_cast<int8_t>(static_cast<__uint24>(c) >> 8);
    bytes[3] = static_cast<int8_t>(static_cast<__uint24>(d) >> 8);
}
#endif
#undef HIL_ROUND
#undef HIL_RIGHT
#undef HIL_LEFT
#undef HIL_EXTEND
#undef HIL_FOR_SUMS

#undef HIL_ADD_ROWS
#undef HIL_SPARSE_ROUTINE
#undef HIL_ROUTINE
#undef HIL_FOUR_OF_32
#undef HIL_FOUR_OF_24
#undef HIL_ROW

// Four sums to four results
template <class Acc, class Out, class Shift>
struct FourResults {
    static void store(Out *out, Size stride, const Acc (&sums)[4], const Shift &shift, Size n) {
        out[0] = requantize<Out>(sums[0], of_channel(shift, n));
        out[stride] = requantize<Out>(sums[1], of_channel(shift, n + 1));
        out[2 * stride] = requantize<Out>(sums[2], of_channel(shift, n + 2));
        out[3 * stride] = requantize<Out>(sums[3], of_channel(shift, n + 3));
    }
};
#ifndef HIL_UNCOUNTED
template <int N, uint8_t Negative, class Out>
struct FourBytes {
    static void store(Out *out, Size stride, const __int24 (&sums)[4], Const<N>, Size) {
        int8_t bytes[4];
        round_rows(bytes, sums, N, Negative);
        out[0] = {bytes[0]};
        out[stride] = {bytes[1]};
        out[2 * stride] = {bytes[2]};
        out[3 * stride] = {bytes[3]};
    }
};
template <int N> struct FourResults<__int24, int8_t, Const<N>> : FourBytes<N, 0xFF, int8_t> {};
template <int N> struct FourResults<__int24, NonNegative<int8_t>, Const<N>> : FourBytes<N, 0, NonNegative<int8_t>> {};
#endif

// The rows after the last four
template <class Acc>
__attribute__((noinline)) Acc add_row(Acc sum, Flash<int8_t> w, Ram<int8_t> x, Size count) {
    accumulate(sum, w, x, count);
    return sum;
}
// Biases, and what joins all of them
template <class B>
struct WithStart {
    B bias;
    int32_t start;
};
template <class Acc, class B, class Shift>
inline Acc start_of(const WithStart<B> &b, Size n, Shift shift) {
    return start_of<Acc>(b.bias, n, shift) + static_cast<Acc>(b.start);
}
template <int By, class B>
inline WithStart<B> raised_start(const B &bias, Ram<int8_t> x, Size count) {
    return {bias, By * sum_of(x, count)};
}

// out[n * stride] = sum_k weights[n][k] * x[k] + bias[n] * 2^bias_shift for n in [0, outputs); `Step`: as in blocks
template <class Acc, Size Step, class Out, class B, class Shift, class BiasShift>
inline void rows_of_blocks(Out *out, Size stride, Flash<int8_t> w, Ram<int8_t> x, B bias, Size outputs, Size inner, Shift shift,
                           BiasShift bias_shift) {
    const auto start = [&](Size n) { return start_of<Acc>(bias, n, bias_shift); };
    Size n = 0;
    for (; n + 4 <= outputs; n += 4) {
        Acc sums[4] = {start(n), start(n + 1), start(n + 2), start(n + 3)};
        Ram<int8_t> at = x;
        add_rows(Const<Step>(), sums, w, at, inner);
        FourResults<Acc, Out, Shift>::store(out, stride, sums, shift, n);
        out += 4 * stride;
    }
    for (; n < outputs; ++n, w = w + inner, out += stride) {
        *out = requantize<Out>(add_row<Acc>(start(n), w, x, inner), of_channel(shift, n));
    }
}

}  // namespace hil
