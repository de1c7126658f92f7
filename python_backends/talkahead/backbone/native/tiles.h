/* Products in the CPU's matrix tiles (AMX): 16 rows meet 16 outputs and 64 bytes of inputs in one instruction.
 *
 * An output is a chain of sums of so many inputs each, in their order, the same whichever row of a tile it lies in and
 * however many rows there are. One row goes the same way: it takes as long as its weights take to arrive.
 */
#pragma once

#include "panels.h"

#define TILE_ROWS 16
#define TILE_WORDS 16 /* of a row */

/* Tests bring tiles of their own for a CPU that has none: tests/unit/backbone/emulated_tiles.h. */
#if !defined(TILES) && defined(__AMX_BF16__) && defined(__AMX_INT8__) && defined(__AVX512BF16__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#define TILES

#define ZERO_TILE(tile) __asm__ volatile("tilezero %%tmm" #tile : : :)
#define LOAD_TILE(tile, from, stride) \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile : : "r"(from), "r"((int64_t)(stride)) : "memory")
#define STORE_TILE(tile, to, stride) \
    __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" : : "r"(to), "r"((int64_t)(stride)) : "memory")
#define ADD_PAIRS(sums, rows, weights) \
    __asm__ volatile("tdpbf16ps %%tmm" #weights ", %%tmm" #rows ", %%tmm" #sums : : :)
#define ADD_BYTES(sums, rows, weights) /* of rows without a sign */ \
    __asm__ volatile("tdpbusd %%tmm" #weights ", %%tmm" #rows ", %%tmm" #sums : : :)
#define ADD_SIGNED_BYTES(sums, rows, weights) \
    __asm__ volatile("tdpbssd %%tmm" #weights ", %%tmm" #rows ", %%tmm" #sums : : :)
#define SET_SHAPES(shapes) __asm__ volatile("ldtilecfg %0" : : "m"(shapes))
#define RELEASE_TILES() __asm__ volatile("tilerelease" : : :)

/* Whether the system lets this process use tiles; asks for it. */
static int may_use_tiles(void) {
    const long request_permission = 0x1023, tile_data = 18;
    return !syscall(SYS_arch_prctl, request_permission, tile_data);
}

#endif

#if defined(TILES)
/* Tiles 0 to 3 hold the sums of a panel's outputs, 4 the rows, 5 and 6 weights, keys or values. Products of the next
 * calls are of so many rows, and of so many words of each at once. */
static void shape_tiles(int64_t rows, int64_t words) {
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } shape __attribute__((aligned(64))) = {1};
    for (int tile = 0; tile < 8; tile++) {
        shape.bytes[tile] = (uint16_t)(4 * (tile == 4 ? words : TILE_WORDS));
        shape.rows[tile] = (uint8_t)(tile < 5 ? rows : words);
    }
    SET_SHAPES(shape);
}

static void release_tiles(void) { RELEASE_TILES(); }

#define ADD_TILES(sums, weights) \
    do { \
        if (kind == BYTES) \
            ADD_BYTES(sums, 4, weights); \
        else \
            ADD_PAIRS(sums, 4, weights); \
    } while (0)

/* The constants are known where this is inlined, so only the tiles that are wanted are touched. */
INLINE void multiply_tiles_of(int kind, int vectors, const struct task *task) {
    const int64_t weights_stride = task->stride * sizeof(word), rows_stride = task->x_stride * sizeof(word);
    const int64_t sums_stride = task->out_stride * sizeof(float);
    if (task->mode == CONTINUE) {
        LOAD_TILE(0, task->out, sums_stride);
        if (vectors > 1) LOAD_TILE(1, task->out + 16, sums_stride);
        if (vectors > 2) LOAD_TILE(2, task->out + 32, sums_stride);
        if (vectors > 2) LOAD_TILE(3, task->out + 48, sums_stride);
    } else {
        ZERO_TILE(0);
        if (vectors > 1) ZERO_TILE(1);
        if (vectors > 2) ZERO_TILE(2);
        if (vectors > 2) ZERO_TILE(3);
    }
    for (int64_t step = 0; step < task->steps; step += TILE_WORDS) {
        const word *at = task->panel + step * task->stride;
        LOAD_TILE(4, task->x + step, rows_stride);
        LOAD_TILE(5, at, weights_stride);
        ADD_TILES(0, 5);
        if (vectors > 1) LOAD_TILE(6, at + 16, weights_stride);
        if (vectors > 1) ADD_TILES(1, 6);
        if (vectors > 2) LOAD_TILE(5, at + 32, weights_stride);
        if (vectors > 2) ADD_TILES(2, 5);
        if (vectors > 2) LOAD_TILE(6, at + 48, weights_stride);
        if (vectors > 2) ADD_TILES(3, 6);
    }
    STORE_TILE(0, task->out, sums_stride);
    if (vectors > 1) STORE_TILE(1, task->out + 16, sums_stride);
    if (vectors > 2) STORE_TILE(2, task->out + 32, sums_stride);
    if (vectors > 2) STORE_TILE(3, task->out + 48, sums_stride);
}

/* A task of as many rows as tiles are shaped for, written or continued; its steps fill tiles. Nothing is fetched
 * ahead: the CPU's own guesses are as good, and the loads of tiles need the room. */
static __attribute__((noinline)) void multiply_tiles(int vectors, int kind, const struct task *task) {
    if (kind == BYTES)
        multiply_tiles_of(BYTES, 4, task);
    else if (vectors == 4)
        multiply_tiles_of(PAIRED, 4, task);
    else if (vectors == 2)
        multiply_tiles_of(PAIRED, 2, task);
    else
        multiply_tiles_of(PAIRED, 1, task);
}

/* Of one vector of a strip's outputs, at `lane`, the rows of a tile from `begin` on, of which so many fit `width`. Each
 * group's sums are the whole numbers of nibbles.h, for each weight's eight is taken off here, and are scaled and added
 * in its order: a row is the same to the bit by either. */
static __attribute__((noinline)) void multiply_nibble_tiles(int64_t lane, int64_t width, int64_t begin, int64_t rows,
                                                            const struct task *task) {
    word weights[GROUP_WORDS * LANES] __attribute__((aligned(64)));
    int32_t whole[TILE_ROWS * LANES] __attribute__((aligned(64))) = {0};
    vec sums[TILE_ROWS] = {0};
    const word *own = task->panel, *x = task->x;
    for (int64_t step = 0; step < task->steps; step += GROUP_WORDS, own += GROUP_STRIDE, x += task->x_stride) {
        for (int word = 0; word < GROUP_STRIDE && !lane; word += 16) __builtin_prefetch(ahead_of(own, word, task->reach), 0, 2);
#pragma GCC unroll 4
        for (int i = 0; i < GROUP / 8; i++) {
            uvec both = *(const loose_uvec *)(own + i * STRIP + lane);
            *(byte_vec *)(weights + 2 * i * LANES) = (byte_vec)(both & 0x0f0f0f0fu) - 8;
            *(byte_vec *)(weights + (2 * i + 1) * LANES) = (byte_vec)(both >> 4 & 0x0f0f0f0fu) - 8;
        }
        ZERO_TILE(0);
        LOAD_TILE(4, x, GROUP_ROW * sizeof(word));
        LOAD_TILE(5, weights, LANES * sizeof(word));
        ADD_SIGNED_BYTES(0, 4, 5);
        STORE_TILE(0, whole, LANES * sizeof(word));
        vec scale = read_scales((const half_word *)(own + GROUP / 8 * STRIP) + lane);
#pragma GCC unroll 16
        for (int row = 0; row < TILE_ROWS; row++) {
            vec sum = __builtin_convertvector(*(const loose_ivec *)(whole + row * LANES), vec);
            sums[row] = add_multiplied(sums[row], sum, scale);
        }
    }
#pragma GCC unroll 16
    for (int row = 0; row < TILE_ROWS; row++) {
        if (row < begin || row >= rows) continue;
        float *to = task->out + row * task->out_stride, worth[LANES];
        store(worth, rounded(sums[row] * task->row_scales[row]));
        for (int64_t i = 0; i < width; i++) to[i] = task->mode == ADD ? to[i] + worth[i] : worth[i];
    }
}
#else
static int may_use_tiles(void) { return 0; }
static void shape_tiles(int64_t rows, int64_t words) { (void)rows, (void)words; }
static void release_tiles(void) {}
static void multiply_tiles(int vectors, int kind, const struct task *task) { (void)vectors, (void)kind, (void)task; }
static void multiply_nibble_tiles(int64_t lane, int64_t width, int64_t begin, int64_t rows, const struct task *task) {
    (void)lane, (void)width, (void)begin, (void)rows, (void)task;
}
#endif
