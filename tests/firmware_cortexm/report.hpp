// Little-endian words over the serial port, for programs that test the emulated board.
#pragma once
#include "firmware/hal/hal.hpp"

inline void put_u32(uint32_t word) {
    for (int shift = 0; shift < 32; shift += 8) hal::put(static_cast<uint8_t>(word >> shift));
}
