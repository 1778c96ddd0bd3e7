// An echo over USART0 with a receive interrupt: with FRAMER 1 it takes and sends frames, with 0 bare bytes.
// The difference in size is what the framer costs.
#include <avr/interrupt.h>
#include <avr/io.h>
#include <stdint.h>

#include "firmware/wire/framer.hpp"

static uint8_t message[64];
static volatile uint8_t received;

static void put(uint8_t byte) {
    while (!(UCSR0A & 1 << UDRE0)) {
    }
    UDR0 = byte;
}

static inline void take(uint8_t index, uint8_t value) {
    if (index < sizeof message) message[index] = value;
}

#if FRAMER
struct Sink {
    void byte(uint8_t index, uint8_t value) { take(index, value); }
    void end(bool valid, uint8_t length) {
        if (valid) received = length;
    }
};
static wire::Decoder decoder;
__attribute__((noinline)) static void on_byte(uint8_t byte) {
    Sink sink;
    decoder.feed(byte, sink);
}
#else
__attribute__((noinline)) static void on_byte(uint8_t byte) {
    const uint8_t count = GPIOR0;  // counts in a register of the chip: no RAM
    take(count, byte);
    GPIOR0 = count + 1;
    if (byte == 0) {
        received = count;
        GPIOR0 = 0;
    }
}
#endif

ISR(USART_RX_vect) { on_byte(UDR0); }  // a call, as in the firmware

int main() {
    UBRR0 = 16;
    UCSR0A = 1 << U2X0;
    UCSR0B = 1 << RXEN0 | 1 << TXEN0 | 1 << RXCIE0;
    sei();
    for (;;) {
        const uint8_t length = received;
        if (length == 0) continue;
        received = 0;
#if FRAMER
        wire::send_frame(message, 1, message + 1, length - 3, put);
#else
        put(message[0]);
        for (uint8_t i = 1; i < length; ++i) put(message[i]);
#endif
    }
}
