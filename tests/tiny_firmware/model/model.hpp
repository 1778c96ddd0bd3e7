#pragma once
#include <stdint.h>

int16_t model_step(int16_t x);
