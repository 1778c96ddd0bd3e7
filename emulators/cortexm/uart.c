/* Bytes between the pty and the chip's UART: when they arrive, when they have left, what is overrun. */
#include "machine.h"

#include <inttypes.h>
#include <string.h>

/* Pace of a wire into a UART that has no baud rate yet; longest wait of output for more of it. */
enum { DISCARD_CYCLES = 1000, FLUSH_CYCLES = 4000 };

static uint32_t byte_cycles(const struct uart *u) {
    if (u->lifted) return LIFTED_BYTE_CYCLES;
    return u->byte_cycles ? u->byte_cycles : DISCARD_CYCLES;
}

static uint64_t later(uint64_t a, uint64_t b) { return a > b ? a : b; }

void uart_reset(struct machine *m) {
    struct uart *u = &m->uart;
    u->rx_enabled = u->tx_enabled = u->rx_full = u->overrun = false;
    u->byte_cycles = 0;
    u->rx_due = u->tx_free = 0;
    u->tx_tail = u->tx_head;
}

uint32_t uart_rx_room(const struct uart *u) { return RX_QUEUE_BYTES - (u->rx_head - u->rx_tail); }

void uart_feed(struct machine *m, const uint8_t *bytes, uint32_t count) {
    struct uart *u = &m->uart;
    if (u->rx_head == u->rx_tail) u->rx_due = later(u->rx_due, m->cycles.typical) + byte_cycles(u);
    for (uint32_t i = 0; i < count; ++i) u->rx_queue[u->rx_head++ % RX_QUEUE_BYTES] = bytes[i];
    m->next_event = 0;
}

uint64_t uart_next_event(const struct machine *m) {
    const struct uart *u = &m->uart;
    if (u->rx_head == u->rx_tail) return UINT64_MAX;
    if (u->lifted && (!u->rx_enabled || u->rx_full || m->nvic.active)) return UINT64_MAX;
    return u->rx_due;
}

static void arrive(struct machine *m, uint8_t byte) {
    struct uart *u = &m->uart;
    ++m->io_count;
    if (!u->rx_enabled || !m->chip->uart_pins_connected()) return;
    if (u->rx_full) {
        u->overrun = true;
        ++u->overruns;
        if (u->keep_old_on_overrun) return;
    }
    u->rx_byte = byte;
    u->rx_full = true;
    ++u->rx_bytes;
}

void uart_tick(struct machine *m) {
    struct uart *u = &m->uart;
    while (uart_next_event(m) <= m->cycles.typical) {
        arrive(m, u->rx_queue[u->rx_tail++ % RX_QUEUE_BYTES]);
        u->rx_due = (u->lifted ? m->cycles.typical : u->rx_due) + byte_cycles(u);
    }
}

/* Without the pace of a wire, a burst would keep the handler running and starve the code that empties its buffer. */
void uart_let_thread_run(struct machine *m) {
    struct uart *u = &m->uart;
    if (u->lifted) u->rx_due = later(u->rx_due, m->cycles.typical + LIFTED_BYTE_CYCLES);
}

uint8_t uart_read(struct machine *m) {
    m->uart.rx_full = false;
    m->next_event = 0;
    return m->uart.rx_byte;
}

bool uart_tx_done(const struct machine *m) { return m->uart.tx_free <= m->cycles.typical; }

/* One byte may wait while another leaves. A host that does not read holds the sender back. */
bool uart_tx_ready(const struct machine *m) {
    const struct uart *u = &m->uart;
    return u->tx_head - u->tx_tail < TX_QUEUE_BYTES && u->tx_free <= m->cycles.typical + byte_cycles(u);
}

/* With --lines: when each line that was sent began and ended, in cycles and instructions. */
static void note_line(struct machine *m, uint8_t byte) {
    static char text[80];
    static unsigned length;
    static uint64_t cycles, instructions;
    if (!length) {
        cycles = m->cycles.typical;
        instructions = m->instructions;
    }
    if (byte != '\n' && length < sizeof text - 1) {
        if (byte >= ' ' && byte < 127) text[length++] = (char)byte;
        return;
    }
    text[length] = 0;
    fprintf(m->lines, "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %s\n", cycles, instructions, m->cycles.typical,
            m->instructions, text);
    length = 0;
}

void uart_write(struct machine *m, uint8_t byte) {
    struct uart *u = &m->uart;
    if (!u->tx_enabled || !m->chip->uart_pins_connected() || !uart_tx_ready(m)) return;
    u->tx_queue[u->tx_head++ % TX_QUEUE_BYTES] = byte;
    u->tx_free = later(u->tx_free, m->cycles.typical) + byte_cycles(u);
    ++u->tx_bytes;
    ++m->io_count;
    if (m->lines) note_line(m, byte);
    if (m->next_service > m->cycles.typical + FLUSH_CYCLES) m->next_service = m->cycles.typical + FLUSH_CYCLES;
    if (m->next_event > m->next_service) m->next_event = m->next_service;
}
