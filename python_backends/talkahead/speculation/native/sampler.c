/* Draws tokens from logits on a CPU: temperature, top-k, top-p and keyed noise in one call, without sorting.
 *
 * The meaning is that of sampling.py and draws.py. A row's token depends on nothing but the row: sums run over fixed
 * lanes, so nothing here may be compiled with -ffast-math. Vectors are gcc's, lowered to what the CPU has.
 *
 * Shapes: S streams, N nodes each, T draws of each node, V vocabulary, P the vocabulary padded to whole vectors with
 * weights of 0.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#define LANES 16
#define GOLDEN 0x9E3779B97F4A7C15u

/* Per stream, [S] each. */
struct settings {
    const double *sharpness;
    const uint8_t *is_sampled;
    const int64_t *top_k;
    const double *top_p;
};

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef int32_t ivec __attribute__((vector_size(4 * LANES)));
typedef float loose_vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

struct bounds {
    int64_t tokens;
    float weight;
};

static uint64_t mix(uint64_t value) {
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
    return value ^ (value >> 31);
}

/* Exponential waiting time of a token under a key. */
static double waiting_time(uint64_t key, int64_t token) {
    uint64_t bits = mix(key + ((uint64_t)token + 1) * GOLDEN) >> 11;
    return -log(((double)bits + 0.5) * 0x1p-53);
}

static float from_bits(int32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* e^x for x <= 0, relative error below 2e-7; 0 below -87. */
static inline float exponential(float x) {
    const float rounder = 12582912.0f; /* 1.5 * 2^23: adding it leaves the nearest whole number in the low bits */
    float held = x < -87.0f ? -87.0f : x;
    float shifted = held * 1.44269504f + rounder, whole = shifted - rounder;
    float r = (held - whole * 0.693145752f) - whole * 1.42860677e-6f;
    float series = 1.38888889e-3f * r + 8.33333333e-3f;
    int32_t bits, power;
    series = series * r + 4.16666667e-2f;
    series = series * r + 1.66666667e-1f;
    series = series * r + 0.5f;
    series = series * (r * r) + (r + 1.0f);
    memcpy(&bits, &shifted, sizeof bits);
    memcpy(&power, &series, sizeof power);
    series = from_bits(power + (int32_t)((uint32_t)bits << 23));
    return x < -87.0f ? 0.0f : series;
}

static int64_t most_likely(const float *logits, int64_t vocabulary) {
    float tops[LANES], top;
    int64_t whole = vocabulary / LANES * LANES, token;
    for (int lane = 0; lane < LANES; lane++) tops[lane] = logits[lane < vocabulary ? lane : 0];
    for (token = 0; token < whole; token += LANES)
        for (int lane = 0; lane < LANES; lane++)
            tops[lane] = logits[token + lane] > tops[lane] ? logits[token + lane] : tops[lane];
    top = tops[0];
    for (int lane = 1; lane < LANES; lane++) top = tops[lane] > top ? tops[lane] : top;
    for (; token < vocabulary; token++) top = logits[token] > top ? logits[token] : top;
    for (token = 0; token < vocabulary - 1; token++)
        if (logits[token] == top) break;
    return token;
}

/* Weights [P] up to a factor; the largest is 1. */
static void weigh(const float *logits, int64_t vocabulary, int64_t padded, float top, float sharpness,
                  float *restrict weights) {
    for (int64_t token = 0; token < vocabulary; token++)
        weights[token] = exponential((logits[token] - top) * sharpness);
    for (int64_t token = vocabulary; token < padded; token++) weights[token] = 0;
}

/* The sum of what weighs more than `limit`. */
static float mass_above(const float *weights, int64_t padded, float limit) {
    float lanes[LANES], sum = 0;
    vec sums = {0};
    for (int64_t token = 0; token < padded; token += LANES) {
        vec weight = *(const loose_vec *)(weights + token);
        sums += (vec)((ivec)weight & (weight > limit));
    }
    memcpy(lanes, &sums, sizeof lanes);
    for (int lane = 0; lane < LANES; lane++) sum += lanes[lane];
    return sum;
}

static int64_t tokens_above(const float *weights, int64_t padded, float limit) {
    int32_t lanes[LANES], sum = 0;
    ivec counts = {0};
    for (int64_t token = 0; token < padded; token += LANES)
        counts -= *(const loose_vec *)(weights + token) > limit;
    memcpy(lanes, &counts, sizeof lanes);
    for (int lane = 0; lane < LANES; lane++) sum += lanes[lane];
    return sum;
}

/* The smallest weight with less than `bounds` above it: what weighs as much is kept.
 *
 * Positive floats are ordered like their bits, so halving the bits finds it in thirty looks.
 */
static float smallest_kept(const float *weights, int64_t padded, struct bounds bounds) {
    int32_t low = 0, high = 0x3F800000; /* 1.0: nothing lies above */
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        float limit = from_bits(middle);
        int is_kept = bounds.tokens ? tokens_above(weights, padded, limit) < bounds.tokens
                                    : mass_above(weights, padded, limit) < bounds.weight;
        if (is_kept)
            high = middle;
        else
            low = middle + 1;
    }
    return from_bits(high);
}

/* The kept token that comes first. */
static int64_t first_of(const float *weights, int64_t vocabulary, float smallest, uint64_t key) {
    int64_t first = 0;
    double most = 0;
    for (int64_t token = 0; token < vocabulary; token++) {
        double hurry;
        if (!(weights[token] >= smallest)) continue;
        hurry = weights[token] / waiting_time(key, token);
        if (hurry > most) most = hurry, first = token;
    }
    return first;
}

/* Weights of a sampled row as the stream's filters leave them; returns the smallest one kept. */
static float filter(const float *logits, int64_t vocabulary, const struct settings *settings, int64_t stream, float top,
                    float *weights) {
    int64_t padded = (vocabulary + LANES - 1) / LANES * LANES;
    float smallest = 0;
    weigh(logits, vocabulary, padded, top, (float)settings->sharpness[stream], weights);
    if (settings->top_k[stream] < vocabulary) {
        smallest = smallest_kept(weights, padded, (struct bounds){.tokens = settings->top_k[stream]});
        for (int64_t token = 0; token < vocabulary; token++) weights[token] *= weights[token] >= smallest;
    }
    if (settings->top_p[stream] < 1) {
        float share = (float)settings->top_p[stream] * mass_above(weights, padded, 0);
        smallest = smallest_kept(weights, padded, (struct bounds){.weight = share});
    }
    return smallest;
}

/* The sum of the weights that are kept: positive floats are ordered like their bits. */
static float mass_kept(const float *weights, int64_t vocabulary, float smallest) {
    int64_t padded = (vocabulary + LANES - 1) / LANES * LANES;
    int32_t bits;
    memcpy(&bits, &smallest, sizeof bits);
    return mass_above(weights, padded, bits > 0 ? from_bits(bits - 1) : 0);
}

/* Room for `weights` of talkahead_draw and talkahead_probabilities, in floats. */
int64_t talkahead_draw_workspace(int64_t vocabulary) { return vocabulary + LANES; }

/* tokens [S, N, T] from logits [S, N, V], a settings entry per stream, keys [S, T] and positions [S, N].
 *
 * A draw's key is that of draws.py's draw_keys: the purpose is one of num_purposes. The log of what the kept tokens
 * of a node weigh goes to log_norms [S, N], unless that is null.
 */
void talkahead_draw(int64_t streams, int64_t nodes, int64_t trials, int64_t vocabulary, const float *logits,
                    const struct settings *settings, const uint64_t *keys, const int64_t *positions, int64_t purpose,
                    int64_t num_purposes, float *weights, int64_t *tokens, double *log_norms) {
    for (int64_t entry = 0; entry < streams * nodes; entry++) {
        const float *row = logits + entry * vocabulary;
        int64_t stream = entry / nodes, best = most_likely(row, vocabulary);
        uint64_t count = (uint64_t)(positions[entry] * num_purposes + purpose + 1);
        int is_sampled = settings->is_sampled[stream];
        float smallest = is_sampled ? filter(row, vocabulary, settings, stream, row[best], weights) : 0;
        for (int64_t trial = 0; trial < trials; trial++) {
            uint64_t key = mix(keys[stream * trials + trial] + count * GOLDEN);
            tokens[entry * trials + trial] = is_sampled ? first_of(weights, vocabulary, smallest, key) : best;
        }
        if (log_norms) {
            double mass = is_sampled ? mass_kept(weights, vocabulary, smallest) : 1;
            log_norms[entry] = row[best] * settings->sharpness[stream] + log(mass);
        }
    }
}

/* The distribution [S, N, V] that talkahead_draw draws from. */
void talkahead_probabilities(int64_t streams, int64_t nodes, int64_t vocabulary, const float *logits,
                             const struct settings *settings, float *weights, float *probabilities) {
    for (int64_t entry = 0; entry < streams * nodes; entry++) {
        const float *row = logits + entry * vocabulary;
        float *out = probabilities + entry * vocabulary, smallest, scale;
        int64_t stream = entry / nodes, best = most_likely(row, vocabulary);
        memset(out, 0, vocabulary * sizeof *out);
        out[best] = 1;
        if (!settings->is_sampled[stream]) continue;
        smallest = filter(row, vocabulary, settings, stream, row[best], weights);
        scale = 1 / mass_kept(weights, vocabulary, smallest);
        for (int64_t token = 0; token < vocabulary; token++)
            out[token] = weights[token] >= smallest ? weights[token] * scale : 0;
    }
}
