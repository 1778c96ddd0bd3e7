/* Clock, voltage and flash wait states of the STM32H747. */
#pragma once
#include "machine.h"

enum { PAGE = 0x1000, H747_RCC = 0x58024000 }; /* the page of RCC is PWR's too */

uint32_t h747_core_hz(void);
uint32_t h747_uart_hz(bool apb2); /* kernel clock of USART1 (APB2) and USART3 (APB1) */
uint32_t h747_gates(uint32_t offset); /* what was written there */
uint32_t h747_read_rcc(struct machine *m, uint32_t offset);
void h747_write_rcc(struct machine *m, uint32_t offset, uint32_t value);
uint32_t h747_read_flash(uint32_t offset);
void h747_write_flash(struct machine *m, uint32_t offset, uint32_t value);
void h747_reset_clock(struct machine *m);
