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
    i64 height, most_steps, largest;
    uint64_t seed;
    double max_seconds;
} Ejection;

typedef struct { i64 at, weight, of; } Edge; /* where something in the way starts or ends */

typedef struct { i64 at, of; } Key;

typedef struct { Key *keys; i64 count; } Sorted; /* by `at`, among equals as they came */

typedef struct {
    const Ejection *in;
    i64 *at, *weight, *left; /* left: without a place */
    Sorted by_start, by_end;
    Edge *starts, *ends;
    i64 left_count, start_count, end_count, best, place, equals;
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

/* How many lie below `at`, or at it. */
static i64 up_to(const Sorted *in, i64 at) {
    i64 low = 0, high = in->count;
    while (low < high) {
        i64 middle = (low + high) / 2;
        if (in->keys[middle].at > at) high = middle;
        else low = middle + 1;
    }
    return low;
}

static void insert(Sorted *into, i64 at, i64 of) {
    Key *key = into->keys + up_to(into, at);
    memmove(key + 1, key, (size_t)(into->keys + into->count++ - key) * sizeof(Key));
    *key = (Key){at, of};
}

static void take_out(Sorted *from, i64 at, i64 of) {
    Key *key = from->keys + up_to(from, at) - 1;
    while (key->of != of) key--;
    memmove(key, key + 1, (size_t)(from->keys + --from->count - key) * sizeof(Key));
}

static void put(Search *s, i64 i) {
    insert(&s->by_start, s->at[i], i);
    insert(&s->by_end, end_of(s, i), i);
}

/* Those of `from` that meet; each is written, whether it counts or not: there is no branch to predict. */
static i64 meeting(const Search *s, const Sorted *from, const uint8_t *meets, Edge *into) {
    i64 found = 0;
    for (i64 k = 0; k < from->count; k++) {
        Key key = from->keys[k];
        into[found] = (Edge){key.at, s->weight[key.of], key.of};
        found += meets[key.of];
    }
    into[found].at = INT64_MAX; /* no offset is that high */
    return found;
}

/* Offsets, ascending from call to call of one pass: what is in the way begins before `begun` and ends before `ended`. */
typedef struct { const Edge *begun, *ended; i64 cost; } Pass;

static inline void try_at(Search *s, Pass *pass, i64 at, i64 size) {
    const Edge *begun = pass->begun, *ended = pass->ended;
    i64 cost = pass->cost;
    for (; begun->at < at + size; begun++) cost += begun->weight;
    for (; ended->at <= at; ended++) cost -= ended->weight;
    *pass = (Pass){begun, ended, cost};
    if (cost > s->best) return;
    s->equals = cost < s->best ? 1 : s->equals + 1;
    if (cost == s->best && (cost == IMMOVABLE || below(s, s->equals))) return;
    s->best = cost;
    s->place = at;
}

static i64 lowered(i64 at, i64 step) { return step == 1 ? at : at / step * step; }

/* Where what is in the way weighs least, right above or right below something; among equals by chance. */
static void find_cheapest(Search *s, i64 i) {
    const uint8_t *meets = s->in->meets + i * s->in->count;
    i64 size = s->in->size[i], step = s->in->alignment[i], top = lowered(s->in->height - size, step);
    s->best = IMMOVABLE;
    s->equals = 0;
    if (size > s->in->height) return;
    s->start_count = meeting(s, &s->by_start, meets, s->starts);
    s->end_count = meeting(s, &s->by_end, meets, s->ends);
    Pass above = {s->starts, s->ends, 0}, under = above;
    try_at(s, &above, 0, size);
    for (i64 k = 0; k < s->end_count; k++) {
        i64 at = lowered(s->ends[k].at + step - 1, step);
        if (at > top) break;
        try_at(s, &above, at, size);
    }
    try_at(s, &above, top, size);
    for (i64 k = 0; k < s->start_count; k++) {
        if (s->starts[k].at < size) continue;
        i64 at = lowered(s->starts[k].at - size, step);
        if (at > top) break;
        try_at(s, &under, at, size);
    }
}

/* Where `find_cheapest` has said; what is in the way loses its place. */
static void place(Search *s, i64 i) {
    i64 at = s->place, end = at + s->in->size[i];
    for (i64 k = 0; k < s->start_count; k++) {
        i64 j = s->starts[k].of, other_end = end_of(s, j);
        if (s->at[j] >= end || other_end <= at) continue;
        take_out(&s->by_start, s->at[j], j);
        take_out(&s->by_end, other_end, j);
        s->left[s->left_count++] = j;
    }
    s->at[i] = at;
    put(s, i);
}

/* Which of those without a place is next: the largest, the first of equals, or one by chance. */
static i64 next_left(Search *s) {
    i64 largest = 0;
    if (!s->in->largest) return below(s, s->left_count);
    for (i64 k = 1; k < s->left_count; k++)
        if (s->in->size[s->left[k]] > s->in->size[s->left[largest]]) largest = k;
    return largest;
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
        i64 drawn = next_left(s), i = s->left[drawn];
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
    i64 *lists = calloc(2 * count, sizeof(i64));
    Key *keys = calloc(2 * count, sizeof(Key));
    Edge *edges = calloc(2 * count, sizeof(Edge));
    Search s = {.in = in, .at = offset, .weight = lists, .left = lists + count, .starts = edges, .ends = edges + count,
                .by_start = {keys, 0}, .by_end = {keys + count, 0}, .chance = in->seed};
    *steps = 0;
    int state = lists && keys && edges ? run(&s, steps) : NO_MEMORY;
    free(lists);
    free(keys);
    free(edges);
    return state;
}
