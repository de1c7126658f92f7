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
 * One kernel makes all sums of products: a panel of weights, keys or values, which lie so that a vector holds one
 * input of neighbouring outputs, is read once for several rows. Activations and KV are words of 32 bits: a float,
 * or, where the model is packed in pairs, two neighbouring bfloat16 values, whose products the CPU adds at once.
 *
 * Shapes: R rows of a call, D hidden size, H query heads, K KV heads, G query heads of a KV head, d head size,
 * I intermediate size, V vocabulary.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>
#if defined(__AVX512BF16__) || defined(__AVX512VNNI__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define LANES 16
#define VECTORS 4 /* across a panel: with ROWS rows of sums they fill the vector registers */
#else
#define LANES 8
#define VECTORS 2
#endif
#define PANEL (VECTORS * LANES) /* outputs that are computed together */
#define ROWS 6                  /* rows that share a load of weights */
#define CHUNK 48                /* rows that pass all layers together: bounds the workspace, which stays in L2 */

#define INLINE static inline __attribute__((always_inline))

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef int32_t ivec __attribute__((vector_size(4 * LANES)));
typedef uint32_t uvec __attribute__((vector_size(4 * LANES)));
typedef float loose_vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t loose_ivec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef uint32_t loose_uvec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef uint8_t loose_bytes __attribute__((vector_size(LANES), aligned(1), may_alias));
typedef uint32_t __attribute__((may_alias)) word;
typedef uint16_t __attribute__((may_alias)) half_word;

/* How weights lie: as bfloat16 to be widened, as float32, as bfloat16 in pairs of neighbouring inputs, or as bytes
 * in fours of them. */
enum kind { BFLOAT16, FLOAT32, PAIRED, BYTES };

/* y = W x with W [outputs, inputs], as panels of PANEL outputs, within a panel input by input. */
struct matrix {
    const word *panels;
    int64_t inputs, outputs, kind;
    const float *scales;    /* of bytes: [outputs], in whole panels */
    const int32_t *offsets; /* of bytes: 128 times the sum of each output's weights */
};

struct layer {
    const float *attention_norm, *mlp_norm; /* [D] */
    struct matrix qkv, out, gate_up, down;  /* outputs (H + 2 K) d, D, 2 I, D */
};

/* The cache is words [layer, slot, K, 2, positions * d / packing]. Keys are panels of PANEL positions, within a
 * panel [d / packing, PANEL]; values are [positions / packing, d]. Positions fill whole panels. */
struct model {
    int64_t num_layers, hidden, heads, kv_heads, dim, intermediate, num_slots, num_positions;
    int64_t packing;  /* values in a word of queries and KV: 1, or 2 where they are bfloat16 */
    int64_t entering; /* the same of what enters matrices; bytes are made of floats where they are needed */
    double epsilon;
    const struct layer *layers;
    const float *final_norm; /* [D] */
    struct matrix head;
    const float *cosines, *sines; /* [positions, d / 2] */
    word *cache;
};

/* The rows that enter one slot at once: a prompt, or the nodes of a tree. */
struct bursts {
    int64_t count;
    const int64_t *slots, *pasts, *sizes; /* [count]: where, behind how many positions, how many rows */
    const int32_t *parents;               /* of each row within its burst, -1 for the root; NULL for chains */
    const int64_t *trees;                 /* [count]: where a burst's parents begin, -1 for a chain; NULL: all at 0 */
};

struct row {
    int64_t slot, past, node, depth;
    int is_last;            /* of its burst */
    const int32_t *parents; /* of its burst's rows; NULL for a chain */
};

struct workspace {
    float *x, *qkv, *gate_up, *scores, *mixed, *turned, *row_scales;
    word *normed, *queries, *key, *tail, *bytes;
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

/* Writes a vector of values at index `at` of words that hold `packing` values each. */
INLINE void put(int64_t packing, word *to, int64_t at, vec value) {
#if defined(__AVX512BF16__)
    if (packing == 2) {
        _mm256_storeu_si256((void *)((half_word *)to + at), (__m256i)_mm512_cvtneps_pbh((__m512)value));
        return;
    }
#endif
    store((float *)to + at, value);
}

/* from [count] as words. */
INLINE void narrow(int64_t packing, const float *from, int64_t count, word *to) {
    for (int64_t i = 0; i < count; i += LANES) put(packing, to, i, load(from + i));
}

/* Products */

/* What becomes of a kernel's sums: they are written, are added to what is there, or go on from what is there. */
enum mode { WRITE, ADD, CONTINUE };

/* out [rows, vectors of LANES] from x [rows, steps] and a panel [steps, stride]; strides in words. */
struct task {
    const word *panel;
    int64_t stride, steps;
    const word *x;
    int64_t x_stride;
    float *out;
    int64_t out_stride;
    enum mode mode;
    const float *scales, *row_scales; /* of bytes: [outputs], [rows] */
    const int32_t *offsets;
    const word *next; /* a panel of the same size that is wanted later: fetched meanwhile, into L2 */
};

INLINE void read_weights(int kind, int vectors, const word *from, vec *weights) {
    if (kind == BFLOAT16) {
        for (int v = 0; v < vectors; v += 2) {
            uvec both = *(const loose_uvec *)(from + v / 2 * LANES);
            weights[v] = (vec)(both << 16);
            weights[v + 1] = (vec)(both & 0xffff0000u);
        }
        return;
    }
    for (int v = 0; v < vectors; v++) weights[v] = load((const float *)from + v * LANES);
}

INLINE vec add_product(int kind, vec sum, word x, vec weights) {
#if defined(__AVX512BF16__)
    if (kind == PAIRED)
        return (vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_epi32((int)x), (__m512bh)weights);
#endif
#if defined(__AVX512VNNI__)
    if (kind == BYTES) { /* gcc 12 copies the sums of its own intrinsic to and fro */
        __m512i values = _mm512_set1_epi32((int)x);
        __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(values), "v"(weights));
        return sum;
    }
#endif
    float value;
    memcpy(&value, &x, sizeof value);
    return sum + spread(value) * weights;
}

/* The constants are known where this is inlined, so sums stay in registers. */
INLINE void multiply_tile(int rows, int vectors, int kind, const struct task *task) {
    const word *panel = task->panel, *x = task->x;
    int64_t stride = task->stride, steps = task->steps, x_stride = task->x_stride;
    vec sums[ROWS][VECTORS] = {0};
    if (task->mode == CONTINUE)
#pragma GCC unroll 6
        for (int row = 0; row < rows; row++)
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) sums[row][v] = load(task->out + row * task->out_stride + v * LANES);
    for (int64_t step = 0; step < steps; step++) {
        vec weights[VECTORS];
        read_weights(kind, vectors, panel + step * stride, weights);
        for (int v = 0; v < (kind == BFLOAT16 ? vectors / 2 : vectors); v++)
            __builtin_prefetch(task->next + step * stride + v * LANES, 0, 2);
#pragma GCC unroll 6
        for (int row = 0; row < rows; row++)
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
                sums[row][v] = add_product(kind, sums[row][v], x[row * x_stride + step], weights[v]);
    }
#pragma GCC unroll 6
    for (int row = 0; row < rows; row++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            float *to = task->out + row * task->out_stride + v * LANES;
            if (kind == BYTES) {
                ivec whole = (ivec)sums[row][v] - *(const loose_ivec *)(task->offsets + v * LANES);
                sums[row][v] = __builtin_convertvector(whole, vec) * (load(task->scales + v * LANES) * task->row_scales[row]);
            }
            store(to, task->mode == ADD ? load(to) + sums[row][v] : sums[row][v]);
        }
}

INLINE void multiply_rows(int rows, int vectors, int kind, const struct task *task) {
    switch (rows) {
    case 1: multiply_tile(1, vectors, kind, task); break;
    case 2: multiply_tile(2, vectors, kind, task); break;
    case 3: multiply_tile(3, vectors, kind, task); break;
    case 4: multiply_tile(4, vectors, kind, task); break;
    case 5: multiply_tile(5, vectors, kind, task); break;
    case 6: multiply_tile(6, vectors, kind, task); break;
    }
}

INLINE void multiply_kind(int rows, int vectors, int kind, const struct task *task) {
    switch (vectors) {
    case 1: multiply_rows(rows, 1, kind, task); break;
    case 2: multiply_rows(rows, 2, kind, task); break;
#if VECTORS == 4
    case 4: multiply_rows(rows, 4, kind, task); break;
#endif
    }
}

static __attribute__((noinline)) void multiply(int rows, int vectors, int kind, const struct task *task) {
    if (kind == PAIRED)
        multiply_kind(rows, vectors, PAIRED, task);
    else if (kind == FLOAT32)
        multiply_kind(rows, vectors, FLOAT32, task);
    else if (kind == BYTES)
        multiply_rows(rows, VECTORS, BYTES, task);
    else
        multiply_rows(rows, VECTORS, BFLOAT16, task);
}

/* Vectors that a kernel computes at once for the first `count` outputs of a panel, all of it if need be. */
INLINE int vectors_for(int64_t count) { return count > 2 * LANES ? VECTORS : count > LANES ? 2 : 1; }

/* Values in a word of activations. */
INLINE int64_t packing_of(int64_t kind) { return kind == BYTES ? 4 : kind == PAIRED ? 2 : 1; }

/* Words between one step of a panel and the next. */
INLINE int64_t stride_of(int64_t kind) { return kind == BFLOAT16 ? PANEL / 2 : PANEL; }

INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t blocks_of(int64_t size, int64_t count) { return (count + size - 1) / size; }

/* Rows that go next, of those left: blocks of about one size, as few as can be. */
INLINE int64_t next_rows(int64_t left) { return blocks_of(blocks_of(ROWS, left), left); }

/* One panel's first `width` outputs of some rows, where whole vectors would write too far. */
static void multiply_edge(int rows, int64_t width, int kind, struct task task) {
    float *out = task.out, sums[ROWS * PANEL];
    int64_t out_stride = task.out_stride;
    task.out = sums, task.out_stride = PANEL;
    if (task.mode == ADD)
        for (int64_t row = 0; row < rows; row++)
            memcpy(sums + row * PANEL, out + row * out_stride, (size_t)width * sizeof *out);
    multiply(rows, vectors_for(width), kind, &task);
    for (int64_t row = 0; row < rows; row++)
        memcpy(out + row * out_stride, sums + row * PANEL, (size_t)width * sizeof *out);
}

/* x [count] as whole numbers from 1 to 255, where 128 is zero; returns what a step between them is worth. */
static float narrow_to_bytes(const float *x, int64_t count, word *to) {
    vec largest = {0};
    for (int64_t i = 0; i < count; i += LANES) largest = larger(larger(load(x + i), -load(x + i)), largest);
    float lanes[LANES], best = 1e-30f;
    store(lanes, largest);
    for (int i = 0; i < LANES; i++) best = lanes[i] > best ? lanes[i] : best;
    const float rounder = 12582912.0f + 128.0f; /* as in the exponential: whole numbers in the low bits */
    for (int64_t i = 0; i < count; i += LANES) {
        ivec whole = (ivec)(load(x + i) * (127.0f / best) + rounder) & 0xff;
        *(loose_bytes *)((uint8_t *)to + i) = __builtin_convertvector(whole, loose_bytes);
    }
    return best / 127.0f;
}

/* out [rows, outputs] = W x, or out += W x, for x [rows, inputs] in words; in floats where W is bytes. */
static void product(const struct matrix *matrix, int64_t rows, const word *x, float *out, enum mode mode,
                    struct workspace *space) {
    int64_t outputs = matrix->outputs, stride = stride_of(matrix->kind);
    int64_t steps = matrix->inputs / packing_of(matrix->kind);
    int kind = (int)matrix->kind;
    struct task task = {matrix->panels, stride, steps, x, steps, out, outputs, mode};
    if (kind == BYTES) {
        for (int64_t row = 0; row < rows; row++)
            space->row_scales[row] =
                narrow_to_bytes((const float *)x + row * matrix->inputs, matrix->inputs, space->bytes + row * steps);
        x = space->bytes;
    }
    for (int64_t first = 0; first < outputs; first += PANEL, task.panel += steps * stride) {
        int64_t width = least(outputs - first, PANEL);
        for (int64_t row = 0, size; row < rows; row += size) {
            size = next_rows(rows - row);
            task.x = x + row * steps, task.out = out + row * outputs + first;
            if (kind == BYTES)
                task.scales = matrix->scales + first, task.offsets = matrix->offsets + first,
                task.row_scales = space->row_scales + row;
            /* One row waits for memory anyway, and is better served by the CPU's own guesses. */
            task.next = rows > 1 ? task.panel + steps * stride : task.panel;
            if (width == PANEL)
                multiply((int)size, VECTORS, kind, &task);
            else
                multiply_edge((int)size, width, kind, task);
        }
    }
}

int64_t talkahead_packed_bytes(int64_t inputs, int64_t outputs, int64_t kind) {
    return blocks_of(PANEL, outputs) * inputs / packing_of(kind) * stride_of(kind) * (int64_t)sizeof(word);
}

static uint32_t bits_of(const float *weights, int64_t inputs, int64_t outputs, int64_t output, int64_t input) {
    uint32_t bits = 0;
    if (output < outputs) memcpy(&bits, weights + output * inputs + input, sizeof bits);
    return bits;
}

static uint32_t byte_of(const float *weights, int64_t inputs, int64_t outputs, int64_t output, int64_t input) {
    return output < outputs ? (uint8_t)(int8_t)weights[output * inputs + input] : 0;
}

/* Weights [outputs, inputs], exact in the kind, into panels; bytes are given as whole floats. A word of bfloat16
 * holds the same lane of two neighbouring vectors, or in pairs two neighbouring inputs; one of bytes four inputs. */
void talkahead_pack(const float *weights, int64_t inputs, int64_t outputs, int64_t kind, word *to) {
    int64_t packing = packing_of(kind);
    for (int64_t first = 0; first < outputs; first += PANEL)
        for (int64_t input = 0; input < inputs; input += packing)
            for (int64_t v = 0; v < VECTORS; v += kind == BFLOAT16 ? 2 : 1)
                for (int64_t lane = 0; lane < LANES; lane++) {
                    int64_t output = first + v * LANES + lane;
                    uint32_t bits = bits_of(weights, inputs, outputs, output, input);
                    if (kind == BFLOAT16)
                        bits = bits >> 16 | bits_of(weights, inputs, outputs, output + LANES, input);
                    for (int i = 0; kind == BYTES && i < 4; i++)
                        bits = (i ? bits : 0) | byte_of(weights, inputs, outputs, output, input + i) << 8 * i;
                    if (kind == PAIRED)
                        bits = bits >> 16 | bits_of(weights, inputs, outputs, output, input + 1);
                    *to++ = bits;
                }
}

/* 1 where the CPU multiplies pairs; 2 where it multiplies bytes as well. */
int talkahead_abilities(void) {
#if defined(__AVX512BF16__) && defined(__AVX512VNNI__)
    return 2;
#elif defined(__AVX512BF16__)
    return 1;
#else
    return 0;
#endif
}

/* The cache */

INLINE int64_t stretch_of(const struct model *model) {
    return blocks_of(PANEL, model->num_positions) * PANEL * model->dim / model->packing;
}

/* Keys of one head of one slot; its values lie one stretch behind. */
INLINE word *cached(const struct model *model, int64_t layer, int64_t slot, int64_t kv) {
    return model->cache + ((layer * model->num_slots + slot) * model->kv_heads + kv) * 2 * stretch_of(model);
}

/* Where the first word of a position's key is; the others follow PANEL words apart. */
INLINE int64_t key_at(const struct model *model, int64_t position) {
    return position / PANEL * (model->dim / model->packing * PANEL) + position % PANEL;
}

/* Values [d / packing] in words, as one position of the words [d] that hold `packing` positions. */
static void put_values(const struct model *model, const word *from, word *values, int64_t position) {
    word *to = values + position / model->packing * model->dim;
    if (model->packing == 1)
        memcpy(to, from, (size_t)model->dim * sizeof *to);
    else if (position % 2)
        for (int64_t i = 0; i < model->dim; i++) to[i] = (to[i] & 0xffffu) | (word)((const half_word *)from)[i] << 16;
    else
        for (int64_t i = 0; i < model->dim; i++) to[i] = (to[i] & 0xffff0000u) | ((const half_word *)from)[i];
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
    word *to = keys + key_at(model, position);
    for (int64_t i = 0; i < model->dim / model->packing; i++) to[i * PANEL] = key[i];
}

/* Brings each slot's accepted nodes, which lie behind its length in tree order, next to each other.
 *
 * lengths, counts [slots]; paths [slots, steps]: nodes in rising order, valid up to counts.
 */
void talkahead_compact(const struct model *model, int64_t num_slots, const int64_t *slots, const int64_t *lengths,
                       const int64_t *counts, const int64_t *paths, int64_t steps) {
    int64_t words = model->dim / model->packing;
    for (int64_t layer = 0; layer < model->num_layers; layer++)
        for (int64_t head = 0; head < num_slots * model->kv_heads; head++) {
            int64_t i = head / model->kv_heads;
            word *keys = cached(model, layer, slots[i], head % model->kv_heads), *values = keys + stretch_of(model);
            for (int64_t step = 0; step < counts[i]; step++) {
                int64_t from = lengths[i] + paths[i * steps + step], to = lengths[i] + step;
                if (from == to) continue;
                for (int64_t w = 0; w < words; w++)
                    keys[key_at(model, to) + w * PANEL] = keys[key_at(model, from) + w * PANEL];
                move_values(model, values, from, to);
            }
        }
}

/* Attention */

/* scores become their exponentials as words, zero from count up to extent; returns their sum. */
static float exponentiate(int64_t packing, float *scores, int64_t count, int64_t extent) {
    vec largest = spread(-3e38f), total = {0};
    for (int64_t i = count; i < extent; i++) scores[i] = -INFINITY;
    for (int64_t first = 0; first < count; first += LANES) largest = larger(load(scores + first), largest);
    float lanes[LANES], best;
    store(lanes, largest);
    best = lanes[0];
    for (int i = 1; i < LANES; i++) best = lanes[i] > best ? lanes[i] : best;
    for (int64_t first = 0; first < extent; first += LANES) {
        vec shifted = load(scores + first) - best;
        vec power = (vec)((ivec)exponential(shifted) & (shifted >= -87.0f));
        total += power;
        put(packing, (word *)scores, first, power);
    }
    return sum_lanes(total);
}

/* Queries of one slot and KV head that are answered together; each sees what its row sees. */
struct block {
    const word *keys, *queries; /* queries [count, d / packing] */
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

/* scores [count, positions]: each query's products with all keys before `end`, seen or not. */
static void score_keys(const struct model *model, const struct block *block, int64_t end, float *scores) {
    int64_t steps = model->dim / model->packing, width = scores_of(model);
    struct task task = {block->keys, PANEL, steps, block->queries, steps, scores, width, WRITE};
    for (int64_t first = 0; first < end; first += PANEL, task.panel += steps * PANEL, task.out += PANEL) {
        task.next = first + PANEL < end ? task.panel + steps * PANEL : block->keys + stretch_of(model);
        multiply((int)block->count, vectors_for(end - first), model->packing == 2 ? PAIRED : FLOAT32, &task);
    }
}

/* out [count, d] = or += the sums of values [steps, d] times the words of scores. */
static void mix_values(const struct model *model, int64_t count, const word *values, int64_t steps,
                       const float *scores, float *out, enum mode mode) {
    int64_t dim = model->dim;
    struct task task = {values, dim, steps, (const word *)scores, scores_of(model), out, dim, mode};
    task.next = values + stretch_of(model);
    for (int64_t at = 0, width; at < dim; at += width, task.panel += width, task.out += width) {
        width = dim - at < PANEL && dim - at > 2 * LANES ? 2 * LANES : least(dim - at, PANEL);
        multiply((int)count, (int)(width / LANES), model->packing == 2 ? PAIRED : FLOAT32, &task);
    }
}

/* Positions that a tree's row sees, from `first` on, in the order of a plain sequence; returns how many. */
static int64_t list_seen(const struct row *row, const int32_t *parents, int64_t first, int64_t *seen) {
    int64_t end = row->past + row->depth + 1 - first, j = end;
    for (int64_t node = row->node; node >= 0; node = parents[node]) seen[--j] = row->past + node;
    while (j--) seen[j] = first + j;
    return end;
}

/* A tree's rows: the past is mixed for all of them at once, then each goes on with its own ancestors. */
static void attend_tree(const struct model *model, const struct block *block, struct workspace *space, float *totals,
                        float *mixed) {
    int64_t packing = model->packing, dim = model->dim, past = row_behind(block, 0)->past;
    int64_t shared = past / packing; /* words of positions that all rows see */
    const word *values = block->keys + stretch_of(model);
    for (int64_t query = 0; query < block->count; query++) {
        float *scores = space->scores + query * scores_of(model);
        const struct row *row = row_behind(block, query);
        int64_t count = list_seen(row, block->parents, past, space->seen);
        for (int64_t j = 0; j < count; j++) scores[past + j] = scores[space->seen[j]];
        totals[query] = exponentiate(packing, scores, past + count, blocks_of(LANES, past + count) * LANES);
    }
    mix_values(model, block->count, values, shared, space->scores, mixed, WRITE);
    for (int64_t query = 0; query < block->count; query++) {
        int64_t count = list_seen(row_behind(block, query), block->parents, shared * packing, space->seen);
        for (int64_t j = 0; j < count; j += packing)
            join_values(model, values, space->seen[j], j + 1 < count ? space->seen[j + 1] : -1,
                        space->tail + j / packing * dim);
        mix_values(model, 1, space->tail, blocks_of(packing, count),
                   space->scores + query * scores_of(model) + shared, mixed + query * dim, CONTINUE);
    }
}

/* Rows of a chain: what one of them does not see yet weighs nothing. */
static void attend_chain(const struct model *model, const struct block *block, int64_t end, struct workspace *space,
                         float *totals, float *mixed) {
    int64_t extent = blocks_of(LANES, end) * LANES;
    for (int64_t query = 0; query < block->count; query++) {
        const struct row *row = row_behind(block, query);
        totals[query] = exponentiate(model->packing, space->scores + query * scores_of(model),
                                     row->past + row->node + 1, extent);
    }
    mix_values(model, block->count, block->keys + stretch_of(model), blocks_of(model->packing, end), space->scores,
               mixed, WRITE);
}

/* Writes each query's attention to its row of out [rows, H d / packing], at head `head` and those behind it. */
static void attend(const struct model *model, const struct block *block, int64_t head, struct workspace *space,
                   word *out) {
    int64_t dim = model->dim;
    const struct row *last = row_behind(block, block->count - 1);
    int64_t end = last->past + last->node + 1;
    float totals[ROWS], *mixed = space->mixed;
    score_keys(model, block, end, space->scores);
    if (block->parents)
        attend_tree(model, block, space, totals, mixed);
    else
        attend_chain(model, block, end, space, totals, mixed);
    for (int64_t query = 0; query < block->count; query++) {
        int64_t row = (block->first + query) / block->group, own = head + (block->first + query) % block->group;
        word *to = out + (row * model->heads + own) * (dim / model->entering);
        for (int64_t i = 0; i < dim; i += LANES)
            put(model->entering, to, i, load(mixed + query * dim + i) * (1.0f / totals[query]));
    }
}

/* All rows' attention, [rows, H d / packing]; queries [K, rows, G, d / packing]. */
static void attend_rows(const struct model *model, int64_t layer, int64_t rows, struct workspace *space, word *out) {
    int64_t group = model->heads / model->kv_heads, words = model->dim / model->packing;
    for (int64_t first = 0, end; first < rows; first = end) {
        for (end = first + 1; end < rows && !space->rows[end - 1].is_last;) end++;
        for (int64_t kv = 0; kv < model->kv_heads; kv++) {
            const word *keys = cached(model, layer, space->rows[first].slot, kv);
            for (int64_t query = first * group, size; query < end * group; query += size) {
                size = next_rows(end * group - query);
                struct block block = {keys, space->queries + (kv * rows * group + query) * words, size, query, group,
                                      space->rows, space->rows[first].parents};
                attend(model, &block, kv * group, space, out);
            }
        }
    }
}

static void rotate(const float *from, float *to, const float *cosines, const float *sines, int64_t half, float scale) {
    for (int64_t i = 0; i < half; i++) {
        float left = from[i], right = from[half + i];
        to[i] = (left * cosines[i] - right * sines[i]) * scale;
        to[half + i] = (right * cosines[i] + left * sines[i]) * scale;
    }
}

/* Rotates a row's queries of one KV head into words [G, d / packing], and its key on its way into the cache. */
static void place(const struct model *model, const struct row *row, int64_t kv, const float *qkv, word *keys,
                  word *queries, struct workspace *space) {
    int64_t dim = model->dim, half = dim / 2, group = model->heads / model->kv_heads, packing = model->packing;
    int64_t position = row->past + row->node;
    const float *cosines = model->cosines + (row->past + row->depth) * half;
    const float *sines = model->sines + (row->past + row->depth) * half;
    float scale = (float)(1.0 / sqrt((double)dim)), *turned = space->turned;
    for (int64_t head = 0; head < group; head++) {
        rotate(qkv + (kv * group + head) * dim, turned, cosines, sines, half, scale);
        narrow(packing, turned, dim, queries + head * (dim / packing));
    }
    rotate(qkv + (model->heads + kv) * dim, turned, cosines, sines, half, 1.0f);
    narrow(packing, turned, dim, space->key);
    put_key(model, space->key, keys, position);
    narrow(packing, qkv + (model->heads + model->kv_heads + kv) * dim, dim, space->key);
    put_values(model, space->key, keys + stretch_of(model), position);
}

/* Queries [K, rows, G, d / packing] and the cache from qkv [rows, (H + 2 K) d]; head by head, so that rows of one
 * slot find its panel in the nearest cache. */
static void place_rows(const struct model *model, int64_t layer, int64_t rows, struct workspace *space) {
    int64_t width = (model->heads + 2 * model->kv_heads) * model->dim;
    word *queries = space->queries;
    for (int64_t kv = 0; kv < model->kv_heads; kv++)
        for (int64_t r = 0; r < rows; r++, queries += model->heads / model->kv_heads * model->dim / model->packing)
            place(model, space->rows + r, kv, space->qkv + r * width, cached(model, layer, space->rows[r].slot, kv),
                  queries, space);
}

/* Layers */

/* RMSNorm of x [hidden], as words. */
static void norm(int64_t packing, const float *x, const float *weight, int64_t hidden, double epsilon, word *out) {
    vec squares = {0};
    for (int64_t i = 0; i < hidden; i += LANES) squares += load(x + i) * load(x + i);
    float scale = (float)(1.0 / sqrt((double)sum_lanes(squares) / (double)hidden + epsilon));
    for (int64_t i = 0; i < hidden; i += LANES) put(packing, out, i, load(x + i) * scale * load(weight + i));
}

static void norm_rows(const struct model *model, const float *x, const float *weight, int64_t rows, word *out) {
    int64_t hidden = model->hidden, words = hidden / model->entering;
    for (int64_t r = 0; r < rows; r++)
        norm(model->entering, x + r * hidden, weight, hidden, model->epsilon, out + r * words);
}

/* SwiGLU of [rows, 2 I], gates first, into words [rows, I / packing] at its own beginning. */
static void gate_rows(const struct model *model, float *gate_up, int64_t rows) {
    int64_t intermediate = model->intermediate, packing = model->entering;
    for (int64_t r = 0; r < rows; r++) {
        const float *gates = gate_up + r * 2 * intermediate, *ups = gates + intermediate;
        word *out = (word *)gate_up + r * intermediate / packing;
        for (int64_t i = 0; i < intermediate; i += LANES) {
            vec gate = load(gates + i);
            put(packing, out, i, gate / (1.0f + exponential(-gate)) * load(ups + i));
        }
    }
}

static void run_layer(const struct model *model, int64_t index, int64_t rows, struct workspace *space) {
    const struct layer *layer = &model->layers[index];
    norm_rows(model, space->x, layer->attention_norm, rows, space->normed);
    product(&layer->qkv, rows, space->normed, space->qkv, WRITE, space);
    place_rows(model, index, rows, space);
    attend_rows(model, index, rows, space, space->normed);
    product(&layer->out, rows, space->normed, space->x, ADD, space);
    norm_rows(model, space->x, layer->mlp_norm, rows, space->normed);
    product(&layer->gate_up, rows, space->normed, space->gate_up, WRITE, space);
    gate_rows(model, space->gate_up, rows);
    product(&layer->down, rows, (const word *)space->gate_up, space->x, ADD, space);
}

/* Calls */

static int64_t round_up(int64_t bytes) { return (bytes + 63) / 64 * 64; }

/* Lays the workspace out from base on; returns its size in bytes. */
static int64_t lay_out(const struct model *model, char *base, struct workspace *space) {
    int64_t attended = model->heads * model->dim, positions = scores_of(model), dim = model->dim;
    int64_t normed = attended > model->hidden ? attended : model->hidden, used = 0;
#define TAKE(field, count) (space->field = (void *)(base + used), used += round_up((count) * (int64_t)sizeof *space->field))
    TAKE(x, CHUNK * model->hidden);
    TAKE(normed, CHUNK * normed);
    TAKE(qkv, CHUNK * (model->heads + 2 * model->kv_heads) * model->dim);
    TAKE(gate_up, CHUNK * 2 * model->intermediate);
    TAKE(scores, ROWS * positions);
    TAKE(mixed, ROWS * dim);
    TAKE(turned, dim);
    TAKE(row_scales, CHUNK);
    TAKE(bytes, CHUNK * (normed > model->intermediate ? normed : model->intermediate) / 4);
    TAKE(queries, CHUNK * attended);
    TAKE(key, dim);
    TAKE(tail, positions / model->packing * dim);
    TAKE(seen, positions);
    TAKE(rows, CHUNK);
#undef TAKE
    return used;
}

int64_t talkahead_workspace_bytes(const struct model *model) {
    struct workspace space;
    return lay_out(model, 0, &space);
}

/* A slot's positions fill whole multiples of it. */
int64_t talkahead_panel(void) { return PANEL; }

static int fits(const struct model *model, const struct bursts *bursts) {
    for (int64_t i = 0; i < bursts->count; i++) {
        int64_t slot = bursts->slots[i], past = bursts->pasts[i], size = bursts->sizes[i];
        if (slot < 0 || slot >= model->num_slots || past < 0 || size < 1) return 0;
        if (past + size > model->num_positions) return 0;
    }
    return 1;
}

static struct row row_of(const struct bursts *bursts, int64_t burst, int64_t node) {
    int64_t tree = bursts->trees ? bursts->trees[burst] : 0;
    const int32_t *parents = bursts->parents && tree >= 0 ? bursts->parents + tree : NULL;
    struct row row = {bursts->slots[burst], bursts->pasts[burst], node, node, node + 1 == bursts->sizes[burst], parents};
    if (parents) {
        row.depth = 0;
        for (int64_t above = parents[node]; above >= 0; above = parents[above]) row.depth++;
    }
    return row;
}

/* Norms and scores the chunk's wanted rows; returns how many. hidden [wanted, D], logits [wanted, V]. */
static int64_t read_out(const struct model *model, int64_t rows, int only_last, struct workspace *space,
                        float *hidden, float *logits) {
    int64_t wanted = 0;
    for (int64_t r = 0; r < rows; r++)
        if (!only_last || space->rows[r].is_last)
            norm(1, space->x + r * model->hidden, model->final_norm, model->hidden, model->epsilon,
                 (word *)hidden + wanted++ * model->hidden);
    narrow(model->entering, hidden, wanted * model->hidden, space->normed);
    product(&model->head, wanted, space->normed, logits, WRITE, space);
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
        for (int64_t layer = 0; layer < model->num_layers; layer++) run_layer(model, layer, rows, &space);
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
