// The board: simavr's ATmega328P at 16 MHz with its defects patched, its stack watched and its idling detected.
#pragma once
#include <simavr/sim_avr.h>
#include <stdbool.h>
#include <stdint.h>

#include "flash.h"
#include "skips.h"
#include "stacks.h"
#include "usart.h"

enum { CLOCK_HZ = 16000000, SRAM_START = 0x100, RAMEND = 0x8FF };

struct board {
    avr_t *avr;
    struct usart usart;
    struct skips skips;
    uint16_t min_sp;           // lowest stack pointer since reset
    uint16_t lowest_legal_sp;  // just below .data and .bss
    uint8_t sp_half;           // register of the first write of an SPL/SPH pair, 0 if none is open
    struct stacks *stacks;     // what each function needs; NULL if nobody asks
    bool interrupts;           // an interrupt is being entered: what is pushed now is its return address
    bool erased;  // the program counter is in erased flash below a boot loader: silent until a reset
    bool faulted;
    uint32_t fault_pc;
    char fault_why[120];
    bool watchdog_reset;  // set when the watchdog has reset the chip; for the caller to report and clear
};

// Ends the program with exit code 2 and one line if the flash cannot be loaded.
void board_open(struct board *board, const struct flash_setup *flash, uint32_t ram_static_bytes, bool lifted);

// Reset by the reset pin (MCUSR.EXTRF). SRAM keeps its contents, as in the chip.
void board_reset(struct board *board);

// Runs until the cycle counter passes `until`, the firmware faults, or it is found idle.
// Returns true if idle: nothing will ever happen without a byte from the host or a timer of the chip.
bool board_run(struct board *board, avr_cycle_count_t until);
