#include "flash.h"

#include <errno.h>
#include <simavr/avr_flash.h>
#include <simavr/sim_io.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hex.h"

typedef int (*ioctl_t)(struct avr_io_t *io, uint32_t ctl, void *param);

static struct {
    struct flash_setup setup;
    void (*written)(void *context);
    void *context;
    ioctl_t simavr_ioctl;
} state;

static void refuse(const char *what, const char *path, const char *why) {
    fprintf(stderr, "unosim: %s %s: %s\n", what, path, why);
    exit(2);
}

static void wear(avr_t *avr) {
    if (state.setup.worn >= 0) avr->flash[state.setup.worn] = 0;
}

// simavr executes SPM through this call of its flash module.
static int self_program(struct avr_io_t *io, uint32_t ctl, void *param) {
    int result = state.simavr_ioctl(io, ctl, param);
    if (ctl == AVR_IOCTL_FLASH_SPM) {
        wear(io->avr);
        state.written(state.context);
    }
    return result;
}

static void watch_self_programming(avr_t *avr) {
    for (avr_io_t *module = avr->io_port; module; module = module->next) {
        if (!module->kind || strcmp(module->kind, "flash") != 0) continue;
        state.simavr_ioctl = module->ioctl;
        module->ioctl = self_program;
    }
}

static void load_file(avr_t *avr, const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file && errno == ENOENT) return;
    if (!file) refuse("cannot read the flash file", path, strerror(errno));
    size_t bytes = fread(avr->flash, 1, FLASH_BYTES, file);
    if (bytes != FLASH_BYTES || fgetc(file) != EOF) refuse("the flash file", path, "has not 32768 bytes");
    fclose(file);
}

static void load_boot(avr_t *avr, const char *path) {
    static uint8_t memory[FLASH_BYTES];
    memset(memory, 0xFF, sizeof memory);
    hex_load(path, memory, FLASH_BYTES);
    for (uint32_t at = 0; at < BOOT_START; at++)
        if (memory[at] != 0xFF) refuse("the boot loader", path, "reaches below 0x7E00, the boot section");
    memcpy(avr->flash + BOOT_START, memory + BOOT_START, FLASH_BYTES - BOOT_START);
    avr->reset_pc = BOOT_START;
}

void flash_open(avr_t *avr, const struct flash_setup *setup, void (*written)(void *context), void *context) {
    state.setup = *setup;
    state.written = written;
    state.context = context;
    if (setup->file) load_file(avr, setup->file);
    if (setup->image) hex_load(setup->image, avr->flash, FLASH_BYTES);
    if (setup->boot) load_boot(avr, setup->boot);
    wear(avr);
    watch_self_programming(avr);
}

// By way of a second file, so that no half-written one is ever found.
void flash_save(const avr_t *avr) {
    if (!state.setup.file) return;
    char other[4096];
    snprintf(other, sizeof other, "%s.new", state.setup.file);
    FILE *file = fopen(other, "wb");
    bool done = file && fwrite(avr->flash, 1, FLASH_BYTES, file) == FLASH_BYTES;
    if (file) done = !fclose(file) && done;
    if (!done || rename(other, state.setup.file)) refuse("cannot write the flash file", state.setup.file, strerror(errno));
}
