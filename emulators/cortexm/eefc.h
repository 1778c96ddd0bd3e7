/* The flash controllers of the SAM3X8E. */
#pragma once
#include "machine.h"

void eefc_reset(void);
/* A store to the flash's addresses: it fills the page latch. */
void eefc_latch(struct machine *m, uint32_t addr, unsigned size, uint64_t value);
/* Call when the code that stored has come to its end. */
void eefc_settle(struct machine *m);
void eefc_command(struct machine *m, int plane, uint32_t value);
uint32_t eefc_status(int plane);
uint32_t eefc_result(int plane);
