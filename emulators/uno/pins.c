// Outputs: every edge of a pin goes into a file, for those who would look with an oscilloscope.
#include "pins.h"

#include <simavr/avr_ioport.h>
#include <stdio.h>

enum { PINS = 8 };

static const char ports[] = "BCD";

static struct watched {
    avr_t *avr;
    FILE *file;
    char port;
    int pin;
    bool high;
} watched[sizeof ports - 1][PINS];

static void on_pin(struct avr_irq_t *irq, uint32_t level, void *param) {
    (void)irq;
    struct watched *w = param;
    if (w->high == (level & 1)) return;
    w->high = level & 1;
    fprintf(w->file, "%llu P%c%d %u\n", (unsigned long long)w->avr->cycle, w->port, w->pin, level & 1);
    fflush(w->file);
}

bool pins_watch(avr_t *avr, const char *path) {
    FILE *file = fopen(path, "w");
    if (!file) return false;
    for (unsigned port = 0; ports[port]; port++) {
        avr_irq_t *irqs = avr_io_getirq(avr, AVR_IOCTL_IOPORT_GETIRQ(ports[port]), 0);
        for (int pin = 0; pin < PINS; pin++) {
            watched[port][pin] = (struct watched){.avr = avr, .file = file, .port = ports[port], .pin = pin};
            avr_irq_register_notify(irqs + IOPORT_IRQ_PIN0 + pin, on_pin, &watched[port][pin]);
        }
    }
    return true;
}
