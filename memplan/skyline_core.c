/* Many buffers laid into the valleys of a skyline: the compiled form of memplan/skyline.py, step by step the same.
 * Sums and products of doubles are taken in the same order, and never fused (-ffp-contract=off).
 */
#include <stdint.h>
#include <stdlib.h>

typedef int64_t i64;
enum { NONE = -1, LOOKED_AT = 32, PASSED_OVER = 256 }; /* as in skyline.py */
#define WALL INT64_MAX

typedef struct {
    i64 count, sections;
    const i64 *first, *last, *size, *alignment; /* by first section, of those the longest first; `last` is not included */
    const i64 *by_last;                         /* the same, what is live last first */
    const i64 *from_first, *from_last;          /* of a section: where to begin to look in each of these orders */
    const double *before;                       /* weights of all earlier sections */
    double gap_cost, fillable;
    i64 *offset;
} Crowd;

typedef struct { i64 first, last, height, left, right, is_gone; } Level; /* of sections; neighbours by number */

typedef struct {
    const Crowd *in;
    Level *levels;
    i64 *heap; /* numbers of levels, the lowest first, of those the earliest */
    i64 *next_first, *next_last, *place; /* to the next one left in each order; of each buffer, its place in by_last */
    i64 level_count, heap_count;
    double largest;
} Fill;

static int is_lower(const Fill *f, i64 a, i64 b) {
    const Level *one = &f->levels[a], *other = &f->levels[b];
    return one->height < other->height || (one->height == other->height && one->first < other->first);
}

static void push(Fill *f, i64 level) {
    i64 at = f->heap_count++;
    for (; at && is_lower(f, level, f->heap[(at - 1) / 2]); at = (at - 1) / 2) f->heap[at] = f->heap[(at - 1) / 2];
    f->heap[at] = level;
}

static i64 pop(Fill *f) {
    i64 top = f->heap[0], moved = f->heap[--f->heap_count], at = 0;
    for (i64 child = 1; child < f->heap_count; child = 2 * at + 1) {
        if (child + 1 < f->heap_count && is_lower(f, f->heap[child + 1], f->heap[child])) child++;
        if (!is_lower(f, f->heap[child], moved)) break;
        f->heap[at] = f->heap[child];
        at = child;
    }
    f->heap[at] = moved;
    return top;
}

/* A new level between these neighbours; its number. */
static i64 add(Fill *f, i64 first, i64 last, i64 height, i64 left, i64 right) {
    i64 number = f->level_count++;
    f->levels[number] = (Level){first, last, height, left, right, 0};
    if (left != NONE) f->levels[left].right = number;
    if (right != NONE) f->levels[right].left = number;
    push(f, number);
    return number;
}

/* The first place from `at` on that is still left. */
static i64 left_from(i64 *next, i64 at) {
    while (next[at] != at) at = next[at] = next[next[at]];
    return at;
}

static i64 depth_to(const Fill *f, const Level *valley, i64 neighbour) {
    return neighbour == NONE ? WALL : f->levels[neighbour].height - valley->height;
}

/* Bytes x weight that are lost between a buffer and a wall, less where the gap is wide enough to be filled. */
static double lost(const Fill *f, i64 from, i64 to, i64 depth, i64 size) {
    double height = (double)(depth < size ? depth : size), share = 1.0 + (double)(to - from) / f->in->fillable;
    return height * (f->in->before[to] - f->in->before[from]) / (share * share);
}

/* The best one of those that begin soon after the valley does, and that end shortly before it; NONE if nothing fits. */
static i64 choose(Fill *f, const Level *valley) {
    const Crowd *in = f->in;
    const i64 left = depth_to(f, valley, valley->left), right = depth_to(f, valley, valley->right);
    i64 best = NONE;
    double most = 0;
    if (!left || !right) return NONE;
    for (int by_last = 0; by_last < 2; by_last++) {
        i64 *next = by_last ? f->next_last : f->next_first, looked = 0, passed = 0;
        i64 at = left_from(next, by_last ? in->from_last[valley->last] : in->from_first[valley->first]);
        for (; at < in->count && looked < LOOKED_AT && passed < PASSED_OVER; at = left_from(next, at + 1), passed++) {
            i64 i = by_last ? in->by_last[at] : at, first = in->first[i], last = in->last[i], size = in->size[i];
            if (by_last ? last <= valley->first : first >= valley->last) break;
            if (first < valley->first || last > valley->last) continue;
            looked++;
            double covered = f->largest * (in->before[last] - in->before[first]);
            double beside = lost(f, valley->first, first, left, size) + lost(f, last, valley->last, right, size);
            double worth = covered - in->gap_cost * beside;
            if (best == NONE || worth > most) best = i, most = worth;
        }
    }
    return best;
}

/* The floor is raised to the lower wall, which it joins. */
static void raise(Fill *f, Level *valley) {
    i64 left = depth_to(f, valley, valley->left), right = depth_to(f, valley, valley->right);
    i64 up = left < right ? left : right;
    valley->is_gone = 1;
    Level joined = *valley;
    if (left == up) {
        Level *wall = &f->levels[valley->left];
        wall->is_gone = 1;
        joined.first = wall->first;
        joined.left = wall->left;
    }
    if (right == up) {
        Level *wall = &f->levels[valley->right];
        wall->is_gone = 1;
        joined.last = wall->last;
        joined.right = wall->right;
    }
    add(f, joined.first, joined.last, joined.height + up, joined.left, joined.right);
}

static void lay(Fill *f, Level *valley, i64 i) {
    const Crowd *in = f->in;
    i64 step = in->alignment[i], at = (valley->height + step - 1) / step * step, left = valley->left;
    in->offset[i] = at;
    f->next_first[i] = i + 1;
    f->next_last[f->place[i]] = f->place[i] + 1;
    valley->is_gone = 1;
    if (valley->first < in->first[i]) left = add(f, valley->first, in->first[i], valley->height, left, NONE);
    left = add(f, in->first[i], in->last[i], at + in->size[i], left, valley->right);
    if (in->last[i] < valley->last) add(f, in->last[i], valley->last, valley->height, left, valley->right);
}

static void fill(Fill *f) {
    add(f, 0, f->in->sections, 0, NONE, NONE);
    for (i64 left = f->in->count; left;) {
        i64 number = pop(f);
        if (f->levels[number].is_gone) continue;
        i64 i = choose(f, &f->levels[number]);
        if (i == NONE) {
            raise(f, &f->levels[number]);
        } else {
            lay(f, &f->levels[number], i);
            left--;
        }
    }
}

/* 1, or 0 without memory. All sizes are positive. A buffer laid makes three levels of one, and raising makes one of two or
 * three, so there are 5 x count + 1 at most. */
int memplan_fill(const Crowd *in) {
    size_t levels = 5 * (size_t)in->count + 1, places = (size_t)in->count + 1;
    Fill f = {in, malloc(levels * sizeof(Level)), malloc(levels * sizeof(i64)), malloc(3 * places * sizeof(i64)), NULL, NULL, 0, 0, 0};
    int done = f.levels && f.heap && f.next_first;
    if (done) {
        f.next_last = f.next_first + places;
        f.place = f.next_last + places;
        for (i64 i = 0; i <= in->count; i++) f.next_first[i] = f.next_last[i] = i;
        for (i64 i = 0; i < in->count; i++) {
            f.place[in->by_last[i]] = i;
            if ((double)in->size[i] > f.largest) f.largest = (double)in->size[i];
        }
        fill(&f);
    }
    free(f.levels);
    free(f.heap);
    free(f.next_first);
    return done;
}
