#pragma once
#include <avr/io.h>
#include <stdint.h>

#ifndef HIL_RAM_END
#define HIL_RAM_END RAMEND  // of a chip with less RAM it is said
#endif

namespace hal {

enum : uint8_t { kStackPaint = 0xC5 };  // an enumerator: assembly operands take it as an immediate

}  // namespace hal
