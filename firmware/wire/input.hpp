// How generated code reaches the rows of the model input.
#pragma once
#include "model/model.hpp"

namespace hil {

// The next row while the model's outer loop is fed from the wire: waits, with the clock of the timed section stopped.
const void *next_step();

// Sends a tensor to the host: generated code calls it after every operation where HIL_LOG_VALUES is defined.
void log_values(uint16_t tensor, const void *values, uint32_t bytes);

// Around every operation where HIL_PROFILE is defined: a timed section of its own, told to the host at its end.
void begin_operation(uint16_t operation);
void end_operation(uint16_t operation);

template <class T>
inline const T *input_row(const uint8_t *input, uint16_t step, Size count) {
    if (model::streamed) return static_cast<const T *>(next_step());
    return reinterpret_cast<const T *>(input) + static_cast<Size>(step) * count;
}

}  // namespace hil
