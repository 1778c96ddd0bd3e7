/* A boot loader that shows itself as a drive and takes UF2 files (github.com/microsoft/uf2, the format's specification). */
#pragma once
#include "dfu.h"

struct uf2 {
    uint32_t family;     /* blocks of other chips are ignored */
    uint32_t first, end; /* addresses of programs */
    const char *info;    /* INFO_UF2.TXT: how the drive is known */
    const struct dfu *serial; /* NULL: no image comes by its serial port */
};

/* True if the file begins as UF2 files do. */
bool is_uf2(const uint8_t *file, size_t bytes);

/* Whether every block of the file is there, those of the chip's family; if so, and if they are wanted, written to the flash. */
bool uf2_take(struct machine *m, const uint8_t *file, size_t bytes, bool write);

/* Runs until a whole file has been written, which resets the board, or the machine is stopped. */
uint32_t uf2_loader(struct machine *m);
