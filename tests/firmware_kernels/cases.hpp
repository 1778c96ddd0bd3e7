// Many small models in one program.
#pragma once
#include <stdint.h>

// Runs every case on its inputs; for each: the output's bytes, then the saturations (u32, little endian).
void run_cases();

// Where they go.
void report(uint8_t byte);

// A run of a case begins, `tag` above 0, or ends.
void section(uint32_t tag);
