// The vector table. A chip instantiates it with the number of its UART interrupt.
#pragma once
#include <stdint.h>

extern "C" {
extern uint32_t _estack;
void reset_handler();
void fault_handler();
}

namespace cortexm {

using Handler = void (*)();

// 15 system exceptions, then the external interrupts up to the one in use.
template <uint32_t last_irq>
struct VectorTable {
    const uint32_t *initial_sp;
    Handler handlers[15 + last_irq + 1];
};

template <uint32_t irq>
constexpr VectorTable<irq> vector_table(Handler interrupt) {
    VectorTable<irq> table{};
    table.initial_sp = &_estack;
    for (Handler &handler : table.handlers) handler = fault_handler;
    table.handlers[0] = reset_handler;
    table.handlers[15 + irq] = interrupt;
    return table;
}

}  // namespace cortexm
