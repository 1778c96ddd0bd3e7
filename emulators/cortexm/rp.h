/* What the RP2040 and the RP2350 share: reset controller, clocks, pads, pins, UART0. Offsets are those of the registers' first alias. */
#pragma once
#include "machine.h"

struct rp_map {
    uint32_t apb_bytes;                                       /* from 0x40000000 */
    uint32_t clocks, resets, io_bank0, pads_bank0, xosc, pll_sys, uart0;
    uint32_t reset_io_bank0, reset_pads_bank0, reset_pll_sys, reset_uart0; /* bits of RESETS */
    uint32_t isolated;                                        /* bit of a pad that is not connected after a reset; or 0 */
    uint32_t sio_set, sio_clear, sio_oe_set;
    uint32_t uart_irq, max_hz;
    uint32_t (*read)(struct machine *m, uint32_t at, uint32_t value);        /* what the chip has of its own; or NULL */
    void (*written)(struct machine *m, uint32_t at, uint32_t value);
    uint32_t (*read_sio)(uint32_t offset);                    /* beside the pins; or NULL: 0 */
    void (*write_sio)(uint32_t offset, uint32_t value);       /* the same; or NULL */
};

void rp_map_peripherals(struct machine *m, const struct rp_map *map);
void rp_reset(struct machine *m);
uint32_t rp_clock_hz(void);
uint32_t rp_word(uint32_t at);
bool rp_out_of_reset(uint32_t bit);
bool rp_uart_pins_connected(void);
uint32_t rp_requested_irq(const struct machine *m);

/* rp2040_foreign.c */
void rp2040_map_foreign(struct machine *m);
void rp2040_reset_foreign(void);
uint32_t rp2040_read_sio(uint32_t offset);
void rp2040_write_sio(uint32_t offset, uint32_t value);
