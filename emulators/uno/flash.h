// Flash as a board has it: a boot section that writes the rest by itself, contents that outlive the power, worn cells.
#pragma once
#include <simavr/sim_avr.h>
#include <stdbool.h>
#include <stdint.h>

enum { FLASH_BYTES = 32768, BOOT_START = 0x7E00 };  // fuses of an Arduino Uno: 512 bytes of boot section

struct flash_setup {
    const char *image;  // Intel hex, or NULL
    const char *boot;   // Intel hex of a boot loader that lies in the boot section, or NULL: reset starts at address 0
    const char *file;   // raw contents, loaded if it exists and written by flash_save, or NULL
    int32_t worn;       // address of a byte that has lost the ability to hold ones, or -1
};

// Fills the flash: contents of the file, then the image, then the boot loader. Ends the program with exit code 2 and one
// line if one of them cannot be loaded. `written` is called with `context` whenever the program has changed its flash.
void flash_open(avr_t *avr, const struct flash_setup *setup, void (*written)(void *context), void *context);

// Writes the contents to the file of the setup, if there is one.
void flash_save(const avr_t *avr);
