/* What draws of sampler.c depend on. Who calls it by its addresses includes this.
 *
 * Shapes: S streams, T draws of a token, V vocabulary.
 */
#pragma once

#include <stdint.h>

/* Per stream, [S] each. */
struct settings {
    const double *sharpness;
    const uint8_t *is_sampled;
    const int64_t *top_k;
    const double *top_p;
};

/* The draws of a segment that guesses are made for. */
struct draws {
    int64_t trials; /* T; the first one's key is the segment's */
    int64_t num_purposes, token_purpose, trial_purpose;
};

typedef void draw_function(int64_t streams, int64_t nodes, int64_t vocabulary, const float *logits,
                           const struct settings *settings, const uint64_t *keys, const int64_t *positions,
                           int64_t purpose, int64_t num_purposes, float *memory, int64_t *tokens);
typedef void draw_with_probs_function(int64_t vocabulary, const float *logits, const struct settings *settings,
                                      uint64_t stream_key, int64_t position, int64_t purpose, int64_t num_purposes,
                                      float *memory, int64_t *token, float *probabilities);
typedef void order_function(const struct draws *draws, uint64_t stream, int64_t position, double sharpness,
                            const float *logits, int64_t count, int64_t *tokens);

draw_function talkahead_draw;
draw_with_probs_function talkahead_draw_with_probs;
order_function talkahead_order_draws;
