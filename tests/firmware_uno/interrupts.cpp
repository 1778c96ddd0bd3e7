// Interrupt entry and the instruction executed after sei.
#include <avr/interrupt.h>

#include "print.hpp"

// reti 4; before it entry 4 and the vector's jmp 3
ISR(TIMER0_OVF_vect, ISR_NAKED) {
    asm volatile(
        "mov r2, r18\n"
        "reti\n");
}

// 400 single-cycle instructions: Timer0, started just before, overflows once in them.
static uint16_t sled() {
    uint16_t start = TCNT1;
    asm volatile(".rept 400\n nop\n .endr\n");
    return TCNT1 - start;
}

static uint8_t executed_after_sei() {
    uint8_t seen;
    TCNT0 = 200;
    asm volatile(
        "ldi r18, 50\n"
        "1: dec r18\n"
        "brne 1b\n" ::
            : "r18");
    // Timer0 has overflowed once: its interrupt waits for the I bit.
    asm volatile(
        "clr r18\n"
        "nop\n"
        "sei\n"
        "inc r18\n"
        "inc r18\n"
        "inc r18\n"
        "cli\n"
        "mov %0, r2\n"
        : "=r"(seen)
        :
        : "r2", "r18");
    return seen;
}

int main() {
    print_init();
    wait_for_host();
    TCCR1B = 1 << CS10;
    TCCR0B = 1 << CS00;
    TCNT0 = 0;
    uint16_t plain = sled();
    TIFR0 = 1 << TOV0;
    TIMSK0 = 1 << TOIE0;
    TCNT0 = 0;
    sei();
    uint16_t interrupted = sled();
    cli();
    print_number(plain);
    print_number(interrupted);
    print_number(executed_after_sei());
    print_char('\n');
    print_end();
}
