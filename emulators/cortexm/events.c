/* What happens between two basic blocks: bytes arrive, the host is served, interrupts are taken, idling is noticed. */
#include "machine.h"

enum { SERVICE_CYCLES = 20000, IDLE_WAIT_MS = 50 };

/* Time slept while idle passes on the chip before the bytes that ended the sleep: else they would all be overdue. */
static void serve_host(struct machine *m, int wait_ms) {
    if (m->budget && m->total_instructions + m->instructions > m->budget) stop_machine(m, STOP_QUIT, "instruction budget");
    if (wait_ms) host_wait(m, wait_ms);
    host_pace(m, wait_ms > 0);
    host_service(m);
    m->next_service = m->cycles.typical + SERVICE_CYCLES;
}

static void schedule(struct machine *m, bool watch_every_block) {
    const uint64_t arrival = uart_next_event(m), tick = systick_next_event();
    uint64_t next = arrival < m->next_service ? arrival : m->next_service;
    if (tick < next) next = tick;
    m->next_event = watch_every_block ? 0 : next;
}

bool between_blocks(struct machine *m, uint32_t addr, bool stores) {
    uart_tick(m);
    systick_tick(m);
    const bool serve = m->cycles.typical >= m->next_service;
    if (serve) serve_host(m, 0);
    if (m->stop != RUN) return false;
    const bool pending = interrupt_pending(m);
    if (pending && interrupt_enter(m, addr)) {
        schedule(m, false);
        return false;
    }
    if (!pending && (serve || m->idle.probing) && idle_probe(m, addr, stores)) serve_host(m, IDLE_WAIT_MS);
    if (m->stop != RUN) return false;
    schedule(m, pending || m->idle.probing || interrupt_pending(m));
    return true;
}
