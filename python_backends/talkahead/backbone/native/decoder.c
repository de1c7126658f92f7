/* The talker's Llama decoder for CPUs: all layers, the last norm and the head over packed rows, in one call.
 *
 * A row's result is bitwise the same whatever else is computed with it: each output is one chain of sums whose
 * order depends on the model and on what the row sees, never on the number of rows, on its slot or on padding.
 * Prompt rows, steps and tree nodes take the same path. So nothing here may be compiled with -ffast-math.
 *
 * Every row has its own slot and position. It sees its slot's past and, of the rows that enter with it, its
 * ancestors. Vectors are gcc's, lowered to what the CPU has. The functions keep no state: calls that share
 * neither workspace nor slots may run at once.
 *
 * Shapes: R rows of a call, D hidden size, H query heads, K KV heads, d head size, I intermediate size, V vocabulary.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
#define LANES 16
#define PAIRS 2 /* of vectors, across a panel: with ROWS rows of sums they fill the vector registers */
#else
#define LANES 8
#define PAIRS 1
#endif
#define VECTORS (2 * PAIRS)
#define PANEL (VECTORS * LANES) /* outputs that are computed together */
#define ROWS 6                  /* rows that share a load of weights */
#define CHUNK 48                /* rows that pass all layers together: bounds the workspace, which stays in L2 */

#define INLINE static inline __attribute__((always_inline))

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef int32_t ivec __attribute__((vector_size(4 * LANES)));
typedef uint32_t uvec __attribute__((vector_size(4 * LANES)));
typedef float loose_vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef uint32_t loose_uvec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

enum kind { BFLOAT16, FLOAT32 };

/* y = W x with W [outputs, inputs], as panels of PANEL outputs, within a panel input by input. */
struct matrix {
    const void *panels;
    int64_t inputs, outputs, kind;
};

struct layer {
    const float *attention_norm, *mlp_norm; /* [D] */
    struct matrix qkv, out, gate_up, down;  /* outputs (H + 2 K) d, D, 2 I, D */
};

struct model {
    int64_t num_layers, hidden, heads, kv_heads, dim, intermediate, num_slots, num_positions;
    double epsilon;
    const struct layer *layers;
    const float *final_norm; /* [D] */
    struct matrix head;
    const float *cosines, *sines; /* [positions, d / 2] */
    float *cache;                 /* [layer, 2, slot, K, position, d] */
};

/* The rows that enter one slot at once: a prompt, or the nodes of a tree. */
struct bursts {
    int64_t count;
    const int64_t *slots, *pasts, *sizes; /* [count]: where, behind how many positions, how many rows */
    const int32_t *parents;               /* of each row within its burst, -1 for the root; NULL for chains */
};

struct row {
    int64_t slot, past, node, depth;
    int is_last; /* of its burst */
};

struct workspace {
    float *x, *normed, *qkv, *gate_up, *scores;
    int64_t *seen;
    struct row *rows;
};

INLINE vec load(const float *from) { return *(const loose_vec *)from; }
INLINE void store(float *to, vec value) { *(loose_vec *)to = value; }
INLINE vec spread(float value) { return value - (vec){0}; }

INLINE vec larger(vec a, vec b) {
    ivec first = a > b;
    return (vec)((first & (ivec)a) | (~first & (ivec)b));
}

INLINE float sum_lanes(vec value) {
    float lanes[LANES];
    store(lanes, value);
    for (int width = LANES / 2; width; width /= 2)
        for (int lane = 0; lane < width; lane++) lanes[lane] += lanes[lane + width];
    return lanes[0];
}

/* e^x, relative error below 2e-7; x is held within [-87, 88], where the result is finite and not denormal. */
INLINE vec exponential(vec x) {
    const float rounder = 12582912.0f; /* 1.5 * 2^23: adding it leaves the nearest whole number in the low bits */
    x = larger(x, spread(-87.0f));
    x = -larger(-x, spread(-88.0f));
    vec shifted = x * 1.44269504f + rounder;
    vec whole = shifted - rounder;
    vec r = x - whole * 0.693145752f; /* ln 2 in two parts: the first product is exact */
    r = r - whole * 1.42860677e-6f;
    /* (e^r - 1 - r) / r^2 on |r| <= ln 2 / 2, minimax in the relative error of e^r (3e-9). */
    vec series = r * 1.38144668e-3f + 8.36878041e-3f;
    series = series * r + 4.16683942e-2f;
    series = series * r + 1.66665201e-1f;
    series = series * r + 4.99999934e-1f;
    vec power = series * (r * r) + (r + 1.0f);
    return (vec)((ivec)power + ((ivec)shifted << 23));
}

/* Products */

INLINE void read_weights(int kind, const void *panel, int64_t input, vec *weights) {
    if (kind == FLOAT32) {
        const float *from = (const float *)panel + input * PANEL;
        for (int v = 0; v < VECTORS; v++) weights[v] = load(from + v * LANES);
        return;
    }
    const uint32_t *from = (const uint32_t *)panel + input * (PANEL / 2);
    for (int pair = 0; pair < PAIRS; pair++) {
        uvec both = *(const loose_uvec *)(from + pair * LANES);
        weights[2 * pair] = (vec)(both << 16);
        weights[2 * pair + 1] = (vec)(both & 0xffff0000u);
    }
}

/* One panel's outputs of a few rows; the constants are known where this is inlined, so sums stay in registers. */
INLINE void multiply_rows(int rows, int kind, const void *panel, int64_t inputs, const float *x, int64_t x_stride,
                          float (*out)[PANEL]) {
    vec sums[ROWS][VECTORS] = {0};
    for (int64_t input = 0; input < inputs; input++) {
        vec weights[VECTORS];
        read_weights(kind, panel, input, weights);
#pragma GCC unroll 6
        for (int row = 0; row < rows; row++) {
            vec value = spread(x[row * x_stride + input]);
#pragma GCC unroll 4
            for (int v = 0; v < VECTORS; v++) sums[row][v] += value * weights[v];
        }
    }
#pragma GCC unroll 6
    for (int row = 0; row < rows; row++)
#pragma GCC unroll 4
        for (int v = 0; v < VECTORS; v++) store(out[row] + v * LANES, sums[row][v]);
}

INLINE void multiply_kind(int rows, int kind, const void *panel, int64_t inputs, const float *x, int64_t x_stride,
                          float (*out)[PANEL]) {
    switch (rows) {
    case 1: multiply_rows(1, kind, panel, inputs, x, x_stride, out); break;
    case 2: multiply_rows(2, kind, panel, inputs, x, x_stride, out); break;
    case 3: multiply_rows(3, kind, panel, inputs, x, x_stride, out); break;
    case 4: multiply_rows(4, kind, panel, inputs, x, x_stride, out); break;
    case 5: multiply_rows(5, kind, panel, inputs, x, x_stride, out); break;
    case 6: multiply_rows(6, kind, panel, inputs, x, x_stride, out); break;
    }
}

static __attribute__((noinline)) void multiply(int rows, int kind, const void *panel, int64_t inputs,
                                               const float *x, int64_t x_stride, float (*out)[PANEL]) {
    if (kind == BFLOAT16)
        multiply_kind(rows, BFLOAT16, panel, inputs, x, x_stride, out);
    else
        multiply_kind(rows, FLOAT32, panel, inputs, x, x_stride, out);
}

static int64_t panel_bytes(int64_t inputs, int64_t kind) { return inputs * PANEL * (kind == FLOAT32 ? 4 : 2); }

/* out [rows, outputs] = W x, or out += W x, for x [rows, inputs]. */
static void product(const struct matrix *matrix, int64_t rows, const float *x, float *out, int is_added) {
    int64_t inputs = matrix->inputs, outputs = matrix->outputs;
    const char *panel = matrix->panels;
    for (int64_t first = 0; first < outputs; first += PANEL, panel += panel_bytes(inputs, matrix->kind)) {
        int64_t width = outputs - first < PANEL ? outputs - first : PANEL;
        for (int64_t row = 0, size; row < rows; row += size) {
            int64_t left = rows - row, blocks = (left + ROWS - 1) / ROWS;
            float sums[ROWS][PANEL];
            size = (left + blocks - 1) / blocks;
            multiply((int)size, (int)matrix->kind, panel, inputs, x + row * inputs, inputs, sums);
            for (int64_t r = 0; r < size; r++) {
                float *to = out + (row + r) * outputs + first;
                for (int64_t i = 0; i < width; i++) to[i] = is_added ? to[i] + sums[r][i] : sums[r][i];
            }
        }
    }
}

int64_t talkahead_packed_bytes(int64_t inputs, int64_t outputs, int64_t kind) {
    return (outputs + PANEL - 1) / PANEL * panel_bytes(inputs, kind);
}

static uint32_t bits_of(const float *weights, int64_t inputs, int64_t outputs, int64_t output, int64_t input) {
    uint32_t bits = 0;
    if (output < outputs) memcpy(&bits, weights + output * inputs + input, sizeof bits);
    return bits;
}

/* weights [outputs, inputs] into panels; a word of bfloat16 holds the same lane of two neighbouring vectors. */
void talkahead_pack(const float *weights, int64_t inputs, int64_t outputs, int64_t kind, void *panels) {
    uint32_t *to = panels;
    for (int64_t first = 0; first < outputs; first += PANEL)
        for (int64_t input = 0; input < inputs; input++)
            for (int64_t v = 0; v < VECTORS; v += kind == FLOAT32 ? 1 : 2)
                for (int64_t lane = 0; lane < LANES; lane++) {
                    int64_t output = first + v * LANES + lane;
                    uint32_t bits = bits_of(weights, inputs, outputs, output, input);
                    if (kind == BFLOAT16)
                        bits = bits >> 16 | bits_of(weights, inputs, outputs, output + LANES, input);
                    *to++ = bits;
                }
}

/* Attention */

#if LANES == 16
#define FOLD(a, b, ...) __builtin_shuffle(a, b, (ivec){__VA_ARGS__})
INLINE vec fold_8(vec a, vec b) {
    return FOLD(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
           FOLD(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
}
INLINE vec fold_4(vec a, vec b) {
    return FOLD(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
           FOLD(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
}
INLINE vec fold_2(vec a, vec b) {
    return FOLD(a, b, 0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21, 24, 25, 28, 29) +
           FOLD(a, b, 2, 3, 6, 7, 10, 11, 14, 15, 18, 19, 22, 23, 26, 27, 30, 31);
}
INLINE vec fold_1(vec a, vec b) {
    return FOLD(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30) +
           FOLD(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
}
#else
#define FOLD(a, b, ...) __builtin_shuffle(a, b, (ivec){__VA_ARGS__})
INLINE vec fold_4(vec a, vec b) { return FOLD(a, b, 0, 1, 2, 3, 8, 9, 10, 11) + FOLD(a, b, 4, 5, 6, 7, 12, 13, 14, 15); }
INLINE vec fold_2(vec a, vec b) { return FOLD(a, b, 0, 1, 4, 5, 8, 9, 12, 13) + FOLD(a, b, 2, 3, 6, 7, 10, 11, 14, 15); }
INLINE vec fold_1(vec a, vec b) { return FOLD(a, b, 0, 2, 4, 6, 8, 10, 12, 14) + FOLD(a, b, 1, 3, 5, 7, 9, 11, 13, 15); }
#endif

/* The sums over lanes of LANES vectors, as one vector: halves of two are added at a time, transposing. */
INLINE vec sum_each(vec *values) {
#if LANES == 16
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) values[i] = fold_8(values[2 * i], values[2 * i + 1]);
#endif
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) values[i] = fold_4(values[2 * i], values[2 * i + 1]);
    for (int i = 0; i < 2; i++) values[i] = fold_2(values[2 * i], values[2 * i + 1]);
    return fold_1(values[0], values[1]);
}

/* scores[j] = query . keys[seen[j]], in whole vectors; returns the largest. */
INLINE float score_keys(int64_t dim, const float *query, const float *keys, const int64_t *seen, int64_t count,
                        float *scores) {
    vec largest = spread(-3e38f);
    for (int64_t first = 0; first < count; first += LANES) {
        vec sums[LANES];
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++) {
            const float *key = keys + seen[first + i];
            sums[i] = load(query) * load(key);
#pragma GCC unroll 8
            for (int64_t at = LANES; at < dim; at += LANES) sums[i] += load(query + at) * load(key + at);
        }
        vec found = sum_each(sums);
        largest = larger(found, largest);
        store(scores + first, found);
    }
    float lanes[LANES], best;
    store(lanes, largest);
    best = lanes[0];
    for (int i = 1; i < LANES; i++) best = lanes[i] > best ? lanes[i] : best;
    return best;
}

/* scores become their exponentials, zero behind count; returns their sum. */
static float exponentiate(float *scores, int64_t count, float largest) {
    vec total = {0};
    for (int64_t first = 0; first < count; first += LANES) {
        store(scores + first, exponential(load(scores + first) - largest));
        for (int64_t i = count; i < first + LANES; i++) scores[i] = 0.0f;
        total += load(scores + first);
    }
    return sum_lanes(total);
}

/* out [d] = sum of scores[j] values[seen[j]], times scale. */
INLINE void mix_values(int64_t dim, const float *scores, const float *values, const int64_t *seen, int64_t count,
                       float scale, float *out) {
    for (int64_t at = 0; at < dim; at += VECTORS * LANES) {
        int64_t width = (dim - at) / LANES < VECTORS ? (dim - at) / LANES : VECTORS;
        vec sums[VECTORS] = {0};
        for (int64_t j = 0; j < count; j++) {
            const float *value = values + seen[j] + at;
#pragma GCC unroll 4
            for (int64_t v = 0; v < width; v++) sums[v] += scores[j] * load(value + v * LANES);
        }
#pragma GCC unroll 4
        for (int64_t v = 0; v < width; v++) store(out + at + v * LANES, sums[v] * scale);
    }
}

INLINE void attend_sized(int64_t dim, const float *query, const float *keys, const float *values,
                         const int64_t *seen, int64_t count, float *scores, float *out) {
    float largest = score_keys(dim, query, keys, seen, count, scores);
    float total = exponentiate(scores, count, largest);
    mix_values(dim, scores, values, seen, count, 1.0f / total, out);
}

static void attend(int64_t dim, const float *query, const float *keys, const float *values, const int64_t *seen,
                   int64_t count, float *scores, float *out) {
    if (dim == 64)
        attend_sized(64, query, keys, values, seen, count, scores, out);
    else
        attend_sized(dim, query, keys, values, seen, count, scores, out);
}

/* Offsets of the positions that a row sees, in the order of a plain sequence; the last again up to a whole vector. */
static int64_t list_seen(const struct row *row, const int32_t *parents, int64_t dim, int64_t *seen) {
    int64_t count = row->past + row->depth + 1, behind = parents ? row->past : count;
    for (int64_t j = 0; j < behind; j++) seen[j] = j * dim;
    if (parents)
        for (int64_t node = row->node, j = count - 1; node >= 0; node = parents[node])
            seen[j--] = (row->past + node) * dim;
    for (int64_t j = count; j % LANES; j++) seen[j] = seen[count - 1];
    return count;
}

static float *cached(const struct model *model, int64_t layer, int64_t is_value, int64_t slot, int64_t head) {
    int64_t stretch = model->num_positions * model->dim;
    return model->cache +
           (((layer * 2 + is_value) * model->num_slots + slot) * model->kv_heads + head) * stretch;
}

/* Each row's attention, [rows, H d]: head by head, so that rows of one slot find its keys in the nearest cache. */
static void attend_rows(const struct model *model, int64_t layer, const struct bursts *bursts, int64_t rows,
                        struct workspace *space, float *out) {
    int64_t heads = model->heads, kv_heads = model->kv_heads, dim = model->dim, group = heads / kv_heads;
    for (int64_t kv = 0; kv < kv_heads; kv++)
        for (int64_t r = 0; r < rows; r++) {
            const struct row *row = &space->rows[r];
            const float *keys = cached(model, layer, 0, row->slot, kv), *values = cached(model, layer, 1, row->slot, kv);
            int64_t count = list_seen(row, bursts->parents, dim, space->seen);
            for (int64_t head = kv * group; head < (kv + 1) * group; head++)
                attend(dim, space->qkv + (r * (heads + 2 * kv_heads) + head) * dim, keys, values, space->seen, count,
                       space->scores, out + (r * heads + head) * dim);
        }
}

static void rotate(const float *from, float *to, const float *cosines, const float *sines, int64_t half, float scale) {
    for (int64_t i = 0; i < half; i++) {
        float left = from[i], right = from[half + i];
        to[i] = (left * cosines[i] - right * sines[i]) * scale;
        to[half + i] = (right * cosines[i] + left * sines[i]) * scale;
    }
}

/* Rotates the queries in place, and the keys on their way into the cache. */
static void place_row(const struct model *model, int64_t layer, const struct row *row, float *qkv) {
    int64_t dim = model->dim, half = dim / 2, heads = model->heads, kv_heads = model->kv_heads;
    const float *cosines = model->cosines + (row->past + row->depth) * half;
    const float *sines = model->sines + (row->past + row->depth) * half;
    float scale = (float)(1.0 / sqrt((double)dim));
    for (int64_t head = 0; head < heads; head++)
        rotate(qkv + head * dim, qkv + head * dim, cosines, sines, half, scale);
    for (int64_t kv = 0; kv < kv_heads; kv++) {
        int64_t offset = (row->past + row->node) * dim;
        rotate(qkv + (heads + kv) * dim, cached(model, layer, 0, row->slot, kv) + offset, cosines, sines, half, 1.0f);
        memcpy(cached(model, layer, 1, row->slot, kv) + offset, qkv + (heads + kv_heads + kv) * dim,
               (size_t)dim * sizeof(float));
    }
}

/* Layers */

/* RMSNorm of x [hidden]. */
static void norm(const float *x, const float *weight, int64_t hidden, double epsilon, float *out) {
    vec squares = {0};
    for (int64_t i = 0; i < hidden; i += LANES) squares += load(x + i) * load(x + i);
    float scale = (float)(1.0 / sqrt((double)sum_lanes(squares) / (double)hidden + epsilon));
    for (int64_t i = 0; i < hidden; i += LANES) store(out + i, load(x + i) * scale * load(weight + i));
}

static void norm_rows(const struct model *model, const float *x, const float *weight, int64_t rows, float *out) {
    for (int64_t r = 0; r < rows; r++)
        norm(x + r * model->hidden, weight, model->hidden, model->epsilon, out + r * model->hidden);
}

/* SwiGLU of [rows, 2 I], gates first, into the packed [rows, I] at its own beginning. */
static void gate_rows(float *gate_up, int64_t rows, int64_t intermediate) {
    for (int64_t r = 0; r < rows; r++) {
        const float *gates = gate_up + r * 2 * intermediate, *ups = gates + intermediate;
        for (int64_t i = 0; i < intermediate; i += LANES) {
            vec gate = load(gates + i);
            store(gate_up + r * intermediate + i, gate / (1.0f + exponential(-gate)) * load(ups + i));
        }
    }
}

static void run_layer(const struct model *model, int64_t index, const struct bursts *bursts, int64_t rows,
                      struct workspace *space) {
    const struct layer *layer = &model->layers[index];
    int64_t width = (model->heads + 2 * model->kv_heads) * model->dim;
    norm_rows(model, space->x, layer->attention_norm, rows, space->normed);
    product(&layer->qkv, rows, space->normed, space->qkv, 0);
    for (int64_t r = 0; r < rows; r++) place_row(model, index, &space->rows[r], space->qkv + r * width);
    attend_rows(model, index, bursts, rows, space, space->normed);
    product(&layer->out, rows, space->normed, space->x, 1);
    norm_rows(model, space->x, layer->mlp_norm, rows, space->normed);
    product(&layer->gate_up, rows, space->normed, space->gate_up, 0);
    gate_rows(space->gate_up, rows, model->intermediate);
    product(&layer->down, rows, space->gate_up, space->x, 1);
}

/* Calls */

static int64_t round_up(int64_t bytes) { return (bytes + 63) / 64 * 64; }

/* Lays the workspace out from base on; returns its size in bytes. */
static int64_t lay_out(const struct model *model, char *base, struct workspace *space) {
    int64_t attended = model->heads * model->dim, positions = model->num_positions + LANES;
    int64_t normed = attended > model->hidden ? attended : model->hidden, used = 0;
#define TAKE(field, count) (space->field = (void *)(base + used), used += round_up((count) * (int64_t)sizeof *space->field))
    TAKE(x, CHUNK * model->hidden);
    TAKE(normed, CHUNK * normed);
    TAKE(qkv, CHUNK * (model->heads + 2 * model->kv_heads) * model->dim);
    TAKE(gate_up, CHUNK * 2 * model->intermediate);
    TAKE(scores, positions);
    TAKE(seen, positions);
    TAKE(rows, CHUNK);
#undef TAKE
    return used;
}

int64_t talkahead_workspace_bytes(const struct model *model) {
    struct workspace space;
    return lay_out(model, 0, &space);
}

/* Sizes that whole vectors cover. */
int64_t talkahead_granularity(void) { return LANES; }

static int fits(const struct model *model, const struct bursts *bursts) {
    for (int64_t i = 0; i < bursts->count; i++) {
        int64_t slot = bursts->slots[i], past = bursts->pasts[i], size = bursts->sizes[i];
        if (slot < 0 || slot >= model->num_slots || past < 0 || size < 1) return 0;
        if (past + size > model->num_positions) return 0;
    }
    return 1;
}

static struct row row_of(const struct bursts *bursts, int64_t burst, int64_t node) {
    struct row row = {bursts->slots[burst], bursts->pasts[burst], node, node, node + 1 == bursts->sizes[burst]};
    if (bursts->parents) {
        row.depth = 0;
        for (int64_t above = bursts->parents[node]; above >= 0; above = bursts->parents[above]) row.depth++;
    }
    return row;
}

/* Norms and scores the chunk's wanted rows; returns how many. hidden [wanted, D], logits [wanted, V]. */
static int64_t read_out(const struct model *model, int64_t rows, int only_last, const struct workspace *space,
                        float *hidden, float *logits) {
    int64_t wanted = 0;
    for (int64_t r = 0; r < rows; r++)
        if (!only_last || space->rows[r].is_last)
            norm(space->x + r * model->hidden, model->final_norm, model->hidden, model->epsilon,
                 hidden + wanted++ * model->hidden);
    product(&model->head, wanted, hidden, logits, 0);
    return wanted;
}

/* Runs x [R, D], the rows of all bursts in order, through the model, and leaves their KV in the cache.
 *
 * hidden and logits receive every row, or only each burst's last one. Returns 0, or -1 if a burst does not fit
 * its slot, with nothing written.
 */
int talkahead_decode(const struct model *model, char *memory, const float *x, const struct bursts *bursts,
                     int only_last, float *hidden, float *logits) {
    struct workspace space;
    int64_t burst = 0, node = 0;
    if (!fits(model, bursts)) return -1;
    lay_out(model, memory, &space);
    while (burst < bursts->count) {
        int64_t rows = 0, wanted;
        for (; rows < CHUNK && burst < bursts->count; rows++) {
            space.rows[rows] = row_of(bursts, burst, node++);
            if (space.rows[rows].is_last) burst++, node = 0;
        }
        memcpy(space.x, x, (size_t)(rows * model->hidden) * sizeof *x);
        for (int64_t layer = 0; layer < model->num_layers; layer++) run_layer(model, layer, bursts, rows, &space);
        wanted = read_out(model, rows, only_last, &space, hidden, logits);
        x += rows * model->hidden;
        hidden += wanted * model->hidden;
        logits += wanted * model->head.outputs;
    }
    return 0;
}

/* out [count] = e^x; count in whole vectors. */
void talkahead_exponential(const float *x, int64_t count, float *out) {
    for (int64_t i = 0; i < count; i += LANES) store(out + i, exponential(load(x + i)));
}
