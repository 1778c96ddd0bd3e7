// Measures loops of known length through hal::section_begin and section_end. Prints `expected measured` of every one that
// differs, then how many were measured.
#include "firmware/hal/hal.hpp"

#include <avr/io.h>

#include "print.hpp"

extern "C" void hil_on_byte(uint8_t) {}

static uint32_t measured;

static void check(uint32_t expected, uint32_t cycles) {
    ++measured;
    if (cycles == expected) return;
    print_number(expected);
    print_number(cycles);
    print_char('\n');
}

// ldi 3; per iteration subi, sbci, sbci, brne 5, the last one 4; NOPS nops: 5 * iterations + 2 + NOPS
template <int NOPS, uint32_t ITERATIONS>
__attribute__((noinline)) static void loop(uint16_t timer_phase) {
    TCNT1 = timer_phase;
    hal::section_begin(0);
    asm volatile(
        "ldi r18, lo8(%[count])\n"
        "ldi r19, hi8(%[count])\n"
        "ldi r20, hlo8(%[count])\n"
        "1: subi r18, 1\n"
        "sbci r19, 0\n"
        "sbci r20, 0\n"
        "brne 1b\n"
        ".rept %[nops]\n nop\n .endr\n" ::[count] "i"(ITERATIONS),
        [nops] "i"(NOPS)
        : "r18", "r19", "r20");
    check(5 * ITERATIONS + 2 + NOPS, hal::section_end());
}

// Every length from FIRST to FIRST + 5 * COUNT - 1.
template <uint32_t FIRST, uint8_t COUNT>
struct Sweep {
    static void run(uint16_t phase) {
        constexpr uint32_t iterations = (FIRST - 2) / 5;
        loop<0, iterations>(phase);
        loop<1, iterations>(phase + 1);
        loop<2, iterations>(phase + 2);
        loop<3, iterations>(phase + 3);
        loop<4, iterations>(phase + 4);
        Sweep<FIRST + 5, COUNT - 1>::run(phase + 5);
    }
};

template <uint32_t FIRST>
struct Sweep<FIRST, 0> {
    static void run(uint16_t) {}
};

int main() {
    hal::init();
    print_init();
    wait_for_host();
    for (uint8_t i = 0; i < 40; ++i) {
        TCNT1 = 0xFFE0 + i;  // overflows before, in or after section_begin, or not at all
        asm volatile(".rept 8\n nop\n .endr\n");
        hal::section_begin(i);
        check(0, hal::section_end());
    }
    // Around the fourth overflow (262144 less three interrupts of 27 cycles), so that it falls on every cycle near the end.
    Sweep<4ul * 65536 - 3 * 27 - 60, 20>::run(0);
    Sweep<200002, 4>::run(0xFFC0);  // the timer overflows just before, in and after section_begin
    print_number(measured);
    print_char('\n');
    print_end();
}
