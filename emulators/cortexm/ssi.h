/* The serial interface of an RP2040 to its flash, and the flash's commands. */
#pragma once
#include "machine.h"

enum { SSI_BASE = 0x18000000, SSI_BYTES = 0x1000 };

void ssi_map(struct machine *m);
void ssi_reset(struct machine *m);
