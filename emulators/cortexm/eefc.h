/* The flash controllers of the SAM3X8E. */
#pragma once
#include "machine.h"

void eefc_reset(struct machine *m);
/* A reset by software comes at once: a GPNVM bit that is being written keeps its old value. */
void eefc_break_off(struct machine *m);
/* A store to the flash's addresses: it fills the page latch. */
void eefc_latch(struct machine *m, uint32_t addr, unsigned size, uint64_t value);
/* Call when the code that stored has come to its end. */
void eefc_settle(struct machine *m);
void eefc_command(struct machine *m, int plane, uint32_t value);
uint32_t eefc_status(const struct machine *m, int plane);
uint32_t eefc_result(int plane);
