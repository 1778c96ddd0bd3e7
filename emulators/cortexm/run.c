/* The processor runs, and faults. */
#include "machine.h"

enum { SILENT_WAIT_MS = 100 };

static void report_fault(const struct machine *m, uint32_t pc, uc_err error) {
    const char *why = m->stop == STOP_FAULT ? m->stop_why : "undefined instruction or unhandled exception";
    bool with_addr = m->stop == STOP_FAULT && m->fault_addr;
    if (m->stop != STOP_FAULT) {
        with_addr = error >= UC_ERR_READ_UNMAPPED && error != UC_ERR_INSN_INVALID && error != UC_ERR_EXCEPTION;
        if (error == UC_ERR_WRITE_PROT) why = "write to flash";
        if (error == UC_ERR_READ_UNMAPPED) why = "read of an unmapped address";
        if (error == UC_ERR_WRITE_UNMAPPED) why = "write to an unmapped address";
        if (error == UC_ERR_FETCH_UNMAPPED || error == UC_ERR_FETCH_PROT) why = "jump to an unmapped address";
    }
    printf("{\"event\":\"fault\",\"pc\":\"0x%08x\",\"why\":\"%s", pc, why);
    if (with_addr) printf(" 0x%08x", m->fault_addr);
    printf("\"}\n");
    fflush(stdout);
}

/* The firmware's fault handler runs as on the chip; what it says goes over the wire. */
static uint32_t take_fault(struct machine *m, uint32_t pc, uc_err error) {
    uint32_t cause = FAULT_INSTRUCTION, address = m->fault_addr;
    if (error == UC_ERR_READ_UNMAPPED || error == UC_ERR_WRITE_UNMAPPED || error == UC_ERR_WRITE_PROT) cause = FAULT_BUS;
    if (error == UC_ERR_FETCH_UNMAPPED || error == UC_ERR_FETCH_PROT) cause = FAULT_FETCH;
    if (m->stop == STOP_FAULT) cause = m->fault_cause ? m->fault_cause : FAULT_BUS;
    if (m->in_rom) return 0;
    set_fault_status(cause, address);
    return fault_enter(m, pc);
}

/* A sleeping processor (WFI) leaves Unicorn as well, and goes on. */
void run(struct machine *m, uint32_t pc, uint32_t until) {
    for (;;) {
        m->fault_addr = m->fault_pc = m->fault_cause = 0;
        const uc_err error = uc_emu_start(m->uc, pc | 1, until, 0, 0);
        if (m->stop == STOP_RESET || m->stop == STOP_QUIT) return;
        uc_reg_read(m->uc, UC_ARM_REG_PC, &pc);
        if (error != UC_ERR_OK || m->stop == STOP_FAULT) {
            if (m->stop == STOP_FAULT) pc = m->fault_pc ? m->fault_pc : m->block_start;
            report_fault(m, pc, error);
            const uint32_t handler = take_fault(m, pc, error);
            m->stop = RUN;
            if (handler) {
                pc = handler;
                m->next_event = 0;
                continue;
            }
            while (m->stop == RUN) {
                host_wait(m, SILENT_WAIT_MS);
                host_service(m);
            }
            return;
        }
        if (pc == until) return;
        m->next_event = 0;
        host_wait(m, 1);
        host_pace(m, true);
        host_service(m);
        if (m->stop != RUN) return;
    }
}
