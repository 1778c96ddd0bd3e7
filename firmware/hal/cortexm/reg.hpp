// Memory-mapped registers of every Cortex-M (ARMv7-M Architecture Reference Manual, chapters B3 and C1).
#pragma once
#include <stdint.h>

namespace cortexm {

inline volatile uint32_t &reg(uint32_t address) { return *reinterpret_cast<volatile uint32_t *>(address); }

constexpr uint32_t ITM_STIM0 = 0xE0000000, ITM_LAR = 0xE0000FB0;
constexpr uint32_t DWT_CTRL = 0xE0001000, DWT_CYCCNT = 0xE0001004, DWT_LAR = 0xE0001FB0;
constexpr uint32_t NVIC_ISER = 0xE000E100;
constexpr uint32_t SCB_VTOR = 0xE000ED08, SCB_CCR = 0xE000ED14, SCB_SHCSR = 0xE000ED24;
constexpr uint32_t SCB_CFSR = 0xE000ED28, SCB_MMFAR = 0xE000ED34, SCB_BFAR = 0xE000ED38;
constexpr uint32_t SCB_CCSIDR = 0xE000ED80, SCB_CSSELR = 0xE000ED84, SCB_CPACR = 0xE000ED88;
constexpr uint32_t MPU_CTRL = 0xE000ED94, MPU_RNR = 0xE000ED98, MPU_RBAR = 0xE000ED9C, MPU_RASR = 0xE000EDA0;
constexpr uint32_t MPU_RLAR = MPU_RASR;  // ARMv8-M
constexpr uint32_t DEMCR = 0xE000EDFC;
constexpr uint32_t ICIALLU = 0xE000EF50, DCISW = 0xE000EF60;

// Until these bits of a register are as wanted.
inline void wait_for(uint32_t address, uint32_t mask, uint32_t value) {
    while ((reg(address) & mask) != value) {}
}

inline void barrier() { __asm__ volatile("dsb\n\tisb" ::: "memory"); }

inline void enable_irq(uint32_t irq) { reg(NVIC_ISER + 4 * (irq / 32)) = 1u << (irq % 32); }

}  // namespace cortexm
