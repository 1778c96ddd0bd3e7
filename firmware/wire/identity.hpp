// What every firmware carries: who it is, and the count of saturated results. Included by one source alone.
#pragma once
#include <stdint.h>

#include "firmware/kernels/common/numeric.hpp"

namespace hil {
uint32_t saturations;
}

// First 8 bytes of SHA-256 over the linked image with this field zeroed; written by platform/image_hash.py.
extern "C" {
extern const volatile uint8_t hil_image_hash[8] HIL_FLASH;
const volatile uint8_t hil_image_hash[8] HIL_FLASH = {0};
}
