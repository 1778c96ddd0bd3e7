/* A basic block, decoded: block.c. */
#pragma once
#include "basic_block.h"

void describe(struct machine *m, struct block *b, uint32_t addr, uint32_t size, const uint8_t *code);
