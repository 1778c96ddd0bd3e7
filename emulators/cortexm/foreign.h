/* Chips for firmware that is not ours, as lists: see foreign.c. */
#pragma once
#include "machine.h"

enum { MAX_READY = 18, MAX_RESETS = 8 };

enum behaviour { KEEP, USART, TIMER, CRC_UNIT };

struct peripheral {
    uint32_t base;
    enum behaviour behaviour;
    uint32_t irq;
};

/* A bit that says "ready" as soon as another one, or none (always), asks for it. */
struct ready {
    uint32_t base, offset, asked_offset, asked, bit;
};

struct family {
    const struct peripheral *peripherals;
    struct ready ready[MAX_READY];
    uint32_t rcc, flash, source_offset, source_shift; /* the clock that is used is the one asked for */
    uint32_t source_mask;
    struct { uint32_t addr, value; } resets[MAX_RESETS]; /* that are not 0 */
    uint32_t (*clock_hz)(void);
    uint32_t (*timer_hz)(bool apb2);
    void (*on_write)(struct machine *m, uint32_t addr, uint32_t value); /* what the memory does differently now; or NULL */
};

void foreign_map(struct machine *m, const struct family *f);
void foreign_reset(struct machine *m);
uint32_t foreign_irq(const struct machine *m);
bool foreign_pins_connected(void);
bool foreign_never_rom(const struct machine *m);

/* A register as it was written; a field of it; clocks behind the dividers that all STM32 share. */
uint32_t foreign_peek(uint32_t addr);
uint32_t foreign_field(uint32_t addr, unsigned low, unsigned count);
uint32_t foreign_ahb_divided(uint32_t hz, uint32_t code);
uint32_t foreign_apb_timer_hz(uint32_t hz, uint32_t code);
