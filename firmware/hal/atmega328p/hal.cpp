// ATmega328P at 16 MHz (Arduino Uno). Section and table numbers: datasheet DS40002061.
#include "firmware/hal/hal.hpp"

#include <avr/interrupt.h>
#include <avr/io.h>

#include "firmware/hal/atmega328p/paint.hpp"

extern "C" {
extern uint8_t _end;                            // end of .bss, start of the heap
extern uint8_t *__brkval __attribute__((weak));  // exists only if malloc() is linked
}

namespace {

// With U2X; 16 at 115200: 117647 baud, 2.1 % fast (table 19-12).
constexpr uint16_t kUbrr = (F_CPU / 4 / HIL_BAUD - 1) / 2;
constexpr uint8_t kUartOn = 1 << RXEN0 | 1 << TXEN0;

// Interrupt entry 4, jmp in the vector table 3, body 16, reti 4. The same whatever carries.
constexpr uint8_t kOverflowCycles = 27;

volatile uint16_t overruns;

// Where the section counter lives, to spare RAM: Timer1 is its lower half, GPIOR1:GPIOR0 count served overflows,
// GPIOR2 holds the cycles of an empty section.

}  // namespace

#ifdef HIL_GATE_PORT
namespace {
// PINB, DDRB, PORTB, PINC, ... (register summary); only B (1), C (2) and D (3) exist.
volatile uint8_t &gate_register(uint8_t offset) { return *reinterpret_cast<volatile uint8_t *>(0x20 + 3 * HIL_GATE_PORT + offset); }
}  // namespace

void hal::gate(bool high) {
    if (high) gate_register(2) |= 1 << HIL_GATE_PIN;
    else gate_register(2) &= static_cast<uint8_t>(~(1 << HIL_GATE_PIN));
}
#endif

ISR(TIMER1_OVF_vect, ISR_NAKED) {
    asm volatile("push r24\n"
                 "in r24, __SREG__\n"
                 "push r24\n"
                 "in r24, %[low]\n"
                 "subi r24, -1\n"  // leaves carry clear only when it wraps to zero
                 "out %[low], r24\n"
                 "in r24, %[high]\n"
                 "sbci r24, -1\n"
                 "out %[high], r24\n"
                 "pop r24\n"
                 "out __SREG__, r24\n"
                 "pop r24\n"
                 "reti\n" ::[low] "I"(_SFR_IO_ADDR(GPIOR0)),
                 [high] "I"(_SFR_IO_ADDR(GPIOR1)));
}

ISR(USART_RX_vect) {
    if (UCSR0A & 1 << DOR0) overruns = overruns + 1;  // valid until UDR0 is read
    hil_on_byte(UDR0);
}

namespace hal {

void init() {
    UBRR0 = kUbrr;
    UCSR0A = 1 << U2X0;
    UCSR0C = 1 << UCSZ01 | 1 << UCSZ00;
    UCSR0B = kUartOn;
    TCCR1A = 0;
    TCCR1B = 1 << CS10;
#ifdef HIL_GATE_PORT
    gate_register(1) |= 1 << HIL_GATE_PIN;
#endif
    GPIOR2 = 0;
    section_begin(0);
    GPIOR2 = section_end();
    sei();
}

void put(uint8_t byte) {
    while (!(UCSR0A & 1 << UDRE0)) {}
    UDR0 = byte;
}

void rx_enable(bool on) { UCSR0B = on ? kUartOn | 1 << RXCIE0 : kUartOn; }

uint16_t rx_overruns() {
    uint8_t sreg = SREG;
    cli();
    uint16_t count = overruns;
    SREG = sreg;
    return count;
}

// noinline, noclone: the cycles from here to the start of TCNT1 and from its reading to the return must be those
// measured by init().
__attribute__((noinline, noclone)) void section_begin(uint32_t) {
    GPIOR0 = 0;
    GPIOR1 = 0;
    TCNT1 = 0;
    TIFR1 = 1 << TOV1;  // flagged before the section
    TIMSK1 = 1 << TOIE1;
}

__attribute__((noinline, noclone)) uint32_t section_end() {
    uint8_t sreg = SREG;
    cli();
    uint16_t low = TCNT1;
    bool overflow_waits = TIFR1 & 1 << TOV1;
    TIMSK1 = 0;
    uint16_t served = GPIOR0 | GPIOR1 << 8;
    SREG = sreg;
    uint32_t cycles = (uint32_t)served * (0x10000 - kOverflowCycles) + low - GPIOR2;
    // An overflow flagged after TCNT1 was read belongs to what comes after the section: `low` is then near its top.
    return overflow_waits && low < 0x8000 ? cycles + 0x10000 : cycles;
}

uint32_t stack_peak_bytes() {
    const uint8_t *lowest = &_end + heap_peak_bytes();
    const uint8_t *top = reinterpret_cast<const uint8_t *>(HIL_RAM_END);
    while (lowest <= top && *lowest == kStackPaint) ++lowest;
    return top + 1 - lowest;
}

uint32_t heap_peak_bytes() { return &__brkval && __brkval ? __brkval - &_end : 0; }

Lock::Lock() : saved_(SREG) { cli(); }

Lock::~Lock() { SREG = saved_; }

}  // namespace hal
