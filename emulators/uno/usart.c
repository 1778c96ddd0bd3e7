#include "usart.h"

#include <string.h>

enum { UCSRA = 0xC0, UCSRB = 0xC1, UCSRC = 0xC2, UBRRL = 0xC4, UBRRH = 0xC5, UDR = 0xC6 };
enum { RXC = 0x80, TXC = 0x40, UDRE = 0x20, DOR = 0x08, U2X = 0x02, MPCM = 0x01 };       // UCSRA
enum { RXCIE = 0x80, TXCIE = 0x40, UDRIE = 0x20, RXEN = 0x10, TXEN = 0x08, UCSZ2 = 0x04, RXB8 = 0x02 };  // UCSRB

static uint8_t reg(const struct usart *u, int address) { return u->avr->data[address]; }

static void set_flag(struct usart *u, uint8_t mask, bool on) {
    if (on)
        u->avr->data[UCSRA] |= mask;
    else
        u->avr->data[UCSRA] &= ~mask;
}

static uint32_t bit_cycles(const struct usart *u) {
    uint32_t divisor = (reg(u, UBRRL) | (reg(u, UBRRH) & 0x0F) << 8) + 1;
    return divisor * (reg(u, UCSRA) & U2X ? 8 : 16);
}

static uint32_t frame_cycles(const struct usart *u) {
    if (u->lifted) return LIFTED_BYTE_CYCLES;
    uint8_t control = reg(u, UCSRC);
    unsigned data_bits = reg(u, UCSRB) & UCSZ2 ? 9 : 5 + ((control >> 1) & 3);
    unsigned parity_bits = control & 0x20 ? 1 : 0, stop_bits = control & 0x08 ? 2 : 1;
    return bit_cycles(u) * (1 + data_bits + parity_bits + stop_bits);
}

// simavr forgets a cleared request only when it comes up for service: never queue a vector twice, its queue holds 63.
static bool is_queued(avr_t *avr, avr_int_vector_t *vector) {
    avr_int_pending_t *queue = &avr->interrupts.pending;
    for (unsigned i = queue->read; i != queue->write; i = (i + 1) % avr_int_pending_fifo_size)
        if (queue->buffer[i] == vector) return true;
    return false;
}

static void request(struct usart *u, avr_int_vector_t *vector, bool level) {
    avr_t *avr = u->avr;
    if (!level) {
        vector->pending = 0;
    } else if (!vector->pending && is_queued(avr, vector)) {
        vector->pending = 1;
        if (avr->sreg[S_I] && avr->interrupt_state == 0) avr->interrupt_state = 1;
        if (avr->state == cpu_Sleeping) avr->state = cpu_Running;
    } else if (!vector->pending) {
        avr_raise_interrupt(avr, vector);
    }
}

// RXC and UDRE are levels: they ask again for as long as the condition holds. TXC is an event.
static void update_levels(struct usart *u) {
    set_flag(u, RXC, u->rx_count > 0);
    set_flag(u, UDRE, !u->tx_buffer_full);
    request(u, &u->vectors->rxc, u->rx_count > 0 && (reg(u, UCSRB) & RXCIE));
    request(u, &u->vectors->udrc, !u->tx_buffer_full && (reg(u, UCSRB) & UDRIE));
}

static void on_return_from_interrupt(struct avr_irq_t *irq, uint32_t running, void *param) {
    (void)irq;
    if (!running) update_levels(param);
}

// ---- receiver ----

static void accept(struct usart *u, uint8_t byte) {
    if (!(reg(u, UCSRB) & RXEN)) return;
    if (u->rx_count < 2) {
        u->rx_fifo[u->rx_count++] = byte;
    } else {
        u->rx_shift = byte;
        u->rx_shift_full = true;
    }
    u->rx_bytes++;
    update_levels(u);
}

static bool lifted_may_deliver(const struct usart *u) {
    return queue_used(&u->to_board) > 0 && (reg(u, UCSRB) & RXEN) && u->rx_count < 2;
}

// Data overrun (20.11.2): the FIFO is full, a byte waits in the shift register, and another start bit comes.
static void begin_frame(struct usart *u) {
    u->rx_byte = queue_pop(&u->to_board);
    u->rx_lost = (reg(u, UCSRB) & RXEN) && u->rx_shift_full;
    if (u->rx_lost) {
        u->overruns++;
        set_flag(u, DOR, true);
    }
    u->rx_state = RX_FRAME;
}

// The receiver knows the byte in the middle of its stop bit; the next start bit can come half a bit later.
static avr_cycle_count_t rx_tick(avr_t *avr, avr_cycle_count_t when, void *param) {
    (void)avr;
    struct usart *u = param;
    switch (u->rx_state) {
        case RX_FRAME:
            u->rx_state = RX_GAP;
            if (!u->rx_lost) accept(u, u->rx_byte);
            return when + bit_cycles(u) / 2;
        case RX_GAP:
            u->rx_state = RX_IDLE;
            if (queue_used(&u->to_board) == 0) return 0;
            begin_frame(u);
            return when + frame_cycles(u) - bit_cycles(u) / 2;
        case RX_LIFTED:
            if (lifted_may_deliver(u)) accept(u, queue_pop(&u->to_board));
            if (lifted_may_deliver(u)) return when + LIFTED_BYTE_CYCLES;
            break;
        case RX_IDLE:
            break;
    }
    u->rx_state = RX_IDLE;
    return 0;
}

void usart_kick(struct usart *u) {
    if (u->rx_state != RX_IDLE || queue_used(&u->to_board) == 0) return;
    if (!u->lifted && u->rx_was_enabled) {
        begin_frame(u);
        avr_cycle_timer_register(u->avr, frame_cycles(u) - bit_cycles(u) / 2, rx_tick, u);
    } else if (u->lifted && lifted_may_deliver(u)) {
        u->rx_state = RX_LIFTED;
        avr_cycle_timer_register(u->avr, LIFTED_BYTE_CYCLES, rx_tick, u);
    }
}

static uint8_t read_data(avr_t *avr, avr_io_addr_t address, void *param) {
    struct usart *u = param;
    uint8_t byte = u->rx_fifo[0];
    if (u->rx_count > 0) {
        u->rx_fifo[0] = u->rx_fifo[1];
        u->rx_count--;
    }
    if (u->rx_shift_full) {
        u->rx_fifo[u->rx_count++] = u->rx_shift;
        u->rx_shift_full = false;
    }
    set_flag(u, DOR, false);
    update_levels(u);
    usart_kick(u);
    avr->data[address] = byte;
    return byte;
}

// ---- transmitter ----

static avr_cycle_count_t tx_done(avr_t *avr, avr_cycle_count_t when, void *param) {
    struct usart *u = param;
    if (queue_free(&u->to_host) == 0) return when + frame_cycles(u);  // the host does not read: the board's time waits for it
    queue_push(&u->to_host, u->tx_shift);
    u->tx_bytes++;
    if (u->tx_buffer_full) {
        u->tx_shift = u->tx_buffer;
        u->tx_buffer_full = false;
        update_levels(u);
        return when + frame_cycles(u);
    }
    u->tx_busy = false;
    set_flag(u, TXC, true);
    if (reg(u, UCSRB) & TXCIE) avr_raise_interrupt(avr, &u->vectors->txc);
    return 0;
}

static void write_data(avr_t *avr, avr_io_addr_t address, uint8_t byte, void *param) {
    (void)address;
    struct usart *u = param;
    if (!(reg(u, UCSRB) & TXEN)) return;
    if (!u->tx_busy) {
        u->tx_busy = true;
        u->tx_shift = byte;
        avr_cycle_timer_register(avr, frame_cycles(u), tx_done, u);
    } else if (!u->tx_buffer_full) {
        u->tx_buffer_full = true;
        u->tx_buffer = byte;
    }
    update_levels(u);
}

// ---- registers ----

static uint8_t read_register(avr_t *avr, avr_io_addr_t address, void *param) {
    (void)param;
    return avr->data[address];
}

static void write_status(avr_t *avr, avr_io_addr_t address, uint8_t value, void *param) {
    struct usart *u = param;
    avr->data[address] = (avr->data[address] & ~(U2X | MPCM)) | (value & (U2X | MPCM));
    if (value & TXC) {
        set_flag(u, TXC, false);
        u->vectors->txc.pending = 0;
    }
}

static void write_control_b(avr_t *avr, avr_io_addr_t address, uint8_t value, void *param) {
    struct usart *u = param;
    avr->data[address] = (value & ~RXB8) | (avr->data[address] & RXB8);
    if (value & RXEN) u->rx_was_enabled = true;
    if (!(value & RXEN)) {  // disabling the receiver flushes it (20.7.6)
        u->rx_count = 0;
        u->rx_shift_full = false;
        set_flag(u, DOR, false);
    }
    update_levels(u);
    usart_kick(u);
}

static void write_plain(avr_t *avr, avr_io_addr_t address, uint8_t value, void *param) {
    (void)param;
    avr->data[address] = value;
}

static void hook(struct usart *u, int address, avr_io_read_t read, avr_io_write_t write) {
    int io = AVR_DATA_TO_IO(address);
    u->avr->io[io].r.c = read;
    u->avr->io[io].r.param = u;
    u->avr->io[io].w.c = write;
    u->avr->io[io].w.param = u;
}

void usart_attach(struct usart *u, avr_t *avr, bool lifted) {
    u->avr = avr;
    u->lifted = lifted;
    for (avr_io_t *module = avr->io_port; module; module = module->next)
        if (module->kind && strcmp(module->kind, "uart") == 0) u->vectors = (avr_uart_t *)module;
    hook(u, UDR, read_data, write_data);
    hook(u, UCSRA, read_register, write_status);
    hook(u, UCSRB, read_register, write_control_b);
    hook(u, UCSRC, read_register, write_plain);
    hook(u, UBRRL, read_register, write_plain);
    hook(u, UBRRH, read_register, write_plain);
    avr_irq_register_notify(u->vectors->rxc.irq + AVR_INT_IRQ_RUNNING, on_return_from_interrupt, u);
    avr_irq_register_notify(u->vectors->udrc.irq + AVR_INT_IRQ_RUNNING, on_return_from_interrupt, u);
}

void usart_reset(struct usart *u) {
    u->rx_count = 0;
    u->rx_shift_full = u->rx_lost = u->rx_was_enabled = u->tx_busy = u->tx_buffer_full = false;
    u->rx_state = RX_IDLE;
    u->avr->data[UCSRA] = UDRE;
    u->avr->data[UCSRB] = 0;
    u->avr->data[UCSRC] = 0x06;
    u->avr->data[UBRRL] = u->avr->data[UBRRH] = 0;
}

bool usart_is_quiet(const struct usart *u) { return u->rx_state == RX_IDLE && !u->tx_busy; }
