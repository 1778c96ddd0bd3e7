#pragma once
#include <simavr/sim_avr.h>
#include <stdbool.h>

// Writes "cycle pin level" for every edge of an output into a file; false if it cannot be made.
bool pins_watch(avr_t *avr, const char *path);
