/* One emulated chip: the processor's counters, its memory, and what the other files share. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <unicorn/unicorn.h>

struct machine;
struct uf2;

/* Cycles by the model, and the bounds that no choice of the unknowns can leave. */
struct cost {
    uint64_t typical, min, max;
};

/* RAM of the chip; `mirror` is a second address of the same cells, or 0. */
struct ram {
    uint32_t base, size_bytes, mirror;
};

enum { MAX_RAMS = 6, CACHED_LINES = 32, ART_DATA_READS = 16, FLASH_LINE_NONE = ~0u, MAX_SETS = 256, MAX_SHARED_SETS = 1024 };

enum { NO_IRQ = ~0u };

enum core { CORTEX_M0PLUS = 1, CORTEX_M3, CORTEX_M4, CORTEX_M7, CORTEX_M33 };

static inline bool has_fpu(enum core core) { return core >= CORTEX_M4; }

/* How long memories take. Sources: the chips' files. */
struct timing {
    unsigned read_shift;                 /* of the lines that data come in */
    uint32_t icache_bytes, dcache_bytes; /* of the M7, lines of 32 bytes, 2 and 4 ways; else see shared_lines */
    bool whole_lines;                    /* RP2040, RP2350: a missed line is waited for, flash_wait_states, whatever came before */
    uint32_t itcm_bytes, dtcm_bytes;     /* from 0 and from 0x20000000: never waited for */
    uint32_t fill_cycles, line_reads;    /* a line: the way to memory, then so many reads of wait states + 1 cycles */
    uint32_t mispredicted_cycles;
};

/* The one port to the flash of an M0+, in lines of 64 bits: what has been fetched, what is on its way. */
enum { G0_CACHED_LINES = 4 };

struct prefetch {
    bool ahead, caches;     /* as the firmware has switched them on */
    uint32_t line, next;    /* fetched from; asked for beforehand */
    uint64_t next_arrives, port_free; /* in cycles */
    uint32_t cached[G0_CACHED_LINES];
};

struct chip {
    const char *name;
    int cpu_model;
    enum core core;
    uint32_t flash_base, flash_size_bytes, flash_mirror;
    struct ram rams[MAX_RAMS];
    struct timing timing;
    void (*map_peripherals)(struct machine *m);
    void (*reset)(struct machine *m);
    uint32_t (*requested_irq)(const struct machine *m); /* by a UART; or NO_IRQ */
    bool (*uart_pins_connected)(void);
    uint32_t (*clock_hz)(void);
    bool (*boots_rom)(const struct machine *m);     /* instead of the program in flash */
    uint32_t (*boot_rom)(struct machine *m);        /* address to run at, or 0 after a stop */
    uint32_t product_id, sector_bytes;              /* what that of an STM32 says, and erases at a time */
    uint32_t image_offset;                          /* in the flash: behind a boot loader */
    const struct uf2 *uf2;                          /* images of this kind; or NULL */
    void (*on_1200_baud)(struct machine *m);        /* the port was closed at this speed; or NULL */
    void (*latch)(struct machine *m, uint32_t addr, unsigned size, uint64_t value); /* store to flash; or NULL */
};

enum { FUSE_BOOT_FLASH = 1 << 1 }; /* GPNVM1 of the SAM3X8E */

extern const struct chip sam3x8e, stm32h747, stm32h745, stm32l4r5, stm32g0b1, stm32u575, rp2040, rp2350, nrf52840, nrf52840_nano;
extern const struct chip stm32l4r5_foreign, stm32f746, stm32h7a3; /* foreign.c */
extern const struct chip stm32g0b1_foreign, stm32u575_foreign, stm32u385; /* foreign_u5.c */
extern const struct chip rp2040_foreign;

/* Serial port between the pty and the chip's UART registers. */
enum { RX_QUEUE_BYTES = 1 << 16, TX_QUEUE_BYTES = 1 << 16, LIFTED_BYTE_CYCLES = 40 };

struct uart {
    bool lifted;
    bool keep_old_on_overrun; /* STM32 keeps the unread byte, SAM takes the new one */
    bool rx_enabled, tx_enabled;
    bool rx_full, overrun;
    uint8_t rx_byte;
    uint32_t byte_cycles; /* of ten bits at the programmed baud rate; 0 before that */
    uint64_t rx_due, tx_free;
    uint8_t rx_queue[RX_QUEUE_BYTES], tx_queue[TX_QUEUE_BYTES];
    uint32_t rx_head, rx_tail, tx_head, tx_tail; /* free-running */
    uint64_t rx_bytes, tx_bytes, overruns;
};

/* Interrupts, one level deep: priorities and nesting are not modelled. */
struct nvic {
    uint32_t enabled[8], pending[8];
    bool systick_pending;
    uint32_t vector_table;
    bool active;
    uint32_t active_exception;
    uint32_t frame_sp, frame_bytes;
    bool fp_saved;
    uint64_t fp_registers[8];
    uint32_t fpscr;
    bool in_fault; /* a second fault locks the processor up */
};

/* Is the firmware only spinning? See idle.c. */
struct idle {
    bool probing, stored;
    uint32_t addr, blocks_left;
    uint32_t registers[16];
    uint64_t next_try, backoff, io_count;
    uint8_t *snapshot;
    bool have_snapshot;
};

enum stop { RUN, STOP_RESET, STOP_QUIT, STOP_FAULT };

struct machine {
    /* read and written at every basic block */
    struct cost cycles;
    uint64_t instructions;
    uint64_t next_event;
    uint32_t block_start, block_end; /* of the last block; it falls through to its end */
    uint16_t taken_typical, taken_min, taken_max; /* if the next block starts elsewhere */
    uint32_t code_line[2], literal_line;
    uint32_t cached_lines[CACHED_LINES]; /* of code, the last used first: the STM32L4's instruction cache */
    uint32_t flash_wait_states;
    uint32_t bus_given;                  /* bus_cycles whatever the clocks are; 0: as they are */
    uint32_t bus_cycles;                 /* of the core in one of the bus that the M7's caches are filled over */
    unsigned read_shift;                 /* of the lines that data come in */
    const uint32_t *registers;           /* R0 to R15 of Unicorn's */
    struct block *last_block;            /* M7 */
    bool open, icache_on, dcache_on;
    uint8_t turn;
    uint64_t fill_ends;                  /* cycle in which the data cache has its last line whole */
    uint32_t fills;                      /* of the instruction cache so far */
    uint32_t icache[MAX_SETS][2], dcache[MAX_SETS / 2][4], art_data[ART_DATA_READS]; /* lines, the last used first */
    uint32_t shared_lines[MAX_SHARED_SETS][2]; /* of code and data, direct mapped or in two ways */
    uint32_t m33_ways, m33_missed;       /* the line that was missed last */
    struct prefetch prefetch;            /* M0+ */
    uint32_t min_sp;
    uint32_t guard_base, stack_limit; /* the MPU region that nothing may touch, and its end; 0: none */
    uint32_t fault_pc;               /* of a fault found between instructions */
    uint32_t fault_cause;            /* bits of CFSR, of a fault that is not Unicorn's */
    bool check_sp;

    const struct chip *chip;
    uc_engine *uc;
    uint8_t *flash;
    uint8_t *ram[MAX_RAMS];
    struct uart uart;
    struct nvic nvic;
    struct idle idle;
    uint64_t io_count;               /* bytes moved, trace lines written, clock readings */
    uint64_t next_service;
    bool realtime;
    uint32_t supply;     /* bits of PWR_CR3 for the way the STM32 board is wired; 0: no firmware may write there */
    bool boot0;          /* pin of the STM32, button of a Pico: at reset starts the boot loader */
    const char *drive;   /* folder in which a boot loader takes UF2 files; or NULL */
    uint64_t rom_wire_bytes; /* since the reset, both ways: the clock of a boot ROM */
    bool in_rom;         /* the boot ROM runs, or code that it has called */
    uint8_t fuses;
    int64_t worn_offset; /* of a byte of flash that has lost the ability to hold ones; or -1 */
    FILE *trace, *pins, *lines;
    struct stacks *stacks; /* what each function needs; NULL if nobody asks */
    uint64_t budget; /* of instructions; 0: none */
    enum stop stop;
    const char *stop_why;
    uint32_t fault_addr;
    uint64_t resets;
    struct cost total_cycles;        /* of earlier boots */
    uint64_t total_instructions;
};

/* machine.c: calls nothing else */
void add_cycles(struct machine *m, uint64_t cycles);
void stop_machine(struct machine *m, enum stop stop, const char *why);

/* memory.c */
void map_memory(struct machine *m);
const uint32_t *locate_registers(uc_engine *uc); /* registers.c */
uint8_t *memory_at(const struct machine *m, uint32_t addr, uint32_t bytes);
void map_registers(struct machine *m, uint32_t base, uint32_t size, uc_cb_mmio_read_t read, uc_cb_mmio_write_t write);
void check(uc_err error, const char *what);

/* run.c: one boot, or code called by a boot ROM: until it jumps to `until`, a reset, a fault or the end */
void run(struct machine *m, uint32_t pc, uint32_t until);

/* flash.c: false if the place is not in flash */
void flash_load_image(struct machine *m, const char *path);
void flash_load_file(struct machine *m, const char *path);
void flash_save_file(const struct machine *m, const char *path);
void flash_wear(struct machine *m);
bool flash_erase(struct machine *m, uint32_t offset, uint32_t bytes);
bool flash_program(struct machine *m, uint32_t offset, const uint8_t *data, uint32_t bytes);

/* rom.c, samba.c, nano.c, an3155.c */
int rom_get(struct machine *m, int timeout_ms);
bool rom_get_many(struct machine *m, uint8_t *bytes, uint32_t count, int timeout_ms);
void rom_put(struct machine *m, const void *bytes, uint32_t count);
void rom_put_byte(struct machine *m, uint8_t byte);
uint16_t rom_crc16(uint16_t crc, const uint8_t *bytes, uint32_t count);
void rom_read(struct machine *m, uint32_t addr, void *bytes, uint32_t count);
void rom_write(struct machine *m, uint32_t addr, const void *bytes, uint32_t count);
uint32_t rom_take_vectors(struct machine *m, uint32_t table);
void rom_forget_code(struct machine *m);
uint32_t samba_monitor(struct machine *m);
uint32_t nano_loader(struct machine *m);
uint32_t an3155_loader(struct machine *m);

/* m0plus.c */
void m0plus_reset(struct machine *m);

/* cycles.c */
void forget_blocks(void);
void install_block_hook(struct machine *m);

/* events.c: what happens between two blocks; false if the block must not run now */
bool between_blocks(struct machine *m, uint32_t addr, bool stores);

/* nvic.c. Unicorn refuses to fetch from the architecture's EXC_RETURN values, so LR holds this address in a handler;
 * both chips have nothing there. */
enum { EXCEPTION_RETURN = 0x1FFFF000 };
bool interrupt_pending(const struct machine *m);
bool interrupt_enter(struct machine *m, uint32_t pc);
void interrupt_return(struct machine *m);
bool is_exception_return(uint32_t addr);
uint32_t fault_enter(struct machine *m, uint32_t pc);

/* core.c: the private peripheral bus */
void map_core(struct machine *m);
void reset_core(struct machine *m);
void write_trace(struct machine *m, uint32_t tag); /* with --trace */
bool fpu_enabled(void);
uint64_t systick_next_event(void);
void systick_tick(struct machine *m);
void set_fault_status(uint32_t cause, uint32_t address);
void add_fault_status(uint32_t cause);
enum { FAULT_GUARD = 1 << 1 | 1 << 7, FAULT_STACKING = 1 << 4, FAULT_BUS_STACKING = 1 << 12,
       FAULT_FETCH = 1 << 8, FAULT_BUS = 1 << 9 | 1 << 15, FAULT_INSTRUCTION = 1 << 16 };

/* uart.c */
void uart_reset(struct machine *m);
void uart_tick(struct machine *m);
uint64_t uart_next_event(const struct machine *m);
uint8_t uart_read(struct machine *m);
void uart_write(struct machine *m, uint8_t byte);
bool uart_tx_ready(const struct machine *m);
bool uart_tx_done(const struct machine *m);
void uart_let_thread_run(struct machine *m);
uint32_t uart_rx_room(const struct uart *u);
void uart_feed(struct machine *m, const uint8_t *bytes, uint32_t count);

/* usart.c: the registers of one STM32 USART, a word each up to TDR */
enum { USART_WORDS = 11 };
bool usart_interrupt(const struct machine *m, const uint32_t *registers);
uint32_t usart_read(struct machine *m, const uint32_t *registers, uint32_t offset);
void usart_write(struct machine *m, uint32_t *registers, uint32_t offset, uint32_t value);

/* pins.c */
void pins_changed(struct machine *m, unsigned port, uint32_t before, uint32_t after);

/* stacks.c */
struct stacks *stacks_new(void);
void stacks_restart(struct machine *m, uint32_t addr, uint32_t sp);
void stacks_block(struct machine *m, const struct block *b, uint32_t addr);
void stacks_enter_interrupt(struct machine *m, uint32_t handler);
void stacks_leave_interrupt(struct machine *m);
bool stacks_write(struct machine *m, const char *path);

/* idle.c */
bool idle_probe(struct machine *m, uint32_t addr, bool stores);
void idle_reset(struct machine *m);

/* host.c: pty, signals, wall time */
void host_open(const char *link_path, bool autoreset);
void host_close(void);
void host_wait(struct machine *m, int wait_ms);
void host_service(struct machine *m);
void host_hold_reset(void);
void host_pace(struct machine *m, bool idle);
void host_restart_pace(struct machine *m);
const char *host_pty_name(void);
double wall_seconds(void);
