/* What loads and stores wait for: the caches of the M7, and constant tables in flash.
 *
 * Addresses are worked out from the registers at the entry of a block, so a load through a pointer that the block itself
 * has loaded is taken for a hit. A line that was touched last time is taken to be still there, but in the one buffer of a
 * SAM3X. */
#include "data.h"

enum { LINE_SHIFT = 5, UNALIGNED_M7 = 3, UNALIGNED_M3 = 1 };

/* Neighbours in memory are one access. The block has room for one of each instruction. */
void add_access(struct block *b, const struct access *a) {
    for (unsigned i = 0; i < b->access_count; ++i) {
        struct access *old = &b->accesses[i];
        if (old->base != a->base || old->index != a->index || old->shift != a->shift || old->stores != a->stores) continue;
        const int32_t first = a->offset < old->offset ? a->offset : old->offset;
        const int32_t old_end = old->offset + (int32_t)old->bytes, end = a->offset + (int32_t)a->bytes;
        const int32_t last = end > old_end ? end : old_end;
        if ((uint32_t)(last - first) > old->bytes + a->bytes + 4) continue;
        old->offset = first;
        old->bytes = (uint32_t)(last - first);
        old->words += a->words;
        old->loads += a->loads;
        return;
    }
    b->accesses[b->access_count++] = *a;
}

static bool in_flash(const struct machine *m, uint32_t addr) {
    const struct chip *c = m->chip;
    return addr - c->flash_base < c->flash_size_bytes || addr - c->flash_mirror < c->flash_size_bytes;
}

/* The word that is missed comes first; the rest of the line follows, and the next line cannot begin before its end. */
static uint32_t fill_stall(struct machine *m, bool flash) {
    const struct timing *t = &m->chip->timing;
    const uint64_t now = m->cycles.typical, start = m->fill_ends > now ? m->fill_ends : now;
    const uint32_t read = flash ? m->flash_wait_states + 1 : 1;
    m->fill_ends = start + m->bus_cycles * (t->fill_cycles + (flash ? t->line_reads : 4) * read);
    return (uint32_t)(start - now) + m->bus_cycles * (t->fill_cycles + read);
}

static uint32_t m7_line(struct machine *m, uint32_t line, bool stores) {
    const struct timing *t = &m->chip->timing;
    const uint32_t addr = line << LINE_SHIFT, set = line & (t->dcache_bytes / (4 << LINE_SHIFT) - 1);
    if (addr - 0x20000000u < t->dtcm_bytes || addr < t->itcm_bytes) return 0;
    if (m->dcache_on && touch(m->dcache[set], 4, line)) return 0;
    if (stores) return 0; /* the store buffer waits, not the program */
    return fill_stall(m, in_flash(m, addr));
}

/* STM32L4: 8 lines of 32 bytes that are filled by reads of the flash's width. */
static uint32_t art_line(struct machine *m, uint32_t line) {
    const uint32_t addr = line << m->read_shift;
    if (!in_flash(m, addr) || touch(m->art_data, ART_DATA_READS, line)) return 0;
    return m->flash_wait_states;
}

/* SAM3X: one buffer of 128 bits for data (datasheet 18.4.1). */
static uint32_t buffer_line(struct machine *m, uint32_t line) {
    if (!in_flash(m, line << 4) || m->literal_line == line) return 0;
    m->literal_line = line;
    return m->flash_wait_states;
}

/* One cache for code and data of the flash. STM32U5 and U3, 8 KiB (ICACHE): the flash reads the next line ahead, so only
 * a line that does not follow the one missed before is waited for. Without the cache every line is. RP2350: each is. */
uint32_t m33_line(struct machine *m, uint32_t line) {
    const struct timing *t = &m->chip->timing;
    const bool follows = line == m->m33_missed + 1;
    if (m->icache_on) {
        const uint32_t sets = (t->icache_bytes >> t->read_shift) / m->m33_ways;
        if (touch(m->shared_lines[line & (sets - 1)], m->m33_ways, line)) return 0;
        ++m->fills;
    }
    m->m33_missed = line;
    if (t->whole_lines) return m->flash_wait_states;
    return follows ? 0 : (m->flash_wait_states + 1) / 2;
}

static uint32_t line_stalls(struct machine *m, uint32_t line, bool stores) {
    switch (m->chip->core) {
    case CORTEX_M7: return m7_line(m, line, stores);
    case CORTEX_M4: return stores ? 0 : art_line(m, line);
    case CORTEX_M33: return stores || !in_flash(m, line << m->read_shift) ? 0 : m33_line(m, line);
    default: return stores ? 0 : buffer_line(m, line);
    }
}

/* SAM3X, worst case of the loads whose address is known: each waits for its line of flash, behind another that is read. */
uint32_t data_bound(struct machine *m, const struct block *b) {
    uint32_t cycles = 0;
    for (unsigned i = 0; i < b->access_count; ++i) {
        const struct access *a = &b->accesses[i];
        cycles += a->words * UNALIGNED_M3;
        if (a->loads && in_flash(m, address_of(m, a))) cycles += 2 * a->loads * m->flash_wait_states;
    }
    return cycles;
}

void wait_for_data(struct machine *m, struct block *b) {
    const unsigned shift = m->read_shift;
    for (unsigned i = 0; i < b->access_count; ++i) {
        struct access *a = &b->accesses[i];
        const uint32_t addr = address_of(m, a);
        if (a->words && addr & 3) m->cycles.typical += a->words * (m->chip->core == CORTEX_M7 ? UNALIGNED_M7 : UNALIGNED_M3);
        if (m->chip->core == CORTEX_M33 && a->loads && in_flash(m, addr)) m->cycles.typical += a->loads; /* code has the port, too */
        const uint32_t last = (addr + a->bytes - 1) >> shift;
        for (uint32_t line = addr >> shift; line <= last; ++line) {
            if (line == a->last_line && m->chip->core != CORTEX_M3) continue;
            a->last_line = line;
            m->cycles.typical += line_stalls(m, line, a->stores);
        }
    }
}
