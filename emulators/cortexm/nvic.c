/* Exception entry and return (ARMv7-M Architecture Reference Manual B1.5.6 to B1.5.8), without nesting. */
#include "machine.h"

#include <string.h>

enum {
    ENTRY_CYCLES = 12, RETURN_CYCLES = 12, TAIL_CHAIN_CYCLES = 6,
    BASIC_FRAME_BYTES = 32, FP_FRAME_BYTES = 104, CONTROL_FPCA = 4, SYSTICK = 15, FIRST_IRQ = 16, XPSR_THUMB = 1 << 24, XPSR_ALIGNED = 1 << 9
};

static const uint32_t FLAGS = 0xF80F0000;       /* N Z C V Q and GE */
static const uint32_t IT_STATE = 0x0600FC00;
static const int frame_registers[] = {UC_ARM_REG_R0, UC_ARM_REG_R1,  UC_ARM_REG_R2,
                                      UC_ARM_REG_R3, UC_ARM_REG_R12, UC_ARM_REG_LR};

static uint32_t get(struct machine *m, int id) {
    uint32_t value = 0;
    uc_reg_read(m->uc, id, &value);
    return value;
}

static void set(struct machine *m, int id, uint32_t value) { uc_reg_write(m->uc, id, &value); }

bool is_exception_return(uint32_t addr) { return addr == EXCEPTION_RETURN; }

static bool is_enabled(const struct nvic *n, uint32_t irq) { return n->enabled[irq / 32] >> irq % 32 & 1; }

/* The exception to take, the lowest number first; 0 if there is none. */
static uint32_t wanted(const struct machine *m) {
    const struct nvic *n = &m->nvic;
    if (n->systick_pending) return SYSTICK;
    for (unsigned bank = 0; bank < 8; ++bank)
        if (n->pending[bank] & n->enabled[bank])
            return FIRST_IRQ + 32 * bank + __builtin_ctz(n->pending[bank] & n->enabled[bank]);
    const uint32_t irq = m->chip->requested_irq(m);
    return irq != NO_IRQ && is_enabled(n, irq) ? FIRST_IRQ + irq : 0;
}

bool interrupt_pending(const struct machine *m) { return !m->nvic.active && wanted(m); }

static void jump_to_handler(struct machine *m) {
    const uint32_t exception = wanted(m), irq = exception - FIRST_IRQ;
    uint8_t *vector = memory_at(m, m->nvic.vector_table + 4 * exception, 4);
    uint32_t handler = 0;
    if (vector) memcpy(&handler, vector, 4);
    m->nvic.active = true;
    m->nvic.active_exception = exception;
    if (exception == SYSTICK) m->nvic.systick_pending = false;
    else m->nvic.pending[irq / 32] &= ~(1u << irq % 32);
    set(m, UC_ARM_REG_LR, EXCEPTION_RETURN | 1);
    set(m, UC_ARM_REG_PC, handler);
    if (m->stacks) stacks_enter_interrupt(m, handler & ~1u);
    m->taken_typical = m->taken_min = m->taken_max = 0;
}

/* Lazy stacking reserves room in the frame. The registers themselves wait here, so a handler may use the FPU. */
static void save_fpu(struct machine *m) {
    for (int i = 0; i < 8; ++i) uc_reg_read(m->uc, UC_ARM_REG_D0 + i, &m->nvic.fp_registers[i]);
    m->nvic.fpscr = get(m, UC_ARM_REG_FPSCR);
    set(m, UC_ARM_REG_CONTROL, get(m, UC_ARM_REG_CONTROL) & ~CONTROL_FPCA);
}

static void restore_fpu(struct machine *m) {
    for (int i = 0; i < 8; ++i) uc_reg_write(m->uc, UC_ARM_REG_D0 + i, &m->nvic.fp_registers[i]);
    set(m, UC_ARM_REG_FPSCR, m->nvic.fpscr);
    set(m, UC_ARM_REG_CONTROL, get(m, UC_ARM_REG_CONTROL) | CONTROL_FPCA);
}

/* False if the processor cannot take the interrupt at this block: masked, or in the middle of an IT block. */
bool interrupt_enter(struct machine *m, uint32_t pc) {
    if (get(m, UC_ARM_REG_PRIMASK) & 1) return false;
    const uint32_t cpsr = get(m, UC_ARM_REG_CPSR);
    if (cpsr & IT_STATE) return false;
    struct nvic *n = &m->nvic;
    const uint32_t sp = get(m, UC_ARM_REG_SP);
    n->fp_saved = has_fpu(m->chip->core) && get(m, UC_ARM_REG_CONTROL) & CONTROL_FPCA;
    n->frame_bytes = n->fp_saved ? FP_FRAME_BYTES : BASIC_FRAME_BYTES;
    n->frame_sp = (sp - n->frame_bytes) & ~7u;
    uint32_t frame[8];
    for (int i = 0; i < 6; ++i) frame[i] = get(m, frame_registers[i]);
    frame[6] = pc;
    frame[7] = (cpsr & FLAGS) | XPSR_THUMB | (sp & 4 ? XPSR_ALIGNED : 0);
    uint8_t *cells = memory_at(m, n->frame_sp, n->frame_bytes);
    if (!cells || n->frame_sp < m->stack_limit) {
        m->fault_addr = n->frame_sp;
        m->fault_pc = pc;
        m->fault_cause = cells ? FAULT_STACKING : FAULT_BUS;
        stop_machine(m, STOP_FAULT, "no room on the stack for an exception frame");
        return true;
    }
    memcpy(cells, frame, sizeof frame);
    if (n->frame_sp < m->min_sp) m->min_sp = n->frame_sp;
    if (n->fp_saved) save_fpu(m);
    set(m, UC_ARM_REG_SP, n->frame_sp);
    add_cycles(m, ENTRY_CYCLES);
    jump_to_handler(m);
    return true;
}

/* HardFault: the frame, then vector 3. Where the MPU or the memory refuses the frame it is not written, which CFSR says
 * (MSTKERR, STKERR), and the handler runs nonetheless. Returns the handler, or 0 if the processor locks up. */
uint32_t fault_enter(struct machine *m, uint32_t pc) {
    const uint32_t sp = get(m, UC_ARM_REG_SP), cpsr = get(m, UC_ARM_REG_CPSR), at = (sp - BASIC_FRAME_BYTES) & ~7u;
    const uint8_t *vector = memory_at(m, m->nvic.vector_table + 4 * 3, 4);
    uint32_t handler = 0, frame[8];
    if (vector) memcpy(&handler, vector, 4);
    if (m->nvic.in_fault || !(handler & 1) || !memory_at(m, handler & ~1u, 2)) return 0;
    for (int i = 0; i < 6; ++i) frame[i] = get(m, frame_registers[i]);
    frame[6] = pc;
    frame[7] = (cpsr & FLAGS) | XPSR_THUMB | (sp & 4 ? XPSR_ALIGNED : 0);
    uint8_t *cells = memory_at(m, at, sizeof frame);
    const bool in_flash = cells >= m->flash && cells < m->flash + m->chip->flash_size_bytes;
    const bool guarded = at < m->stack_limit && at + sizeof frame > m->guard_base;
    if (guarded) add_fault_status(FAULT_STACKING);
    else if (cells && !in_flash) memcpy(cells, frame, sizeof frame);
    else add_fault_status(FAULT_BUS_STACKING);
    m->nvic.in_fault = m->nvic.active = true; /* of the highest priority: no interrupt until the reset */
    m->stack_limit = 0;                       /* HFNMIENA is 0: no MPU in here */
    set(m, UC_ARM_REG_SP, at);
    set(m, UC_ARM_REG_LR, EXCEPTION_RETURN | 1);
    set(m, UC_ARM_REG_CPSR, cpsr & ~IT_STATE);
    add_cycles(m, ENTRY_CYCLES);
    if (m->stacks) stacks_restart(m, handler & ~1u, at);
    return handler & ~1u;
}

static void unstack(struct machine *m, uint32_t sp) {
    uint32_t frame[8];
    const uint8_t *cells = memory_at(m, sp, sizeof frame);
    if (!cells) {
        stop_machine(m, STOP_FAULT, "exception return with SP outside RAM");
        return;
    }
    memcpy(frame, cells, sizeof frame);
    for (int i = 0; i < 6; ++i) set(m, frame_registers[i], frame[i]);
    set(m, UC_ARM_REG_CPSR, (get(m, UC_ARM_REG_CPSR) & ~(FLAGS | IT_STATE)) | (frame[7] & FLAGS));
    set(m, UC_ARM_REG_SP, sp + m->nvic.frame_bytes + (frame[7] & XPSR_ALIGNED ? 4 : 0));
    if (m->nvic.fp_saved) restore_fpu(m);
    add_cycles(m, RETURN_CYCLES);
    m->taken_typical = m->taken_min = m->taken_max = 0;
    m->nvic.active = false;
    uart_let_thread_run(m);
    set(m, UC_ARM_REG_PC, frame[6] | 1);
    if (m->stacks) stacks_leave_interrupt(m);
}

/* The handler jumped to its EXC_RETURN value: take the next interrupt at once, or resume the thread. */
void interrupt_return(struct machine *m) {
    const uint32_t sp = get(m, UC_ARM_REG_SP);
    if (!m->nvic.active || sp != m->nvic.frame_sp) {
        stop_machine(m, STOP_FAULT, "exception return outside a handler or with a moved SP");
        return;
    }
    uart_tick(m);
    if (wanted(m) && !(get(m, UC_ARM_REG_PRIMASK) & 1)) {
        add_cycles(m, TAIL_CHAIN_CYCLES);
        if (m->stacks) stacks_leave_interrupt(m);
        jump_to_handler(m);
        return;
    }
    unstack(m, sp);
    m->next_event = 0;
}
