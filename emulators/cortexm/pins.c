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
