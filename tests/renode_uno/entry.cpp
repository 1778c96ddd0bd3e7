// Interrupt entry and the instruction executed after sei, with Timer1 alone: it is stopwatch and interrupt.
#include <avr/interrupt.h>

#include "tests/firmware_uno/print.hpp"

// reti 4; before it entry 4 and the vector's jmp 3
ISR(TIMER1_OVF_vect, ISR_NAKED) {
    asm volatile(
        "mov r2, r18\n"
        "reti\n");
}

// 400 single-cycle instructions, begun when Timer1 is at `phase`.
static uint16_t sled(uint16_t phase) {
    TCNT1 = phase;
    uint16_t start = TCNT1;
    asm volatile(".rept 400\n nop\n .endr\n" ::: "r2");
    return TCNT1 - start;
}

static uint8_t executed_after(bool by_sreg) {
    uint8_t seen;
    TCNT1 = 0xFFFF - 50;
    asm volatile(".rept 100\n nop\n .endr\n");  // overflows here: its interrupt waits for the I bit
    if (by_sreg)
        asm volatile(
            "clr r18\n ldi r19, 0x80\n out 0x3f, r19\n inc r18\n inc r18\n inc r18\n cli\n mov %0, r2\n"
            : "=r"(seen)
            :
            : "r2", "r18", "r19");
    else
        asm volatile("clr r18\n sei\n inc r18\n inc r18\n inc r18\n cli\n mov %0, r2\n" : "=r"(seen) : : "r2", "r18");
    return seen;
}

int main() {
    print_init();
    wait_for_host();
    TCCR1B = 1 << CS10;
    uint16_t plain = sled(0);
    TIMSK1 = 1 << TOIE1;
    sei();
    uint16_t interrupted = sled(0xFFFF - 200);
    cli();
    print_number(plain);
    print_number(interrupted);
    print_number(executed_after(false));
    print_number(executed_after(true));
    print_char('\n');
    print_end();
}
