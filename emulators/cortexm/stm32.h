/* What STM32s have alike: pins behind the clock gates of their ports, and one USART that the board wires to its ST-LINK. */
#pragma once
#include "machine.h"

enum { STM32_PAGE = 0x1000, STM32_MODER = 0x00, STM32_AFRL = 0x20, STM32_AFRH = 0x24 };

struct stm32 {
    uint32_t gpio, ports;  /* address of port A, a kilobyte each */
    uint32_t usart, irq;
    bool (*port_clocked)(unsigned port);
    bool (*usart_clocked)(void);
    void (*divider_written)(struct machine *m);  /* sets what a byte takes */
};

void stm32_map(struct machine *m, const struct stm32 *chip);
void stm32_reset(struct machine *m, uint32_t port_a_mode);
uint32_t stm32_pins(unsigned port, uint32_t offset);
uint32_t stm32_divider(void);
uint32_t stm32_requested_irq(const struct machine *m);
