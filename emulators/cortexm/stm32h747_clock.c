/* Clock, voltage and flash wait states of the STM32H747: the registers of RCC, PWR and FLASH that decide them, and what the
 * reference manual (RM0399) forbids. A board answers a wrong order with wrong instructions or not at all, this with a fault. */
#include "stm32h747_clock.h"

#include <string.h>

enum {
    CR = 0x400, CFGR = 0x410, D1CFGR = 0x418, D2CFGR = 0x41C, D3CFGR = 0x420, PLLCKSELR = 0x428, PLLCFGR = 0x42C, PLL1DIVR = 0x430,
    PLL1FRACR = 0x434, PWR_FIRST = 0x800, CSR1 = 0x804, CR3 = 0x80C, D3CR = 0x818, PWR_LAST = 0x82C,
    HSION = 1 << 0, HSIRDY = 1 << 2, HSIDIVF = 1 << 5, PLL1ON = 1 << 24, PLL1RDY = 1 << 25, DIVP1EN = 1 << 16,
    CR3_RESET = 0x46, CR3_SUPPLY = 0x3F, BOTH_REGULATORS = 6, VOS_SHIFT = 14, VOS_READY = 1 << 13, VOS3 = 1, VOS1 = 3,
    ACR_RESET = 0x37, HSI_HZ = 64000000, SOURCE_HSI = 0, SOURCE_PLL1 = 3,
    PLL_LOCK_US = 100, SUPPLY_US = 500, VOLTAGE_US = 500
};

/* Of a voltage scale: clocks of the core, of AXI and AHB, of the APBs, in MHz; of AXI with so many wait states (chapter FLASH,
 * recommended number of wait states and programming delay; datasheet, general operating conditions). */
static const struct limits {
    uint16_t core, bus, peripherals, flash[5];
} limits[] = {
    [VOS3] = {200, 100, 50, {45, 90, 135, 180, 225}},
    [2] = {300, 150, 75, {55, 110, 165, 225, 225}},
    [VOS1] = {400, 200, 100, {70, 140, 210, 225, 240}},
};

static uint32_t registers[PAGE / 4], flash_acr;
static uint64_t pll_due, voltage_due; /* cycles; until then not ready */
static uint32_t voltage;              /* scale that is reached already */

/* Kept through every reset but that of power on: PWR_CR3, and whether it has taken its one write. */
static uint32_t supply = CR3_RESET;
static bool supply_chosen;
static uint64_t supply_due;

static uint32_t word(uint32_t offset) { return registers[offset / 4]; }

static uint32_t bits(uint32_t offset, unsigned shift, unsigned width) { return word(offset) >> shift & ((1u << width) - 1); }

static uint32_t hsi_hz(void) { return (uint32_t)HSI_HZ >> bits(CR, 3, 2); }

static uint32_t pll_input_hz(void) { return bits(PLLCKSELR, 4, 6) ? hsi_hz() / bits(PLLCKSELR, 4, 6) : 0; }

static uint64_t vco_hz(void) { return (uint64_t)pll_input_hz() * (bits(PLL1DIVR, 0, 9) + 1); }

static uint32_t divided(uint32_t hz, uint32_t code) { return code < 8 ? hz : hz >> (code < 12 ? code - 7 : code - 6); }

static uint32_t apb_divided(uint32_t hz, uint32_t code) { return code < 4 ? hz : hz >> (code - 3); }

uint32_t h747_gates(uint32_t offset) { return word(offset); }

uint32_t h747_core_hz(void) {
    const uint32_t source = bits(CFGR, 0, 3);
    const uint32_t hz = source == SOURCE_HSI ? hsi_hz() : (uint32_t)(vco_hz() / (bits(PLL1DIVR, 9, 7) + 1));
    return divided(hz, bits(D1CFGR, 8, 4));
}

static uint32_t bus_hz(void) { return divided(h747_core_hz(), bits(D1CFGR, 0, 4)); }

uint32_t h747_uart_hz(bool apb2) { return apb_divided(bus_hz(), bits(D2CFGR, apb2 ? 8 : 4, 3)); }

static uint64_t cycles_of(uint32_t us) { return (uint64_t)us * (h747_core_hz() / 1000000); }

static bool pll_ready(const struct machine *m) { return word(CR) & PLL1ON && m->cycles.typical >= pll_due; }

static bool supply_ready(const struct machine *m) { return supply_chosen && m->cycles.typical >= supply_due; }

static void settle_voltage(const struct machine *m) {
    if (voltage != bits(D3CR, VOS_SHIFT, 2) && supply_ready(m) && m->cycles.typical >= voltage_due) voltage = bits(D3CR, VOS_SHIFT, 2);
}

/* Input and oscillator of the PLL within the ranges that its configuration names (RCC_PLLCFGR). */
static const char *pll_fault(void) {
    const uint32_t range = bits(PLLCFGR, 2, 2), input = pll_input_hz() / 1000;
    static const uint32_t least_khz[] = {1000, 2000, 4000, 8000, 16000};
    const uint64_t vco_mhz = vco_hz() / 1000000, least = bits(PLLCFGR, 1, 1) ? 150 : 192, most = bits(PLLCFGR, 1, 1) ? 420 : 836;
    if (bits(PLLCKSELR, 0, 2)) return "only the HSI is modelled as the PLL's input";
    if (input < least_khz[range] || input > least_khz[range + 1]) return "the PLL's input is outside of the range in PLLCFGR";
    if (vco_mhz < least || vco_mhz > most) return "the PLL's oscillator is outside of its range";
    return NULL;
}

static const char *clock_fault(const struct machine *m) {
    const uint32_t source = bits(CFGR, 0, 3), wait_states = flash_acr & 15, axi = bus_hz();
    if (source != SOURCE_HSI && source != SOURCE_PLL1) return "only HSI and PLL1 are modelled as system clock";
    if (source == SOURCE_PLL1 && !(pll_ready(m) && word(PLLCFGR) & DIVP1EN)) return "the clock chosen is not running";
    const struct limits *l = &limits[voltage];
    const uint32_t mhz = 1000000, apb1 = h747_uart_hz(false), apb2 = h747_uart_hz(true);
    const uint32_t apb3 = apb_divided(axi, bits(D1CFGR, 4, 3)), apb4 = apb_divided(axi, bits(D3CFGR, 4, 3));
    if (h747_core_hz() > l->core * mhz) return "the core's clock is too fast for its voltage scale";
    if (axi > l->bus * mhz) return "the AXI clock is too fast for the core's voltage scale";
    const bool fast_apb = apb1 > l->peripherals * mhz || apb2 > l->peripherals * mhz || apb3 > l->peripherals * mhz ||
                          apb4 > l->peripherals * mhz;
    if (fast_apb && source != SOURCE_HSI) /* after reset they have all of its 64 MHz */
        return "an APB clock is too fast for the core's voltage scale";
    if (wait_states < 5 && axi > l->flash[wait_states] * mhz) return "flash wait states are too few for this clock";
    return NULL;
}

static void refuse(struct machine *m, uint32_t addr, const char *why) {
    m->fault_addr = addr;
    stop_machine(m, STOP_FAULT, why);
}

static uint32_t bus_cycles(const struct machine *m, uint32_t by_clocks) { return m->bus_given ? m->bus_given : by_clocks; }

static void clock_changed(struct machine *m) {
    const char *why = clock_fault(m);
    if (why) {
        stop_machine(m, STOP_FAULT, why);
        return;
    }
    m->flash_wait_states = flash_acr & 15;
    m->bus_cycles = bus_cycles(m, h747_core_hz() / bus_hz());
    forget_blocks();
    host_restart_pace(m);
}

/* Another regulator than the one the board is wired for leaves the core without a supply. */
static void write_supply(struct machine *m, uint32_t value) {
    if (supply_chosen) return;
    if (m->supply && (value & CR3_SUPPLY) == m->supply) {
        supply = value;
        supply_chosen = true;
        supply_due = m->cycles.typical + cycles_of(SUPPLY_US);
        return;
    }
    refuse(m, H747_RCC + CR3, m->supply ? "write to the power controller: not the supply this board is wired for"
                                        : "write to the power controller: a wrong supply bricks real boards");
}

static void write_voltage(struct machine *m, uint32_t value) {
    const uint32_t scale = value >> VOS_SHIFT & 3;
    if (!supply_ready(m)) {
        refuse(m, H747_RCC + D3CR, "the voltage scale is changed before the supply is chosen and ready");
        return;
    }
    if (scale == 0) {
        refuse(m, H747_RCC + D3CR, "voltage scale 0 is reserved");
        return;
    }
    registers[D3CR / 4] = value & 3u << VOS_SHIFT;
    voltage_due = m->cycles.typical + cycles_of(VOLTAGE_US);
    if (scale < voltage) voltage = scale;
    clock_changed(m);
}

static bool of_pll(uint32_t offset) { return offset >= PLLCKSELR && offset <= PLL1FRACR; }

void h747_write_rcc(struct machine *m, uint32_t offset, uint32_t value) {
    if (offset == CR3) {
        write_supply(m, value);
    } else if (offset == D3CR) {
        write_voltage(m, value);
    } else if (offset >= PWR_FIRST && offset <= PWR_LAST) {
        refuse(m, H747_RCC + offset, "write to the power controller: a wrong supply bricks real boards");
    } else if (of_pll(offset) && word(CR) & PLL1ON) {
        refuse(m, H747_RCC + offset, "the PLL is changed while it runs");
    } else {
        const bool starts = offset == CR && value & ~word(CR) & PLL1ON;
        settle_voltage(m);
        registers[offset / 4] = value;
        const char *why = starts ? pll_fault() : NULL;
        if (starts) pll_due = m->cycles.typical + cycles_of(PLL_LOCK_US);
        if (why) stop_machine(m, STOP_FAULT, why);
        if (offset == CR || (offset >= CFGR && offset <= D3CFGR)) clock_changed(m);
    }
}

uint32_t h747_read_rcc(struct machine *m, uint32_t offset) {
    const uint32_t value = word(offset);
    settle_voltage(m);
    switch (offset) {
    case CR: return value | (value & HSION ? HSIRDY : 0) | HSIDIVF | (pll_ready(m) ? PLL1RDY : 0);
    case CFGR: return (value & ~0x38u) | (value & 7) << 3; /* the source that is used is the one asked for */
    case CSR1: return voltage << VOS_SHIFT | (!supply_chosen || supply_ready(m) ? VOS_READY : 0);
    case CR3: return supply;
    case D3CR: return value | (voltage == bits(D3CR, VOS_SHIFT, 2) ? VOS_READY : 0);
    default: return value;
    }
}

uint32_t h747_read_flash(uint32_t offset) { return offset ? 0 : flash_acr; }

void h747_write_flash(struct machine *m, uint32_t offset, uint32_t value) {
    if (offset) return;
    flash_acr = value & 0x3F;
    settle_voltage(m);
    clock_changed(m);
}

void h747_reset_clock(struct machine *m) {
    memset(registers, 0, sizeof registers);
    registers[CR / 4] = HSION;
    registers[D3CR / 4] = VOS3 << VOS_SHIFT;
    voltage = VOS3;
    supply_due = 0;
    flash_acr = ACR_RESET;
    m->flash_wait_states = flash_acr & 15;
    m->bus_cycles = bus_cycles(m, 1);
}
