/* Cycles of a Cortex-M0+ that shares one port to the flash between code and data. */
#pragma once
#include "basic_block.h"

enum { G0_LINE_SHIFT = 3 };

void m0plus_run(struct machine *m, const struct block *b);
