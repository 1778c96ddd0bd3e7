/* Exact search over orders: is there a plan of at most this height? docs/measured/memplan_method.md explains it.
 *
 * Of every two blocks that meet one lies below the other. The state has for each block the least and the greatest offset
 * (lo, hi) and, as bits, which blocks must lie above and below it. Cliques are sets of blocks of which every two meet: in
 * each one block rests after another, like tasks on one machine. All orders of a clique that the state permits are
 * listed by the sets of blocks that lie lowest (dynamic programming); what no order has is ruled out. When every pair is
 * decided, the least offsets are a plan.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int64_t i64;
typedef uint64_t u64;
typedef uint32_t u32;

#define FAR ((i64)1 << 60)
enum { FOUND = 1, EXHAUSTED = 0, STOPPED = -1, NO_MEMORY = -2 };
enum { BLOCKS = 64, MEMBERS = 28, CLIQUES = 256, WORDS = CLIQUES / 64, MOST_LISTED = 4096, SETS_PER_LOOK_AT_THE_CLOCK = 4096, FIRST_NODES = 250, MOST_PAUSES = 7, MOST_IDLE = 15 };

typedef struct {
    i64 blocks;
    const i64 *piece_start, *first, *last, *size, *alignment, *high; /* as in search_core.c */
    const i64 *low;      /* the least offset; the only one of a block with a fixed offset */
    const i64 *previous; /* offsets in a plan; blocks that have one keep their order, -1 is free */
    i64 most_sets, most_work;
    double max_seconds;
} Orders;

typedef struct { i64 lo[BLOCKS], hi[BLOCKS]; u64 above[BLOCKS], below[BLOCKS]; } State;
typedef struct { State state; i64 one, other; } Level;
typedef struct { i64 count, who[MEMBERS], size[MEMBERS], pause, pauses; double failures; } Clique;
typedef struct { u32 blocks; i64 top, latest; } Set; /* the lowest blocks: where they end at least, and may end at most */

typedef struct { /* one clique as the state has it */
    const Clique *clique;
    u32 all, under[MEMBERS], over[MEMBERS]; /* over: what may lie above in some order */
    i64 lo[MEMBERS], hi[MEMBERS], step[MEMBERS], least[MEMBERS], most[MEMBERS];
} View;

typedef struct {
    const Orders *in;
    i64 blocks, cliques, listed;
    Clique clique[CLIQUES];
    u64 list[MOST_LISTED], of[BLOCKS][WORDS], dirty[WORDS], moved, meets[BLOCKS];
    i64 apart[BLOCKS][BLOCKS]; /* if the first lies below the second */
    double failures[BLOCKS][BLOCKS];
    State now;
    Set *sets;
    int32_t *table;
    i64 set_count, work, depth, room, changes;
    int bits;
    Level *levels;
    double stop;
} Search;

/* Divisions take longer than all the rest: steps are powers of two but in rare cases. */
static i64 round_down(i64 value, i64 step) { return step & (step - 1) ? value < 0 ? value : value / step * step : value & -step; }
static i64 round_up(i64 value, i64 step) { return round_down(value + step - 1, step); }
static i64 smaller(i64 a, i64 b) { return a < b ? a : b; }
static i64 larger(i64 a, i64 b) { return a > b ? a : b; }
static int lowest_bit(u64 set) { return __builtin_ctzll(set); }
static u64 bit(i64 i) { return (u64)1 << i; }

/* Changes of the state; 0 if nothing is left. */

static int not_below(Search *s, i64 i, i64 value) {
    if (value <= s->now.lo[i]) return 1;
    value = round_up(value, s->in->alignment[i]);
    s->now.lo[i] = value;
    s->moved |= bit(i);
    s->changes++;
    for (int k = 0; k < WORDS; k++) s->dirty[k] |= s->of[i][k];
    return value <= s->now.hi[i];
}

static int not_above(Search *s, i64 i, i64 value) {
    if (value >= s->now.hi[i]) return 1;
    value = round_down(value, s->in->alignment[i]);
    s->now.hi[i] = value;
    s->moved |= bit(i);
    s->changes++;
    for (int k = 0; k < WORDS; k++) s->dirty[k] |= s->of[i][k];
    return value >= s->now.lo[i];
}

/* i lies below j, and what follows for others that meet them. */
static int put_below(Search *s, i64 i, i64 j) {
    State *now = &s->now;
    if (now->above[i] & bit(j)) return 1;
    if (now->above[j] & bit(i)) return 0;
    s->changes++;
    now->above[i] |= bit(j);
    now->below[j] |= bit(i);
    for (int k = 0; k < WORDS; k++) s->dirty[k] |= s->of[i][k] & s->of[j][k];
    if (!not_below(s, j, now->lo[i] + s->apart[i][j]) || !not_above(s, i, now->hi[j] - s->apart[i][j])) return 0;
    for (u64 left = now->above[j] & s->meets[i] & ~now->above[i]; left; left &= left - 1)
        if (!put_below(s, i, lowest_bit(left))) return 0;
    for (u64 left = now->below[i] & s->meets[j] & ~now->below[j]; left; left &= left - 1)
        if (!put_below(s, lowest_bit(left), j)) return 0;
    return 1;
}

/* What the offsets of i and j say of their order and, if i lies below j, that of them; 0: impossible. */
static int look_at_pair(Search *s, i64 i, i64 j) {
    const State *now = &s->now;
    i64 apart = s->apart[i][j];
    if (now->above[i] & bit(j)) return not_below(s, j, now->lo[i] + apart) && not_above(s, i, now->hi[j] - apart);
    return now->below[i] & bit(j) || now->lo[i] + apart <= now->hi[j] || put_below(s, j, i);
}

/* All pairs of which a block has moved. */
static int look_at_pairs(Search *s) {
    for (; s->moved; s->work++) {
        i64 i = lowest_bit(s->moved);
        s->moved &= s->moved - 1;
        for (u64 left = s->meets[i]; left; left &= left - 1) {
            i64 j = lowest_bit(left);
            if (look_at_pair(s, i, j) && look_at_pair(s, j, i)) continue;
            s->failures[i][j] += 1;
            s->failures[j][i] += 1;
            return 0;
        }
    }
    return 1;
}

/* The sets of a clique's blocks that can lie lowest, in a table by their bits. */

static u32 slot_of(const Search *s, u32 blocks, i64 members) {
    return members <= s->bits ? blocks : (blocks * 2654435761u) >> (32 - s->bits);
}

static i64 find_set(const Search *s, u32 blocks, i64 members, u32 *slot) {
    u32 mask = ((u32)1 << s->bits) - 1;
    for (*slot = slot_of(s, blocks, members); s->table[*slot] >= 0; *slot = (*slot + 1) & mask)
        if (s->sets[s->table[*slot]].blocks == blocks) return s->table[*slot];
    return -1;
}

static i64 add_set(Search *s, u32 blocks, i64 members) {
    u32 slot;
    i64 found = find_set(s, blocks, members, &slot);
    if (found >= 0 || s->set_count >= s->in->most_sets) return found;
    s->table[slot] = (int32_t)s->set_count;
    s->sets[s->set_count] = (Set){blocks, FAR, -1};
    return s->set_count++;
}

static void clear_sets(Search *s, i64 members) {
    u32 mask = ((u32)1 << s->bits) - 1;
    for (i64 k = 0; k < s->set_count; k++)
        for (u32 slot = slot_of(s, s->sets[k].blocks, members); s->table[slot] >= 0; slot = (slot + 1) & mask)
            s->table[slot] = -1;
    s->work += s->set_count;
    s->set_count = 0;
}

/* Whether the blocks above this set can still be placed, as far as each of them and their sum tell; where each begins. */
static int can_go_on(const View *v, const Set *set, i64 *begin) {
    i64 rest = 0, end = 0;
    for (u32 left = v->all & ~set->blocks; left; left &= left - 1) {
        int a = lowest_bit(left);
        begin[a] = round_up(larger(set->top, v->lo[a]), v->step[a]);
        if (begin[a] > v->hi[a]) return 0;
        rest += v->clique->size[a];
        end = larger(end, v->hi[a] + v->clique->size[a]);
    }
    return !rest || set->top + rest <= end;
}

static double clock_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int is_over(const Search *s) { return s->stop > 0 && clock_seconds() > s->stop; }

/* All sets from the empty one upwards, each with its least end; 0 if there are too many. */
static int list_sets(Search *s, const View *v) {
    i64 begin[MEMBERS], members = v->clique->count;
    s->sets[add_set(s, 0, members)].top = 0;
    for (i64 k = 0; k < s->set_count; k++) {
        if (k % SETS_PER_LOOK_AT_THE_CLOCK == SETS_PER_LOOK_AT_THE_CLOCK - 1 && is_over(s)) return 0;
        if (s->work + s->set_count > s->in->most_work) return 0;
        if (!can_go_on(v, &s->sets[k], begin)) continue;
        u32 blocks = s->sets[k].blocks;
        for (u32 left = v->all & ~blocks; left; left &= left - 1) {
            int a = lowest_bit(left);
            if (v->under[a] & ~blocks) continue;
            i64 next = add_set(s, blocks | (u32)1 << a, members);
            if (next < 0) return 0;
            s->sets[next].top = smaller(s->sets[next].top, begin[a] + v->clique->size[a]);
        }
    }
    return 1;
}

/* From the full set downwards: where each may end at most, and what each block does in some order. */
static int read_sets(Search *s, View *v) {
    i64 members = v->clique->count;
    u32 slot;
    i64 full = find_set(s, v->all, members, &slot);
    if (full < 0) return 0;
    s->sets[full].latest = FAR;
    for (i64 k = s->set_count - 1; k >= 0; k--) {
        Set *set = &s->sets[k];
        for (u32 left = v->all & ~set->blocks; left; left &= left - 1) {
            int a = lowest_bit(left);
            if (v->under[a] & ~set->blocks) continue;
            i64 next = find_set(s, set->blocks | (u32)1 << a, members, &slot);
            if (next < 0 || s->sets[next].latest < 0) continue;
            i64 begin = round_up(larger(set->top, v->lo[a]), v->step[a]);
            i64 latest = round_down(smaller(s->sets[next].latest - v->clique->size[a], v->hi[a]), v->step[a]);
            if (latest < begin) continue;
            set->latest = larger(set->latest, latest);
            v->least[a] = smaller(v->least[a], begin);
            v->most[a] = larger(v->most[a], latest);
            v->over[a] |= v->all & ~set->blocks & ~((u32)1 << a);
        }
    }
    return s->sets[0].latest >= 0;
}

static void view(const Search *s, const Clique *c, View *v) {
    v->clique = c;
    v->all = (u32)(bit(c->count) - 1);
    for (i64 a = 0; a < c->count; a++) {
        i64 i = c->who[a];
        v->lo[a] = s->now.lo[i];
        v->hi[a] = s->now.hi[i];
        v->step[a] = s->in->alignment[i];
        v->least[a] = FAR;
        v->most[a] = -1;
        v->under[a] = v->over[a] = 0;
        for (i64 b = 0; b < c->count; b++)
            if (s->now.below[i] & bit(c->who[b])) v->under[a] |= (u32)1 << b;
    }
}

/* Rule out what no order of this clique has; one of too many orders is left as it is. One that told nothing is not looked
 * at for a while. */
static int look_at_clique(Search *s, Clique *c) {
    View v;
    if (c->pause > 0) {
        c->pause--;
        return 1;
    }
    view(s, c, &v);
    int listed = list_sets(s, &v), possible = !listed || read_sets(s, &v);
    clear_sets(s, c->count);
    i64 before = s->changes, most = listed ? MOST_IDLE : MOST_PAUSES;
    if (!possible) return 0;
    for (i64 a = 0; listed && a < c->count; a++) {
        if (!not_below(s, c->who[a], v.least[a]) || !not_above(s, c->who[a], v.most[a])) return 0;
        for (i64 b = 0; b < c->count; b++)
            if (a != b && !(v.over[a] >> b & 1) && !put_below(s, c->who[b], c->who[a])) return 0;
    }
    c->pauses = s->changes == before ? smaller(2 * c->pauses + 1, most) : 0;
    c->pause = c->pauses;
    return 1;
}

/* The smallest of the cliques whose blocks changed; -1 if there is none. */
static i64 next_clique(const Search *s) {
    i64 best = -1;
    for (int k = 0; k < WORDS; k++)
        for (u64 left = s->dirty[k]; left; left &= left - 1) {
            i64 c = 64 * k + lowest_bit(left);
            if (best < 0 || s->clique[c].count < s->clique[best].count) best = c;
        }
    return best;
}

static int propagate(Search *s) {
    int possible = look_at_pairs(s);
    for (i64 c = next_clique(s); possible && c >= 0; c = next_clique(s)) {
        s->dirty[c >> 6] &= ~bit(c & 63);
        if (!look_at_clique(s, &s->clique[c])) {
            s->clique[c].failures += 1;
            possible = 0;
        }
        possible = possible && look_at_pairs(s);
    }
    return possible;
}

/* The pair to decide: little room one way round, and many failures. 0 if all are decided. */
static int choose(const Search *s, i64 *one, i64 *other) {
    const State *now = &s->now;
    double best = 0;
    for (i64 i = 0; i < s->blocks; i++)
        for (u64 left = s->meets[i] & ~now->above[i] & ~now->below[i] & ~(bit(i) - 1); left; left &= left - 1) {
            i64 j = lowest_bit(left);
            i64 below = now->hi[j] - now->lo[i] - s->apart[i][j], above = now->hi[i] - now->lo[j] - s->apart[j][i];
            double failures = s->failures[i][j];
            for (int k = 0; k < WORDS; k++)
                for (u64 both = s->of[i][k] & s->of[j][k]; both; both &= both - 1)
                    failures += s->clique[64 * k + lowest_bit(both)].failures;
            double key = (1 + failures) / (double)(1 + smaller(below, above));
            if (key <= best) continue;
            best = key;
            *one = below < above ? i : j; /* the tight way first: it fails soon */
            *other = below < above ? j : i;
        }
    return best > 0;
}

/* One level down; 0 without memory. */
static int push(Search *s, i64 one, i64 other) {
    if (s->depth == s->room) {
        i64 room = 2 * s->room + 16;
        Level *more = realloc(s->levels, (size_t)room * sizeof(Level));
        if (!more) return 0;
        s->levels = more;
        s->room = room;
    }
    s->levels[s->depth++] = (Level){s->now, one, other};
    return 1;
}

/* What failed often is chosen first, so to begin anew with what was learnt is worth more and more work. */
static int run(Search *s) {
    i64 restart_after = FIRST_NODES, nodes = 0;
    int possible = propagate(s);
    for (;;) {
        if (++nodes > restart_after && s->depth) {
            s->now = s->levels[0].state;
            s->depth = nodes = 0;
            restart_after *= 2;
            possible = 1;
        }
        if (s->work > s->in->most_work || is_over(s)) return STOPPED;
        i64 one = 0, other = 0;
        if (possible && !choose(s, &one, &other)) return FOUND;
        if (possible) {
            if (!push(s, one, other)) return NO_MEMORY;
        } else {
            if (!s->depth) return EXHAUSTED;
            const Level *level = &s->levels[--s->depth];
            s->now = level->state;
            one = level->other; /* the other way round */
            other = level->one;
            s->failures[one][other] += 1;
            s->failures[other][one] += 1;
        }
        memset(s->dirty, 0, sizeof s->dirty); /* of what failed */
        s->moved = 0;
        possible = put_below(s, one, other) && propagate(s);
    }
}

/* Setting up. */

/* All sets of blocks of which every two meet and that no other contains (Bron and Kerbosch, with a pivot), or some. */
static void list_cliques(Search *s, u64 members, u64 left, u64 done) {
    if (s->listed == MOST_LISTED) return;
    if (!left && !done) s->list[s->listed++] = members;
    u64 pivot = 0;
    for (u64 each = left | done; each; each &= each - 1) {
        u64 meets = s->meets[lowest_bit(each)];
        if (!pivot || __builtin_popcountll(left & meets) > __builtin_popcountll(left & pivot)) pivot = meets;
    }
    for (u64 each = left & ~pivot; each; each &= each - 1) {
        i64 i = lowest_bit(each);
        list_cliques(s, members | bit(i), left & s->meets[i], done & s->meets[i]);
        left &= ~bit(i);
        done |= bit(i);
    }
}

/* The least that this member needs below any other. */
static i64 least_apart(const Search *s, u64 members, i64 i) {
    i64 least = FAR;
    for (u64 others = members & ~bit(i); others; others &= others - 1)
        least = smaller(least, s->apart[i][lowest_bit(others)]);
    return least;
}

static i64 load_of(const Search *s, u64 members) {
    i64 load = 0;
    if (!(members & (members - 1))) return 0; /* of one */
    for (u64 left = members; left; left &= left - 1)
        load += least_apart(s, members, lowest_bit(left));
    return load;
}

static void add_clique(Search *s, u64 members) {
    Clique *c = &s->clique[s->cliques];
    for (u64 left = members; left && c->count < MEMBERS; left &= left - 1) {
        i64 i = lowest_bit(left);
        c->who[c->count] = i;
        c->size[c->count++] = least_apart(s, members, i);
        s->of[i][s->cliques >> 6] |= bit(s->cliques & 63);
    }
    s->dirty[s->cliques >> 6] |= bit(s->cliques & 63);
    s->cliques++;
}

/* The heaviest of the cliques. */
static void add_cliques(Search *s) {
    list_cliques(s, 0, s->blocks == 64 ? ~(u64)0 : bit(s->blocks) - 1, 0);
    while (s->cliques < CLIQUES) {
        i64 best = -1, most = 0;
        for (i64 k = 0; k < s->listed; k++) {
            i64 load = load_of(s, s->list[k]);
            if (load > most) best = k, most = load;
        }
        if (best < 0) return;
        add_clique(s, s->list[best]);
        s->list[best] = 0;
    }
}

static void measure_pair(Search *s, i64 i, i64 j) {
    const Orders *in = s->in;
    for (i64 p = in->piece_start[i]; p < in->piece_start[i + 1]; p++)
        for (i64 q = in->piece_start[j]; q < in->piece_start[j + 1]; q++)
            if (in->first[p] <= in->last[q] && in->first[q] <= in->last[p]) {
                s->meets[i] |= bit(j);
                s->apart[i][j] = larger(s->apart[i][j], in->size[p]);
            }
}

static int same_shape(const Orders *in, i64 i, i64 j) {
    i64 p = in->piece_start[i], q = in->piece_start[j], pieces = in->piece_start[i + 1] - p;
    if (pieces != in->piece_start[j + 1] - q || in->alignment[i] != in->alignment[j] || in->high[i] != in->high[j])
        return 0;
    if (in->low[i] != in->low[j]) return 0;
    for (; pieces > 0; pieces--, p++, q++)
        if (in->first[p] != in->first[q] || in->last[p] != in->last[q] || in->size[p] != in->size[q]) return 0;
    return 1;
}

/* What the plan says whose order is kept; of equal blocks the first lies below, unless one of them is to be kept. */
static int put_in_order(Search *s, i64 i, i64 j) {
    i64 one = s->in->previous[i], other = s->in->previous[j];
    if (one >= 0 && other >= 0) return one < other ? put_below(s, i, j) : put_below(s, j, i);
    return one >= 0 || other >= 0 || !same_shape(s->in, i, j) || put_below(s, i, j);
}

static int start(Search *s) {
    const Orders *in = s->in;
    for (i64 i = 0; i < s->blocks; i++) {
        s->now.hi[i] = round_down(in->high[i], in->alignment[i]);
        s->now.lo[i] = in->low[i];
        if (s->now.hi[i] < s->now.lo[i]) return EXHAUSTED;
        s->moved |= bit(i);
        for (i64 j = 0; j < s->blocks; j++)
            if (i != j) measure_pair(s, i, j);
    }
    add_cliques(s);
    for (i64 i = 0; i < s->blocks; i++)
        for (i64 j = i + 1; j < s->blocks; j++)
            if (s->meets[i] & bit(j) && !put_in_order(s, i, j)) return EXHAUSTED;
    return run(s);
}

/* FOUND with offsets, EXHAUSTED (no plan of this height exists), STOPPED or NO_MEMORY; *work counts the sets listed. */
int memplan_orders(const Orders *in, i64 *offset, i64 *work) {
    Search *s = in->blocks <= BLOCKS ? calloc(1, sizeof *s) : NULL;
    *work = 0;
    if (!s) return in->blocks <= BLOCKS ? NO_MEMORY : STOPPED;
    s->in = in;
    s->blocks = in->blocks;
    for (s->bits = 4; ((i64)1 << s->bits) < 2 * in->most_sets; s->bits++) continue;
    s->sets = malloc((size_t)in->most_sets * sizeof(Set));
    s->table = malloc(sizeof(int32_t) << s->bits);
    if (in->max_seconds > 0) s->stop = clock_seconds() + in->max_seconds;
    int state = NO_MEMORY;
    if (s->sets && s->table) {
        memset(s->table, -1, sizeof(int32_t) << s->bits);
        state = start(s);
    }
    for (i64 i = 0; state == FOUND && i < s->blocks; i++) offset[i] = s->now.lo[i];
    *work = s->work;
    free(s->sets);
    free(s->table);
    free(s->levels);
    free(s);
    return state;
}
