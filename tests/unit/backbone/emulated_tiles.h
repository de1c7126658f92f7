/* The CPU's matrix tiles in plain C, so that a CPU without them tests what is computed in them: given to the compiler by
 * `-include`, which TALKAHEAD_CFLAGS asks for. What Intel's manual leaves to the shapes is asserted: a tile that is used
 * without a shape, or in another one's, ends the process. */
#pragma once

#include <assert.h>
#include <stdint.h>
#include <string.h>

#define TILES

struct emulated_shapes {
    uint8_t palette, start, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
};
static _Thread_local struct emulated_shapes emulated_shapes;
static _Thread_local uint8_t emulated_tiles[8][16][64];

static void emulated_set(const void *shapes) {
    memcpy(&emulated_shapes, shapes, sizeof emulated_shapes);
    memset(emulated_tiles, 0, sizeof emulated_tiles);
    assert(emulated_shapes.palette == 1);
    for (int tile = 0; tile < 8; tile++) assert(emulated_shapes.rows[tile] <= 16 && emulated_shapes.bytes[tile] <= 64);
}

static void emulated_zero(int tile) {
    assert(emulated_shapes.rows[tile]);
    memset(emulated_tiles[tile], 0, sizeof emulated_tiles[tile]);
}

static void emulated_load(int tile, const void *from, int64_t stride) {
    emulated_zero(tile);
    for (int row = 0; row < emulated_shapes.rows[tile]; row++)
        memcpy(emulated_tiles[tile][row], (const char *)from + row * stride, emulated_shapes.bytes[tile]);
}

static void emulated_store(int tile, void *to, int64_t stride) {
    assert(emulated_shapes.rows[tile]);
    for (int row = 0; row < emulated_shapes.rows[tile]; row++)
        memcpy((char *)to + row * stride, emulated_tiles[tile][row], emulated_shapes.bytes[tile]);
}

static void emulated_check(int sums, int rows, int weights) {
    const struct emulated_shapes *shapes = &emulated_shapes;
    assert(shapes->rows[sums] && shapes->rows[sums] == shapes->rows[rows]);
    assert(shapes->bytes[sums] == shapes->bytes[weights] && shapes->bytes[rows] == 4 * shapes->rows[weights]);
}

/* One byte of each of a row's words. */
static void emulated_bytes(const uint8_t *row, int which, int32_t *bytes) {
    int32_t words[16];
    memcpy(words, row, sizeof words);
    for (int output = 0; output < 16; output++) bytes[output] = (int32_t)((uint32_t)words[output] << (24 - 8 * which)) >> 24;
}

static void emulated_add_bytes(int sums, int rows, int weights, int has_signed_rows) {
    emulated_check(sums, rows, weights);
    for (int at = 0; at < emulated_shapes.bytes[rows]; at++) {
        int32_t bytes[16], found[16];
        emulated_bytes(emulated_tiles[weights][at / 4], at % 4, bytes);
        for (int row = 0; row < emulated_shapes.rows[rows]; row++) {
            uint8_t byte = emulated_tiles[rows][row][at];
            int32_t value = has_signed_rows ? (int8_t)byte : byte;
            memcpy(found, emulated_tiles[sums][row], sizeof found);
            for (int output = 0; output < 16; output++) found[output] += value * bytes[output];
            memcpy(emulated_tiles[sums][row], found, sizeof found);
        }
    }
}

/* One half of each of a row's words, as a float. */
static void emulated_halves(const uint8_t *row, int which, float *halves) {
    uint32_t words[16];
    memcpy(words, row, sizeof words);
    for (int output = 0; output < 16; output++) words[output] = which ? words[output] & 0xffff0000u : words[output] << 16;
    memcpy(halves, words, sizeof words);
}

/* The products of first and of second inputs are two sums, which are added in the end. */
static void emulated_add_pairs(int sums, int rows, int weights) {
    emulated_check(sums, rows, weights);
    float parts[16][2][16] = {0};
    for (int at = 0; at < emulated_shapes.bytes[rows] / 2; at++) {
        float halves[16], values[16];
        emulated_halves(emulated_tiles[weights][at / 2], at % 2, halves);
        for (int row = 0; row < emulated_shapes.rows[rows]; row++) {
            emulated_halves(emulated_tiles[rows][row], at % 2, values);
            for (int output = 0; output < 16; output++) parts[row][at % 2][output] += values[at / 2] * halves[output];
        }
    }
    for (int row = 0; row < emulated_shapes.rows[rows]; row++) {
        float found[16];
        memcpy(found, emulated_tiles[sums][row], sizeof found);
        for (int output = 0; output < 16; output++) found[output] += parts[row][0][output] + parts[row][1][output];
        memcpy(emulated_tiles[sums][row], found, sizeof found);
    }
}

static int may_use_tiles(void) { return 1; }

#define SET_SHAPES(shapes) emulated_set(&(shapes))
#define RELEASE_TILES() memset(&emulated_shapes, 0, sizeof emulated_shapes)
#define ZERO_TILE(tile) emulated_zero(tile)
#define LOAD_TILE(tile, from, stride) emulated_load(tile, from, stride)
#define STORE_TILE(tile, to, stride) emulated_store(tile, to, stride)
#define ADD_PAIRS(sums, rows, weights) emulated_add_pairs(sums, rows, weights)
#define ADD_BYTES(sums, rows, weights) emulated_add_bytes(sums, rows, weights, 0)
#define ADD_SIGNED_BYTES(sums, rows, weights) emulated_add_bytes(sums, rows, weights, 1)
