/* The private peripheral bus: ITM, DWT, NVIC, SCB, MPU. Registers without a behaviour here keep what is written. */
#include "machine.h"

#include <inttypes.h>
#include <string.h>

enum {
    ITM_STIM0 = 0x0, SYST_CSR = 0xE010, SYST_RVR = 0xE014, SYST_CVR = 0xE018, DWT_CTRL = 0x1000, DWT_CYCCNT = 0x1004, NVIC_ISER = 0xE100, NVIC_ICER = 0xE180,
    NVIC_ISPR = 0xE200, NVIC_ICPR = 0xE280, NVIC_IABR = 0xE300, CPUID = 0xED00, VTOR = 0xED08, AIRCR = 0xED0C, CCR = 0xED14,
    CCSIDR = 0xED80, CPACR = 0xED88, MPU_TYPE = 0xED90, MPU_CTRL = 0xED94, MPU_RBAR = 0xED9C, MPU_RASR = 0xEDA0,
    CFSR = 0xED28, HFSR = 0xED2C, MMFAR = 0xED34, BFAR = 0xED38, DEMCR = 0xEDFC, BUS_BYTES = 0x10000, NVIC_BYTES = 0x20,
    CSR_ENABLE = 1 << 0, CSR_TICKINT = 1 << 1, CSR_CLKSOURCE = 1 << 2, CSR_COUNTFLAG = 1 << 16, SYSTICK_DIVIDER = 8
};

static const uint32_t cpuid[] = {[CORTEX_M0PLUS] = 0x410CC601, [CORTEX_M3] = 0x412FC230, [CORTEX_M4] = 0x410FC241,
                                 [CORTEX_M7] = 0x411FC271, [CORTEX_M33] = 0x410FD214};

static uint32_t words[BUS_BYTES / 4];
static uint64_t cyccnt_zero; /* modelled cycles at which CYCCNT would read 0 */
static uint32_t cyccnt_held;
static uint64_t systick_due; /* modelled cycles at which the counter passes 0 */

static uint32_t *word(uint32_t offset) { return &words[offset / 4]; }

static bool counting(void) { return *word(DWT_CTRL) & 1 && *word(DEMCR) >> 24 & 1; }

bool fpu_enabled(void) { return (*word(CPACR) >> 20 & 0xF) == 0xF; }

static uint32_t cyccnt(const struct machine *m) {
    return counting() ? (uint32_t)(m->cycles.typical - cyccnt_zero) : cyccnt_held;
}

static uint32_t systick_divider(void) { return *word(SYST_CSR) & CSR_CLKSOURCE ? 1 : SYSTICK_DIVIDER; }

static uint64_t systick_period(void) { return ((uint64_t)(*word(SYST_RVR) & 0xFFFFFF) + 1) * systick_divider(); }

/* One that only counts is brought up to date when it is read. */
uint64_t systick_next_event(void) {
    enum { INTERRUPTS = CSR_ENABLE | CSR_TICKINT };
    return (*word(SYST_CSR) & INTERRUPTS) == INTERRUPTS ? systick_due : UINT64_MAX;
}

void systick_tick(struct machine *m) {
    while (*word(SYST_CSR) & CSR_ENABLE && systick_due <= m->cycles.typical) {
        systick_due += systick_period();
        *word(SYST_CSR) |= CSR_COUNTFLAG;
        if (*word(SYST_CSR) & CSR_TICKINT) m->nvic.systick_pending = true;
    }
}

static uint32_t read_systick(struct machine *m, uint32_t at) {
    ++m->io_count; /* who looks at the clock is not idle */
    systick_tick(m);
    const uint32_t value = *word(at);
    if (at == SYST_CVR)
        return *word(SYST_CSR) & CSR_ENABLE ? (uint32_t)((systick_due - m->cycles.typical) / systick_divider()) : value;
    *word(SYST_CSR) &= ~CSR_COUNTFLAG;
    return value;
}

static void write_systick(struct machine *m, uint32_t at, uint32_t value) {
    const bool was_on = *word(SYST_CSR) & CSR_ENABLE;
    if (at != SYST_CVR) *word(at) = value & 0xFFFFFF;
    if (at == SYST_CVR || !was_on) systick_due = m->cycles.typical + systick_period();
    m->next_event = 0;
}

static uint32_t bit_bank(uint32_t offset) { return offset % NVIC_BYTES / 4; }

static uint32_t active_bits(const struct nvic *n, uint32_t bank) {
    const uint32_t irq = n->active_exception - 16;
    return n->active && n->active_exception >= 16 && irq / 32 == bank ? 1u << irq % 32 : 0;
}

static uint64_t read_core(uc_engine *uc, uint64_t offset, unsigned size, void *user) {
    (void)uc;
    struct machine *m = user;
    const uint32_t at = offset & ~3u;
    uint32_t value = *word(at);
    switch (at) {
    case ITM_STIM0: value = m->chip->core != CORTEX_M0PLUS; break; /* ready */
    case SYST_CSR: case SYST_CVR: value = read_systick(m, at); break;
    case DWT_CYCCNT: value = m->chip->core == CORTEX_M0PLUS ? 0 : cyccnt(m); ++m->io_count; break; /* who looks at the clock is not idle */
    case CPUID: value = cpuid[m->chip->core]; break;
    case VTOR: value = m->nvic.vector_table; break;
    case CCSIDR: value = m->chip->core == CORTEX_M7 ? 0xF00FE019 : 0; break; /* 16 KiB, 4 ways, 128 sets of 32 bytes */
    case MPU_TYPE: value = (m->chip->core == CORTEX_M7 ? 16 : 8) << 8; break;
    }
    if ((at & ~0x9Fu) == NVIC_ISER) value = m->nvic.enabled[bit_bank(at)];
    if ((at & ~0x9Fu) == NVIC_ISPR) value = m->nvic.pending[bit_bank(at)];
    if (at >= NVIC_IABR && at < NVIC_IABR + NVIC_BYTES)
        value = active_bits(&m->nvic, bit_bank(at));
    value >>= 8 * (offset & 3);
    return size < 4 ? value & ((1u << 8 * size) - 1) : value;
}

void write_trace(struct machine *m, uint32_t tag) {
    ++m->io_count;
    if (!m->trace) return;
    const struct cost *c = &m->cycles;
    fprintf(m->trace, "%u %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", tag, m->instructions, c->typical, c->min,
            c->max);
}

/* ARMv8-M: from the base to the limit, in units of 32 bytes; the least that it can allow is reading. */
static void update_guard_m33(struct machine *m) {
    const uint32_t base = *word(MPU_RBAR), limit = *word(MPU_RASR);
    const bool closed = *word(MPU_CTRL) & 1 && limit & 1 && (base >> 1 & 3) == 2;
    m->guard_base = base & ~31u;
    m->stack_limit = closed ? (limit | 31) + 1 : 0;
}

/* Only what guards a stack: a region without access rights, below which SP must not go. One of at least 256 bytes has eight
 * parts that can be left out. */
static void update_guard(struct machine *m) {
    if (m->chip->core == CORTEX_M33) {
        update_guard_m33(m);
        return;
    }
    const uint32_t attributes = *word(MPU_RASR), size = 2u << (attributes >> 1 & 31), parts = ~attributes >> 8 & 0xFF;
    const bool closed = *word(MPU_CTRL) & 1 && attributes & 1 && !(attributes >> 24 & 7) && parts;
    const unsigned first = __builtin_ctz(parts | 0x100), last = 31 - __builtin_clz(parts | 1);
    m->guard_base = (*word(MPU_RBAR) & ~(size - 1)) + (size >= 256 ? first * (size / 8) : 0);
    m->stack_limit = closed ? m->guard_base + (size >= 256 ? (last + 1 - first) * (size / 8) : size) : 0;
}

static bool write_nvic(struct machine *m, uint32_t at, uint32_t value) {
    const uint32_t bank = bit_bank(at);
    switch (at & ~(NVIC_BYTES - 1)) {
    case NVIC_ISER: m->nvic.enabled[bank] |= value; break;
    case NVIC_ICER: m->nvic.enabled[bank] &= ~value; break;
    case NVIC_ISPR: m->nvic.pending[bank] |= value; break;
    case NVIC_ICPR: m->nvic.pending[bank] &= ~value; break;
    default: return false;
    }
    m->next_event = 0;
    return true;
}

static void write_core(uc_engine *uc, uint64_t offset, unsigned size, uint64_t value, void *user) {
    (void)uc;
    (void)size;
    struct machine *m = user;
    const uint32_t at = offset & ~3u, held = cyccnt(m);
    if (write_nvic(m, at, value)) return;
    if (at >= SYST_CSR && at <= SYST_CVR) {
        write_systick(m, at, (uint32_t)value);
        return;
    }
    *word(at) = value;
    switch (at) {
    case ITM_STIM0: if (m->chip->core != CORTEX_M0PLUS) write_trace(m, value); break;
    case DWT_CYCCNT: cyccnt_held = value; cyccnt_zero = m->cycles.typical - value; break;
    case DWT_CTRL: case DEMCR: cyccnt_held = held; cyccnt_zero = m->cycles.typical - held; break;
    case VTOR: m->nvic.vector_table = value; break;
    case CCR: m->icache_on = value >> 17 & 1; m->dcache_on = value >> 16 & 1; break;
    case AIRCR: if (value >> 16 == 0x5FA && value & 4) stop_machine(m, STOP_RESET, "firmware"); break;
    case MPU_CTRL: case MPU_RBAR: case MPU_RASR: update_guard(m); break;
    }
}

/* All faults escalate to HardFault: none of the others is enabled by our firmware. */
void set_fault_status(uint32_t cause, uint32_t address) {
    *word(CFSR) |= cause;
    *word(HFSR) |= 1u << 30;
    if (cause == FAULT_GUARD) *word(MMFAR) = address;
    if (cause == FAULT_BUS) *word(BFAR) = address;
}

void add_fault_status(uint32_t cause) { *word(CFSR) |= cause; }

void map_core(struct machine *m) { map_registers(m, 0xE0000000, BUS_BYTES, read_core, write_core); }

void reset_core(struct machine *m) {
    memset(words, 0, sizeof words);
    cyccnt_zero = 0;
    cyccnt_held = 0;
    memset(&m->nvic, 0, sizeof m->nvic);
    m->nvic.vector_table = m->chip->flash_base;
    m->stack_limit = 0;
    m->bus_cycles = 1;
}
