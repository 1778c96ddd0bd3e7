// Intel hex images.
#pragma once
#include <stdint.h>

// Reads the file at `path` into `memory`; ends the program with exit code 2 and one line if anything is wrong with it.
void hex_load(const char *path, uint8_t *memory, uint32_t memory_bytes);
