/* What the fetch of instructions waits for: flash behind its buffers or caches. */
#include "data.h"
#include "fetch.h"

/* SAM3X: two 128-bit code buffers with sequential prefetch (datasheet 18.4.1). */
static uint32_t from_buffers(struct machine *m, const struct block *b) {
    const uint32_t first = b->addr >> 4, last = (b->addr + b->size - 1) >> 4, waits = m->flash_wait_states;
    const bool first_held = first == m->code_line[0] || first == m->code_line[1];
    const bool last_held = last == m->code_line[0] || last == m->code_line[1];
    uint32_t stalls = first_held ? 0 : waits;
    if (!(first_held && last_held && last - first <= 1)) stalls += b->line_stalls;
    if (last != first) {
        m->code_line[1] = last - 1;
        m->code_line[0] = last;
    } else if (m->code_line[0] != last) {
        m->code_line[1] = m->code_line[0];
        m->code_line[0] = last;
    }
    return stalls;
}

/* STM32L4: 32 lines of 32 bytes, the one not used for longest makes room (RM0432, section 3.3.5). */
static uint32_t from_art(struct machine *m, struct block *b) {
    if (b->fetched == m->fills) return 0;
    const uint32_t last = (b->addr + b->size - 1) >> 5;
    uint32_t stalls = 0;
    for (uint32_t line = b->addr >> 5; line <= last; ++line) {
        if (touch(m->cached_lines, CACHED_LINES, line)) continue;
        stalls += m->flash_wait_states;
        ++m->fills;
    }
    b->fetched = m->fills;
    return stalls;
}

/* M7: two ways of lines of 32 bytes. */
static uint32_t from_cache(struct machine *m, struct block *b) {
    if (b->fetched == m->fills) return 0;
    const struct timing *t = &m->chip->timing;
    const uint32_t last = (b->addr + b->size - 1) >> 5, sets = t->icache_bytes / 64;
    uint32_t stalls = 0;
    for (uint32_t line = b->addr >> 5; line <= last; ++line) {
        uint32_t *ways = m->icache[line & (sets - 1)];
        if (ways[0] == line && m->icache_on) continue;
        const uint32_t held = ways[1];
        ways[1] = ways[0];
        ways[0] = line;
        if (held == line && m->icache_on) continue;
        stalls += m->bus_cycles * (t->fill_cycles + t->line_reads * (m->flash_wait_states + 1));
        ++m->fills;
    }
    b->fetched = m->fills;
    return stalls;
}

static uint32_t from_m33_cache(struct machine *m, struct block *b) {
    if (b->fetched == m->fills) return 0;
    const uint32_t last = (b->addr + b->size - 1) >> m->read_shift;
    uint32_t stalls = 0;
    for (uint32_t line = b->addr >> m->read_shift; line <= last; ++line) stalls += m33_line(m, line);
    b->fetched = m->fills;
    return stalls;
}

uint32_t fetch_stalls(struct machine *m, struct block *b) {
    switch (m->chip->core) {
    case CORTEX_M3: return from_buffers(m, b);
    case CORTEX_M4: return from_art(m, b);
    case CORTEX_M33: return from_m33_cache(m, b);
    default: return from_cache(m, b);
    }
}
