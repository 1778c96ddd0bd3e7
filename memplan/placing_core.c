/* First-fit placing of many buffers, in the given order: the compiled twin of memplan/placing.py for one region
 * without aliases, gaps or fixed offsets. The placed buffers are kept sorted by offset. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef int64_t i64;
typedef struct { i64 offset, end_offset, start, end; } Placed;

static i64 lowest_hole(const Placed *placed, i64 count, const Placed *wanted, i64 size, i64 alignment) {
    i64 top = 0, at = 0;
    for (i64 k = 0; k < count; k++) {
        if (placed[k].start >= wanted->end || placed[k].end <= wanted->start) continue;
        if (at + size <= placed[k].offset) break;
        if (placed[k].end_offset > top) {
            top = placed[k].end_offset;
            at = (top + alignment - 1) / alignment * alignment;
        }
    }
    return at;
}

/* 1, or 0 without memory. All sizes are positive. */
int memplan_place(i64 count, const i64 *start, const i64 *end, const i64 *size, const i64 *alignment, i64 *offset) {
    Placed *placed = malloc((size_t)(count + 1) * sizeof(Placed));
    if (!placed) return 0;
    for (i64 i = 0; i < count; i++) {
        Placed next = {0, 0, start[i], end[i]};
        offset[i] = next.offset = lowest_hole(placed, i, &next, size[i], alignment[i]);
        next.end_offset = next.offset + size[i];
        i64 k = i;
        while (k > 0 && placed[k - 1].offset > next.offset) k--;
        memmove(placed + k + 1, placed + k, (size_t)(i - k) * sizeof(Placed));
        placed[k] = next;
    }
    free(placed);
    return 1;
}
