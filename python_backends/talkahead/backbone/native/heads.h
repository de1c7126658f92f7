/* Draft heads: residual blocks on a hidden state, each with a head of its own, and the best tokens of each. */
#pragma once

#include "matrices.h"

/* K heads. Products enter as floats. */
struct heads {
    int64_t count, hidden, vocabulary;
    struct matrix blocks;       /* outputs K D, head by head */
    const float *biases;        /* [K D] */
    const struct matrix *heads; /* [K], of V outputs each */
};

struct heads_room {
    float *blocks, *states, *logits; /* [CHUNK, K D], [CHUNK, D], [CHUNK, V] */
    struct stage stage;
};

static int64_t lay_out_heads(const struct heads *heads, char *base, struct heads_room *room) {
    int64_t used = 0;
    room->stage.tile_rows = 0;
    TAKE(room, blocks, CHUNK * heads->count * heads->hidden);
    TAKE(room, states, CHUNK * heads->hidden);
    TAKE(room, logits, CHUNK * heads->vocabulary);
    TAKE(room, stage.narrowed, CHUNK * PARTS * heads->hidden / 2);
    TAKE(room, stage.row_scales, CHUNK);
    TAKE(room, stage.sums, CHUNK * PARTS * PANEL);
    return used;
}

int64_t talkahead_heads_bytes(const struct heads *heads) {
    struct heads_room room;
    return lay_out_heads(heads, 0, &room);
}

/* The `width` largest of logits [count], best first, of equals the first. */
static void list_best(const float *logits, int64_t count, int64_t width, int64_t *best) {
    int64_t found = 0;
    for (int64_t first = 0; first < count; first += LANES) {
        int64_t end = least(first + LANES, count);
        if (found == width && end - first == LANES) {
            ivec above = load(logits + first) > logits[best[width - 1]];
            int32_t any = 0;
            for (int lane = 0; lane < LANES; lane++) any |= above[lane];
            if (!any) continue;
        }
        for (int64_t token = first; token < end; token++) {
            int64_t place = found;
            if (found == width && !(logits[token] > logits[best[width - 1]])) continue;
            if (found < width) found++;
            else place--;
            for (; place > 0 && logits[token] > logits[best[place - 1]]; place--) best[place] = best[place - 1];
            best[place] = token;
        }
    }
}

static void add_block(const float *hidden, const float *block, const float *bias, int64_t count, float *states) {
    for (int64_t i = 0; i < count; i += LANES) {
        vec value = load(block + i) + load(bias + i);
        store(states + i, load(hidden + i) + value / (1.0f + exponential(-value)));
    }
}

/* best [R, sum of widths]: after hidden [R, D], the widths [levels] best tokens of as many heads. */
void talkahead_guess(const struct heads *heads, char *memory, int64_t rows, const float *hidden, int64_t levels,
                     const int64_t *widths, int64_t *best) {
    struct heads_room room;
    int64_t size = heads->hidden, vocabulary = heads->vocabulary, total = 0;
    lay_out_heads(heads, memory, &room);
    for (int64_t level = 0; level < levels; level++) total += widths[level];
    for (int64_t count; rows > 0; rows -= count, hidden += count * size, best += count * total) {
        count = least(rows, CHUNK);
        product(&heads->blocks, count, (const word *)hidden, room.blocks, WRITE, &room.stage);
        for (int64_t level = 0, behind = 0; level < levels; behind += widths[level++]) {
            for (int64_t row = 0; row < count; row++)
                add_block(hidden + row * size, room.blocks + (row * heads->count + level) * size,
                          heads->biases + level * size, size, room.states + row * size);
            product(heads->heads + level, count, (const word *)room.states, room.logits, WRITE, &room.stage);
            for (int64_t row = 0; row < count; row++)
                list_best(room.logits + row * vocabulary, vocabulary, widths[level], best + row * total + behind);
        }
    }
    if (room.stage.tile_rows) release_tiles();
}
