// Posits (tinyhil/formats/posit.py states the rules). Codes are unsigned, in the low bits of their storage.
#pragma once
#include "firmware/kernels/common/element.hpp"
#include "firmware/kernels/common/real.hpp"

namespace hil {

template <int Bits, int Es>
struct Posit {
    using Code = typename CodeOf<Bits>::type;
    Code code;

    static constexpr int bits = Bits;
    static constexpr int mantissa_bits = Bits - 2 - Es > 1 ? Bits - 2 - Es : 1;
    static constexpr int limit = (Bits - 2) << Es;  // the largest is 2^limit, the smallest 2^-limit
    static constexpr int granule = -limit, top = limit + 1;  // multiples of 2^granule, below 2^top
    static constexpr uint32_t nar = uint32_t(1) << (Bits - 1);
    static constexpr uint32_t mask = nar | (nar - 1);
    static constexpr bool is_small = Bits <= 8 && mantissa_bits < 8;

    static Posit nan() {
        ++saturations;
        return {static_cast<Code>(nar)};
    }

    // NaR, which no encoder makes of numbers, counts as 0.
    static constexpr Real decode(Code code) {
        return code == 0 || code == nar
            ? Real(0, 0)
            : negated((code & nar) != 0, size((code & nar ? (uint32_t(0) - code) & mask : uint32_t(code)) << (33 - Bits)));
    }
#ifdef __AVR__
    static Real unpack(Posit x) {
        if (Bits <= 8 || Bits > 16) return Decoded<Posit>::at(x.code);
        const Words made = unpack_word(static_cast<uint16_t>(x.code));
        return Real(made.mantissa, made.exponent);
    }

    // The same in words of 16 bits; four bytes are returned in registers, a Real is not
    struct Words { int16_t mantissa, exponent; };
    HIL_SHARED static Words unpack_word(uint16_t code) {
        uint16_t body = static_cast<uint16_t>(code << (Bits <= 16 ? 16 - Bits : 0));
        const bool negative = body & 0x8000;
        if (negative) body = static_cast<uint16_t>(-body);
        body = static_cast<uint16_t>(body << 1);
        if (body == 0) return {0, 0};
        int8_t k = -1;
        if (body & 0x8000) {
            for (body = static_cast<uint16_t>(body << 1), k = 0; body & 0x8000; body = static_cast<uint16_t>(body << 1)) ++k;
        } else {
            for (body = static_cast<uint16_t>(body << 1); !(body & 0x8000); body = static_cast<uint16_t>(body << 1)) --k;
        }
        body = static_cast<uint16_t>(body << 1);
        const uint8_t low = Es == 0 ? 0 : static_cast<uint8_t>(static_cast<uint8_t>(body >> 8) >> (8 - Es));
        body = static_cast<uint16_t>(body << Es);
        const int16_t mantissa = static_cast<int16_t>(((body >> 1) | 0x8000) >> (Bits <= 16 ? 16 - mantissa_bits : 0));
        return {static_cast<int16_t>(negative ? -mantissa : mantissa), static_cast<int16_t>(k * (1 << Es) + low - (mantissa_bits - 1))};
    }
#else
    // The same with the run counted by one instruction
    static Real unpack(Posit x) {
        const int32_t sign = static_cast<int32_t>(static_cast<uint32_t>(x.code) << (32 - Bits)) >> 31;
        const uint32_t body = ((static_cast<uint32_t>(x.code) << (32 - Bits)) ^ static_cast<uint32_t>(sign)) - static_cast<uint32_t>(sign);
        const uint32_t regime = body << 1;
        if (regime == 0) return Real(0, 0);
        const bool large = regime >> 31;
        const int run = __builtin_clz(large ? ~regime : regime);
        const uint32_t tail = regime << run << 1;
        const int k = large ? run - 1 : -run;
        const int low = Es == 0 ? 0 : static_cast<int>(tail >> (32 - (Es ? Es : 1)));
        const int32_t mantissa = static_cast<int32_t>((((tail << Es) >> 1) | 0x80000000) >> (32 - mantissa_bits));
        return Real((mantissa ^ sign) - sign, static_cast<int16_t>(k * (1 << Es) + low - (mantissa_bits - 1)));
    }
#endif
    explicit operator float() const { return to_float(*this); }

    HIL_SHARED static Posit pack(Parts x) {
#ifdef __AVR__
        if (is_small) return pack_upper<Posit>(x);
#endif
        if (x.top == 0) return {0};
        const uint32_t body = x.exponent >= limit ? largest(x) : x.exponent < -limit ? 1 : rounded(x);
        return {static_cast<Code>((x.negative ? 0 - body : body) & mask)};
    }

#ifdef __AVR__
    HIL_SHARED static Posit pack_top(uint16_t top, int16_t exponent, bool negative, bool sticky) {
        if (top == 0) return {0};
        uint8_t body = 1;
        if (exponent >= limit) {
            if (exponent > limit || top != 0x8000 || sticky) ++saturations;
            body = static_cast<uint8_t>(nar - 1);
        } else if (exponent >= -limit) {
            body = rounded_top(top, static_cast<int8_t>(exponent), sticky);
        }
        return {static_cast<Code>((negative ? 0 - body : body) & mask)};
    }
#endif

private:
    // Steps of decode(), one expression each. `body`: a positive code with the regime's first bit on top.
    static constexpr Real negated(bool negative, Real x) { return negative ? Real(-x.mantissa, x.exponent) : x; }
    static constexpr int run(uint32_t body, uint32_t first, int left) {
        return left > 0 && (body & 0x80000000) == first ? 1 + run(body << 1, first, left - 1) : 0;
    }
    static constexpr Real size(uint32_t body) { return after_run(body, (body & 0x80000000) != 0, run(body, body & 0x80000000, Bits - 1)); }
    static constexpr Real after_run(uint32_t body, bool large, int length) {
        return after_regime(length < 31 ? body << (length + 1) : 0, large ? length - 1 : -length);
    }
    // The fraction has at most mantissa_bits - 1 bits
    static constexpr Real after_regime(uint32_t tail, int k) {
        return Real(
            static_cast<int32_t>((((tail << Es) >> 1) | 0x80000000) >> (32 - mantissa_bits)),
            static_cast<int16_t>(k * (1 << Es) + (Es == 0 ? 0 : static_cast<int>(tail >> (32 - (Es ? Es : 1)))) - (mantissa_bits - 1)));
    }

#ifdef __AVR__
    // As rounded(), bit by bit: at most Bits - 3 bits follow the regime
    static uint8_t rounded_top(uint16_t top, int8_t exponent, bool sticky) {
        constexpr int es = Bits <= 8 ? Es : 0;
        const int8_t k = static_cast<int8_t>(exponent >> es);
        uint16_t tail = static_cast<uint16_t>(top << 1);
        if (es > 0) {
            sticky |= (tail & ((1 << es) - 1)) != 0;
            tail = static_cast<uint16_t>((tail >> es) | (static_cast<uint16_t>(exponent) << (16 - (es ? es : 1))));
        }
        const uint8_t room = static_cast<uint8_t>(k >= 0 ? Bits - 3 - k : Bits - 2 + k);
        uint8_t body = 1;
        if (k >= 0) {  // k + 1 ones and a zero
            for (int8_t n = k; n > 0; --n) body = static_cast<uint8_t>(body << 1 | 1);
            body = static_cast<uint8_t>(body << 1);
        }
        shift_in(body, tail, room);
        const bool up = tail > 0x8000 || (tail == 0x8000 && (sticky || (body & 1)));
        return static_cast<uint8_t>(body + up);
    }
#endif

#ifdef __AVR__
    // The same in words of 16 bits: at most Bits - 3 bits follow the regime, bit by bit
    static uint16_t rounded_word(const Parts &x) {
        constexpr int es = Bits <= 16 ? Es : 0;
        const int8_t k = static_cast<int8_t>(static_cast<int8_t>(x.exponent) >> es);
        const uint16_t low = static_cast<uint16_t>(x.top);
        uint16_t tail = static_cast<uint16_t>(static_cast<uint16_t>(x.top >> 16) << 1 | low >> 15);
        uint16_t below = static_cast<uint16_t>(low << 1);
        if (es > 0) {
            below = static_cast<uint16_t>(below | (tail & ((1 << es) - 1)));
            tail = static_cast<uint16_t>((tail >> es) | (static_cast<uint16_t>(x.exponent) << (16 - (es ? es : 1))));
        }
        uint8_t room = static_cast<uint8_t>(k >= 0 ? Bits - 3 - k : Bits - 2 + k);
        uint16_t body = 1;
        if (k >= 0) {  // k + 1 ones and a zero
            for (int8_t n = k; n > 0; --n) body = static_cast<uint16_t>(body << 1 | 1);
            body = static_cast<uint16_t>(body << 1);
        }
        if (room >= 8) {
            body = static_cast<uint16_t>(body << 8 | tail >> 8);
            tail = static_cast<uint16_t>(tail << 8);
            room = static_cast<uint8_t>(room - 8);
        }
        asm("rjmp 2f\n"
            "1:\n"
            "lsl %A[tail]\n"
            "rol %B[tail]\n"
            "rol %A[body]\n"
            "rol %B[body]\n"
            "2:\n"
            "dec %[room]\n"
            "brpl 1b\n"
            : [tail] "+r"(tail), [body] "+r"(body), [room] "+r"(room));
        const bool up = tail > 0x8000 || (tail == 0x8000 && (below != 0 || x.sticky || (body & 1)));
        return static_cast<uint16_t>(body + up);
    }
#endif

    static uint32_t largest(const Parts &x) {
        if (x.exponent > limit || x.top != 0x80000000 || x.sticky) ++saturations;
        return nar - 1;
    }

    // regime, exponent and fraction as one bit string, cut to Bits - 1, to nearest, ties to even
    static uint32_t rounded(const Parts &x) {
#ifdef __AVR__
        if (Bits <= 16) return rounded_word(x);
#endif
        const int16_t k = static_cast<int16_t>(x.exponent >> Es);
        const uint32_t fraction = x.top << 1, low = static_cast<uint32_t>(x.exponent & ((1 << Es) - 1));
        const uint32_t tail = Es == 0 ? fraction : (low << (32 - (Es ? Es : 1))) | (fraction >> Es);
        const bool sticky = x.sticky || (Es > 0 && (fraction & ((1u << Es) - 1)) != 0);
        const uint8_t room = static_cast<uint8_t>(Bits - 1 - (k >= 0 ? k + 2 : 1 - k));
        const uint32_t regime = k >= 0 ? (uint32_t(1) << (k + 2)) - 2 : 1;
        const uint32_t body = (regime << room) | (room == 0 ? 0 : tail >> (32 - room));
        const uint32_t rest = tail << room;
        const bool up = (rest & 0x80000000) && ((rest & 0x7FFFFFFF) || sticky || (body & 1));
        return body + up;
    }
};

template <int Bits, int Es>
struct IsElement<Posit<Bits, Es>> : ElementTrait<Posit<Bits, Es>> {};
template <int Bits, int Es>
struct IsSpecial<Posit<Bits, Es>> {
    static constexpr bool value = true;
};

}  // namespace hil
