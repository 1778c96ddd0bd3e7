/* What a block's loads and stores wait for: data.c. */
#pragma once
#include "basic_block.h"

void add_access(struct block *b, const struct access *a);
uint32_t m33_line(struct machine *m, uint32_t line);
uint32_t data_bound(struct machine *m, const struct block *b);
void wait_for_data(struct machine *m, struct block *b);
