// Skip instructions that simavr 1.6 gets wrong: it takes an adiw or sbiw whose constant has the low nibble 12 to 15 for
// a two-word instruction (its mask for jmp and call is too wide) and skips one word too many.
#pragma once
#include <simavr/sim_avr.h>
#include <stdbool.h>
#include <stdint.h>

enum { SKIPS_FLASH_WORDS = 16384 };

struct skips {
    uint8_t at[SKIPS_FLASH_WORDS];  // 1: a skip over adiw or sbiw is here
    uint32_t count;
};

void skips_find(struct skips *skips, const uint8_t *flash);

// Executes the skip instruction at avr->pc with the datasheet's cycles and returns the address of the next one.
avr_flashaddr_t skips_execute(avr_t *avr);
