#pragma once
#include <stdint.h>

namespace hal {

enum : uint8_t { kStackPaint = 0xC5 };  // an enumerator: assembly operands take it as an immediate

}  // namespace hal
