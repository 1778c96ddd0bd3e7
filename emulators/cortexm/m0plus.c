/* RP2040: every load and every fetch from flash goes through one cache; a line that is not there is waited for whole.
 * STM32G0: the flash is read 64 bits at a time (RM0444, 3.3.1); the line behind the one that is executed is fetched
 * beforehand, the last lines are kept, and data wait for both at the one port. How many lines: 16 instructions, which is what
 * a published image says whose loops of 10 and 11 instructions stay there (docs/cycle_model.md). */
#include "m0plus.h"

#include <string.h>

void m0plus_reset(struct machine *m) {
    memset(&m->prefetch, 0, sizeof m->prefetch);
    memset(m->prefetch.cached, 0xFF, sizeof m->prefetch.cached);
    m->prefetch.line = m->prefetch.next = FLASH_LINE_NONE;
}

static bool is_cached(const struct prefetch *f, uint32_t line) {
    for (int i = 0; i < G0_CACHED_LINES; ++i)
        if (f->cached[i] == line) return true;
    return false;
}

static uint64_t later(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* The cycle in which a read that is asked for at `t` has its line. */
static uint64_t read_line(struct machine *m, uint64_t t) {
    const uint64_t arrives = later(t, m->prefetch.port_free) + m->flash_wait_states;
    m->prefetch.port_free = arrives + 1;
    return arrives;
}

static void fetch(struct machine *m, uint32_t line) {
    struct prefetch *f = &m->prefetch;
    uint64_t *t = &m->cycles.typical;
    if (line == f->line) return;
    const bool asked = line == f->next;
    if (asked) *t = later(*t, f->next_arrives);
    if (f->caches && touch(f->cached, G0_CACHED_LINES, line) && !asked) {
        /* there */
    } else if (!asked) {
        *t = read_line(m, *t);
    }
    f->line = line;
    if (!f->ahead || f->next == line + 1 || (f->caches && is_cached(f, line + 1))) return;
    f->next = line + 1;
    f->next_arrives = read_line(m, *t);
}

/* The data come in a load's last cycle, at once if they are in the line that is executed or has been fetched for it. */
static void load(struct machine *m, uint32_t line) {
    const struct prefetch *f = &m->prefetch;
    uint64_t *t = &m->cycles.typical;
    if (line == f->line || (line == f->next && f->next_arrives <= *t)) return;
    *t = read_line(m, *t - 1) + 1;
}

static bool in_flash(const struct machine *m, uint32_t addr) {
    const struct chip *c = m->chip;
    return addr - c->flash_base < c->flash_size_bytes || addr - c->flash_mirror < c->flash_size_bytes;
}

static void through_cache(struct machine *m, uint32_t line) {
    const uint32_t sets = (m->chip->timing.icache_bytes >> G0_LINE_SHIFT) / 2;
    if (!touch(m->shared_lines[line & (sets - 1)], 2, line) || !m->icache_on) m->cycles.typical += m->flash_wait_states;
}

void m0plus_run(struct machine *m, const struct block *b) {
    const bool waits = m->flash_wait_states && in_flash(m, b->addr);
    const bool cached = m->chip->timing.whole_lines;
    const uint32_t first = b->addr >> G0_LINE_SHIFT;
    if (!m->flash_wait_states) {
        m->cycles.typical += b->typical;
        return;
    }
    for (const struct stretch *s = b->stretches; s < b->stretches + b->stretch_count; ++s) {
        if (waits) (cached ? through_cache : fetch)(m, first + s->line);
        m->cycles.typical += s->cycles;
        if (!s->loads) continue;
        const uint32_t addr = address_of(m, &s->data);
        if (!in_flash(m, addr)) continue;
        for (uint32_t at = addr; at < addr + s->data.bytes; at += 4) (cached ? through_cache : load)(m, at >> G0_LINE_SHIFT);
    }
}
