/* USART and LPUART as most STM32 have them: what L4, F7 and H7 share of their registers (RM0432 chapter 50, RM0399 51). */
#include "machine.h"

enum {
    CR1 = 0x00, ISR = 0x1C, ICR = 0x20, RDR = 0x24, TDR = 0x28,
    CR1_UE = 1 << 0, CR1_RE = 1 << 2, CR1_TE = 1 << 3, CR1_RXNEIE = 1 << 5, CR1_TCIE = 1 << 6, CR1_TXEIE = 1 << 7,
    ISR_ORE = 1 << 3, ISR_RXNE = 1 << 5, ISR_TC = 1 << 6, ISR_TXE = 1 << 7, ISR_TEACK = 1 << 21, ISR_REACK = 1 << 22
};

static uint32_t status(const struct machine *m) {
    const struct uart *u = &m->uart;
    return (u->overrun ? ISR_ORE : 0) | (u->rx_full ? ISR_RXNE : 0) | (uart_tx_ready(m) ? ISR_TXE : 0) |
           (uart_tx_done(m) ? ISR_TC : 0) | (u->tx_enabled ? ISR_TEACK : 0) | (u->rx_enabled ? ISR_REACK : 0);
}

bool usart_interrupt(const struct machine *m, const uint32_t *registers) {
    const uint32_t enabled = registers[CR1 / 4];
    if (!(enabled & CR1_UE)) return false;
    const uint32_t now = status(m);
    return (enabled & CR1_RXNEIE && now & (ISR_RXNE | ISR_ORE)) || now & enabled & (CR1_TCIE | CR1_TXEIE);
}

uint32_t usart_read(struct machine *m, const uint32_t *registers, uint32_t offset) {
    if (offset > TDR) return 0;
    if (offset == ISR) return status(m);
    if (offset == RDR) return uart_read(m);
    return registers[offset / 4];
}

void usart_write(struct machine *m, uint32_t *registers, uint32_t offset, uint32_t value) {
    struct uart *u = &m->uart;
    if (offset > TDR) return;
    if (offset == TDR) {
        uart_write(m, (uint8_t)value);
        return;
    }
    registers[offset / 4] = value;
    if (offset == CR1) {
        u->rx_enabled = value & CR1_UE && value & CR1_RE;
        u->tx_enabled = value & CR1_UE && value & CR1_TE;
        if (!u->rx_enabled) u->rx_full = false;
    }
    if (offset == ICR && value & ISR_ORE) u->overrun = false;
    m->next_event = 0;
}
