#include "stacks.h"

#include <stdio.h>
#include <stdlib.h>

enum { FLASH_WORDS = 16384, MOST_OPEN = 2048 };  // each open function has pushed at least a byte

struct open {
    uint32_t address;
    uint16_t entered, own, deepest;  // stack pointers
    bool interrupt;
};

struct stacks {
    struct open open[MOST_OPEN];
    unsigned count;
    uint16_t own[FLASH_WORDS], all[FLASH_WORDS];
    bool seen[FLASH_WORDS];
};

struct stacks *stacks_new(uint16_t top) {
    struct stacks *s = calloc(1, sizeof *s);
    if (!s) abort();
    stacks_reset(s, top);
    return s;
}

static void keep(struct stacks *s, const struct open *f) {
    const uint32_t word = f->address / 2 % FLASH_WORDS;
    const uint16_t own = f->entered - f->own, all = f->entered - f->deepest;
    s->seen[word] = true;
    if (own > s->own[word]) s->own[word] = own;
    if (all > s->all[word]) s->all[word] = all;
}

static void leave(struct stacks *s) {
    const struct open *f = &s->open[--s->count];
    keep(s, f);
    struct open *caller = &s->open[s->count - 1];
    if (s->count && !f->interrupt && f->deepest < caller->deepest) caller->deepest = f->deepest;
}

static void enter(struct stacks *s, uint32_t address, uint16_t sp, bool interrupt) {
    if (s->count == MOST_OPEN) abort();
    s->open[s->count++] = (struct open){address, sp, sp, sp, interrupt};
}

void stacks_reset(struct stacks *s, uint16_t top) {
    while (s->count) leave(s);
    enter(s, 0, top, false);
}

// What a call instruction calls; false if it is none, or only makes room.
static bool called(const avr_t *avr, uint32_t *target) {
    const uint8_t *code = avr->flash + avr->pc;
    const uint16_t op = code[0] | code[1] << 8;
    if ((op & 0xFE0E) == 0x940E) {
        *target = 2u * (code[2] | code[3] << 8);
    } else if ((op & 0xF000) == 0xD000) {
        const int32_t words = (op & 0x0FFF) - (op & 0x0800 ? 0x1000 : 0);
        *target = avr->pc + 2 + 2 * words;
        return words != 0;
    } else if (op == 0x9509) {
        *target = 2u * (avr->data[30] | avr->data[31] << 8);
    } else {
        return false;
    }
    return true;
}

void stacks_moved(struct stacks *s, const avr_t *avr, uint16_t sp, bool interrupt) {
    uint32_t target = 0;
    while (s->count > 1 && sp > s->open[s->count - 1].entered) leave(s);
    struct open *f = &s->open[s->count - 1];
    if (interrupt || called(avr, &target)) {
        if (!interrupt && sp < f->deepest) f->deepest = sp;
        enter(s, target, sp, interrupt);
        return;
    }
    if (sp < f->own) f->own = sp;
    if (sp < f->deepest) f->deepest = sp;
}

void stacks_entered(struct stacks *s, uint32_t address) { s->open[s->count - 1].address = address; }

bool stacks_write(const struct stacks *s, const char *path) {
    FILE *file = fopen(path, "w");
    if (!file) return false;
    struct stacks *all = malloc(sizeof *all);
    if (!all) abort();
    *all = *s;
    while (all->count) leave(all);
    for (uint32_t word = 0; word < FLASH_WORDS; ++word)
        if (all->seen[word]) fprintf(file, "0x%x %u %u\n", 2 * word, all->own[word], all->all[word]);
    free(all);
    return fclose(file) == 0;
}
