// The smallest program with everything a build has to handle: an identity, an arena, initialised data.
#include <stdint.h>

#include "model/model.hpp"

#ifndef ARENA_BYTES
#define ARENA_BYTES 256
#endif

extern "C" {
extern const volatile uint8_t hil_image_hash[8];
const volatile uint8_t hil_image_hash[8] = {0};
uint8_t hil_arena[ARENA_BYTES];
}

static volatile int16_t seed = 1234;
volatile uint8_t sink;

int main() {
    for (uint32_t i = 0; i < sizeof hil_arena; ++i) hil_arena[i] = uint8_t(model_step(int16_t(seed + i)));
    sink = uint8_t(hil_arena[seed & 15] ^ hil_image_hash[0]);
#if defined(HIL_CHIP_HOST)
    return 0;
#else
    for (;;) {
    }
#endif
}
