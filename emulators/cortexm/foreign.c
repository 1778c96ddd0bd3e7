/* STM32 chips for firmware that is not ours: benchmark images of others, held against their published measurements.
 *
 * Peripherals are a list. Those without a behaviour here keep what is written; every other address faults, so an image
 * that needs more than this is named and not run. Every USART is the same serial line. Registers: RM0432 (L4R5), RM0385
 * (F746), RM0455 (H7A3). */
#include "foreign.h"

#include <string.h>

enum {
    UNIT_BYTES = 0x400, PAGE_BYTES = 0x1000, MAX_UNITS = 80,
    TIM_CR1 = 0x00, TIM_EGR = 0x14, TIM_CNT = 0x24, TIM_PSC = 0x28, TIM_ARR = 0x2C,
    CRC_DR = 0x00, CRC_CR = 0x08, CRC_INIT = 0x10, CRC_POL = 0x14
};

struct unit {
    const struct peripheral *what;
    uint32_t words[UNIT_BYTES / 4];
    uint64_t started; /* timers: modelled cycles at which the counter was 0 */
};

static struct unit units[MAX_UNITS];
static unsigned unit_count;
static struct machine *machine;
static const struct family *family;

static struct unit *unit_of(uint32_t addr) {
    for (unsigned i = 0; i < unit_count; ++i)
        if (units[i].what->base == (addr & ~(UNIT_BYTES - 1u))) return &units[i];
    return NULL;
}

uint32_t foreign_peek(uint32_t addr) { return unit_of(addr)->words[addr % UNIT_BYTES / 4]; }

uint32_t foreign_field(uint32_t addr, unsigned low, unsigned count) { return foreign_peek(addr) >> low & ((1u << count) - 1); }

uint32_t foreign_ahb_divided(uint32_t hz, uint32_t code) { /* HPRE: /2 .. /512 without /32 */
    return code < 8 ? hz : hz >> (code < 12 ? code - 7 : code - 6);
}

/* A bus clock divided by more than one feeds its timers doubled. */
uint32_t foreign_apb_timer_hz(uint32_t hz, uint32_t code) { return code < 4 ? hz : hz >> (code - 4); }

/* --- timers: up-counters that nobody waits for --- */

static uint64_t timer_ticks(const struct unit *b) {
    const uint64_t cycles = machine->cycles.typical - b->started;
    const uint32_t hz = family->timer_hz(b->what->base >= 0x40010000);
    return (uint64_t)((__uint128_t)cycles * hz / family->clock_hz()) / (b->words[TIM_PSC / 4] + 1);
}

static uint32_t timer_count(const struct unit *b) {
    ++machine->io_count;
    if (!(b->words[TIM_CR1 / 4] & 1)) return b->words[TIM_CNT / 4];
    return (uint32_t)(timer_ticks(b) % ((uint64_t)b->words[TIM_ARR / 4] + 1));
}

static void write_timer(struct unit *b, uint32_t offset, uint32_t value) {
    const bool was_on = b->words[TIM_CR1 / 4] & 1;
    b->words[offset / 4] = value;
    if (offset == TIM_EGR || offset == TIM_CNT || (offset == TIM_CR1 && !was_on)) b->started = machine->cycles.typical;
}

/* --- the CRC unit: 32 bits, as it is after a reset; the run-time library of X-CUBE-AI asks it whether this is an STM32 --- */

static uint32_t crc_step(uint32_t crc, uint32_t value, uint32_t polynomial) {
    crc ^= value;
    for (int bit = 0; bit < 32; ++bit) crc = crc & 0x80000000 ? crc << 1 ^ polynomial : crc << 1;
    return crc;
}

static const char *write_crc(struct unit *b, uint32_t offset, uint32_t value, unsigned size) {
    uint32_t *words = b->words;
    if (offset == CRC_DR) {
        if (size != 4) return "a CRC of bytes or halfwords";
        words[CRC_DR / 4] = crc_step(words[CRC_DR / 4], value, words[CRC_POL / 4]);
        return NULL;
    }
    if (offset == CRC_CR && value & ~1u) return "a CRC with reversed bits or another size";
    if (offset == CRC_CR && value & 1) words[CRC_DR / 4] = words[CRC_INIT / 4];
    else words[offset / 4] = value;
    return NULL;
}

/* --- all of them --- */

static uint32_t with_ready_bits(const struct unit *b, uint32_t offset, uint32_t value) {
    for (const struct ready *r = family->ready; r->base; ++r) {
        if (r->base != b->what->base || r->offset != offset) continue;
        const bool on = !r->asked || b->words[r->asked_offset / 4] & r->asked;
        value = on ? value | r->bit : value & ~r->bit;
    }
    if (b->what->base == family->rcc && offset == family->source_offset) {
        const uint32_t mask = family->source_mask;
        value = (value & ~(mask << family->source_shift)) | (value & mask) << family->source_shift;
    }
    return value;
}

static void unknown(uint32_t addr, const char *why) {
    machine->fault_addr = addr;
    stop_machine(machine, STOP_FAULT, why);
}

static uint64_t read_page(uc_engine *uc, uint64_t offset, unsigned size, void *user) {
    (void)uc;
    const uint32_t addr = (uint32_t)((uintptr_t)user + offset), at = addr % UNIT_BYTES & ~3u;
    struct unit *b = unit_of(addr);
    if (!b) {
        unknown(addr, "read of a register that is not modelled");
        return 0;
    }
    uint32_t value = b->words[at / 4];
    if (b->what->behaviour == USART) value = usart_read(machine, b->words, at);
    else if (b->what->behaviour == TIMER && at == TIM_CNT) value = timer_count(b);
    else value = with_ready_bits(b, at, value);
    value >>= 8 * (addr & 3);
    return size < 4 ? value & ((1u << 8 * size) - 1) : value;
}

static void write_page(uc_engine *uc, uint64_t offset, unsigned size, uint64_t value, void *user) {
    (void)uc;
    const uint32_t addr = (uint32_t)((uintptr_t)user + offset), at = addr % UNIT_BYTES & ~3u;
    struct unit *b = unit_of(addr);
    if (!b) {
        unknown(addr, "write to a register that is not modelled");
        return;
    }
    uint32_t word = (uint32_t)value;
    if (size < 4 && (b->what->behaviour == KEEP || b->what->behaviour == TIMER)) { /* the rest of the register stays */
        const uint32_t mask = ((1u << 8 * size) - 1) << 8 * (addr & 3);
        word = (b->words[at / 4] & ~mask) | (word << 8 * (addr & 3) & mask);
    }
    switch (b->what->behaviour) {
    case USART: usart_write(machine, b->words, at, word); break;
    case TIMER: write_timer(b, at, word); break;
    case CRC_UNIT: {
        const char *why = write_crc(b, at, word, size);
        if (why) unknown(addr, why);
        break;
    }
    default: b->words[at / 4] = word;
    }
    if (addr == family->flash) {
        machine->flash_wait_states = word & 15;
        forget_blocks();
    }
    if (family->on_write) family->on_write(machine, addr, word);
}

uint32_t foreign_irq(const struct machine *m) {
    for (unsigned i = 0; i < unit_count; ++i) {
        const struct peripheral *p = units[i].what;
        if (p->behaviour == USART && m->nvic.enabled[p->irq / 32] >> p->irq % 32 & 1 && usart_interrupt(m, units[i].words))
            return p->irq;
    }
    return NO_IRQ;
}

bool foreign_pins_connected(void) { return true; }

bool foreign_never_rom(const struct machine *m) {
    (void)m;
    return false;
}

void foreign_map(struct machine *m, const struct family *f) {
    machine = m;
    family = f;
    uint32_t mapped[MAX_UNITS], pages = 0;
    for (const struct peripheral *p = f->peripherals; p->base; ++p) {
        units[unit_count++].what = p;
        const uint32_t page = p->base & ~(PAGE_BYTES - 1u);
        bool known = false;
        for (uint32_t i = 0; i < pages; ++i) known |= mapped[i] == page;
        if (known) continue;
        mapped[pages++] = page;
        void *user = (void *)(uintptr_t)page;
        check(uc_mmio_map(m->uc, page, PAGE_BYTES, read_page, user, write_page, user), "peripheral map");
    }
}

void foreign_reset(struct machine *m) {
    for (unsigned i = 0; i < unit_count; ++i) {
        memset(units[i].words, 0, sizeof units[i].words);
        if (units[i].what->behaviour == TIMER) units[i].words[TIM_ARR / 4] = ~0u;
        if (units[i].what->behaviour != CRC_UNIT) continue;
        units[i].words[CRC_DR / 4] = units[i].words[CRC_INIT / 4] = ~0u;
        units[i].words[CRC_POL / 4] = 0x04C11DB7;
    }
    for (unsigned i = 0; i < MAX_RESETS && family->resets[i].addr; ++i)
        unit_of(family->resets[i].addr)->words[family->resets[i].addr % UNIT_BYTES / 4] = family->resets[i].value;
    m->flash_wait_states = foreign_peek(family->flash) & 15;
    for (unsigned i = 0; i < MAX_RESETS && family->resets[i].addr && family->on_write; ++i)
        family->on_write(m, family->resets[i].addr, family->resets[i].value);
    m->uart.keep_old_on_overrun = true;
}

/* --- STM32L4R5 --- */

enum { L4_RCC = 0x40021000, L4_FLASH = 0x40022000, L4_PWR = 0x40007000, HSI16 = 16000000, MSI4 = 4000000 };

static uint32_t l4_clock_hz(void) {
    static const uint32_t msi_khz[16] = {100, 200, 400, 800, 1000, 2000, 4000, 8000, 16000, 24000, 32000, 48000};
    const uint32_t c = foreign_peek(L4_RCC + 0x0C), msi = 1000 * msi_khz[foreign_field(L4_RCC, 4, 4)];
    const uint32_t source = foreign_field(L4_RCC + 8, 0, 2), input = (c & 3) == 1 ? msi : (c & 3) == 2 ? HSI16 : 8000000;
    const uint32_t pll = (uint32_t)((uint64_t)input / ((c >> 4 & 15) + 1) * (c >> 8 & 127) / (2 * ((c >> 25 & 3) + 1)));
    const uint32_t hz = source == 0 ? msi : source == 1 ? HSI16 : source == 2 ? 8000000 : pll;
    return foreign_ahb_divided(hz, foreign_field(L4_RCC + 8, 4, 4));
}

static uint32_t l4_timer_hz(bool apb2) { return foreign_apb_timer_hz(l4_clock_hz(), foreign_field(L4_RCC + 8, apb2 ? 11 : 8, 3)); }

static const struct peripheral l4_peripherals[] = {
    {0x40000000, TIMER, 0}, {0x40000400, TIMER, 0}, {0x40000800, TIMER, 0}, {0x40000C00, TIMER, 0},
    {0x40001000, TIMER, 0}, {0x40001400, TIMER, 0}, {0x40012C00, TIMER, 0}, {0x40013400, TIMER, 0},
    {0x40014000, TIMER, 0}, {0x40014400, TIMER, 0}, {0x40014800, TIMER, 0},
    {0x40004400, USART, 38}, {0x40004800, USART, 39}, {0x40004C00, USART, 52}, {0x40005000, USART, 53},
    {0x40008000, USART, 70}, {0x40013800, USART, 37},
    {L4_PWR, KEEP, 0}, {0x40010000, KEEP, 0}, {0x40010400, KEEP, 0}, {L4_RCC, KEEP, 0}, {L4_FLASH, KEEP, 0},
    {0x40023000, CRC_UNIT, 0},
    {0x48000000, KEEP, 0}, {0x48000400, KEEP, 0}, {0x48000800, KEEP, 0}, {0x48000C00, KEEP, 0}, {0x48001000, KEEP, 0},
    {0x48001400, KEEP, 0}, {0x48001800, KEEP, 0}, {0x48001C00, KEEP, 0}, {0x48002000, KEEP, 0}, {0, KEEP, 0},
};

static const struct family l4 = {
    .peripherals = l4_peripherals,
    .ready = {{L4_RCC, 0, 0, 1 << 0, 1 << 1}, {L4_RCC, 0, 0, 1 << 8, 1 << 10}, {L4_RCC, 0, 0, 1 << 16, 1 << 17},
              {L4_RCC, 0, 0, 1 << 24, 1 << 25}, {L4_RCC, 0, 0, 1 << 26, 1 << 27}, {L4_RCC, 0, 0, 1 << 28, 1 << 29},
              {L4_RCC, 0x90, 0x90, 1 << 0, 1 << 1}, {L4_RCC, 0x94, 0x94, 1 << 0, 1 << 1},
              {L4_RCC, 0x98, 0x98, 1 << 0, 1 << 1}},
    .rcc = L4_RCC, .flash = L4_FLASH, .source_offset = 0x08, .source_mask = 3, .source_shift = 2,
    .resets = {{L4_FLASH, 0x600}, {L4_RCC, 0x63}, {L4_RCC + 0x0C, 0x1000}, {L4_RCC + 0x94, 0x0C000600}, {L4_PWR, 0x200}, {L4_PWR + 0x80, 0x100},
               {0x48001810, 1 << 12}}, /* PG12: the external regulator of a NUCLEO-L4R5ZI-P says that it is ready */
    .clock_hz = l4_clock_hz, .timer_hz = l4_timer_hz,
};

static void map_l4(struct machine *m) { foreign_map(m, &l4); }

const struct chip stm32l4r5_foreign = {
    .name = "stm32l4r5-foreign", .cpu_model = UC_CPU_ARM_CORTEX_M4, .core = CORTEX_M4,
    .flash_base = 0x08000000, .flash_size_bytes = 2 << 20, .flash_mirror = 0,
    .rams = {{0x20000000, 640 << 10, 0}, {0x10000000, 64 << 10, 0}},
    .timing = {.read_shift = 3},
    .map_peripherals = map_l4, .reset = foreign_reset, .requested_irq = foreign_irq, .uart_pins_connected = foreign_pins_connected,
    .clock_hz = l4_clock_hz, .boots_rom = foreign_never_rom,
};

/* Timers and USARTs at the same places in F7 and H7. */
#define COMMON_OF_F7_AND_H7 \
    {0x40000000, TIMER, 0}, {0x40000400, TIMER, 0}, {0x40000800, TIMER, 0}, {0x40000C00, TIMER, 0}, \
    {0x40001000, TIMER, 0}, {0x40001400, TIMER, 0}, {0x40001800, TIMER, 0}, {0x40001C00, TIMER, 0}, \
    {0x40002000, TIMER, 0}, {0x40010000, TIMER, 0}, {0x40010400, TIMER, 0}, {0x40014000, TIMER, 0}, \
    {0x40014400, TIMER, 0}, {0x40014800, TIMER, 0}, \
    {0x40004400, USART, 38}, {0x40004800, USART, 39}, {0x40004C00, USART, 52}, {0x40005000, USART, 53}, \
    {0x40007800, USART, 82}, {0x40007C00, USART, 83}, {0x40011000, USART, 37}, {0x40011400, USART, 71}

/* --- STM32F746 --- */

enum { F7_RCC = 0x40023800, F7_FLASH = 0x40023C00, F7_PWR = 0x40007000, HSE25 = 25000000 };

static uint32_t f7_clock_hz(void) {
    const uint32_t c = foreign_peek(F7_RCC + 4), source = foreign_field(F7_RCC + 8, 0, 2), input = c >> 22 & 1 ? HSE25 : HSI16;
    const uint32_t divider = (c & 63) * (2 * ((c >> 16 & 3) + 1));
    const uint32_t pll = divider ? (uint32_t)((uint64_t)input * (c >> 6 & 511) / divider) : 0;
    return foreign_ahb_divided(source == 0 ? HSI16 : source == 1 ? HSE25 : pll, foreign_field(F7_RCC + 8, 4, 4));
}

static uint32_t f7_timer_hz(bool apb2) { return foreign_apb_timer_hz(f7_clock_hz(), foreign_field(F7_RCC + 8, apb2 ? 13 : 10, 3)); }

static const struct peripheral f7_peripherals[] = {
    COMMON_OF_F7_AND_H7,
    {F7_PWR, KEEP, 0}, {0x40013800, KEEP, 0}, {0x40013C00, KEEP, 0}, {F7_RCC, KEEP, 0}, {F7_FLASH, KEEP, 0},
    {0x40023000, CRC_UNIT, 0},
    {0x40020000, KEEP, 0}, {0x40020400, KEEP, 0}, {0x40020800, KEEP, 0}, {0x40020C00, KEEP, 0}, {0x40021000, KEEP, 0},
    {0x40021400, KEEP, 0}, {0x40021800, KEEP, 0}, {0x40021C00, KEEP, 0}, {0x40022000, KEEP, 0}, {0x40022400, KEEP, 0},
    {0x40022800, KEEP, 0}, {0, KEEP, 0},
};

static const struct family f7 = {
    .peripherals = f7_peripherals,
    .ready = {{F7_RCC, 0, 0, 1 << 0, 1 << 1}, {F7_RCC, 0, 0, 1 << 16, 1 << 17}, {F7_RCC, 0, 0, 1 << 24, 1 << 25},
              {F7_RCC, 0, 0, 1 << 26, 1 << 27}, {F7_RCC, 0, 0, 1 << 28, 1 << 29}, {F7_RCC, 0x74, 0x74, 1 << 0, 1 << 1},
              {F7_PWR, 4, 0, 1 << 16, 1 << 16}, {F7_PWR, 4, 0, 1 << 17, 1 << 17}, {F7_PWR, 4, 0, 0, 1 << 14}},
    .rcc = F7_RCC, .flash = F7_FLASH, .source_offset = 0x08, .source_mask = 3, .source_shift = 2,
    .resets = {{F7_RCC, 0x83}, {F7_RCC + 4, 0x24003010}}, .clock_hz = f7_clock_hz, .timer_hz = f7_timer_hz,
};

static void map_f7(struct machine *m) { foreign_map(m, &f7); }

const struct chip stm32f746 = {
    .name = "stm32f746", .cpu_model = UC_CPU_ARM_CORTEX_M7, .core = CORTEX_M7,
    .flash_base = 0x08000000, .flash_size_bytes = 1 << 20, .flash_mirror = 0x00200000,
    .rams = {{0x20000000, 320 << 10, 0}, {0x00000000, 16 << 10, 0}},
    .timing = {.read_shift = 5, .icache_bytes = 4 << 10, .dcache_bytes = 4 << 10, .itcm_bytes = 16 << 10,
               .dtcm_bytes = 64 << 10, .fill_cycles = 4, .line_reads = 1, .mispredicted_cycles = 8},
    .map_peripherals = map_f7, .reset = foreign_reset, .requested_irq = foreign_irq, .uart_pins_connected = foreign_pins_connected,
    .clock_hz = f7_clock_hz, .boots_rom = foreign_never_rom,
};

/* --- STM32H7A3 --- */

enum { H7_RCC = 0x58024400, H7_FLASH = 0x52002000, H7_PWR = 0x58024800, HSI64 = 64000000, CSI4 = 4000000, HSE8 = 8000000 };

static uint32_t h7_pll_hz(void) {
    const uint32_t select = foreign_peek(H7_RCC + 0x28), source = select & 3, divider = select >> 4 & 63;
    const uint32_t input = source == 0 ? (uint32_t)HSI64 >> foreign_field(H7_RCC, 3, 2) : source == 1 ? CSI4 : HSE8;
    const uint32_t factors = foreign_peek(H7_RCC + 0x30);
    return divider ? (uint32_t)((uint64_t)input / divider * ((factors & 511) + 1) / ((factors >> 9 & 127) + 1)) : 0;
}

/* The CPU's; AHB is this divided by HPRE. */
static uint32_t h7_clock_hz(void) {
    const uint32_t source = foreign_field(H7_RCC + 0x10, 0, 3);
    const uint32_t hz = source == 0 ? (uint32_t)HSI64 >> foreign_field(H7_RCC, 3, 2) : source == 1 ? CSI4 : source == 2 ? HSE8 : h7_pll_hz();
    return foreign_ahb_divided(hz, foreign_field(H7_RCC + 0x18, 8, 4));
}

static uint32_t h7_timer_hz(bool apb2) {
    return foreign_apb_timer_hz(foreign_ahb_divided(h7_clock_hz(), foreign_field(H7_RCC + 0x18, 0, 4)), foreign_field(H7_RCC + 0x1C, apb2 ? 8 : 4, 3));
}

static const struct peripheral h7_peripherals[] = {
    COMMON_OF_F7_AND_H7,
    {0x40011800, USART, 140}, {0x40011C00, USART, 141}, {0x58000C00, USART, 142},
    {H7_PWR, KEEP, 0}, {0x58000400, KEEP, 0}, {H7_RCC, KEEP, 0}, {H7_FLASH, KEEP, 0}, {0x40023000, CRC_UNIT, 0},
    {0x58024000, KEEP, 0}, {0x52004000, KEEP, 0}, {0x51008000, KEEP, 0}, {0x51008400, KEEP, 0}, {0x5C001000, KEEP, 0},
    {0x58020000, KEEP, 0}, {0x58020400, KEEP, 0}, {0x58020800, KEEP, 0}, {0x58020C00, KEEP, 0}, {0x58021000, KEEP, 0},
    {0x58021400, KEEP, 0}, {0x58021800, KEEP, 0}, {0x58021C00, KEEP, 0}, {0x58022000, KEEP, 0}, {0x58022400, KEEP, 0},
    {0x58022800, KEEP, 0}, {0, KEEP, 0},
};

static const struct family h7 = {
    .peripherals = h7_peripherals,
    .ready = {{H7_RCC, 0, 0, 1 << 0, 1 << 2}, {H7_RCC, 0, 0, 0, 1 << 5}, {H7_RCC, 0, 0, 1 << 7, 1 << 8},
              {H7_RCC, 0, 0, 1 << 12, 1 << 13}, {H7_RCC, 0, 0, 1 << 16, 1 << 17}, {H7_RCC, 0, 0, 1 << 24, 1 << 25},
              {H7_RCC, 0, 0, 1 << 26, 1 << 27}, {H7_RCC, 0, 0, 1 << 28, 1 << 29}, {H7_RCC, 0x70, 0x70, 1 << 0, 1 << 1},
              {H7_PWR, 0x04, 0, 0, 1 << 13}, {H7_PWR, 0x18, 0, 0, 1 << 13}},
    .rcc = H7_RCC, .flash = H7_FLASH, .source_offset = 0x10, .source_mask = 7, .source_shift = 3,
    .resets = {{H7_FLASH, 0x13}, {H7_RCC, 0x25}}, .clock_hz = h7_clock_hz, .timer_hz = h7_timer_hz,
};

static void map_h7(struct machine *m) { foreign_map(m, &h7); }

const struct chip stm32h7a3 = {
    .name = "stm32h7a3", .cpu_model = UC_CPU_ARM_CORTEX_M7, .core = CORTEX_M7,
    .flash_base = 0x08000000, .flash_size_bytes = 2 << 20, .flash_mirror = 0x08000000,
    .rams = {{0x24000000, 1024 << 10, 0}, {0x20000000, 128 << 10, 0}, {0x00000000, 64 << 10, 0},
             {0x30000000, 128 << 10, 0}, {0x38000000, 32 << 10, 0}},
    .timing = {.read_shift = 5, .icache_bytes = 16 << 10, .dcache_bytes = 16 << 10, .itcm_bytes = 64 << 10,
               .dtcm_bytes = 128 << 10, .fill_cycles = 4, .line_reads = 2, .mispredicted_cycles = 8},
    .map_peripherals = map_h7, .reset = foreign_reset, .requested_irq = foreign_irq, .uart_pins_connected = foreign_pins_connected,
    .clock_hz = h7_clock_hz, .boots_rom = foreign_never_rom,
};
