/* Below a given height, whatever is in the way of a buffer is ejected and placed anew: the compiled form of
 * memplan/eject_core.py, same steps, same offsets. A step looks at every buffer that has a place.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int64_t i64;

#define IMMOVABLE ((i64)1 << 40)
enum { FOUND = 1, STOPPED = -1, NO_MEMORY = -2, STEPS_PER_LOOK_AT_THE_CLOCK = 1024 };

typedef struct {
    i64 count;
    const i64 *size, *alignment, *fixed;
    const uint8_t *meets; /* count x count */
    i64 height, most_steps;
    uint64_t seed;
    double max_seconds;
} Ejection;

typedef struct { i64 at, weight; } Edge; /* where something in the way starts or ends */

typedef struct {
    const Ejection *in;
    i64 *at, *weight, *left, *by_start, *by_end; /* left: without a place */
    Edge *starts, *ends;
    i64 placed, left_count, start_count, end_count, best, place, equals;
    uint64_t chance;
} Search;

static double clock_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static i64 below(Search *s, i64 count) {
    s->chance ^= s->chance << 13;
    s->chance ^= s->chance >> 7;
    s->chance ^= s->chance << 17;
    return (i64)((s->chance >> 11) % (uint64_t)count);
}

static i64 end_of(const Search *s, i64 i) { return s->at[i] + s->in->size[i]; }

static void put(Search *s, i64 i) {
    i64 place = s->placed;
    for (; place && s->at[s->by_start[place - 1]] > s->at[i]; place--) s->by_start[place] = s->by_start[place - 1];
    s->by_start[place] = i;
    place = s->placed++;
    for (; place && end_of(s, s->by_end[place - 1]) > end_of(s, i); place--) s->by_end[place] = s->by_end[place - 1];
    s->by_end[place] = i;
}

static void take_out(i64 *list, i64 count, i64 i) {
    i64 place = 0;
    while (list[place] != i) place++;
    memmove(list + place, list + place + 1, (size_t)(count - place - 1) * sizeof(i64));
}

/* Offsets `at`, ascending from call to call of one pass; `begun` and `ended` of what is in the way count for `cost`. */
typedef struct { i64 begun, ended, cost; } Pass;

static void try_at(Search *s, Pass *pass, i64 at, i64 size) {
    while (pass->begun < s->start_count && s->starts[pass->begun].at < at + size) pass->cost += s->starts[pass->begun++].weight;
    while (pass->ended < s->end_count && s->ends[pass->ended].at <= at) pass->cost -= s->ends[pass->ended++].weight;
    s->equals = pass->cost < s->best ? 1 : s->equals + (pass->cost == s->best);
    if (pass->cost > s->best || (pass->cost == s->best && (s->best == IMMOVABLE || below(s, s->equals)))) return;
    s->best = pass->cost;
    s->place = at;
}

/* Where what is in the way weighs least, right above or right below something; among equals by chance. */
static void find_cheapest(Search *s, i64 i) {
    const uint8_t *meets = s->in->meets + i * s->in->count;
    i64 size = s->in->size[i], step = s->in->alignment[i], top = (s->in->height - size) / step * step;
    s->best = IMMOVABLE;
    s->equals = s->start_count = s->end_count = 0;
    if (size > s->in->height) return;
    for (i64 k = 0; k < s->placed; k++) {
        i64 start = s->by_start[k], end = s->by_end[k];
        if (meets[start]) s->starts[s->start_count++] = (Edge){s->at[start], s->weight[start]};
        if (meets[end]) s->ends[s->end_count++] = (Edge){end_of(s, end), s->weight[end]};
    }
    Pass above = {0, 0, 0}, under = {0, 0, 0};
    try_at(s, &above, 0, size);
    for (i64 k = 0; k < s->end_count; k++) {
        i64 at = (s->ends[k].at + step - 1) / step * step;
        if (at > top) break;
        try_at(s, &above, at, size);
    }
    try_at(s, &above, top, size);
    for (i64 k = 0; k < s->start_count; k++) {
        if (s->starts[k].at < size) continue;
        i64 at = (s->starts[k].at - size) / step * step;
        if (at > top) break;
        try_at(s, &under, at, size);
    }
}

static void place(Search *s, i64 i) {
    const uint8_t *meets = s->in->meets + i * s->in->count;
    i64 at = s->place, end = at + s->in->size[i];
    for (i64 k = 0; k < s->placed;) {
        i64 j = s->by_start[k];
        if (!meets[j] || s->at[j] >= end || end_of(s, j) <= at) {
            k++;
            continue;
        }
        take_out(s->by_start, s->placed, j);
        take_out(s->by_end, s->placed--, j);
        s->left[s->left_count++] = j;
    }
    s->at[i] = at;
    put(s, i);
}

static int run(Search *s, i64 *steps) {
    const Ejection *in = s->in;
    double stop = in->max_seconds > 0 ? clock_seconds() + in->max_seconds : 0;
    for (i64 i = 0; i < in->count; i++) {
        s->weight[i] = in->fixed[i] ? IMMOVABLE : 1;
        if (end_of(s, i) > in->height && !in->fixed[i]) s->left[s->left_count++] = i;
        else put(s, i);
    }
    for (; *steps < in->most_steps; ++*steps) {
        if (!s->left_count) return FOUND;
        if (stop > 0 && *steps % STEPS_PER_LOOK_AT_THE_CLOCK == 0 && clock_seconds() > stop) return STOPPED;
        i64 drawn = below(s, s->left_count), i = s->left[drawn];
        s->left[drawn] = s->left[--s->left_count];
        find_cheapest(s, i);
        if (s->best == IMMOVABLE) return STOPPED; /* what is fixed leaves no room */
        s->weight[i] += s->best > 0;
        place(s, i);
    }
    return s->left_count ? STOPPED : FOUND;
}

/* FOUND with offsets below the height, STOPPED or NO_MEMORY; `offset` has those of a plan above it. */
int memplan_eject(const Ejection *in, i64 *offset, i64 *steps) {
    size_t count = (size_t)in->count + 1;
    i64 *lists = calloc(4 * count, sizeof(i64));
    Edge *edges = calloc(2 * count, sizeof(Edge));
    Search s = {in, offset, lists, lists + count, lists + 2 * count, lists + 3 * count, edges, edges + count, 0, 0, 0, 0, 0, 0, 0, in->seed};
    *steps = 0;
    int state = lists && edges ? run(&s, steps) : NO_MEMORY;
    free(lists);
    free(edges);
    return state;
}
