/* Algorithm X with dancing links: the compiled form of `Links` in algorithm_x.py, step for step.
 *
 * Columns 1 .. buffers are primary, the cells (section x unit) follow, 0 is the root. Buffer b has the sections
 * section[section_start[b] .. section_start[b + 1]) and may start at the units row[row_start[b] .. row_start[b + 1]).
 */
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

typedef int64_t i64;
typedef int32_t i32;

enum { FOUND = 1, EXHAUSTED = 0, STOPPED = -1, NO_MEMORY = -2 };
enum { CHOICES_PER_LOOK_AT_THE_CLOCK = 256 };

typedef struct {
    i64 buffers, height;
    const i64 *units, *section_start, *section, *row_start, *row;
} Cover;

typedef struct {
    i32 *left, *right, *up, *down, *column, *size, *start, *chosen;
    i64 used, depth;
} Links;

static void add_row(Links *l, const Cover *c, i64 buffer, i64 start) {
    const i64 first = l->used, sections = c->section_start[buffer + 1] - c->section_start[buffer];
    const i64 cells = 1 + sections * c->units[buffer];
    for (i64 place = 0; place < cells; ++place) {
        const i64 section = place ? c->section[c->section_start[buffer] + (place - 1) / c->units[buffer]] : 0;
        const i64 unit = place ? start + (place - 1) % c->units[buffer] : 0;
        const i32 column = (i32)(place ? 1 + c->buffers + section * c->height + unit : 1 + buffer);
        const i32 node = (i32)(first + place);
        l->left[node] = (i32)(place ? node - 1 : first + cells - 1);
        l->right[node] = (i32)(place + 1 < cells ? node + 1 : first);
        l->up[node] = l->up[column];
        l->down[node] = column;
        l->down[l->up[column]] = node;
        l->up[column] = node;
        l->column[node] = column;
        l->start[node] = (i32)start;
        ++l->size[column];
    }
    l->used += cells;
}

static void cover(Links *l, i32 column) {
    l->right[l->left[column]] = l->right[column];
    l->left[l->right[column]] = l->left[column];
    for (i32 row = l->down[column]; row != column; row = l->down[row]) {
        for (i32 node = l->right[row]; node != row; node = l->right[node]) {
            l->down[l->up[node]] = l->down[node];
            l->up[l->down[node]] = l->up[node];
            --l->size[l->column[node]];
        }
    }
}

static void uncover(Links *l, i32 column) {
    for (i32 row = l->up[column]; row != column; row = l->up[row]) {
        for (i32 node = l->left[row]; node != row; node = l->left[node]) {
            ++l->size[l->column[node]];
            l->down[l->up[node]] = l->up[l->down[node]] = node;
        }
    }
    l->right[l->left[column]] = l->left[l->right[column]] = column;
}

/* The first row of the smallest column, which is covered; -1 if all buffers are placed. */
static i32 descend(Links *l) {
    if (l->right[0] == 0) return -1;
    i32 best = l->right[0];
    for (i32 column = best; column; column = l->right[column]) {
        if (l->size[column] < l->size[best]) best = column;
    }
    cover(l, best);
    return l->down[best];
}

static i32 retract(Links *l) {
    const i32 row = l->chosen[--l->depth];
    for (i32 node = l->left[row]; node != row; node = l->left[node]) uncover(l, l->column[node]);
    return row;
}

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int search(Links *l, i64 limit, double max_seconds, i64 *choices) {
    const double stop = max_seconds > 0 ? seconds_now() + max_seconds : 0;
    i32 node = descend(l);
    for (;;) {
        if (node < 0) return FOUND;
        if (*choices >= limit) return STOPPED;
        if (stop > 0 && *choices % CHOICES_PER_LOOK_AT_THE_CLOCK == 0 && seconds_now() > stop) return STOPPED;
        while (node == l->column[node]) { /* all rows of this column were tried */
            uncover(l, node);
            if (l->depth == 0) return EXHAUSTED;
            node = l->down[retract(l)];
        }
        ++*choices;
        l->chosen[l->depth++] = node;
        for (i32 other = l->right[node]; other != node; other = l->right[other]) cover(l, l->column[other]);
        node = descend(l);
    }
}

static void set_up(Links *l, const Cover *c, i64 columns) {
    for (i64 column = 0; column < columns; ++column) {
        l->up[column] = l->down[column] = l->column[column] = (i32)column;
        l->left[column] = l->right[column] = (i32)column;
        l->size[column] = l->start[column] = 0;
    }
    for (i64 column = 0; column <= c->buffers; ++column) {
        l->left[column] = (i32)((column + c->buffers) % (c->buffers + 1));
        l->right[column] = (i32)((column + 1) % (c->buffers + 1));
    }
    l->used = columns;
    for (i64 b = 0; b < c->buffers; ++b) {
        for (i64 r = c->row_start[b]; r < c->row_start[b + 1]; ++r) add_row(l, c, b, c->row[r]);
    }
}

/* State as above; `starts` (unit of each buffer) if FOUND, and how many rows were chosen in all. */
int memplan_cover(const Cover *c, i64 sections, i64 limit, double max_seconds, i64 *starts, i64 *choices) {
    const i64 columns = 1 + c->buffers + c->height * sections;
    i64 nodes = columns;
    for (i64 b = 0; b < c->buffers; ++b) {
        const i64 cells = 1 + (c->section_start[b + 1] - c->section_start[b]) * c->units[b];
        nodes += (c->row_start[b + 1] - c->row_start[b]) * cells;
    }
    *choices = 0;
    if (nodes > INT32_MAX / 2) return NO_MEMORY;
    i32 *memory = malloc(sizeof(i32) * (size_t)(7 * nodes + c->buffers + 1));
    if (!memory) return NO_MEMORY;
    Links l = {memory, memory + nodes, memory + 2 * nodes, memory + 3 * nodes, memory + 4 * nodes, memory + 5 * nodes,
               memory + 6 * nodes, memory + 7 * nodes, 0, 0};
    set_up(&l, c, columns);
    const int state = search(&l, limit, max_seconds, choices);
    for (i64 k = 0; state == FOUND && k < l.depth; ++k) {
        i32 node = l.chosen[k];
        while (l.column[node] > c->buffers) node = l.right[node];
        starts[l.column[node] - 1] = l.start[node];
    }
    free(memory);
    return state;
}
