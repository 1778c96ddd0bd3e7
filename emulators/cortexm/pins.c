/* Outputs: every edge of a pin goes into a file (--pins), for those who would look with an oscilloscope. */
#include "machine.h"

#include <inttypes.h>

void pins_changed(struct machine *m, unsigned port, uint32_t before, uint32_t after) {
    for (unsigned pin = 0; pin < 32; ++pin) {
        if (!((before ^ after) >> pin & 1)) continue;
        ++m->io_count;
        if (m->pins) fprintf(m->pins, "%" PRIu64 " P%c%u %u\n", m->cycles.typical, 'A' + port, pin, after >> pin & 1);
    }
    if (m->pins && before != after) fflush(m->pins);
}

/* One port of an STM32: MODER says which pins are outputs (1), ODR what they are, BSRR changes ODR. */
void stm32_write_port(struct machine *m, unsigned number, uint32_t *port, uint32_t offset, uint32_t value) {
    enum { MODER = 0x00, ODR = 0x14, BSRR = 0x18 };
    uint32_t outputs = 0;
    const uint32_t before = port[ODR / 4];
    if (offset == BSRR) port[ODR / 4] = (before & ~(value >> 16)) | (value & 0xFFFF);
    else port[offset / 4] = value;
    for (unsigned pin = 0; pin < 16; ++pin) outputs |= (uint32_t)((port[MODER / 4] >> 2 * pin & 3) == 1) << pin;
    pins_changed(m, number, before & outputs, port[ODR / 4] & outputs);
}
