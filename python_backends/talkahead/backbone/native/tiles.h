/* Products in the CPU's matrix tiles (AMX): 16 rows meet 16 outputs and 64 bytes of inputs in one instruction.
 *
 * An output is a chain of sums in the order of the inputs, the same whichever row of a tile it lies in and however
 * many rows there are. One row goes the same way: it takes as long as its weights take to arrive.
 */
#pragma once

#include "panels.h"

#define TILE_ROWS 16
#define TILE_WORDS 16 /* of a row */

#if defined(__AMX_BF16__) && defined(__AMX_INT8__) && defined(__AVX512BF16__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#define TILES

/* Tiles 0 to 3 hold the sums of a panel's outputs, 4 the rows, 5 and 6 weights. */
#define ZERO_TILE(tile) __asm__ volatile("tilezero %%tmm" #tile : : :)
#define LOAD_TILE(tile, from, stride) \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile : : "r"(from), "r"((int64_t)(stride)) : "memory")
#define STORE_TILE(tile, to, stride) \
    __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" : : "r"(to), "r"((int64_t)(stride)) : "memory")
#define ADD_TILES(sums, weights) \
    do { \
        if (kind == BYTES) \
            __asm__ volatile("tdpbusd %%tmm" #weights ", %%tmm4, %%tmm" #sums : : :); \
        else \
            __asm__ volatile("tdpbf16ps %%tmm" #weights ", %%tmm4, %%tmm" #sums : : :); \
    } while (0)

/* Whether the system lets this process use tiles; asks for it. */
static int may_use_tiles(void) {
    const long request_permission = 0x1023, tile_data = 18;
    return !syscall(SYS_arch_prctl, request_permission, tile_data);
}

/* Products of the next calls are of so many rows. */
static void shape_tiles(int64_t rows) {
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } shape __attribute__((aligned(64))) = {1};
    for (int tile = 0; tile < 8; tile++) {
        shape.bytes[tile] = 4 * TILE_WORDS;
        shape.rows[tile] = tile < 5 ? (uint8_t)rows : TILE_ROWS;
    }
    __asm__ volatile("ldtilecfg %0" : : "m"(shape));
}

static void release_tiles(void) { __asm__ volatile("tilerelease" : : :); }

/* sums [rows, PANEL] = x [rows, steps] times a panel [steps, PANEL], all in words; a panel at `next`, unless it is null,
 * is fetched meanwhile, into L2. */
INLINE void multiply_tiles_of(int kind, const word *x, int64_t steps, const word *panel, const word *next, float *sums) {
    const int64_t stride = PANEL * sizeof(word);
    ZERO_TILE(0);
    ZERO_TILE(1);
    ZERO_TILE(2);
    ZERO_TILE(3);
    for (int64_t step = 0; step < steps; step += TILE_WORDS) {
        const word *at = panel + step * PANEL;
        LOAD_TILE(4, x + step, steps * sizeof(word));
        for (int64_t at = 0; next && at < TILE_WORDS * PANEL; at += 16) __builtin_prefetch(next + step * PANEL + at, 0, 2);
        LOAD_TILE(5, at, stride);
        ADD_TILES(0, 5);
        LOAD_TILE(6, at + 16, stride);
        ADD_TILES(1, 6);
        LOAD_TILE(5, at + 32, stride);
        ADD_TILES(2, 5);
        LOAD_TILE(6, at + 48, stride);
        ADD_TILES(3, 6);
    }
    STORE_TILE(0, sums, stride);
    STORE_TILE(1, sums + 16, stride);
    STORE_TILE(2, sums + 32, stride);
    STORE_TILE(3, sums + 48, stride);
}

static void multiply_tiles(int64_t kind, const word *x, int64_t steps, const word *panel, const word *next, float *sums) {
    if (kind == BYTES)
        multiply_tiles_of(BYTES, x, steps, panel, next, sums);
    else
        multiply_tiles_of(PAIRED, x, steps, panel, next, sums);
}
#else
static int may_use_tiles(void) { return 0; }
static void shape_tiles(int64_t rows) { (void)rows; }
static void release_tiles(void) {}
static void multiply_tiles(int64_t kind, const word *x, int64_t steps, const word *panel, const word *next, float *sums) {
    (void)kind, (void)x, (void)steps, (void)panel, (void)next, (void)sums;
}
#endif
