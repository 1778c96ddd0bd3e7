/* What a block's loads and stores wait for: data.c. */
#pragma once
#include "basic_block.h"

void add_access(struct block *b, const struct access *a);
uint32_t m33_line(struct machine *m, uint32_t line);
void wait_for_data(struct machine *m, struct block *b);
