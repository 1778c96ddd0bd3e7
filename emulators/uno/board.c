#include "board.h"

#include <simavr/sim_core.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INTERRUPT_ENTRY_CYCLES = 4, SLEEP_WAKE_CYCLES = 4 };  // datasheet 7.7.1 and 7.7
enum { BURST_CYCLES = 16384 };                               // simavr's inner loop returns at least this often
enum { IDLE_LOOP_STEPS = 200, MCUSR = 0x54, MCUSR_PORF = 1, MCUSR_EXTRF = 2 };

static struct board *logged_board;  // simavr's log hook carries no context

static void fault(struct board *board, const char *why) {
    board->avr->state = cpu_Crashed;
    if (board->faulted) return;
    board->faulted = true;
    board->fault_pc = board->avr->pc;
    snprintf(board->fault_why, sizeof board->fault_why, "%s", why);
}

// simavr reports accesses beyond RAMEND and unknown opcodes in its log only.
static void on_log(avr_t *avr, const int level, const char *format, va_list arguments) {
    char text[300], why[120];
    unsigned address;
    if (level > LOG_ERROR || !avr || !logged_board) return;
    vsnprintf(text, sizeof text, format, arguments);
    const char *at = strstr(text, "Address ");
    if (at && sscanf(at, "Address %x", &address) == 1) {
        const char *kind = strstr(text, "read") ? "read from" : "write to";
        snprintf(why, sizeof why, "%s 0x%04x, beyond RAMEND 0x%04x", kind, address, RAMEND);
        fault(logged_board, why);
    } else if (strstr(text, "Invalid Opcode")) {
        fault(logged_board, "invalid opcode");
    }
}

// ---- stack pointer ----

// Push and call write SPL then SPH, compiled prologues SPH then SPL: the pointer is whole after the second write of a pair.
static void write_sp(avr_t *avr, avr_io_addr_t address, uint8_t value, void *param) {
    struct board *board = param;
    avr->data[address] = value;
    if (board->sp_half == 0 || board->sp_half == address) {
        board->sp_half = address;
        return;
    }
    board->sp_half = 0;
    uint16_t sp = avr->data[R_SPL] | avr->data[R_SPH] << 8;
    if (sp < board->min_sp) board->min_sp = sp;
    if (board->stacks) stacks_moved(board->stacks, avr, sp, board->interrupts);
    if (sp < board->lowest_legal_sp) {
        char why[120];
        snprintf(why, sizeof why, "stack overflow by %d B: SP 0x%04x, static data ends at 0x%04x",
                 board->lowest_legal_sp - sp, sp, board->lowest_legal_sp);
        fault(board, why);
    }
}

static void on_interrupt(struct avr_irq_t *irq, uint32_t entered, void *param) {
    (void)irq;
    struct board *board = param;
    if (entered && board->stacks) stacks_entered(board->stacks, board->avr->pc);
    if (entered) board->avr->cycle += INTERRUPT_ENTRY_CYCLES;  // simavr 1.6 charges none
}

// ---- set-up and reset ----

static void reset_with(struct board *board, avr_run_t simavr_reset) {
    board->sp_half = 0;  // the reset writes the stack pointer
    simavr_reset(board->avr);
    usart_reset(&board->usart);
    board->avr->run_cycle_limit = board->skips.count ? 1 : BURST_CYCLES;
    board->min_sp = RAMEND;
    if (board->stacks) stacks_reset(board->stacks, RAMEND);
    board->faulted = board->erased = false;
}

void board_reset(struct board *board) {
    reset_with(board, avr_reset);
    board->avr->data[MCUSR] = MCUSR_EXTRF;
}

// A wild pointer of the firmware reaches any 16-bit address: simavr reports it, but still writes there.
static void widen_data_space(avr_t *avr) {
    uint8_t *data = calloc(1, 65536);
    if (!data) abort();
    memcpy(data, avr->data, avr->ramend + 1);
    free(avr->data);
    avr->data = data;
}

// Which skips need patching is a matter of the flash's contents.
static void on_flash_written(void *context) {
    struct board *board = context;
    skips_find(&board->skips, board->avr->flash);
    board->avr->run_cycle_limit = board->skips.count ? 1 : BURST_CYCLES;
}

void board_open(struct board *board, const struct flash_setup *flash, uint32_t ram_static_bytes, bool lifted) {
    avr_t *avr = avr_make_mcu_by_name("atmega328p");
    if (!avr) {
        fprintf(stderr, "unosim: this libsimavr has no atmega328p\n");
        exit(2);
    }
    avr_global_logger_set(on_log);
    avr_init(avr);
    flash_open(avr, flash, on_flash_written, board);
    widen_data_space(avr);
    avr->frequency = CLOCK_HZ;
    logged_board = board;
    board->avr = avr;
    board->lowest_legal_sp = SRAM_START + ram_static_bytes - 1;
    skips_find(&board->skips, avr->flash);
    usart_attach(&board->usart, avr, lifted);
    avr_register_io_write(avr, R_SPL, write_sp, board);
    avr_register_io_write(avr, R_SPH, write_sp, board);
    for (int i = 0; i < avr->interrupts.vector_count; i++)
        avr_irq_register_notify(avr->interrupts.vector[i]->irq + AVR_INT_IRQ_RUNNING, on_interrupt, board);
    board_reset(board);
    avr->data[MCUSR] = MCUSR_PORF;
}

// ---- running ----

static void service_interrupts(struct board *board) {
    avr_t *avr = board->avr;
    // After sei, reti or a write to SREG the chip executes one more instruction; simavr 1.6 would execute two.
    if (avr->interrupt_state == -2) avr->interrupt_state = -1;
    if (!avr->interrupt_state) return;
    board->interrupts = true;
    avr_service_interrupts(avr);
    board->interrupts = false;
}

// One instruction where skips must be watched, else up to the next timer event of the chip.
static void step(struct board *board) {
    avr_t *avr = board->avr;
    bool patched = board->skips.count && avr->pc < FLASH_BYTES && board->skips.at[avr->pc / 2];
    avr_flashaddr_t next = patched ? skips_execute(avr) : avr_run_one(avr);
    avr_cycle_timer_process(avr);
    avr->pc = next;
    if (avr->state == cpu_Running || avr->state == cpu_Sleeping) service_interrupts(board);
}

// Sleeping: time jumps to the chip's next event.
static void sleep_until_event(struct board *board, avr_cycle_count_t until) {
    avr_t *avr = board->avr;
    avr_cycle_timer_slot_p next = avr->cycle_timers.timer;
    avr_cycle_count_t wake = next && next->when < until ? next->when : until;
    if (wake > avr->cycle) avr->cycle = wake;
    avr_cycle_timer_process(avr);
    if (avr->state == cpu_Running) avr->cycle += SLEEP_WAKE_CYCLES;
    service_interrupts(board);
}

// The watchdog asks for its reset by replacing avr->run.
static void reset_by_watchdog(struct board *board) {
    reset_with(board, board->avr->run);
    board->watchdog_reset = true;
}

// Busy waiting, proven: the firmware comes back to the same instruction with all registers and all of RAM unchanged.
static bool loops_unchanged(struct board *board) {
    avr_t *avr = board->avr;
    static uint8_t data[RAMEND + 1];
    uint8_t sreg[8];
    avr_flashaddr_t pc = avr->pc;
    memcpy(data, avr->data, sizeof data);
    memcpy(sreg, avr->sreg, sizeof sreg);
    avr_cycle_count_t limit = avr->run_cycle_limit;
    avr->run_cycle_limit = avr->run_cycle_count = 1;
    bool unchanged = false;
    for (int i = 0; i < IDLE_LOOP_STEPS && avr->state == cpu_Running && !unchanged; i++) {
        step(board);
        unchanged = avr->pc == pc && !memcmp(sreg, avr->sreg, sizeof sreg) && !memcmp(data, avr->data, sizeof data);
    }
    avr->run_cycle_limit = limit;
    return unchanged;
}

// The chip executes erased flash (0xFFFF) as if nothing were there, comes to the boot loader at its end, which starts the
// erased program again, and so on: without a reset nothing else happens. Looked at once per burst, that is enough.
static bool runs_erased_flash(const avr_t *avr) {
    return avr->reset_pc == BOOT_START && avr->pc < BOOT_START && avr->flash[avr->pc] == 0xFF && avr->flash[avr->pc + 1] == 0xFF;
}

bool board_run(struct board *board, avr_cycle_count_t until) {
    avr_t *avr = board->avr;
    avr_run_t usual_run = avr_callback_run_raw;
    while (avr->cycle < until && !board->faulted && !board->erased) {
        board->erased = runs_erased_flash(avr);
        if (avr->state == cpu_Sleeping)
            sleep_until_event(board, until);
        else
            step(board);
        if (avr->state == cpu_Crashed) fault(board, "program counter beyond the flash");
        if (avr->run != usual_run) reset_by_watchdog(board);
    }
    if (board->erased) return true;
    if (board->faulted || !usart_is_quiet(&board->usart)) return false;
    return avr->state == cpu_Sleeping || loops_unchanged(board);
}
