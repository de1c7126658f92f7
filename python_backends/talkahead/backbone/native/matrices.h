/* Matrices of weights, as panels, and their products with rows of activations. */
#pragma once

#include "panels.h"
#include "tiles.h"

#define CHUNK 96 /* rows that pass all layers together: bounds the workspace, which stays in L2 */
#define PARTS 3  /* bfloat16 values whose sum is a float, exactly */

/* Rows that meet nibbles sooner without tiles. By the instructions' known times (no CPU with tiles has timed it yet) a
 * group of 16 outputs takes 40 cycles in tiles, for one row as for sixteen, and 5.5 and a row's share of 6 without. */
#define FEW_ROWS 8

/* y = W x + bias with W [outputs, inputs], as panels of PANEL outputs, within a panel input by input. */
struct matrix {
    const word *panels;
    int64_t inputs, outputs, kind; /* of nibbles inputs are whole groups */
    int64_t parts;          /* 0: no tiles. 1: tiles. PARTS: tiles, with floats that come in as so many bfloat16 each */
    const float *scales;    /* of bytes: [outputs], in whole panels */
    const int32_t *offsets; /* of bytes: 128 times the sum of each output's weights */
    const float *bias;      /* [outputs], or NULL for none */
    const int64_t *reach;   /* [ROWS + 1], of tasks, by the rows that go together */
};

/* Where one thread multiplies. */
struct bench {
    float *sums;       /* of tiles: [CHUNK, PARTS, PANEL] */
    int64_t tile_rows, tile_words; /* what this thread's tiles are shaped for; 0 before its first product of a call */
};

/* What enters products, narrowed, and the caller's bench. */
struct stage {
    word *narrowed;    /* [CHUNK, PARTS, inputs / 2] */
    float *row_scales; /* of bytes and nibbles: [CHUNK] */
    struct bench bench;
};

/* What rows x, which have entered, make of a matrix's outputs. */
struct multiplied {
    const struct matrix *matrix;
    int64_t rows;
    const word *x;
    const float *row_scales; /* of bytes and nibbles: [rows] */
    int64_t out_stride;      /* from one row of what is written to the next */
    enum mode mode;
    const char *ahead; /* what one row's panel fetches meanwhile; 0: what follows it */
};

/* Lays `count` values of a field out after what is `used` of the memory at `base`. */
#define TAKE(room, field, count) \
    ((room)->field = (void *)(base + used), used += blocks_of(64, (count) * (int64_t)sizeof *(room)->field) * 64)

/* Lays out a bench; returns its size in bytes, as those below. */
static int64_t lay_out_bench(char *base, struct bench *bench) {
    int64_t used = 0;
    bench->tile_rows = bench->tile_words = 0;
    TAKE(bench, sums, CHUNK * PARTS * PANEL);
    return used;
}

/* For rows of at most `widest` values. */
static int64_t lay_out_stage(int64_t widest, char *base, struct stage *stage) {
    int64_t used = 0;
    TAKE(stage, narrowed, CHUNK * PARTS * widest / 2);
    TAKE(stage, row_scales, CHUNK);
    return used + lay_out_bench(base + used, &stage->bench);
}

/* What a thread that may have used tiles does last. */
static void leave(const struct bench *bench) {
    if (bench->tile_rows) release_tiles();
}

/* Values in a word of activations. */
INLINE int64_t packing_of(int64_t kind) { return kind == BYTES || kind == NIBBLES ? 4 : kind == PAIRED ? 2 : 1; }

/* Words of a row that meets the matrix. Bytes in tiles are followed by weights of zero, up to a whole tile. */
INLINE int64_t steps_of(const struct matrix *matrix) {
    int64_t steps = matrix->inputs / packing_of(matrix->kind);
    return matrix->kind == BYTES && matrix->parts ? blocks_of(TILE_WORDS, steps) * TILE_WORDS : steps;
}

/* x [count] as whole numbers from 1 to 255 where `zero` is 128, from -127 to 127 where it is 0; returns what a step
 * between them is worth. */
static float narrow_to_bytes(const float *x, int64_t count, float zero, word *to) {
    vec largest = {0};
    for (int64_t i = 0; i < count; i += LANES) largest = larger(larger(load(x + i), -load(x + i)), largest);
    float best = largest_lane(larger(largest, spread(1e-30f)));
    const float rounder = 12582912.0f + zero; /* as in the exponential: whole numbers in the low bits */
    for (int64_t i = 0; i < count; i += LANES)
        put_bytes((uint8_t *)to + i, (uvec)(load(x + i) * (127.0f / best) + rounder) & 0xff);
    return best / 127.0f;
}

/* x [count] as signed bytes, group by group as nibbles.h has them, through a line of room [count / 4]; returns what a step
 * between them is worth. */
static float narrow_to_groups(const float *x, int64_t count, int64_t stride, word *line, word *to) {
    float step = narrow_to_bytes(x, count, 0, line);
    for (int64_t group = 0; group < count / GROUP; group++, line += GROUP_WORDS, to += stride) {
        const int8_t *bytes = (const int8_t *)line;
        int32_t sum = 0;
        for (int64_t i = 0; i < GROUP; i++) sum += bytes[i];
        memcpy(to, line, GROUP);
        to[GROUP_WORDS] = (word)(-8 * sum);
    }
    return step;
}

/* x [count] as PARTS rows of bfloat16 that add up to it, in pairs. */
static void split(const float *x, int64_t count, word *to) {
    for (int64_t i = 0; i < count; i += LANES) {
        vec rest = load(x + i);
        for (int64_t part = 0; part < PARTS; part++) rest -= put_narrow(to + part * count / 2, i, rest);
    }
}

/* Words from one row of what meets the matrix to the next. */
INLINE int64_t row_words(const struct matrix *matrix) {
    return matrix->parts == PARTS ? PARTS * matrix->inputs / 2 : matrix->kind == NIBBLES ? GROUP_ROW : steps_of(matrix);
}

/* What x [rows, inputs] makes of the matrix, as the words that it is multiplied with. */
static struct multiplied enter(const struct matrix *matrix, int64_t rows, const word *x, enum mode mode,
                               struct stage *stage) {
    int64_t inputs = matrix->inputs;
    int is_narrowed = packing_of(matrix->kind) == 4 || matrix->parts == PARTS;
    word *line = stage->narrowed + rows * (inputs / GROUP) * GROUP_ROW; /* after all groups */
    for (int64_t row = 0; is_narrowed && row < rows; row++) {
        const float *from = (const float *)x + row * inputs;
        word *to = stage->narrowed + row * row_words(matrix);
        if (matrix->parts == PARTS)
            split(from, inputs, to);
        else if (matrix->kind == BYTES)
            stage->row_scales[row] = narrow_to_bytes(from, inputs, ZERO_BYTE, to);
        else
            stage->row_scales[row] = narrow_to_groups(from, inputs, rows * GROUP_ROW, line, to);
    }
    x = is_narrowed ? stage->narrowed : x;
    return (struct multiplied){matrix, rows, x, stage->row_scales, matrix->outputs, mode};
}

/* What a row's sums are in the end, at `lane` of a panel. */
INLINE vec settled(int kind, int64_t parts, const struct matrix *matrix, int64_t output, const float *sums,
                   int64_t lane, float row_scale) {
    if (kind == BYTES)
        return scaled(load(sums + lane), matrix->offsets + output + lane, matrix->scales + output + lane, row_scale);
    vec sum = load(sums + lane);
    for (int64_t part = 1; part < parts; part++) sum += load(sums + part * PANEL + lane);
    return sum;
}

/* Kind and parts are known where this is inlined. */
INLINE void settle_as(int kind, int64_t parts, const struct multiplied *product, int64_t output, int64_t width,
                      const float *sums, float *out) {
    int64_t whole = width / LANES * LANES;
    for (int64_t row = 0; row < product->rows; row++, sums += parts * PANEL, out += product->out_stride) {
        float row_scale = kind == BYTES ? product->row_scales[row] : 1.0f;
        for (int64_t lane = 0; lane < whole; lane += LANES) {
            vec sum = settled(kind, parts, product->matrix, output, sums, lane, row_scale);
            store(out + lane, product->mode == ADD ? load(out + lane) + sum : sum);
        }
        if (whole == width) continue;
        vec sum = settled(kind, parts, product->matrix, output, sums, whole, row_scale);
        for (int64_t i = whole; i < width; i++)
            out[i] = product->mode == ADD ? out[i] + sum[i - whole] : sum[i - whole];
    }
}

/* Sums of tiles [rows, parts, PANEL] into the first `width` outputs of a panel. */
static void settle(const struct multiplied *product, int64_t output, int64_t width, const float *sums, float *out) {
    if (product->matrix->kind == BYTES)
        settle_as(BYTES, 1, product, output, width, sums, out);
    else if (product->matrix->parts == PARTS)
        settle_as(PAIRED, PARTS, product, output, width, sums, out);
    else
        settle_as(PAIRED, 1, product, output, width, sums, out);
}

/* Tiles hold so many rows from now on, and meet so many words of each at once. */
INLINE void shape(struct bench *bench, int64_t rows, int64_t words) {
    if (rows == bench->tile_rows && words == bench->tile_words) return;
    shape_tiles(bench->tile_rows = rows, bench->tile_words = words);
}

/* Words of a panel of so many steps. */
INLINE int64_t panel_words(int64_t steps, int64_t kind) {
    return kind == NIBBLES ? PANEL / STRIP * (steps / GROUP_WORDS) * GROUP_STRIDE : steps * stride_of(kind);
}

/* Rows go through tiles in blocks of one size; the last one ends with the last row, and may begin in the one before.
 * What tiles add up in the end goes straight to its place, anything else over `sums`. */
static void multiply_in_tiles(const struct multiplied *product, int64_t first, int64_t end, float *out,
                              struct bench *bench) {
    const struct matrix *matrix = product->matrix;
    int64_t steps = steps_of(matrix), lines = product->rows * matrix->parts;
    int64_t size = blocks_of(blocks_of(TILE_ROWS, lines), lines);
    int is_plain = matrix->kind == PAIRED && matrix->parts == 1 && product->mode == WRITE;
    const word *panel = matrix->panels + first / PANEL * steps * PANEL;
    struct task task = {panel, PANEL, steps, product->x, steps, bench->sums, PANEL, WRITE};
    shape(bench, size, TILE_WORDS);
    for (; first < end; first += PANEL, out += PANEL, task.panel += steps * PANEL) {
        int is_settled = is_plain && end - first >= PANEL;
        float *sums = is_settled ? out : bench->sums;
        task.out_stride = is_settled ? product->out_stride : PANEL;
        for (int64_t block = 0; block < lines; block += size) {
            int64_t line = least(block, lines - size);
            task.x = product->x + line * steps, task.out = sums + line * task.out_stride;
            multiply_tiles(VECTORS, (int)matrix->kind, &task);
        }
        if (!is_settled) settle(product, first, least(end - first, PANEL), bench->sums, out);
    }
}

/* The same of nibbles, vector by vector of outputs: what the last block has in common with the one before is written
 * once. */
static void multiply_nibbles_in_tiles(const struct multiplied *product, int64_t first, int64_t end, float *out,
                                      struct bench *bench) {
    const struct matrix *matrix = product->matrix;
    int64_t steps = steps_of(matrix), rows = product->rows, size = blocks_of(blocks_of(TILE_ROWS, rows), rows);
    int64_t words = panel_words(steps, NIBBLES) / (PANEL / STRIP);
    struct task task = {matrix->panels + first / STRIP * words, STRIP, steps, product->x, rows * GROUP_ROW, out,
                        product->out_stride, product->mode, matrix->reach[ROWS]};
    shape(bench, size, GROUP_WORDS);
    for (; first < end; first += LANES, out += LANES) {
        int64_t lane = first % STRIP;
        for (int64_t row = 0; row < rows; row += size) {
            int64_t line = least(row, rows - size);
            task.x = product->x + line * GROUP_ROW, task.row_scales = product->row_scales + line;
            task.out = out + line * product->out_stride;
            multiply_nibble_tiles(lane, least(LANES, end - first), row - line, size, &task);
        }
        if (lane + LANES == STRIP) task.panel += words;
    }
}

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

/* Products with as many whole panels as go together, from output `first` on; returns where they end. */
static int64_t multiply_whole(const struct matrix *matrix, struct task task, int64_t rows, int64_t first, int64_t end) {
    int64_t together = panels_abreast(rows, matrix->kind);
    if (together <= 1) return first;
    for (; first + together * PANEL <= end; first += together * PANEL) {
        if (rows == 1)
            multiply_abreast(1, MOST_ABREAST, &task);
        else
            multiply_abreast(2, MOST_ABREAST / 2, &task);
        task.panel += together * task.steps * task.stride, task.out += together * PANEL;
    }
    return first;
}

static void multiply_in_panels(const struct multiplied *product, int64_t first, int64_t end, float *out) {
    const struct matrix *matrix = product->matrix;
    int64_t steps = steps_of(matrix), rows = product->rows, words = panel_words(steps, matrix->kind);
    int kind = (int)matrix->kind;
    struct task task = {matrix->panels + first / PANEL * words, stride_of(kind), steps, product->x, steps, out,
                        product->out_stride, product->mode};
    if (kind == NIBBLES) task.x_stride = rows * GROUP_ROW;
    int64_t begin = first, blocks = FETCHES_NEXT ? blocks_of(ROWS, rows) : 1;
    task.apart = blocks_of(blocks, LINE);
    first = multiply_whole(matrix, task, rows, first, end);
    task.panel += (first - begin) / PANEL * words, out += first - begin;
    for (; first < end; first += PANEL, out += PANEL, task.panel += words) {
        int64_t width = least(end - first, PANEL);
        const char *next = (const char *)(task.panel + words);
        for (int64_t row = 0, size, block = 0; row < rows; row += size, block++) {
            size = next_rows(rows - row);
            task.ahead = blocks > 1 ? next + block * words * (int64_t)sizeof(word) / blocks : product->ahead;
            task.x = product->x + row * row_words(matrix), task.out = out + row * product->out_stride;
            task.row_scales = product->row_scales + row, task.reach = matrix->reach[size];
            if (kind == BYTES) task.scales = matrix->scales + first, task.offsets = matrix->offsets + first;
            if (width == PANEL)
                multiply((int)size, VECTORS, kind, &task);
            else
                multiply_edge((int)size, width, kind, task);
        }
    }
}

static void add_bias(const struct multiplied *product, int64_t first, int64_t end, float *out) {
    for (int64_t row = 0; row < product->rows; row++, out += product->out_stride)
        for (int64_t i = first; i < end; i++) out[i - first] += product->matrix->bias[i];
}

/* The outputs from `first`, which begins a panel, to `end`, into or onto out, where output `first` of the first row
 * is. */
static void multiply_outputs(const struct multiplied *product, int64_t first, int64_t end, float *out,
                             struct bench *bench) {
    if (!product->matrix->parts || (product->matrix->kind == NIBBLES && product->rows <= FEW_ROWS))
        multiply_in_panels(product, first, end, out);
    else if (product->matrix->kind == NIBBLES)
        multiply_nibbles_in_tiles(product, first, end, out, bench);
    else
        multiply_in_tiles(product, first, end, out, bench);
    if (product->matrix->bias) add_bias(product, first, end, out);
}

/* out [rows, outputs] = W x + bias, or out += that, for x [rows, inputs]: in words of pairs where W is that, else
 * floats. */
static void product(const struct matrix *matrix, int64_t rows, const word *x, float *out, enum mode mode,
                    struct stage *stage) {
    if (!rows) return;
    struct multiplied all = enter(matrix, rows, x, mode, stage);
    multiply_outputs(&all, 0, matrix->outputs, out, &stage->bench);
}

int64_t talkahead_packed_bytes(int64_t inputs, int64_t outputs, int64_t kind) {
    return blocks_of(PANEL, outputs) * panel_words(inputs / packing_of(kind), kind) * (int64_t)sizeof(word);
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

/* A word of one output's nibbles, from `input` on. */
static word eight_of(const float *weights, int64_t inputs, int64_t outputs, int64_t output, int64_t input) {
    word eight = 0;
    for (int i = 0; i < 8 && output < outputs; i++)
        eight |= (word)(weights[output * inputs + input + i] + 8.0f) << (i < 4 ? 8 * i : 8 * (i - 4) + 4);
    return eight;
}

/* Whole weights [outputs, inputs] from -8 to 7, and the scales of their groups [outputs, inputs / GROUP], which are
 * exact in bfloat16, into panels of nibbles. */
void talkahead_pack_nibbles(const float *weights, const float *scales, int64_t inputs, int64_t outputs, word *to) {
    int64_t groups = inputs / GROUP, strips = blocks_of(PANEL, outputs) * (PANEL / STRIP);
    for (int64_t first = 0; first < strips * STRIP; first += STRIP)
        for (int64_t group = 0; group < groups; group++, to += STRIP / 2) {
            for (int64_t input = group * GROUP; input < (group + 1) * GROUP; input += 8)
                for (int64_t lane = 0; lane < STRIP; lane++) *to++ = eight_of(weights, inputs, outputs, first + lane, input);
            for (int64_t lane = 0; lane < STRIP; lane++)
                ((half_word *)to)[lane] = (half_word)(bits_of(scales, groups, outputs, first + lane, group) >> 16);
        }
}

/* The sum of 1 where the CPU multiplies pairs, 2 where it multiplies bytes, and 4 where it has tiles for both. */
int talkahead_abilities(void) {
    int abilities = 0;
#if defined(__AVX512BF16__)
    abilities |= 1;
#endif
#if defined(__AVX2__)
    abilities |= 2;
#endif
#if defined(__AVX512BF16__) && defined(__AVX512VNNI__)
    if (may_use_tiles()) abilities |= 4;
#endif
    return abilities;
}
