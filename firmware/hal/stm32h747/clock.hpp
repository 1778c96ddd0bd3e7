// The clock of an STM32H747 or H745: 64 MHz of the internal oscillator, as after reset, or 400 MHz by PLL1 from it, whichever
// F_CPU says (`clock_hz` in boards.yaml). 400 MHz is the most of voltage scale 1, the highest that both regulators allow.
// Registers, limits and their order: reference manual RM0399, chapters PWR, RCC and FLASH.
//
// No step waits for ever: where one is not granted the chip stays at 64 MHz, and start() says so.
#pragma once
#include "firmware/hal/cortexm/reg.hpp"

namespace clocks {

using cortexm::reg;

constexpr uint32_t HSI_HZ = 64000000, FAST_HZ = 400000000;
static_assert(F_CPU == HSI_HZ || F_CPU == FAST_HZ, "clock_hz of this chip: 64 or 400 MHz");

constexpr uint32_t PWR_CSR1 = 0x58024804, PWR_CR3 = 0x5802480C, PWR_D3CR = 0x58024818;
constexpr uint32_t RCC_CR = 0x58024400, RCC_CFGR = 0x58024410, RCC_D1CFGR = 0x58024418, RCC_D2CFGR = 0x5802441C;
constexpr uint32_t RCC_D3CFGR = 0x58024420, RCC_PLLCKSELR = 0x58024428, RCC_PLLCFGR = 0x5802442C, RCC_PLL1DIVR = 0x58024430;
constexpr uint32_t FLASH_ACR = 0x52002000;

// Some 100 ms at 64 MHz; the slowest, a regulator, takes less than one.
inline bool granted(uint32_t address, uint32_t mask, uint32_t value) {
    for (uint32_t turn = 0; turn < 1000000; ++turn)
        if ((reg(address) & mask) == value) return true;
    return false;
}

// PWR_CR3 takes one write after power-on and keeps it through every reset. It is written only if boards.yaml says how
// the board is wired: a wrong choice takes the core's supply away and can leave the board unable to be flashed. Until
// one is chosen both regulators run, and the core's voltage is not to be raised (mode Run*).
inline bool settle_supply() {
    constexpr uint32_t LDOEN = 1u << 1, SMPSEN = 1u << 2, FIELDS = 0x3F;  // and BYPASS, SMPSEXTHP, SMPSLEVEL
    constexpr uint32_t ACTVOSRDY = 1u << 13;
#if defined(HIL_SUPPLY_SMPS) || defined(HIL_SUPPLY_LDO)
#ifdef HIL_SUPPLY_SMPS
    constexpr uint32_t chosen = SMPSEN;
#else
    constexpr uint32_t chosen = LDOEN;
#endif
    const uint32_t found = reg(PWR_CR3);
    if ((found & FIELDS) == (LDOEN | SMPSEN)) reg(PWR_CR3) = (found & ~FIELDS) | chosen;
#endif
    return (reg(PWR_CR3) & FIELDS) != (LDOEN | SMPSEN) && granted(PWR_CSR1, ACTVOSRDY, ACTVOSRDY);
}

// Voltage scale 1 (PWR_D3CR): 400 MHz for the core, 200 MHz for its buses.
inline bool raise_voltage() {
    constexpr uint32_t VOS = 3u << 14, VOSRDY = 1u << 13, ACTVOS_AND_READY = 7u << 13;
    reg(PWR_D3CR) |= VOS;
    return granted(PWR_D3CR, VOSRDY, VOSRDY) && granted(PWR_CSR1, ACTVOS_AND_READY, ACTVOS_AND_READY);
}

// Two wait states, and the signals' delay of 185 to 210 MHz on the AXI bus at voltage scale 1 (FLASH, recommended number of wait states and programming delay).
inline bool slow_flash() {
    constexpr uint32_t LATENCY = 2, WRHIGHFREQ = 2u << 4;
    reg(FLASH_ACR) = WRHIGHFREQ | LATENCY;
    return granted(FLASH_ACR, 0x3F, WRHIGHFREQ | LATENCY);
}

// 64 MHz / 4 = 16 MHz, times 50 = 800 MHz of the wide oscillator, / 2 (RCC, PLL description).
inline bool lock_pll() {
    constexpr uint32_t DIVM1 = 4u << 4, DIVM1_FIELD = 0x3Fu << 4, SOURCE_FIELD = 3, FROM_8_MHZ = 3u << 2, ONLY_P = 1u << 16;
    constexpr uint32_t TIMES_50 = 49, BY_2 = 1u << 9, PLL1ON = 1u << 24, PLL1RDY = 1u << 25;
    reg(RCC_PLLCKSELR) = (reg(RCC_PLLCKSELR) & ~(DIVM1_FIELD | SOURCE_FIELD)) | DIVM1;
    reg(RCC_PLLCFGR) = ONLY_P | FROM_8_MHZ;
    reg(RCC_PLL1DIVR) = BY_2 | TIMES_50;
    reg(RCC_CR) |= PLL1ON;
    return granted(RCC_CR, PLL1RDY, PLL1RDY);
}

// The AXI and AHB buses at half the core's clock, the APBs at a quarter (RCC_D1CFGR, D2CFGR, D3CFGR).
inline void divide_buses(bool divided) {
    constexpr uint32_t HPRE_2 = 8, D1PPRE_2 = 4u << 4, D2PPRE1_2 = 4u << 4, D2PPRE2_2 = 4u << 8, D3PPRE_2 = 4u << 4;
    reg(RCC_D1CFGR) = divided ? HPRE_2 | D1PPRE_2 : 0;
    reg(RCC_D2CFGR) = divided ? D2PPRE1_2 | D2PPRE2_2 : 0;
    reg(RCC_D3CFGR) = divided ? D3PPRE_2 : 0;
}

inline bool switch_to_pll() {
    constexpr uint32_t SW = 7, PLL1 = 3, SWS_SHIFT = 3;
    divide_buses(true);
    reg(RCC_CFGR) = (reg(RCC_CFGR) & ~SW) | PLL1;
    if (granted(RCC_CFGR, SW << SWS_SHIFT, PLL1 << SWS_SHIFT)) return true;
    reg(RCC_CFGR) &= ~SW;
    divide_buses(false);
    return false;
}

// What the core runs at from here on, in hertz.
inline uint32_t start() {
    const bool settled = settle_supply();
    if (F_CPU == HSI_HZ || !settled) return HSI_HZ;
    return raise_voltage() && slow_flash() && lock_pll() && switch_to_pll() ? FAST_HZ : HSI_HZ;
}

// Of the buses that the UARTs hang on.
inline uint32_t apb_hz(uint32_t core_hz) { return core_hz == FAST_HZ ? FAST_HZ / 4 : core_hz; }

}  // namespace clocks
