/* What a block's loads and stores wait for: data.c. */
#pragma once
#include "basic_block.h"

void add_access(struct block *b, const struct access *a);
void wait_for_data(struct machine *m, struct block *b);
