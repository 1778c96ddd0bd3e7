/* What the boot ROMs share: they are not the chips' code but models of it, which speak with the host directly. */
#include "machine.h"

#include <string.h>

enum { POLL_MS = 10 };

/* The next byte from the host; -1 if none comes in time or the machine is stopped. Output is sent meanwhile. */
int rom_get(struct machine *m, int timeout_ms) {
    struct uart *u = &m->uart;
    const double end = wall_seconds() + 1e-3 * timeout_ms;
    for (;;) {
        if (m->stop != RUN) return -1;
        if (u->rx_head != u->rx_tail) {
            ++u->rx_bytes;
            ++m->rom_wire_bytes;
            return u->rx_queue[u->rx_tail++ % RX_QUEUE_BYTES];
        }
        if (wall_seconds() > end) return -1;
        host_service(m);
        if (u->rx_head == u->rx_tail && m->stop == RUN) host_wait(m, POLL_MS);
    }
}

bool rom_get_many(struct machine *m, uint8_t *bytes, uint32_t count, int timeout_ms) {
    for (uint32_t i = 0; i < count; ++i) {
        const int byte = rom_get(m, timeout_ms);
        if (byte < 0) return false;
        bytes[i] = byte;
    }
    return true;
}

void rom_put(struct machine *m, const void *bytes, uint32_t count) {
    struct uart *u = &m->uart;
    for (uint32_t i = 0; i < count; ++i) {
        while (u->tx_head - u->tx_tail == TX_QUEUE_BYTES && m->stop == RUN) {
            host_wait(m, POLL_MS);
            host_service(m);
        }
        if (m->stop != RUN) return;
        u->tx_queue[u->tx_head++ % TX_QUEUE_BYTES] = ((const uint8_t *)bytes)[i];
        ++u->tx_bytes;
        ++m->rom_wire_bytes;
    }
}

void rom_put_byte(struct machine *m, uint8_t byte) { rom_put(m, &byte, 1); }

uint16_t rom_crc16(uint16_t crc, const uint8_t *bytes, uint32_t count) {
    while (count--) {
        crc ^= *bytes++ << 8;
        for (int bit = 0; bit < 8; ++bit) crc = crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1;
    }
    return crc;
}

/* The bus as the processor sees it. What is not there reads as zero and ignores writes: a ROM does not report faults. */
void rom_read(struct machine *m, uint32_t addr, void *bytes, uint32_t count) {
    if (uc_mem_read(m->uc, addr, bytes, count) != UC_ERR_OK) memset(bytes, 0, count);
}

void rom_write(struct machine *m, uint32_t addr, const void *bytes, uint32_t count) {
    if (addr - m->chip->flash_base < m->chip->flash_size_bytes) return;
    uc_mem_write(m->uc, addr, bytes, count);
}

/* Code that was there before may be translated already. */
void rom_forget_code(struct machine *m) {
    check(uc_ctl_flush_tb(m->uc), "flush of translated code");
    forget_blocks();
}

/* Stack pointer and program counter from the two words at `table`, as after a reset. */
uint32_t rom_take_vectors(struct machine *m, uint32_t table) {
    uint32_t vectors[2];
    rom_read(m, table, vectors, sizeof vectors);
    uc_reg_write(m->uc, UC_ARM_REG_SP, &vectors[0]);
    m->min_sp = vectors[0];
    rom_forget_code(m);
    return vectors[1];
}
