// The second stage of the RP2040's boot loader: its ROM copies these 256 bytes to SRAM and runs them if their CRC is right (datasheet
// 2.8.1.3). They set up the SSI (4.10) to read the Pico's W25Q16JV by four wires without commands at clk_sys / 2, and start the program.
#include <stdint.h>

// Registers: r3 the SSI. The flash's commands: 0x05, 0x35 read status, 0x06 write enable, 0x31 write status 2, 0xEB read by four wires.
// Mode bits 0xA0 keep the flash waiting for an address, so that later reads need no command.
// The last word is the CRC-32 (0x04C11DB7, from all ones, not reflected) of the 252 bytes before it.
extern "C" __attribute__((section(".boot2"), naked, used)) void boot2() {
    __asm__ volatile(
        ".syntax unified\n\t"
        ".equ SSIENR, 0x08\n\t.equ SER, 0x10\n\t.equ BAUDR, 0x14\n\t.equ SR, 0x28\n\t.equ DR, 0x60\n"
        "ldr r0, =0x40020000\n\t"  // PADS_QSPI
        "movs r1, #0x21\n\t"       // the clock: 8 mA, fast
        "str r1, [r0, #4]\n\t"
        "ldr r3, =0x18000000\n\t"
        "movs r0, #0\n\t"
        "str r0, [r3, #SSIENR]\n\t"
        "movs r1, #2\n\t"
        "str r1, [r3, #BAUDR]\n\t"
        "movs r1, #1\n\t"
        "str r1, [r3, #SER]\n\t"
        "movs r2, #0xF0\n\t"
        "str r1, [r3, r2]\n\t"     // RX_SAMPLE_DLY: one clk_sys later
        "ldr r0, =0x00070000\n\t"  // frames of 8 bits both ways, one wire
        "str r0, [r3]\n\t"
        "str r1, [r3, #SSIENR]\n\t"
        "movs r0, #0x35\n\t"
        "bl status\n\t"
        "movs r1, #2\n\t"          // QE: four wires, as delivered
        "tst r0, r1\n\t"
        "bne 2f\n\t"
        "movs r0, #0x06\n\t"
        "str r0, [r3, #DR]\n\t"
        "bl done\n\t"
        "ldr r0, [r3, #DR]\n\t"
        "movs r0, #0x31\n\t"
        "str r0, [r3, #DR]\n\t"
        "str r1, [r3, #DR]\n\t"
        "bl done\n\t"
        "ldr r0, [r3, #DR]\n\t"
        "ldr r0, [r3, #DR]\n"
        "1:\n\t"
        "movs r0, #0x05\n\t"
        "bl status\n\t"
        "movs r1, #1\n\t"          // busy
        "tst r0, r1\n\t"
        "bne 1b\n"
        "2:\n\t"
        "ldr r0, =0x005F0300\n\t"  // frames of 32 bits, four wires, a command and then data
        "ldr r1, =0x00002221\n\t"  // SPI_CTRLR0: a command of 8 bits by one wire; address and mode, 32 bits, by four; 4 clocks to wait
        "bl set_up\n\t"
        "movs r0, #0xEB\n\t"
        "str r0, [r3, #DR]\n\t"
        "movs r0, #0xA0\n\t"       // address 0, mode bits
        "str r0, [r3, #DR]\n\t"
        "bl done\n\t"
        "ldr r0, =0x005F0300\n\t"
        "ldr r1, =0xA0002022\n\t"  // no command: address and mode 0xA0
        "bl set_up\n\t"
        "ldr r0, =0x10000100\n\t"  // the vector table
        "ldr r1, =0xE000ED08\n\t"  // VTOR
        "str r0, [r1]\n\t"
        "ldmia r0!, {r1, r2}\n\t"
        "msr msp, r1\n\t"
        "bx r2\n"
        "set_up:\n\t"              // CTRLR0 r0, SPI_CTRLR0 r1; CTRLR1: one frame
        "movs r2, #0\n\t"
        "str r2, [r3, #SSIENR]\n\t"
        "str r0, [r3]\n\t"
        "str r2, [r3, #4]\n\t"
        "movs r2, #0xF4\n\t"
        "str r1, [r3, r2]\n\t"
        "movs r2, #1\n\t"
        "str r2, [r3, #SSIENR]\n\t"
        "bx lr\n"
        "status:\n\t"              // of the register that command r0 reads
        "mov r4, lr\n\t"
        "str r0, [r3, #DR]\n\t"
        "str r0, [r3, #DR]\n\t"
        "bl done\n\t"
        "ldr r0, [r3, #DR]\n\t"
        "ldr r0, [r3, #DR]\n\t"
        "bx r4\n"
        "done:\n\t"                // until all is sent (TFE) and nothing moves (BUSY)
        "ldr r0, [r3, #SR]\n\t"
        "movs r2, #5\n\t"
        "ands r0, r2\n\t"
        "cmp r0, #4\n\t"
        "bne done\n\t"
        "bx lr\n\t"
        ".ltorg\n\t"
        ".org 252, 0\n\t"
        ".word 0xA0567D94");
}
