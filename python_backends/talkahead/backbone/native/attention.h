/* The cache of keys and values, and what rows read from it. */
#pragma once

#include "model.h"

INLINE int64_t stretch_of(const struct model *model) {
    return blocks_of(PANEL, model->num_positions) * PANEL * model->dim / model->packing;
}

/* Keys of one head of one slot; its values lie one stretch after. */
INLINE word *cached(const struct model *model, int64_t layer, int64_t slot, int64_t kv) {
    return model->cache + ((layer * model->num_slots + slot) * model->kv_heads + kv) * 2 * stretch_of(model);
}

/* Where the first word of a position's key is; the others follow PANEL words apart. */
INLINE int64_t key_at(const struct model *model, int64_t position) {
    return position / PANEL * (model->dim / model->packing * PANEL) + position % PANEL;
}

INLINE int32_t *aligned_at(const struct model *model, int64_t slot, int64_t position) {
    return model->aligned + slot * model->num_positions + position;
}

/* Values [d / packing] in words, as one position of the words [d] that hold `packing` positions. */
static void put_values(const struct model *model, const word *from, word *values, int64_t position) {
    int64_t dim = model->dim;
    word *to = values + position / model->packing * dim;
    if (model->packing == 1) {
        memcpy(to, from, (size_t)dim * sizeof *to);
        return;
    }
    int up = position % 2 ? 16 : 0;
    word kept = position % 2 ? 0xffffu : 0xffff0000u;
    for (int64_t i = 0; i < dim; i += LANES) {
        uvec values = __builtin_convertvector(*(const loose_halves *)((const half_word *)from + i), uvec);
        *(loose_uvec *)(to + i) = (*(loose_uvec *)(to + i) & kept) | values << up;
    }
}

/* Words [d] of the values of `packing` positions from anywhere in the cache; position -1 is zero. */
static void join_values(const struct model *model, const word *values, int64_t first, int64_t second, word *to) {
    int64_t dim = model->dim;
    const word *low = values + first / model->packing * dim, *high = values + second / 2 * dim;
    if (model->packing == 1) {
        memcpy(to, low, (size_t)dim * sizeof *to);
        return;
    }
    int down = first % 2 ? 16 : 0, up = second % 2 ? 0 : 16;
    word kept = second < 0 ? 0 : 0xffff0000u;
    for (int64_t i = 0; i < dim; i += LANES) {
        uvec left = *(const loose_uvec *)(low + i) >> down & 0xffffu, right = *(const loose_uvec *)(high + i) << up;
        *(loose_uvec *)(to + i) = left | (right & kept);
    }
}

static void move_values(const struct model *model, word *values, int64_t from, int64_t to) {
    int64_t dim = model->dim, packing = model->packing;
    word *target = values + to / packing * dim;
    if (packing == 2 && to % 2)
        join_values(model, values, to - 1, from, target);
    else
        join_values(model, values, from, -1, target);
}

static void put_key(const struct model *model, const word *key, word *keys, int64_t position) {
    int64_t words = model->dim / model->packing;
    word *to = keys + key_at(model, position);
    for (int64_t i = 0; i < words; i++) to[i * PANEL] = key[i];
}

/* Brings each row's accepted nodes, which lie after its slot's length in tree order, next to each other.
 *
 * slots, counts [rows]; lengths by slot; paths [rows, steps]: nodes in rising order, valid up to counts.
 */
void talkahead_compact(const struct model *model, int64_t rows, const int64_t *slots, const int64_t *lengths,
                       const int64_t *counts, const int64_t *paths, int64_t steps) {
    int64_t words = model->dim / model->packing;
    for (int64_t layer = 0; layer < model->num_layers; layer++)
        for (int64_t head = 0; head < rows * model->kv_heads; head++) {
            int64_t i = head / model->kv_heads, length = lengths[slots[i]];
            word *keys = cached(model, layer, slots[i], head % model->kv_heads), *values = keys + stretch_of(model);
            for (int64_t step = 0; step < counts[i]; step++) {
                int64_t from = length + paths[i * steps + step], to = length + step;
                if (from == to) continue;
                if (layer == model->aligned_layer && head % model->kv_heads == 0)
                    *aligned_at(model, slots[i], to) = *aligned_at(model, slots[i], from);
                for (int64_t w = 0; w < words; w++)
                    keys[key_at(model, to) + w * PANEL] = keys[key_at(model, from) + w * PANEL];
                move_values(model, values, from, to);
            }
        }
}

/* Attention */

/* Queries of one slot and KV head that are answered together; each sees what its row sees. */
struct block {
    const word *keys, *queries; /* queries [count, d / packing] */
    const word *next;           /* keys that are read after these */
    int64_t count, first;       /* query `first + i` belongs to row `(first + i) / group` */
    int64_t group;
    const struct row *rows;
    const int32_t *parents;
};

INLINE const struct row *row_behind(const struct block *block, int64_t query) {
    return block->rows + (block->first + query) / block->group;
}

/* Words of one query's scores. */
INLINE int64_t scores_of(const struct model *model) { return blocks_of(PANEL, model->num_positions) * PANEL + LANES; }

/* Queries that go next, of those left. */
INLINE int64_t next_queries(const struct model *model, int64_t left) {
    return model->in_tiles ? blocks_of(blocks_of(TILE_ROWS, left), left) : next_rows(left);
}

/* Positions that are weighed together: a query's weights are zero from what it sees up to a whole multiple. */
INLINE int64_t stride_of_positions(const struct model *model) {
    return model->in_tiles ? TILE_WORDS * model->packing : LANES;
}

/* Words of values that hold `count` positions, and what fills a tile. */
INLINE int64_t steps_for(const struct model *model, int64_t count) {
    if (!model->in_tiles) return blocks_of(model->packing, count);
    return blocks_of(TILE_WORDS * model->packing, count) * TILE_WORDS;
}

/* A task of queries, or of their scores. */
static void meet(const struct model *model, int64_t count, int vectors, const struct task *task, struct bench *bench) {
    if (model->in_tiles) {
        shape(bench, count, TILE_WORDS);
        multiply_tiles(vectors, PAIRED, task);
    } else
        multiply((int)count, vectors, model->packing == 2 ? PAIRED : FLOAT32, task);
}

/* scores [count, positions]: each query's products with all keys before `end`, seen or not. Meanwhile the values of the
 * same positions are fetched: what follows a slot's keys is room for more of them. */
static void score_keys(const struct model *model, const struct block *block, int64_t end, struct desk *desk) {
    int64_t steps = model->dim / model->packing, width = scores_of(model);
    struct task task = {block->keys, PANEL, steps, block->queries, steps, desk->scores, width, WRITE};
    task.apart = LINE;
    for (int64_t first = 0; first < end; first += PANEL, task.panel += steps * PANEL, task.out += PANEL) {
        task.ahead = (const char *)(task.panel + stretch_of(model));
        meet(model, block->count, vectors_for(end - first), &task, &desk->bench);
    }
}

/* out [count, d] = or += the sums of values [steps, d] times the words of scores. As many words of `next` are fetched. */
static void mix_values(const struct model *model, int64_t count, const word *values, int64_t steps, const word *next,
                       const float *scores, float *out, enum mode mode, struct bench *bench) {
    int64_t dim = model->dim;
    struct task task = {values, dim, steps, (const word *)scores, scores_of(model), out, dim, mode};
    task.ahead = (const char *)next, task.apart = LINE;
    for (int64_t at = 0, width; at < dim; at += width, task.panel += width, task.out += width) {
        width = next_width(dim - at);
        meet(model, count, (int)(width / LANES), &task, bench);
        task.ahead += steps * width * (int64_t)sizeof(word);
    }
}

static int64_t place_of_largest(const float *scores, int64_t count) {
    int64_t best = 0;
    for (int64_t i = 1; i < count; i++)
        if (scores[i] > scores[best]) best = i;
    return best;
}

/* The node that a row's node stands after; -1 and less: in the past, from its end on. */
INLINE int64_t above(const struct row *row, int64_t node) {
    return node >= 0 && row->parents ? row->parents[node] : node - 1;
}

/* Whether so many frames, from a row's node up, speak rows of the prompt from `first` on, before `end`. */
static int has_spoken(const struct model *model, const struct row *row, int64_t node, int64_t frames, int64_t first,
                      int64_t end) {
    for (; frames; frames--, node = above(row, node)) {
        int64_t position = row->past + node;
        if (position < model->prompts[row->slot] - 1) return 0;
        int64_t spoken = *aligned_at(model, row->slot, position);
        if (spoken < first || spoken >= end) return 0;
    }
    return 1;
}

/* Takes from the scores of a frame's row what its window does not show of the prompt. */
static void look_near(const struct model *model, const struct row *row, float *scores) {
    int64_t node = above(row, row->node), prompt = model->prompts[row->slot];
    int64_t near = *aligned_at(model, row->slot, row->past + node);
    int can_leave = model->longest && near + 1 < prompt;
    int leaves = can_leave && has_spoken(model, row, node, model->longest, near, near + 1);
    int64_t first = leaves ? near + 1 : near - model->back;
    for (int64_t i = 0; i < least(first, prompt); i++) scores[i] = -INFINITY;
    for (int64_t i = near + model->ahead + 1; i < prompt; i++) scores[i] = -INFINITY;
}

/* Of the queries of the head that is aligned, the rows of their prompts that they score highest. A block's queries
 * stand in the order of their rows, and so do blocks: who is above another has been here before. */
static void align(const struct model *model, const struct block *block, int64_t head, float *scores) {
    for (int64_t query = 0; query < block->count; query++, scores += scores_of(model)) {
        if (head + (block->first + query) % block->group != model->aligned_head) continue;
        const struct row *row = row_behind(block, query);
        int64_t position = row->past + row->node, prompt = model->prompts[row->slot];
        if (model->ahead && position >= prompt) look_near(model, row, scores);
        *aligned_at(model, row->slot, position) = (int32_t)place_of_largest(scores, least(prompt, position + 1));
    }
}

/* Whether a row speaks what closes its prompt, and the frames above it have for as long as they may. */
static int is_over(const struct model *model, const struct row *row) {
    int64_t prompt = model->prompts[row->slot];
    return has_spoken(model, row, row->node, model->closing_frames + 1, prompt - model->closing, prompt);
}

/* Positions that a tree's row sees, from `first` on, in the order of a plain sequence; returns how many. */
static int64_t list_seen(const struct row *row, const int32_t *parents, int64_t first, int64_t *seen) {
    int64_t end = row->past + row->depth + 1 - first, j = end;
    for (int64_t node = row->node; node >= 0; node = parents[node]) seen[--j] = row->past + node;
    while (j--) seen[j] = first + j;
    return end;
}

/* Words [steps, d] of the values at `count` positions that a row sees, as if in a sequence; returns steps. Those of the
 * first `known` positions, rounded down to whole words, are there. */
static int64_t gather_values(const struct model *model, const word *values, const int64_t *seen, int64_t known,
                             int64_t count, word *to) {
    int64_t packing = model->packing, dim = model->dim, steps = steps_for(model, count);
    for (int64_t j = known / packing * packing; j < count; j += packing)
        join_values(model, values, seen[j], j + 1 < count ? seen[j + 1] : -1, to + j / packing * dim);
    int64_t used = blocks_of(packing, count);
    memset(to + used * dim, 0, (size_t)((steps - used) * dim) * sizeof *to);
    return steps;
}

/* Queries of the same row as this one, from it on. */
INLINE int64_t queries_beside(const struct block *block, int64_t query) {
    return least(block->group - (block->first + query) % block->group, block->count - query);
}

/* Brings the scores of what a tree's row sees next to each other, and weighs them; for `count` queries of the row, from
 * `query` on. */
static void weigh_seen(const struct model *model, const struct block *block, int64_t query, int64_t count,
                       struct desk *desk, float *totals) {
    const struct row *row = row_behind(block, query);
    int64_t past = row->past, stride = stride_of_positions(model), width = scores_of(model);
    int64_t own = list_seen(row, block->parents, past, desk->seen), end = past + own;
    for (int64_t i = query; i < query + count; i++) {
        float *scores = desk->scores + i * width;
        for (int64_t j = 0; j < own; j++) scores[past + j] = scores[desk->seen[j]];
        totals[i] = exponentiate(model->packing, scores, end, blocks_of(stride, end) * stride);
    }
}

/* A tree's rows: the past is mixed for all of them at once, then each goes on with its own ancestors. */
static void attend_tree(const struct model *model, const struct block *block, struct desk *desk, float *totals) {
    int64_t past = row_behind(block, 0)->past, stride = stride_of_positions(model), width = scores_of(model);
    int64_t shared = model->in_tiles ? past / stride * stride : past / model->packing * model->packing;
    const word *values = block->keys + stretch_of(model);
    for (int64_t query = 0, size; query < block->count; query += size) {
        size = queries_beside(block, query);
        weigh_seen(model, block, query, size, desk, totals);
    }
    mix_values(model, block->count, values, shared / model->packing, block->next, desk->scores, desk->mixed, WRITE,
               &desk->bench);
    for (int64_t query = 0, size; query < block->count; query += size) {
        size = queries_beside(block, query);
        int64_t count = list_seen(row_behind(block, query), block->parents, shared, desk->seen);
        int64_t known = query ? past - shared : 0; /* the past is the same for all */
        int64_t steps = gather_values(model, values, desk->seen, known, count, desk->tail);
        mix_values(model, size, desk->tail, steps, desk->tail, desk->scores + query * width + shared / model->packing,
                   desk->mixed + query * model->dim, CONTINUE, &desk->bench);
    }
}

/* Rows of a chain: what one of them does not see yet weighs nothing. */
static void attend_chain(const struct model *model, const struct block *block, int64_t end, struct desk *desk,
                         float *totals) {
    int64_t stride = stride_of_positions(model), extent = blocks_of(stride, end) * stride;
    for (int64_t query = 0; query < block->count; query++) {
        const struct row *row = row_behind(block, query);
        totals[query] = exponentiate(model->packing, desk->scores + query * scores_of(model),
                                     row->past + row->node + 1, extent);
    }
    mix_values(model, block->count, block->keys + stretch_of(model), steps_for(model, end), block->next, desk->scores,
               desk->mixed, WRITE, &desk->bench);
}

/* Writes each query's attention to its row of out [rows, H d / packing], at head `head` and those after it. */
static void attend(const struct model *model, int64_t layer, const struct block *block, int64_t head,
                   struct desk *desk, word *out) {
    int64_t dim = model->dim;
    const struct row *last = row_behind(block, block->count - 1);
    int64_t end = last->past + last->node + 1;
    float totals[TILE_ROWS];
    score_keys(model, block, end, desk);
    if (layer == model->aligned_layer) align(model, block, head, desk->scores);
    if (block->parents)
        attend_tree(model, block, desk, totals);
    else
        attend_chain(model, block, end, desk, totals);
    for (int64_t query = 0; query < block->count; query++) {
        int64_t row = (block->first + query) / block->group, own = head + (block->first + query) % block->group;
        word *to = out + (row * model->heads + own) * (dim / model->entering);
        for (int64_t i = 0; i < dim; i += LANES)
            put(model->entering, to, i, load(desk->mixed + query * dim + i) * (1.0f / totals[query]));
    }
}

/* Rotates a head's `dim` values, times scale, over `turned` into words; halves may end within a vector. */
static void rotate(int64_t packing, const float *from, const float *cosines, const float *sines, int64_t dim,
                   float scale, float *turned, word *to) {
    int64_t half = dim / 2, whole = half / LANES * LANES;
    for (int64_t i = 0; i < whole; i += LANES) {
        vec left = load(from + i), right = load(from + half + i), cosine = load(cosines + i), sine = load(sines + i);
        store(turned + i, (left * cosine - right * sine) * scale);
        store(turned + half + i, (right * cosine + left * sine) * scale);
    }
    for (int64_t i = whole; i < half; i++) {
        float left = from[i], right = from[half + i];
        turned[i] = (left * cosines[i] - right * sines[i]) * scale;
        turned[half + i] = (right * cosines[i] + left * sines[i]) * scale;
    }
    narrow(packing, turned, dim, to);
}

/* Rotates a row's queries of one KV head into words [G, d / packing], and its key on its way into the cache. */
static void place(const struct model *model, const struct row *row, int64_t kv, const float *qkv, word *keys,
                  word *queries, struct desk *desk) {
    int64_t dim = model->dim, half = dim / 2, group = model->heads / model->kv_heads, packing = model->packing;
    int64_t position = row->past + row->node;
    const float *cosines = model->cosines + (row->past + row->depth) * half;
    const float *sines = model->sines + (row->past + row->depth) * half;
    float scale = 1.0f / sqrtf((float)dim), *turned = desk->turned;
    for (int64_t head = 0; head < group; head++)
        rotate(packing, qkv + (kv * group + head) * dim, cosines, sines, dim, scale, turned,
               queries + head * (dim / packing));
    rotate(packing, qkv + (model->heads + kv) * dim, cosines, sines, dim, 1.0f, turned, desk->key);
    put_key(model, desk->key, keys, position);
    narrow(packing, qkv + (model->heads + model->kv_heads + kv) * dim, dim, desk->key);
    put_values(model, desk->key, keys + stretch_of(model), position);
}

/* Where the keys of a part lie, of those that attend_sequence answers; of the last one where there is no such part. */
static word *keys_of(const struct model *model, int64_t layer, const struct workspace *space, int64_t part) {
    part = least(part, space->num_sequences * model->kv_heads - 1);
    int64_t row = space->sequences[part / model->kv_heads];
    return cached(model, layer, space->rows[row].slot, part % model->kv_heads);
}

/* One sequence's rows, which see one slot, and one KV head, of which parts go from head to head: queries and the cache from
 * qkv [rows, (H + 2 K) d] of the whole chunk, then their attention to their places in out [rows, H d / packing]. */
static void attend_sequence(const struct model *model, int64_t layer, int64_t part, const struct workspace *space,
                            struct desk *desk, word *out) {
    int64_t sequence = part / model->kv_heads, kv = part % model->kv_heads;
    int64_t group = model->heads / model->kv_heads, words = model->dim / model->packing;
    int64_t width = (model->heads + 2 * model->kv_heads) * model->dim;
    int64_t first = space->sequences[sequence], end = space->sequences[sequence + 1];
    word *keys = keys_of(model, layer, space, part), *next = keys_of(model, layer, space, part + 1);
    word *queries = space->queries + kv * space->sequences[space->num_sequences] * group * words; /* [K, rows, G, words] */
    for (int64_t r = first; r < end; r++)
        place(model, space->rows + r, kv, space->qkv + r * width, keys, queries + r * group * words, desk);
    for (int64_t query = first * group, size; query < end * group; query += size) {
        size = next_queries(model, end * group - query);
        struct block block = {keys, queries + query * words, next, size, query, group,
                              space->rows, space->rows[first].parents};
        attend(model, layer, &block, kv * group, desk, out);
    }
}
