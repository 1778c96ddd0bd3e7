/* Exact search over canonical positions: the compiled form of search_core.py, statement for statement.
 *
 * docs/measured/memplan_method.md explains the method. Both forms visit the same nodes in the same order and return the same
 * offsets; tests compare them. Build: cc -O2 -shared -fPIC (memplan/compiled_cores.py does it).
 *
 * Sections are numbered 0 .. sections-1, blocks 0 .. blocks-1 in order of preference. Block i covers the pieces
 * piece_start[i] .. piece_start[i+1]-1; piece p covers the sections first[p] .. last[p] with size[p] bytes.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int64_t i64;
typedef uint64_t u64;

#define WALL ((i64)1 << 60)
enum { FOUND = 1, EXHAUSTED = 0, STOPPED = -1, NO_MEMORY = -2 };
enum { PLACE, LIFT, SKIP };
enum { FEWEST, LOWEST, FORCED, FAILING };
enum { FIRST_RESTART = 700, RESTARTS_GROW = 5, FINE = 1000000 };
enum { CHOICE, SOLVED, FAILED };

typedef struct {
    i64 blocks, sections;
    const i64 *piece_start, *first, *last, *size, *alignment, *high;
    i64 height, max_nodes, rule, tie;
    double max_seconds;
} Instance;

typedef struct { i64 *where, old; } Change;
typedef struct { i64 kind, a, b, level; } Event;
typedef struct { i64 a, b, v, option, options, candidates, pool, events, changes, enter_events, enter_changes; } Frame;

typedef struct {
    const Instance *in;
    i64 *h, *r, *top, *flagged, *next, *prev, *equal, *gapped, *least, *most, *from, *to;
    i64 *run, *run_a, *run_b, *run_v, *run_w, *run_count, *run_least, *run_hole, *run_blocked, *count, *failures;
    unsigned char *mark;
    Change *trail;
    Event *events;
    Frame *frames;
    u64 *conflicts;
    i64 *pool, *offset;
    i64 changes, changes_room, event_count, levels_room, pool_used, pool_room, words, any_gapped, nodes, run_total, no_memory, events_room, full, began, restart_after;
} Search;

static i64 round_up(i64 value, i64 step) { return (value + step - 1) / step * step; }
static i64 smaller(i64 a, i64 b) { return a < b ? a : b; }

static void set(Search *s, i64 *where, i64 value) {
    if (s->changes == s->changes_room) {
        Change *more = realloc(s->trail, (size_t)s->changes_room * 2 * sizeof(Change));
        if (!more) {
            s->no_memory = 1; /* run_search stops at the next node; the state is used no more */
            return;
        }
        s->trail = more;
        s->changes_room *= 2;
    }
    s->trail[s->changes++] = (Change){where, *where};
    *where = value;
}

static void undo(Search *s, i64 changes, i64 events) {
    while (s->changes > changes) {
        s->changes--;
        *s->trail[s->changes].where = s->trail[s->changes].old;
    }
    s->event_count = events;
}

/* The sections a..b, and all sections of every block with gaps that has one of them. */
static void mark_span(Search *s, i64 a, i64 b) {
    const Instance *in = s->in;
    for (i64 t = a < 0 ? 0 : a; t <= b && t < in->sections; t++) s->mark[t] = 1;
    for (i64 i = 0; i < in->blocks && s->any_gapped; i++) {
        int has = 0;
        if (!s->gapped[i]) continue;
        for (i64 p = in->piece_start[i]; p < in->piece_start[i + 1]; p++) has |= in->first[p] <= b && a <= in->last[p];
        for (i64 p = in->piece_start[i]; has && p < in->piece_start[i + 1]; p++)
            memset(s->mark + in->first[p], 1, (size_t)(in->last[p] - in->first[p] + 1));
    }
}

/* Which levels made the sections a..b what they are? Walk the events backwards; a lift of c..d rests on c-1..d+1, and
 * what blocks with gaps may do there on all of their sections. */
static void explain(Search *s, i64 a, i64 b, i64 events, u64 *conflict) {
    memset(s->mark, 0, (size_t)s->in->sections);
    mark_span(s, a, b);
    for (i64 k = events - 1; k >= 0; k--) {
        Event *e = &s->events[k];
        i64 t = e->a;
        while (t <= e->b && !s->mark[t]) t++;
        if (t > e->b) continue;
        if (e->kind != LIFT) {
            conflict[e->level >> 6] |= (u64)1 << (e->level & 63);
            continue;
        }
        mark_span(s, e->a - 1, e->b + 1);
    }
}

static u64 *conflict_of(Search *s, i64 level) { return s->conflicts + level * s->words; }

static void find_runs(Search *s) {
    i64 sections = s->in->sections, runs = 0;
    for (i64 t = 0; t < sections; runs++) {
        i64 v = s->r[t] ? s->h[t] : WALL, end = t;
        for (; end < sections && (s->r[end] ? s->h[end] : WALL) == v; end++) s->run[end] = runs;
        s->run_a[runs] = t;
        s->run_b[runs] = end - 1;
        s->run_v[runs] = v;
        s->run_count[runs] = 0;
        s->run_blocked[runs] = 0;
        s->run_least[runs] = s->run_hole[runs] = WALL;
        t = end;
    }
    for (i64 q = 0; q < runs; q++) {
        i64 left = q ? s->run_v[q - 1] : WALL, right = q + 1 < runs ? s->run_v[q + 1] : WALL;
        s->run_w[q] = smaller(left, right);
    }
    s->run_total = runs;
}

/* A block with gaps rests on the highest of its sections; runs it may come to rest on later are blocked. */
static int gapped_rests(Search *s, i64 i) {
    const Instance *in = s->in;
    i64 low = WALL, high = 0;
    for (i64 p = in->piece_start[i]; p < in->piece_start[i + 1]; p++)
        for (i64 t = in->first[p]; t <= in->last[p]; t++) {
            low = smaller(low, s->h[t]);
            if (s->h[t] > high) high = s->h[t];
        }
    if (low == high) return 1;
    for (i64 p = in->piece_start[i]; p < in->piece_start[i + 1]; p++)
        for (i64 t = in->first[p]; t <= in->last[p]; t++) {
            i64 q = s->run[t];
            if (s->run_v[q] == high) s->run_blocked[q] = 1;
            if (s->run_v[q] < high) s->run_w[q] = smaller(s->run_w[q], high);
        }
    return 0;
}

static int overlap(const Instance *in, i64 i, i64 j) {
    for (i64 p = in->piece_start[i]; p < in->piece_start[i + 1]; p++)
        for (i64 o = in->piece_start[j]; o < in->piece_start[j + 1]; o++)
            if (in->first[p] <= in->last[o] && in->first[o] <= in->last[p]) return 1;
    return 0;
}

/* A block with gaps that does not rest here rests on something not placed yet, perhaps at another of its runs:
 * above its runs that is as good as a neighbour of such a height. */
static void lower_neighbours(Search *s, i64 i) {
    const Instance *in = s->in;
    i64 smallest = WALL, end = in->blocks;
    for (i64 j = s->next[end]; j != end; j = s->next[j])
        if (j != i && s->least[j] < smallest && overlap(in, i, j)) smallest = s->least[j];
    for (i64 p = in->piece_start[i]; p < in->piece_start[i + 1]; p++)
        for (i64 t = in->first[p]; t <= in->last[p]; t++) {
            i64 q = s->run[t];
            s->run_w[q] = smaller(s->run_w[q], s->run_v[q] + smallest);
        }
}

/* May block i be put on the run q (which it lies within)? Not where an equal plan is met elsewhere in the tree. */
static int is_candidate(const Search *s, i64 i, i64 q) {
    if (s->flagged[i]) return 0;
    if (s->equal[i] >= 0 && s->next[s->equal[i]] >= 0) return 0; /* its equal comes first */
    i64 j = s->top[s->from[i]];
    if (j <= i || s->gapped[i] || s->gapped[j] || s->least[i] != s->most[i] || s->least[j] != s->most[j]) return 1;
    if (s->in->alignment[i] != 1 || s->in->alignment[j] != 1) return 1;
    int same = s->from[i] == s->from[j] && s->to[i] == s->to[j];
    return !(same && s->offset[j] + s->most[j] == s->run_v[q]); /* these two in the other order */
}

static void count_candidates(Search *s) {
    const Instance *in = s->in;
    i64 end = in->blocks;
    for (i64 t = 0; t <= in->sections; t++) s->count[t] = 0;
    for (i64 i = s->next[end]; i != end; i = s->next[i]) {
        i64 q = s->run[s->from[i]];
        int rests = !s->gapped[i] || gapped_rests(s, i);
        if (s->gapped[i] && rests) lower_neighbours(s, i);
        if (s->gapped[i] ? !rests : q != s->run[s->to[i]] || s->run_v[q] >= s->run_w[q]) continue;
        i64 lead = round_up(s->run_v[q], in->alignment[i]) - s->run_v[q];
        if (!s->gapped[i]) s->run_hole[q] = smaller(s->run_hole[q], lead + s->most[i]);
        if (!is_candidate(s, i, q)) continue;
        for (i64 p = in->piece_start[i]; p < in->piece_start[i + 1]; p++) {
            q = s->run[in->first[p]];
            s->run_count[q]++;
            s->run_least[q] = smaller(s->run_least[q], lead + s->least[i]);
            s->count[in->first[p]]++;
            s->count[in->last[p] + 1]--;
        }
    }
}

/* Raise one valley in which nothing can rest to its lower neighbour. 1: raised, 0: none to raise, -1: dead end. */
static int lift_one(Search *s, i64 level) {
    const Instance *in = s->in;
    for (i64 q = 0; q < s->run_total; q++) {
        i64 rise = s->run_w[q] - s->run_v[q], a = s->run_a[q], b = s->run_b[q];
        if (rise <= 0 || s->run_count[q] || s->run_blocked[q]) continue;
        int dead = s->run_w[q] >= WALL || s->run_hole[q] <= rise; /* what fits into the hole belongs there */
        for (i64 t = a; t <= b && !dead; t++) dead = in->height - s->h[t] - s->r[t] < rise;
        if (dead) {
            for (i64 t = a; t <= b; t++) s->failures[t]++;
            u64 *conflict = conflict_of(s, level);
            memset(conflict, 0, (size_t)s->words * 8);
            explain(s, a - 1, b + 1, s->event_count, conflict);
            return -1;
        }
        if (s->event_count + 2 >= s->events_room) {
            s->full = 1; /* run_search stops at the next node */
            return 0;
        }
        s->events[s->event_count++] = (Event){LIFT, a, b, level};
        for (i64 t = a; t <= b; t++) set(s, &s->h[t], s->run_w[q]);
        return 1;
    }
    return 0;
}

/* The section to branch on: -1 if one of them can not be covered any more (*dead tells its run). */
static i64 choose_section(Search *s, i64 *forced, i64 *dead) {
    const Instance *in = s->in;
    i64 best = -1, best_key = WALL, best_tie = WALL, count = 0;
    *dead = -1;
    for (i64 t = 0; t < in->sections; t++) {
        count += s->count[t];
        i64 q = s->run[t];
        if (s->run_v[q] >= s->run_w[q] || s->run_blocked[q]) continue;
        i64 waste = smaller(s->run_w[q] - s->run_v[q], s->run_least[q]); /* if nothing rests here */
        i64 slack = in->height - s->h[t] - s->r[t];
        if (slack < waste && count == 0) {
            s->failures[t]++;
            *dead = q;
            return -1;
        }
        if (count == 0) continue;
        i64 options = count + (slack >= waste);
        i64 key = in->rule == FEWEST ? options : in->rule == LOWEST ? s->run_v[q] : slack < waste ? options : FINE + options;
        if (in->rule == FAILING) key = FINE * options / (1 + s->failures[t]);
        i64 tie = in->tie ? slack : s->run_v[q];
        if (key < best_key || (key == best_key && tie < best_tie)) {
            best = t;
            best_key = key;
            best_tie = tie;
            *forced = slack < waste;
        }
    }
    return best;
}

static int covers(const Search *s, i64 i, i64 t) {
    for (i64 p = s->in->piece_start[i]; p < s->in->piece_start[i + 1]; p++)
        if (s->in->first[p] <= t && t <= s->in->last[p]) return 1;
    return 0;
}

static int rests_on(Search *s, i64 i, i64 q) {
    if (!s->gapped[i]) return s->run[s->from[i]] == q && s->run[s->to[i]] == q;
    return gapped_rests(s, i);
}

static int enter(Search *s, i64 level) {
    const Instance *in = s->in;
    Frame *f = &s->frames[level];
    i64 end = in->blocks, forced = 0, dead;
    f->enter_events = s->event_count;
    f->enter_changes = s->changes;
    if (s->next[end] == end) return SOLVED;
    for (;;) {
        find_runs(s);
        count_candidates(s);
        int lifted = lift_one(s, level);
        if (lifted < 0) return FAILED;
        if (!lifted) break;
    }
    i64 section = choose_section(s, &forced, &dead);
    if (section < 0 && dead < 0) s->full = 1; /* lift_one stopped */
    if (section < 0) {
        u64 *conflict = conflict_of(s, level);
        memset(conflict, 0, (size_t)s->words * 8);
        if (dead >= 0) explain(s, s->run_a[dead] - 1, s->run_b[dead] + 1, s->event_count, conflict);
        return FAILED;
    }
    i64 q = s->run[section];
    f->a = s->run_a[q];
    f->b = s->run_b[q];
    f->v = s->run_v[q];
    f->pool = s->pool_used;
    f->option = f->candidates = 0;
    for (i64 i = s->next[end]; i != end; i = s->next[i])
        if (covers(s, i, section) && rests_on(s, i, q) && is_candidate(s, i, q)) s->pool[f->pool + f->candidates++] = i;
    s->pool_used += f->candidates;
    f->options = f->candidates + !forced;
    f->events = s->event_count;
    f->changes = s->changes;
    memset(conflict_of(s, level), 0, (size_t)s->words * 8);
    return CHOICE;
}

static int place(Search *s, i64 i, i64 v, i64 level) {
    const Instance *in = s->in;
    i64 at = round_up(v, in->alignment[i]), end = in->blocks;
    if (at > in->high[i]) return 0;
    for (i64 p = in->piece_start[i]; p < in->piece_start[i + 1]; p++)
        for (i64 t = in->first[p]; t <= in->last[p]; t++)
            if (in->height - s->h[t] - s->r[t] < at - v) return 0;
    for (i64 p = in->piece_start[i]; p < in->piece_start[i + 1]; p++)
        for (i64 t = in->first[p]; t <= in->last[p]; t++) {
            set(s, &s->h[t], at + in->size[p]);
            set(s, &s->r[t], s->r[t] - in->size[p]);
            set(s, &s->top[t], i);
        }
    s->offset[i] = at;
    set(s, &s->next[s->prev[i]], s->next[i]);
    set(s, &s->prev[s->next[i]], s->prev[i]);
    set(s, &s->next[i], -1); /* placed */
    for (i64 j = s->next[end]; j != end; j = s->next[j]) {
        if (!s->flagged[j]) continue;
        if (overlap(in, i, j)) set(s, &s->flagged[j], 0);
    }
    s->events[s->event_count++] = (Event){PLACE, s->from[i], s->to[i], level};
    return 1;
}

static void skip(Search *s, const Frame *f, i64 level) {
    for (i64 k = 0; k < f->candidates; k++) set(s, &s->flagged[s->pool[f->pool + k]], 1);
    s->events[s->event_count++] = (Event){SKIP, f->a, f->b, level};
}

/* Take the frame's next option; 0 when there is none left. */
static int take_next(Search *s, i64 level) {
    Frame *f = &s->frames[level];
    undo(s, f->changes, f->events);
    while (f->option < f->options) {
        i64 k = f->option++;
        if (k >= f->candidates) {
            skip(s, f, level);
            return 1;
        }
        if (place(s, s->pool[f->pool + k], f->v, level)) return 1;
    }
    return 0;
}

/* The subtree of `level` failed for the reason in its conflict: go back to a level that can change it. */
static i64 backtrack(Search *s, i64 level) {
    for (;;) {
        Frame *f = &s->frames[level];
        undo(s, f->enter_changes, f->enter_events);
        if (level == 0) return -1;
        u64 *reason = conflict_of(s, level);
        level--;
        f = &s->frames[level];
        s->pool_used = f->pool + f->candidates;
        u64 *own = conflict_of(s, level);
        if (!(reason[level >> 6] >> (level & 63) & 1)) { /* this choice had no part in it */
            memcpy(own, reason, (size_t)s->words * 8);
            s->pool_used = f->pool;
            continue;
        }
        for (i64 k = 0; k < s->words; k++) own[k] |= reason[k];
        if (take_next(s, level)) return level;
        own[level >> 6] &= ~((u64)1 << (level & 63));
        explain(s, f->a - 1, f->b + 1, f->events, own);
        s->pool_used = f->pool;
    }
}

/* Where the search failed it chooses first, so to begin anew with what was learnt is worth more and more nodes. */
static void begin_anew(Search *s) {
    undo(s, s->frames[0].enter_changes, s->frames[0].enter_events);
    s->pool_used = 0;
    s->began = s->nodes;
    s->restart_after += s->restart_after / RESTARTS_GROW;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int run_search(Search *s) {
    const Instance *in = s->in;
    double stop = in->max_seconds > 0 ? now() + in->max_seconds : 0;
    i64 level = 0;
    for (;;) {
        if (s->no_memory) return NO_MEMORY;
        if (s->full) return STOPPED;
        if (in->rule == FAILING && level && s->nodes - s->began >= s->restart_after) {
            begin_anew(s);
            level = 0;
        }
        if (s->nodes >= in->max_nodes || level + 2 >= s->levels_room) return STOPPED;
        if (s->pool_used + in->blocks > s->pool_room) return STOPPED;
        if (stop > 0 && s->nodes % 256 == 0 && now() > stop) return STOPPED;
        s->nodes++;
        int state = enter(s, level);
        if (state == SOLVED) return FOUND;
        if (state == CHOICE && take_next(s, level)) {
            level++;
            continue;
        }
        if (state == CHOICE) {
            Frame *f = &s->frames[level];
            explain(s, f->a - 1, f->b + 1, f->events, conflict_of(s, level));
            s->pool_used = f->pool;
        }
        level = backtrack(s, level);
        if (level < 0) return s->no_memory ? NO_MEMORY : s->full ? STOPPED : EXHAUSTED;
        level++;
    }
}

static i64 *numbers(i64 count) { return calloc((size_t)(count > 0 ? count : 1), sizeof(i64)); }

static int same_shape(const Instance *in, i64 i, i64 j) {
    i64 pi = in->piece_start[i], pj = in->piece_start[j], pieces = in->piece_start[i + 1] - pi;
    if (pieces != in->piece_start[j + 1] - pj || in->alignment[i] != in->alignment[j] || in->high[i] != in->high[j])
        return 0;
    for (i64 k = 0; k < pieces; k++)
        if (in->first[pi + k] != in->first[pj + k] || in->last[pi + k] != in->last[pj + k] ||
            in->size[pi + k] != in->size[pj + k])
            return 0;
    return 1;
}

static void measure_block(Search *s, i64 i) {
    const Instance *in = s->in;
    i64 begin = in->piece_start[i], end = in->piece_start[i + 1];
    s->from[i] = in->first[begin];
    s->to[i] = in->last[end - 1];
    s->least[i] = WALL;
    for (i64 p = begin; p < end; p++) {
        if (p > begin && in->first[p] != in->last[p - 1] + 1) s->gapped[i] = s->any_gapped = 1;
        s->least[i] = smaller(s->least[i], in->size[p]);
        if (in->size[p] > s->most[i]) s->most[i] = in->size[p];
        for (i64 t = in->first[p]; t <= in->last[p]; t++) s->r[t] += in->size[p];
    }
    s->equal[i] = -1;
    for (i64 j = i - 1; j >= 0 && s->equal[i] < 0; j--)
        if (s->from[j] == s->from[i] && same_shape(in, i, j)) s->equal[i] = j;
}

enum { ARRAYS = 23 };

static int set_up(Search *s, i64 **arrays) {
    const Instance *in = s->in;
    i64 n = in->blocks, sections = in->sections;
    i64 **block_arrays[] = {&s->flagged, &s->next, &s->prev, &s->equal, &s->gapped, &s->least, &s->most, &s->from, &s->to};
    i64 **section_arrays[] = {&s->h, &s->r, &s->top, &s->run, &s->run_a, &s->run_b, &s->run_v, &s->run_w,
                              &s->run_count, &s->run_least, &s->run_hole, &s->run_blocked, &s->count, &s->failures};
    int used = 0, ok = 1;
    for (int k = 0; k < 9; k++) ok &= (*block_arrays[k] = arrays[used++] = numbers(n + 1)) != NULL;
    for (int k = 0; k < 14; k++) ok &= (*section_arrays[k] = arrays[used++] = numbers(sections + 1)) != NULL;
    s->restart_after = FIRST_RESTART;
    s->levels_room = 4 * n + 64;
    s->words = s->levels_room / 64 + 1;
    s->changes_room = 4096;
    s->pool_room = smaller(s->levels_room * (n + 1), (i64)1 << 22);
    s->mark = calloc((size_t)sections + 1, 1);
    s->trail = malloc((size_t)s->changes_room * sizeof(Change));
    /* Enough without gaps: every lift merges runs and every placed block makes at most two more. */
    s->events_room = 2 * s->levels_room + 2 * sections + 3 * n + 16;
    s->events = malloc((size_t)s->events_room * sizeof(Event));
    s->frames = malloc((size_t)s->levels_room * sizeof(Frame));
    s->conflicts = malloc((size_t)(s->levels_room * s->words) * sizeof(u64));
    s->pool = numbers(s->pool_room);
    ok = ok && s->mark && s->trail && s->events && s->frames && s->conflicts && s->pool;
    if (!ok) return 0;
    for (i64 t = 0; t < sections; t++) s->top[t] = -1;
    for (i64 i = 0; i <= n; i++) {
        s->next[i] = i < n ? i + 1 : 0;
        s->prev[i] = i ? i - 1 : n;
    }
    for (i64 i = 0; i < n; i++) measure_block(s, i);
    return 1;
}

/* FOUND, EXHAUSTED (no plan of this height exists), STOPPED or NO_MEMORY; *nodes counts the states looked at. */
int memplan_search(const Instance *in, i64 *offset, i64 *nodes) {
    Search s = {.in = in, .offset = offset};
    i64 *arrays[ARRAYS] = {NULL};
    int result = set_up(&s, arrays) ? FOUND : NO_MEMORY;
    for (i64 t = 0; result == FOUND && t < in->sections; t++)
        if (s.r[t] > in->height) result = EXHAUSTED;
    if (result == FOUND) result = run_search(&s);
    *nodes = s.nodes;
    for (int k = 0; k < ARRAYS; k++) free(arrays[k]);
    void *others[] = {s.mark, s.trail, s.events, s.frames, s.conflicts, s.pool};
    for (int k = 0; k < 6; k++) free(others[k]);
    return result;
}
