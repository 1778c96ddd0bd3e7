/* Pins and USART of an STM32. */
#include "stm32.h"

#include <string.h>

enum { PORT_BYTES = 0x400, PORT_WORDS = PORT_BYTES / 4, MOST_PORTS = 12, BRR = 0x0C };

static const struct stm32 *chip;
static uint32_t usart[USART_WORDS], gpio[MOST_PORTS][PORT_WORDS];

uint32_t stm32_pins(unsigned port, uint32_t offset) { return gpio[port][offset / 4]; }

uint32_t stm32_divider(void) { return usart[BRR / 4]; }

uint32_t stm32_requested_irq(const struct machine *m) { return usart_interrupt(m, usart) ? chip->irq : NO_IRQ; }

static uint64_t read_usart(uc_engine *uc, uint64_t offset, unsigned size, void *user) {
    (void)uc;
    (void)size;
    return chip->usart_clocked() ? usart_read(user, usart, (uint32_t)offset - chip->usart % STM32_PAGE) : 0;
}

static void write_usart(uc_engine *uc, uint64_t offset, unsigned size, uint64_t value, void *user) {
    (void)uc;
    (void)size;
    const uint32_t at = (uint32_t)offset - chip->usart % STM32_PAGE;
    if (!chip->usart_clocked()) return;
    usart_write(user, usart, at, (uint32_t)value);
    if (at == BRR) chip->divider_written(user);
}

static uint64_t read_gpio(uc_engine *uc, uint64_t offset, unsigned size, void *user) {
    (void)uc;
    (void)size;
    (void)user;
    const unsigned port = (unsigned)(offset / PORT_BYTES);
    return chip->port_clocked(port) ? gpio[port][offset % PORT_BYTES / 4] : 0;
}

/* MODER says which pins are outputs (1), ODR what they are, BSRR changes ODR. */
static void write_gpio(uc_engine *uc, uint64_t offset, unsigned size, uint64_t value, void *user) {
    (void)uc;
    (void)size;
    enum { ODR = 0x14, BSRR = 0x18 };
    const unsigned number = (unsigned)(offset / PORT_BYTES), at = offset % PORT_BYTES;
    if (!chip->port_clocked(number)) return;
    uint32_t *port = gpio[number], outputs = 0;
    const uint32_t before = port[ODR / 4], word = (uint32_t)value;
    if (at == BSRR) port[ODR / 4] = (before & ~(word >> 16)) | (word & 0xFFFF);
    else port[at / 4] = word;
    for (unsigned pin = 0; pin < 16; ++pin) outputs |= (uint32_t)((port[STM32_MODER / 4] >> 2 * pin & 3) == 1) << pin;
    pins_changed(user, number, before & outputs, port[ODR / 4] & outputs);
}

void stm32_map(struct machine *m, const struct stm32 *which) {
    chip = which;
    map_registers(m, chip->usart / STM32_PAGE * STM32_PAGE, STM32_PAGE, read_usart, write_usart);
    map_registers(m, chip->gpio, (chip->ports * PORT_BYTES + STM32_PAGE - 1) / STM32_PAGE * STM32_PAGE, read_gpio, write_gpio);
}

/* Pins are analogue, but for those of the debug port. */
void stm32_reset(struct machine *m, uint32_t port_a_mode) {
    memset(usart, 0, sizeof usart);
    memset(gpio, 0, sizeof gpio);
    for (unsigned port = 0; port < chip->ports; ++port) gpio[port][STM32_MODER / 4] = port ? 0xFFFFFFFF : port_a_mode;
    m->uart.keep_old_on_overrun = true;
}
