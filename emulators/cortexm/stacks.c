/* How deep each function has made the stack: its own bytes, and with all that it called; interrupts are functions apart. */
#include "basic_block.h"

#include <stdlib.h>

/* One that has not returned yet. `entered`, `own` and `deepest` are stack pointers. */
struct open {
    uint32_t addr, returns, entered, own, deepest;
    bool interrupt, call_waits; /* `call_waits`: the interrupt came between a call and what is called */
};

struct function {
    uint32_t addr, own, all;
};

struct stacks {
    struct open *open;
    struct function *functions;
    unsigned count, room, known, known_room;
    bool called;      /* the last block ended with a call */
    uint32_t returns; /* to here */
};

static void *grown(void *memory, unsigned *room, size_t size) {
    *room = *room ? 2 * *room : 64;
    void *found = realloc(memory, *room * size);
    if (!found) abort();
    return found;
}

struct stacks *stacks_new(void) {
    struct stacks *s = calloc(1, sizeof *s);
    if (!s) abort();
    return s;
}

static struct function *function_at(struct stacks *s, uint32_t addr) {
    for (unsigned i = 0; i < s->known; ++i)
        if (s->functions[i].addr == addr) return &s->functions[i];
    if (s->known == s->known_room) s->functions = grown(s->functions, &s->known_room, sizeof *s->functions);
    s->functions[s->known] = (struct function){.addr = addr};
    return &s->functions[s->known++];
}

static void enter(struct stacks *s, struct open f) {
    if (s->count == s->room) s->open = grown(s->open, &s->room, sizeof *s->open);
    f.own = f.deepest = f.entered;
    s->open[s->count++] = f;
}

static void leave(struct stacks *s) {
    const struct open f = s->open[--s->count];
    struct function *seen = function_at(s, f.addr);
    if (f.entered - f.own > seen->own) seen->own = f.entered - f.own;
    if (f.entered - f.deepest > seen->all) seen->all = f.entered - f.deepest;
    if (!s->count || f.interrupt) return;
    struct open *caller = &s->open[s->count - 1];
    if (f.deepest < caller->deepest) caller->deepest = f.deepest;
}

void stacks_restart(struct machine *m, uint32_t addr, uint32_t sp) {
    struct stacks *s = m->stacks;
    while (s->count) leave(s);
    s->called = false;
    enter(s, (struct open){.addr = addr, .entered = sp});
}

/* A function is left where its caller goes on, or when SP is above what it was entered with. */
void stacks_block(struct machine *m, const struct block *b, uint32_t addr) {
    struct stacks *s = m->stacks;
    const uint32_t sp = m->registers[13];
    if (s->called && addr != s->returns) {
        enter(s, (struct open){.addr = addr, .returns = s->returns, .entered = sp});
    } else {
        for (const struct open *f; s->count > 1; leave(s)) {
            f = &s->open[s->count - 1];
            if (f->interrupt || !(sp > f->entered || (sp == f->entered && addr == f->returns))) break;
        }
    }
    struct open *f = &s->open[s->count - 1];
    const uint32_t lowest = sp + b->lowest_sp;
    if (lowest < f->own) f->own = lowest;
    if (lowest < f->deepest) f->deepest = lowest;
    s->called = b->calls;
    s->returns = addr + b->size;
}

void stacks_enter_interrupt(struct machine *m, uint32_t handler) {
    struct stacks *s = m->stacks;
    enter(s, (struct open){.addr = handler, .returns = s->returns, .entered = m->nvic.frame_sp, .interrupt = true,
                           .call_waits = s->called});
    s->called = false;
}

void stacks_leave_interrupt(struct machine *m) {
    struct stacks *s = m->stacks;
    while (s->count > 1 && !s->open[s->count - 1].interrupt) leave(s);
    if (s->count < 2) return;
    s->called = s->open[s->count - 1].call_waits;
    s->returns = s->open[s->count - 1].returns;
    leave(s);
}

/* A line "address own all" for each function, in bytes below the SP that it is entered with. */
bool stacks_write(struct machine *m, const char *path) {
    struct stacks *s = m->stacks;
    FILE *file = fopen(path, "w");
    if (!file) return false;
    while (s->count) leave(s);
    for (unsigned i = 0; i < s->known; ++i)
        fprintf(file, "0x%x %u %u\n", s->functions[i].addr, s->functions[i].own, s->functions[i].all);
    return fclose(file) == 0;
}
