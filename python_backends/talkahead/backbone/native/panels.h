/* Products of rows with a panel of weights, keys or values: it lies so that a vector holds one input of neighbouring
 * outputs, and is read once for several rows. Each output is one chain of sums in the order of the inputs. */
#pragma once

#include "vectors.h"

#define ROWS 6 /* rows that share a load of weights */
#define ZERO_BYTE 128 /* of rows that meet weights of bytes, which have no sign */
#if defined(__AVX512VNNI__)
#define MOST_OF_PAIR 0
#else
#define MOST_OF_PAIR 128 /* of two neighbouring weights of bytes with one sign: so their products add up in 16 bits */
#endif
#if defined(__AVX512F__)
#define VECTORS_OF_NIBBLES 2 /* that are computed at once: each row has twice as many sums, whole numbers and floats */
#else
#define VECTORS_OF_NIBBLES 1
#endif

/* How weights lie: as bfloat16 to be widened, as float32, as bfloat16 in pairs of neighbouring inputs, as bytes in
 * fours of them, or as halves of bytes in eights (nibbles.h). */
enum kind { BFLOAT16, FLOAT32, PAIRED, BYTES, NIBBLES };

/* What becomes of a kernel's sums: they are written, are added to what is there, or go on from what is there. */
enum mode { WRITE, ADD, CONTINUE };

/* out [rows, vectors of LANES] from x [rows, steps] and a panel [steps, stride]; strides in words. x_stride is from one
 * row to the next; of nibbles from one group to the next, as nibbles.h has them. */
struct task {
    const word *panel;
    int64_t stride, steps;
    const word *x;
    int64_t x_stride;
    float *out;
    int64_t out_stride;
    enum mode mode;
    int64_t reach; /* words from weights that are read to those that are fetched meanwhile, into L2; below 0 as far, but
                    * of the lines that are read at once the first alone */
    const float *scales, *row_scales; /* of bytes: [outputs], [rows]; the latter of nibbles too */
    const int32_t *offsets;
    const char *ahead; /* what to fetch meanwhile, a line's address every `apart` bytes; 0: what follows in the panel */
    int64_t apart;
};

/* How far ahead weights are fetched where nobody has measured it (reach_choice.py): on some CPUs their own guesses end with
 * each page, and the more rows are multiplied, the fewer loads they have under way. A Xeon on the avx2 path, steps of 1, 2,
 * 4 rows: Llasa-1B in int4 on two threads, from memory, 43.8, 56.9, 80.3 ms without, 31.5, 34.0, 39.8 so (and 33.0, 35.2,
 * 40.5 to 26.8, 27.7, 31.1 with AVX-512); the 20 M talker in int8, from L3, 0.85, 0.98, 1.61 to 0.79, 0.87, 1.60. Twice as
 * far is no better there. An EPYC of Zen 4, forwards of the 23 M talker in int8, of 1, 2, 3, 4, 5 rows: 407, 497, 511, 608,
 * 739 us without; 494, 741, 746, 746, 775 so; 518, 720, 628, 499, 576 four times as far. Where L3 is slower than up to three
 * rows are multiplied, fetching all lines is no good: on that EPYC, its L3 busy with others, 502, 531, 567, 664 us of 1 to 4
 * rows without, 759, 857, 844, 602 four times as far, but 432, 477, 540, 655 with one line of four, which the CPU's own
 * guesses follow, eight times as far. */
#define AHEAD 1152
#define AHEAD_OF_ROWS (4 * AHEAD) /* of three rows and more */
#define LINE 64                   /* bytes that memory is fetched by */
INLINE int64_t usual_reach(int64_t rows) { return rows > 2 ? AHEAD_OF_ROWS : AHEAD; }

/* What a reach asks for while the line that begins `line` words after `read` is read. */
INLINE const word *ahead_of(const word *read, int64_t line, int64_t reach) {
    return reach < 0 ? read - reach : read + line + reach;
}

/* Where a panel is read for several blocks of rows, the next one is fetched meanwhile, a part with each block: else memory
 * has nothing to do while all but the first block are multiplied. A Xeon with AVX-512 and without AMX, forwards of 8, 16,
 * 32 rows of the 23 M talker in int8: 1,220, 1,900, 3,340 us to 1,110, 1,640, 3,080. Kernels that are slower than memory
 * do without. */
#if defined(__AVX512VNNI__)
#define FETCHES_NEXT 1
#else
#define FETCHES_NEXT 0
#endif

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

/* Of pairs each lane adds both products. Intel's cores, which have half precision too, make a product of pairs every other
 * cycle, and four of floats meanwhile: a codec in bfloat16 takes 102 us a frame of 12 for 139 with its own instruction. */
INLINE vec add_product(int kind, vec sum, word x, vec weights) {
#if defined(__AVX512BF16__) && !defined(__AVX512FP16__)
    if (kind == PAIRED)
        return (vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_epi32((int)x), (__m512bh)weights);
#else /* One after the other, widened, for the memory that pairs do not take: on an EPYC with AVX2 alone steps of 1, 4, 16
       * streams of the 20 M talker take 0.77, 0.64, 0.76 of their time with keys and values of floats. */
    if (kind == PAIRED) {
        uvec pair = (uvec){0} + x, both = (uvec)weights;
        sum = add_multiplied(sum, (vec)(pair << 16), (vec)(both << 16));
        return add_multiplied(sum, (vec)(pair & 0xffff0000u), (vec)(both & 0xffff0000u));
    }
#endif
    float value;
    memcpy(&value, &x, sizeof value);
    return add_multiplied(sum, spread(value), weights);
}

/* A panel's lanes of sums are whole numbers; each adds four products of bytes of x, which have no sign, with signed bytes
 * of its weights. */
INLINE void add_bytes(vec *sums, word x, const vec *weights) {
#if defined(__AVX512VNNI__) /* in one piece, or gcc 12 copies sums to and fro, and reads weights again for each row */
    __asm__("vpdpbusd %5, %4, %0\n\tvpdpbusd %6, %4, %1\n\tvpdpbusd %7, %4, %2\n\tvpdpbusd %8, %4, %3"
            : "+&v"(sums[0]), "+&v"(sums[1]), "+&v"(sums[2]), "+&v"(sums[3])
            : "v"(_mm512_set1_epi32((int)x)), "v"(weights[0]), "v"(weights[1]), "v"(weights[2]), "v"(weights[3]));
#else /* Where two products may not fit, x has to give its signs to the weights, row by row. An EPYC's core with AVX2 alone
       * makes 69 G products a second so, of 2 to 6 rows and weights at hand, and these 92 to 98 (of one row 59, 80). */
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; v++) {
        half_vec pairs = byte_products((uvec){0} + x, (ivec)weights[v]);
        sums[v] = (vec)((ivec)sums[v] + paired_products(pairs, (half_vec){0} + 1));
#if defined(__x86_64__)
        __asm__("" : "+v"(sums[v])); /* at once, or gcc 12 keeps products, and then sums, in memory */
#endif
    }
#endif
}

/* What sums of bytes, which are whole numbers, are worth. */
INLINE vec scaled(vec sums, const int32_t *offsets, const float *scales, float row_scale) {
    ivec whole = (ivec)sums - *(const loose_ivec *)offsets;
    return rounded(__builtin_convertvector(whole, vec) * (load(scales) * row_scale));
}

/* The constants are known where this is inlined, so sums stay in registers. */
INLINE void multiply_tile(int rows, int vectors, int kind, const struct task *task) {
    const word *panel = task->panel, *x = task->x;
    int64_t stride = task->stride, steps = task->steps, x_stride = task->x_stride;
    int lines = (int)blocks_of(LINE, (kind == BFLOAT16 ? vectors / 2 : vectors) * (int64_t)sizeof(vec));
    const char *ahead = (const char *)ahead_of(panel, 0, task->reach);
    int64_t apart = task->reach < 0 ? 0 : LINE; /* 0: a line that is asked for again costs less than a branch */
    int64_t pace = stride * (int64_t)sizeof *panel;
    if (task->ahead) ahead = task->ahead, apart = task->apart, pace = lines * apart;
    vec sums[ROWS][VECTORS] = {0};
    if (task->mode == CONTINUE)
#pragma GCC unroll 6
        for (int row = 0; row < rows; row++)
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) sums[row][v] = load(task->out + row * task->out_stride + v * LANES);
    for (int64_t step = 0; step < steps; step++) {
        vec weights[VECTORS];
        read_weights(kind, vectors, panel + step * stride, weights);
        for (int line = 0; line < lines; line++) __builtin_prefetch(ahead + line * apart, 0, 2);
        ahead += pace;
#pragma GCC unroll 6
        for (int row = 0; row < rows; row++) {
            word value = x[row * x_stride + step];
            if (kind == BYTES)
                add_bytes(sums[row], value, weights);
            else
#pragma GCC unroll 4
                for (int v = 0; v < vectors; v++) sums[row][v] = add_product(kind, sums[row][v], value, weights[v]);
        }
    }
#pragma GCC unroll 6
    for (int row = 0; row < rows; row++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            float *to = task->out + row * task->out_stride + v * LANES;
            if (kind == BYTES)
                sums[row][v] = scaled(sums[row][v], task->offsets + v * LANES, task->scales + v * LANES,
                                      task->row_scales[row]);
            store(to, task->mode == ADD ? load(to) + sums[row][v] : sums[row][v]);
        }
}

/* One or two rows meet neighbouring whole panels at once, where a single panel's few sums would wait for each other.
 * Measured on an EPYC without AVX-512, all products of the 7 M talker: one row 0.40 to 0.20 ms, two 0.43 to 0.29; three
 * rows of two panels do not fit the registers, and float32 weights come from memory no faster. */
INLINE void multiply_abreast(int rows, int panels, const struct task *task) {
    const word *x = task->x;
    int64_t stride = task->stride, steps = task->steps;
    vec sums[2][MOST_ABREAST * VECTORS] = {0};
    for (int64_t step = 0; step < steps; step++)
#pragma GCC unroll 4
        for (int panel = 0; panel < panels; panel++) {
            vec weights[VECTORS];
            read_weights(BFLOAT16, VECTORS, task->panel + (panel * steps + step) * stride, weights);
#pragma GCC unroll 2
            for (int row = 0; row < rows; row++)
#pragma GCC unroll 4
                for (int v = 0; v < VECTORS; v++) {
                    vec *sum = &sums[row][panel * VECTORS + v];
                    *sum = add_product(BFLOAT16, *sum, x[row * task->x_stride + step], weights[v]);
                }
        }
#pragma GCC unroll 2
    for (int row = 0; row < rows; row++)
#pragma GCC unroll 8
        for (int v = 0; v < panels * VECTORS; v++) {
            float *to = task->out + row * task->out_stride + v * LANES;
            store(to, task->mode == ADD ? load(to) + sums[row][v] : sums[row][v]);
        }
}

/* Panels that go together for so many rows of a product; 1 where a panel goes alone. */
INLINE int panels_abreast(int64_t rows, int64_t kind) {
    return kind == BFLOAT16 && rows <= 2 ? MOST_ABREAST / (int)rows : 1;
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

#include "nibbles.h"

static __attribute__((noinline)) void multiply(int rows, int vectors, int kind, const struct task *task) {
    if (kind == PAIRED)
        multiply_kind(rows, vectors, PAIRED, task);
    else if (kind == FLOAT32)
        multiply_kind(rows, vectors, FLOAT32, task);
    else if (kind == BYTES)
        multiply_rows(rows, VECTORS, BYTES, task);
    else if (kind == NIBBLES)
        multiply_nibbles(rows, task);
    else
        multiply_rows(rows, VECTORS, BFLOAT16, task);
}

/* Vectors that a kernel computes at once for the first `count` outputs of a panel, all of it if need be. */
INLINE int vectors_for(int64_t count) { return count > 2 * LANES ? VECTORS : count > LANES ? 2 : 1; }

/* Words between one step of a panel and the next. */
INLINE int64_t stride_of(int64_t kind) { return kind == BFLOAT16 ? PANEL / 2 : PANEL; }

/* Rows that go next, of those left: blocks of about one size, as few as can be. */
INLINE int64_t next_rows(int64_t left) { return blocks_of(blocks_of(ROWS, left), left); }

/* Outputs of whole vectors that a kernel computes next, of those left. */
INLINE int64_t next_width(int64_t left) { return left < PANEL && left > 2 * LANES ? 2 * LANES : least(left, PANEL); }
