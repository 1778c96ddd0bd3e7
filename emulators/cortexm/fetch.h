/* What a block's own bytes wait for: fetch.c. */
#pragma once
#include "basic_block.h"

uint32_t fetch_stalls(struct machine *m, struct block *b);
