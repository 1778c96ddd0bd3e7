/* Instructions and modelled cycles, added up at every basic block that the processor enters. */
#include "block.h"
#include "data.h"
#include "fetch.h"
#include "decode.h"
#include "m0plus.h"

enum { BLOCKS = 1 << 16 }; /* one for every halfword of 128 KiB of code */

static struct block cache[BLOCKS];
static uint32_t generation = 1; /* blocks of another one are forgotten */

static bool is_known(const struct block *b, uint64_t addr, uint32_t size) {
    return b->addr == addr && b->size == size && b->generation == generation;
}

static struct block *block_at(struct machine *m, uint32_t addr, uint32_t size) {
    struct block *b = &cache[addr >> 1 & (BLOCKS - 1)];
    if (is_known(b, addr, size)) return b;
    const uint8_t *code = memory_at(m, addr, size);
    if (!code) return NULL;
    describe(m, b, addr, size, code);
    b->generation = generation;
    if (b->uses_fpu && !fpu_enabled()) stop_machine(m, STOP_FAULT, "FPU instruction while CPACR has the FPU off");
    return b;
}

void forget_blocks(void) { ++generation; }

static bool is_store(const struct insn *i) {
    return i->kind == STORE || i->kind == STORE_REGISTER || i->kind == STORE_MANY || i->kind == FP_STORE;
}

/* The instruction that the guard stops: the block's first store with SP below the limit. A push that fails leaves SP. */
static void locate_overflow(struct machine *m, const struct block *b, uint32_t sp) {
    const uint8_t *code = memory_at(m, b->addr, b->size);
    m->fault_pc = b->addr;
    for (uint32_t at = 0, bytes; code && at < b->size; at += bytes) {
        const struct insn i = decode(code + at);
        const uint32_t after = sp + i.sp_delta;
        bytes = i.bytes;
        m->fault_pc = b->addr + at;
        if (is_store(&i) && after < m->stack_limit) break;
        sp = after;
    }
    uc_reg_write(m->uc, UC_ARM_REG_SP, &sp);
}

static void watch_stack(struct machine *m, const struct block *b) {
    uint32_t at_start;
    uc_reg_read(m->uc, UC_ARM_REG_SP, &at_start);
    const uint32_t sp = at_start + b->lowest_sp;
    m->check_sp = b->sp_unknown;
    if (sp >= m->min_sp) return;
    m->min_sp = sp;
    if (sp >= m->stack_limit) return;
    static char why[64];
    snprintf(why, sizeof why, "stack overflow by %u B into the MPU guard", m->stack_limit - sp);
    locate_overflow(m, b, at_start);
    m->fault_cause = FAULT_GUARD;
    m->fault_addr = sp < m->guard_base ? m->guard_base : sp;
    stop_machine(m, STOP_FAULT, why);
}

/* The branch that ended the last block: was it foreseen? A two-bit counter or the last target says. */
static void leave_m7(struct machine *m, uint32_t addr) {
    struct block *b = m->last_block;
    if (!b) return;
    const bool taken = addr != m->block_end;
    if (b->conditional) {
        const bool foreseen = (b->taken_before >= 2) == taken;
        if (taken && b->taken_before < 3) ++b->taken_before;
        if (!taken && b->taken_before) --b->taken_before;
        if (foreseen) return;
    } else if (!b->indirect || b->last_target == addr) {
        return;
    }
    b->last_target = addr;
    m->cycles.typical += m->chip->timing.mispredicted_cycles;
    m->open = false;
}

static void enter_m7(struct machine *m, struct block *b, bool follows_itself) {
    if (follows_itself) {
        m->turn ^= 1;
        m->cycles.typical += b->again[m->turn];
        m->open = false;
    } else if (m->open && b->first_pairs) {
        m->cycles.typical += b->paired;
        m->open = b->paired_ends_open;
    } else {
        m->cycles.typical += b->typical;
        m->open = b->ends_open;
    }
    m->last_block = b;
}

static void enter_m33(struct machine *m, struct block *b, uint32_t addr) {
    if (addr != m->block_end) m->cycles.typical += m->taken_typical;
    else if (m->last_block && m->last_block->late & b->first_reads) ++m->cycles.typical;
    m->cycles.typical += b->typical;
    m->last_block = b;
}

static void on_block(uc_engine *uc, uint64_t addr, uint32_t size, void *user) {
    (void)uc;
    struct machine *m = user;
    struct block *b = &cache[addr >> 1 & (BLOCKS - 1)];
    if (!is_known(b, addr, size)) b = block_at(m, addr, size);
    if (!b) {
        if (is_exception_return(addr)) interrupt_return(m);
        return;
    }
    if (m->cycles.typical >= m->next_event && !between_blocks(m, addr, b->stores)) return;
    const bool follows_itself = addr == m->block_start;
    m->block_start = addr;
    if (m->chip->core == CORTEX_M7) {
        leave_m7(m, addr);
        enter_m7(m, b, follows_itself);
    } else if (m->chip->core == CORTEX_M33) {
        enter_m33(m, b, addr);
    } else if (m->chip->core == CORTEX_M0PLUS) {
        if (addr != m->block_end) m->cycles.typical += m->taken_typical;
        m0plus_run(m, b);
    } else {
        if (addr != m->block_end) m->cycles.typical += m->taken_typical + b->odd_start;
        m->cycles.typical += b->typical;
    }
    if (addr != m->block_end) {
        m->cycles.min += m->taken_min;
        m->cycles.max += m->taken_max;
    }
    m->instructions += b->instructions;
    m->cycles.min += b->min;
    m->cycles.max += b->max;
    if (m->chip->core == CORTEX_M3) {
        const bool from_flash = (uint32_t)addr - m->chip->flash_base < m->chip->flash_size_bytes;
        const bool line_is_held = from_flash && (m->block_end - 1) >> 4 == (uint32_t)addr >> 4; /* of the last instruction */
        m->cycles.max += data_bound(m, b);
        m->cycles.max -= line_is_held ? m->flash_wait_states : 0;
    }
    m->block_end = addr + size;
    m->taken_typical = b->taken_typical;
    m->taken_min = b->taken_min;
    m->taken_max = b->taken_max;
    if (b->lowest_sp < 0 || b->sp_unknown || m->check_sp) watch_stack(m, b);
    if (m->stacks) stacks_block(m, b, (uint32_t)addr);
    if (m->chip->core == CORTEX_M0PLUS) return;
    if (b->access_count) wait_for_data(m, b);
    if (m->flash_wait_states && (uint32_t)addr - m->chip->flash_base < m->chip->flash_size_bytes)
        m->cycles.typical += fetch_stalls(m, b);
}

void install_block_hook(struct machine *m) {
    uc_hook hook;
    check(uc_hook_add(m->uc, &hook, UC_HOOK_BLOCK, (void *)on_block, m, (uint64_t)1, (uint64_t)0), "block hook");
}
