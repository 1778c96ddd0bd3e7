/* The chip's memory map. Cells live in host memory, so that the emulator reaches them without Unicorn. */
#define _GNU_SOURCE
#include "machine.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

void check(uc_err error, const char *what) {
    if (error == UC_ERR_OK) return;
    fprintf(stderr, "armsim: unicorn: %s: %s\n", what, uc_strerror(error));
    exit(1);
}

static uint8_t *cells(uint32_t bytes) {
    uint8_t *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p != MAP_FAILED) return p;
    fprintf(stderr, "armsim: no %u bytes of memory\n", bytes);
    exit(1);
}

static void map(struct machine *m, uint32_t base, uint32_t bytes, uint32_t rights, uint8_t *p) {
    check(uc_mem_map_ptr(m->uc, base, bytes, rights, p), "memory map");
}

void map_memory(struct machine *m) {
    const struct chip *c = m->chip;
    m->flash = cells(c->flash_size_bytes);
    memset(m->flash, 0xFF, c->flash_size_bytes);
    map(m, c->flash_base, c->flash_size_bytes, UC_PROT_READ | UC_PROT_EXEC, m->flash);
    if (c->flash_mirror != c->flash_base)
        map(m, c->flash_mirror, c->flash_size_bytes, UC_PROT_READ | UC_PROT_EXEC, m->flash);
    for (int i = 0; i < MAX_RAMS && c->rams[i].size_bytes; ++i) {
        const struct ram *r = &c->rams[i];
        m->ram[i] = cells(r->size_bytes);
        map(m, r->base, r->size_bytes, UC_PROT_ALL, m->ram[i]);
        if (r->mirror) map(m, r->mirror, r->size_bytes, UC_PROT_ALL, m->ram[i]);
    }
}

static uint8_t *inside(uint8_t *p, uint32_t base, uint32_t size, uint32_t addr, uint32_t bytes) {
    return addr - base < size && bytes <= size - (addr - base) ? p + (addr - base) : NULL;
}

uint8_t *memory_at(const struct machine *m, uint32_t addr, uint32_t bytes) {
    const struct chip *c = m->chip;
    uint8_t *p = inside(m->flash, c->flash_base, c->flash_size_bytes, addr, bytes);
    for (int i = 0; !p && i < MAX_RAMS && c->rams[i].size_bytes; ++i) {
        p = inside(m->ram[i], c->rams[i].base, c->rams[i].size_bytes, addr, bytes);
        if (!p && c->rams[i].mirror) p = inside(m->ram[i], c->rams[i].mirror, c->rams[i].size_bytes, addr, bytes);
    }
    return p ? p : inside(m->flash, c->flash_mirror, c->flash_size_bytes, addr, bytes);
}

void map_registers(struct machine *m, uint32_t base, uint32_t size, uc_cb_mmio_read_t read, uc_cb_mmio_write_t write) {
    check(uc_mmio_map(m->uc, base, size, read, m, write, m), "peripheral map");
}
