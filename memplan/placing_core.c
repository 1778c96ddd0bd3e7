/* Placing of many buffers in the given order: the compiled form of memplan/placing.py for one region without aliases.
 * Buffers have one or more sections (live intervals). Time is cut into buckets of equal width. What spans a bucket meets
 * all that is live in it, so of that no more need be known than the bytes taken: few intervals. Only what is live in a
 * part of a bucket is compared buffer by buffer, with what else is live in a part of it. The lowest hole of 100,000 buffers
 * each is found in half a second; tightest holes take longer, and after `seconds` the lowest ones are taken.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int64_t i64;
typedef struct { i64 low, high, of; } Taken; /* bytes; the buffer that has them, or ANYBODY */
enum { ANYBODY = -1 };
typedef struct { Taken *at; i64 count, room; } List; /* by `low` */
typedef struct {
    List partly;   /* buffers that are live in a part of the bucket */
    List spanning; /* bytes of those that are live in all of it, in disjoint intervals */
    List used;     /* bytes of both, in disjoint intervals */
} Bucket;

typedef struct {
    i64 count, best_fit;
    double seconds; /* 0: no limit */
    const i64 *first, *start, *end, *size, *alignment; /* sections first[i] .. first[i + 1] - 1 of buffer i */
    i64 *offset;
} Order;

typedef struct { const Taken *at; i64 count, next; } Way; /* through a list, upwards */

typedef struct {
    const Order *in;
    Bucket *buckets;
    i64 bucket_count, origin, width;
    List taken;
    Way *ways;
    i64 way_count, way_room;
} Placing;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static i64 round_up(i64 value, i64 step) { return (value + step - 1) / step * step; }

static int by_offset(const void *a, const void *b) {
    const Taken *one = a, *other = b;
    return (one->low > other->low) - (one->low < other->low);
}

static int meet(const Order *in, i64 one, i64 other) {
    for (i64 p = in->first[one]; p < in->first[one + 1]; p++)
        for (i64 q = in->first[other]; q < in->first[other + 1]; q++)
            if (in->start[p] < in->end[q] && in->start[q] < in->end[p]) return 1;
    return 0;
}

static i64 bucket_of(const Placing *s, i64 time) { return (time - s->origin) / s->width; }

/* Room for `count` elements of `bytes` each; 0 without memory. */
static int reserve(void **at, i64 *room, i64 count, size_t bytes) {
    if (count <= *room) return 1;
    i64 wanted = 2 * count + 8;
    void *more = realloc(*at, (size_t)wanted * bytes);
    if (!more) return 0;
    *at = more;
    *room = wanted;
    return 1;
}

static int reserve_list(List *list, i64 count) { return reserve((void **)&list->at, &list->room, count, sizeof(Taken)); }

static int spans(const Placing *s, i64 section, i64 bucket) {
    i64 begin = s->origin + bucket * s->width;
    return s->in->start[section] <= begin && begin + s->width <= s->in->end[section];
}

static void add_way(Placing *s, const List *list) {
    if (list->count) s->ways[s->way_count++] = (Way){list->at, list->count, 0};
}

/* The lists in which buffer i meets what is placed; 0 without memory. */
static int find_ways(Placing *s, i64 i) {
    const Order *in = s->in;
    s->way_count = 0;
    for (i64 p = in->first[i]; p < in->first[i + 1]; p++)
        for (i64 b = bucket_of(s, in->start[p]); b <= bucket_of(s, in->end[p] - 1); b++) {
            const Bucket *bucket = &s->buckets[b];
            if (!reserve((void **)&s->ways, &s->way_room, s->way_count + 2, sizeof(Way))) return 0;
            if (spans(s, p, b)) {
                add_way(s, &bucket->used);
            } else {
                add_way(s, &bucket->spanning);
                add_way(s, &bucket->partly);
            }
        }
    return 1;
}

static int is_taken(const Order *in, i64 i, const Taken *one) { return one->of == ANYBODY || meet(in, i, one->of); }

/* The lowest offset that is free in all lists. What a list has below the offset need not be looked at again. */
static i64 lowest_hole(Placing *s, i64 i) {
    const Order *in = s->in;
    i64 at = 0, size = in->size[i], step = in->alignment[i];
    for (i64 agreed = 0, w = 0; agreed < s->way_count; w = w + 1 < s->way_count ? w + 1 : 0, agreed++) {
        Way *way = &s->ways[w];
        for (; way->next < way->count && way->at[way->next].low < at + size; way->next++) {
            const Taken *one = &way->at[way->next];
            if (one->high > at && is_taken(in, i, one)) {
                at = round_up(one->high, step);
                agreed = 0;
            }
        }
    }
    return at;
}

/* The offset of the tightest hole; -1 without memory. */
static i64 tightest_hole(Placing *s, i64 i) {
    const Order *in = s->in;
    i64 top = 0, best = -1, tightest = 0, size = in->size[i], step = in->alignment[i];
    s->taken.count = 0;
    for (const Way *way = s->ways; way < s->ways + s->way_count; way++) {
        if (!reserve_list(&s->taken, s->taken.count + way->count)) return -1;
        for (i64 k = 0; k < way->count; k++)
            if (is_taken(in, i, &way->at[k])) s->taken.at[s->taken.count++] = way->at[k];
    }
    qsort(s->taken.at, (size_t)s->taken.count, sizeof(Taken), by_offset);
    for (i64 k = 0; k < s->taken.count; k++) {
        const Taken *one = &s->taken.at[k];
        i64 at = round_up(top, step), room = one->low - top;
        if (at + size <= one->low && (best < 0 || room < tightest)) {
            best = at;
            tightest = room;
        }
        if (one->high > top) top = one->high;
    }
    return best < 0 ? round_up(top, step) : best;
}

/* The first of the list that ends at `low` or beyond (of disjoint ones), or that begins there. */
static i64 position(const List *list, i64 low, int by_end) {
    i64 first = 0, beyond = list->count;
    while (first < beyond) {
        i64 half = (first + beyond) / 2;
        if ((by_end ? list->at[half].high : list->at[half].low) < low) first = half + 1;
        else beyond = half;
    }
    return first;
}

/* Puts `added` in the place of the elements first .. last - 1; 0 without memory. */
static int replace(List *list, i64 first, i64 last, Taken added) {
    if (!reserve_list(list, list->count + 1)) return 0;
    memmove(list->at + first + 1, list->at + last, (size_t)(list->count - last) * sizeof(Taken));
    list->at[first] = added;
    list->count += 1 - (last - first);
    return 1;
}

/* Joins an interval with those of a list that touch it. */
static int use(List *used, Taken added) {
    i64 first = position(used, added.low, 1), last = first;
    for (; last < used->count && used->at[last].low <= added.high; last++) {
        if (used->at[last].low < added.low) added.low = used->at[last].low;
        if (used->at[last].high > added.high) added.high = used->at[last].high;
    }
    return replace(used, first, last, added);
}

static int put(Placing *s, i64 i, i64 offset) {
    const Order *in = s->in;
    const Taken bytes = {offset, offset + in->size[i], ANYBODY}, own = {offset, offset + in->size[i], i};
    in->offset[i] = offset;
    for (i64 p = in->first[i]; p < in->first[i + 1]; p++)
        for (i64 b = bucket_of(s, in->start[p]); b <= bucket_of(s, in->end[p] - 1); b++) {
            Bucket *bucket = &s->buckets[b];
            i64 at = position(&bucket->partly, offset, 0);
            if (!use(&bucket->used, bytes)) return 0;
            if (spans(s, p, b) ? !use(&bucket->spanning, bytes) : !replace(&bucket->partly, at, at, own)) return 0;
        }
    return 1;
}

static int place_all(Placing *s) {
    double stop = s->in->seconds > 0 ? now() + s->in->seconds : 0;
    int tight = s->in->best_fit != 0;
    for (i64 i = 0; i < s->in->count; i++) {
        tight = tight && (stop <= 0 || (i & 63) || now() < stop);
        if (!find_ways(s, i)) return 0;
        i64 offset = tight ? tightest_hole(s, i) : lowest_hole(s, i);
        if (offset < 0 || !put(s, i, offset)) return 0;
    }
    return 1;
}

/* 1, or 0 without memory. All sizes are positive; `buckets` of equal width hold the time from `origin` to `horizon`. */
int memplan_place(const Order *in, i64 origin, i64 horizon, i64 buckets) {
    i64 width = (horizon - origin + buckets - 1) / buckets;
    Placing s = {in, calloc((size_t)buckets, sizeof(Bucket)), buckets, origin, width > 0 ? width : 1, {0}, NULL, 0, 0};
    int done = s.buckets && place_all(&s);
    for (i64 b = 0; s.buckets && b < buckets; b++) {
        free(s.buckets[b].partly.at);
        free(s.buckets[b].spanning.at);
        free(s.buckets[b].used.at);
    }
    free(s.buckets);
    free(s.taken.at);
    free(s.ways);
    return done;
}
