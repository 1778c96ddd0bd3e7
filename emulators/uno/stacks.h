// How deep each function has made the stack: its own bytes, and with all that it called; interrupts are functions apart.
#pragma once
#include <simavr/sim_avr.h>
#include <stdbool.h>
#include <stdint.h>

struct stacks;

struct stacks *stacks_new(uint16_t top);
void stacks_reset(struct stacks *stacks, uint16_t top);

// SP has a new value, by the instruction at avr->pc or by the entry of an interrupt.
void stacks_moved(struct stacks *stacks, const avr_t *avr, uint16_t sp, bool interrupt);

// The interrupt whose return address was pushed last begins at `address`.
void stacks_entered(struct stacks *stacks, uint32_t address);

// A line "address own all" for each function, in bytes below the SP that it is entered with; false if the file cannot be
// written.
bool stacks_write(const struct stacks *stacks, const char *path);
