/* Where Unicorn keeps R0 to R15. Reading them through its API costs more than all the rest of a basic block does; the
 * place is found once, by values that nobody else has, and proven by changing them. */
#define _GNU_SOURCE
#include "machine.h"

#include <stdlib.h>
#include <string.h>

enum { COUNT = 13, LARGEST_REGION_BYTES = 256 << 20 };

static void mark(uc_engine *uc, uint32_t *values, uint32_t seed) {
    for (int i = 0; i < COUNT; ++i) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = seed;
        uc_reg_write(uc, UC_ARM_REG_R0 + i, &values[i]);
    }
}

static const uint32_t *search(const char *first, const char *end, const uint32_t *values) {
    for (const char *at = first; (at = memmem(at, (size_t)(end - at), values, COUNT * sizeof *values)); ++at)
        if (at != (const char *)values) return (const uint32_t *)at;
    return NULL;
}

static const uint32_t *search_all(const uint32_t *values) {
    const uint32_t *found = NULL;
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512], rights[8];
    unsigned long first, end;
    while (!found && maps && fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%lx-%lx %7s", &first, &end, rights) != 3 || strcmp(rights, "rw-p")) continue;
        if (end - first <= LARGEST_REGION_BYTES && !strstr(line, "[stack]") && !strstr(line, "[v"))
            found = search((const char *)first, (const char *)end, values);
    }
    if (maps) fclose(maps);
    return found;
}

const uint32_t *locate_registers(uc_engine *uc) {
    uint32_t values[COUNT];
    mark(uc, values, 0x2545F491);
    const uint32_t *found = search_all(values);
    mark(uc, values, 0x9E3779B9);
    if (found && !memcmp(found, values, sizeof values)) return found;
    fprintf(stderr, "armsim: this Unicorn does not keep its registers as expected; cycles can not be modelled\n");
    exit(1);
}
