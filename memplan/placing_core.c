/* Placing of many buffers in the given order: the compiled twin of memplan/placing.py for one region without aliases.
 * Buffers have one or more sections (live intervals). What is placed is kept in buckets of equal time, so that a buffer
 * is compared only with what is live about then. After `seconds` the rest goes on top, one on the other: valid, not low.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int64_t i64;
typedef struct { i64 *at, count, room; } Bucket;
typedef struct { i64 low, high; } Taken;

typedef struct {
    i64 count, best_fit;
    double seconds; /* 0: no limit */
    const i64 *first, *start, *end, *size, *alignment; /* sections first[i] .. first[i + 1] - 1 of buffer i */
    i64 *offset;
} Order;

typedef struct {
    const Order *in;
    Bucket *buckets;
    i64 bucket_count, origin, width, top;
    i64 *seen; /* buffer i was met on behalf of seen[i] - 1 */
    Taken *taken;
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

/* What is placed and live together with buffer i, by offset. */
static i64 conflicts(Placing *s, i64 i) {
    const Order *in = s->in;
    i64 count = 0;
    for (i64 p = in->first[i]; p < in->first[i + 1]; p++)
        for (i64 b = bucket_of(s, in->start[p]); b <= bucket_of(s, in->end[p] - 1); b++)
            for (i64 k = 0; k < s->buckets[b].count; k++) {
                i64 other = s->buckets[b].at[k];
                if (s->seen[other] == i + 1) continue;
                s->seen[other] = i + 1;
                if (meet(in, i, other)) s->taken[count++] = (Taken){in->offset[other], in->offset[other] + in->size[other]};
            }
    qsort(s->taken, (size_t)count, sizeof(Taken), by_offset);
    return count;
}

static i64 find_hole(const Placing *s, i64 count, i64 i) {
    i64 top = 0, best = -1, tightest = 0, size = s->in->size[i], step = s->in->alignment[i];
    for (i64 k = 0; k < count; k++) {
        i64 at = round_up(top, step), room = s->taken[k].low - top;
        if (at + size <= s->taken[k].low) {
            if (!s->in->best_fit) return at;
            if (best < 0 || room < tightest) {
                best = at;
                tightest = room;
            }
        }
        if (s->taken[k].high > top) top = s->taken[k].high;
    }
    return best < 0 ? round_up(top, step) : best;
}

static int put(Placing *s, i64 i, i64 offset) {
    const Order *in = s->in;
    in->offset[i] = offset;
    if (offset + in->size[i] > s->top) s->top = offset + in->size[i];
    for (i64 p = in->first[i]; p < in->first[i + 1]; p++)
        for (i64 b = bucket_of(s, in->start[p]); b <= bucket_of(s, in->end[p] - 1); b++) {
            Bucket *bucket = &s->buckets[b];
            if (bucket->count == bucket->room) {
                i64 room = bucket->room ? 2 * bucket->room : 8;
                i64 *more = realloc(bucket->at, (size_t)room * sizeof(i64));
                if (!more) return 0;
                bucket->at = more;
                bucket->room = room;
            }
            bucket->at[bucket->count++] = i;
        }
    return 1;
}

static int place_all(Placing *s) {
    const Order *in = s->in;
    double stop = in->seconds > 0 ? now() + in->seconds : 0;
    int late = 0;
    for (i64 i = 0; i < in->count; i++) {
        late = late || (stop > 0 && (i & 63) == 0 && now() > stop);
        if (late) {
            in->offset[i] = round_up(s->top, in->alignment[i]);
            s->top = in->offset[i] + in->size[i];
        } else if (!put(s, i, find_hole(s, conflicts(s, i), i))) {
            return 0;
        }
    }
    return 1;
}

/* 1, or 0 without memory. All sizes are positive; `buckets` of equal width hold the time from `origin` to `horizon`. */
int memplan_place(const Order *in, i64 origin, i64 horizon, i64 buckets) {
    i64 width = (horizon - origin + buckets - 1) / buckets;
    size_t count = (size_t)in->count + 1;
    Placing s = {in, calloc((size_t)buckets, sizeof(Bucket)), buckets, origin, width > 0 ? width : 1, 0,
                 calloc(count, sizeof(i64)), malloc(count * sizeof(Taken))};
    int done = s.buckets && s.seen && s.taken && place_all(&s);
    for (i64 b = 0; s.buckets && b < buckets; b++) free(s.buckets[b].at);
    free(s.buckets);
    free(s.seen);
    free(s.taken);
    return done;
}
