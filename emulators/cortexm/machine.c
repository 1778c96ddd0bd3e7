/* What everything else may call and which calls nothing: the clock goes on, and the machine stops. */
#include "machine.h"

void add_cycles(struct machine *m, uint64_t cycles) {
    m->cycles.typical += cycles;
    m->cycles.min += cycles;
    m->cycles.max += cycles;
}

void stop_machine(struct machine *m, enum stop stop, const char *why) {
    if (m->stop == STOP_QUIT || m->stop == STOP_FAULT) return;
    m->stop = stop;
    m->stop_why = why;
    uc_emu_stop(m->uc);
}
