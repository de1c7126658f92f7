/* What networks over rows of frames, or of symbols, are made of: norms, and convolutions as products of neighbours that
 * lie side by side.
 *
 * Shapes: W width, I inner values.
 */
#pragma once

#include "../../../backbone/native/matrices.h"

struct norm {
    const float *weight, *bias; /* [W] */
};

struct block {
    struct norm norm;
    struct matrix mix, out; /* of I outputs, from some frames side by side; of W */
};

static int64_t largest_of(int64_t a, int64_t b) { return a > b ? a : b; }

/* Rows of `count` values, each `stride` after the one before, as words of `packing` values. */
static void lay_down(int64_t packing, const float *from, int64_t stride, int64_t rows, int64_t count, word *to) {
    for (int64_t row = 0; row < rows; row++, from += stride, to += count / packing)
        if (packing == 1) memcpy(to, from, (size_t)count * sizeof *to);
        else narrow(packing, from, count, to);
}

/* LayerNorm of rows x [rows, W]. */
static void norm_frames(const struct norm *norm, const float *x, int64_t rows, int64_t width, float *out) {
    for (int64_t row = 0; row < rows; row++, x += width, out += width) {
        vec sum = {0}, squares = {0};
        for (int64_t i = 0; i < width; i += LANES) sum += load(x + i);
        vec mean = spread(sum_lanes(sum) / (float)width);
        for (int64_t i = 0; i < width; i += LANES) squares += (load(x + i) - mean) * (load(x + i) - mean);
        vec scale = spread(1.0f / sqrtf(sum_lanes(squares) / (float)width + 1e-5f));
        for (int64_t i = 0; i < width; i += LANES)
            store(out + i, (load(x + i) - mean) * scale * load(norm->weight + i) + load(norm->bias + i));
    }
}

/* GELU, by the hyperbolic tangent: x / (1 + e^(-2 u)), u = sqrt(2 / pi) (x + 0.044715 x^3). x may lie at `to`. */
static void activate(int64_t packing, const float *x, int64_t count, word *to) {
    for (int64_t i = 0; i < count; i += LANES) {
        vec value = load(x + i);
        vec twice = value * (1.59576912f + 0.0713548162f * value * value);
        put(packing, to, i, value / (1.0f + exponential(-twice)));
    }
}
