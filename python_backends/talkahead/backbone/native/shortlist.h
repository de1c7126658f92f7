/* A linear layer onto a large vocabulary of which only what promises the most is computed, for who only guesses. */
#pragma once

#include "matrices.h"

/* Which outputs of a layer are computed: those of some panels, whose weights' means promise the most. Their neighbours
 * in a panel are alike; a token whose panel promises little is overlooked, which costs a guess. */
struct shortlist {
    struct matrix means;   /* of as many outputs as the layer has panels */
    const int64_t *tokens; /* [V], in the order of the outputs */
    int64_t panels;        /* that are computed */
};

/* What was computed, and room for it. */
struct listed {
    float *promises; /* [CHUNK, panels of the layer] */
    float *logits;   /* [panels that are computed, PANEL] */
    int64_t *panels; /* [panels that are computed] */
};

static int64_t lay_out_listed(const struct shortlist *shortlist, char *base, struct listed *listed) {
    int64_t used = 0;
    if (!shortlist) return 0;
    TAKE(listed, promises, CHUNK * shortlist->means.outputs);
    TAKE(listed, logits, shortlist->panels * PANEL);
    TAKE(listed, panels, shortlist->panels);
    return used;
}

/* The `width` largest of logits [count], best first, of equals the first. */
static void list_best(const float *logits, int64_t count, int64_t width, int64_t *best) {
    int64_t found = 0;
    for (int64_t first = 0; first < count; first += LANES) {
        int64_t lanes = least(LANES, count - first);
        uint32_t left = (1u << lanes) - 1; /* tokens to look at, a bit each */
        if (found == width && lanes == LANES) left = lanes_above(load(logits + first), logits[best[width - 1]]);
        for (; left; left &= left - 1) {
            int64_t token = first + __builtin_ctz(left), place = found;
            if (found == width && !(logits[token] > logits[best[width - 1]])) continue;
            if (found < width) found++;
            else place--;
            for (; place > 0 && logits[token] > logits[best[place - 1]]; place--) best[place] = best[place - 1];
            best[place] = token;
        }
    }
}

/* How many of values [count] are above a bound. */
static int64_t count_above(const float *values, int64_t count, float bound) {
    int64_t found = 0;
    for (int64_t first = 0; first < count; first += LANES) {
        uint32_t valid = (1u << least(LANES, count - first)) - 1;
        found += __builtin_popcount(lanes_above(load(values + first), bound) & valid);
    }
    return found;
}

/* The places of the `width` largest of finite values [count], in order, of equals the first: by halving the span that
 * bounds the smallest of them, in a quarter of the time that sorting takes. */
static void choose_largest(const float *values, int64_t count, int64_t width, int64_t *chosen) {
    float high = values[0], low = values[0];
    for (int64_t i = 1; i < count; i++) high = values[i] > high ? values[i] : high, low = values[i] < low ? values[i] : low;
    low -= 1 + fabsf(low);
    for (float middle; middle = low + (high - low) / 2, middle > low && middle < high;)
        if (count_above(values, count, middle) < width) high = middle;
        else low = middle;
    int64_t equals = width - count_above(values, count, high), found = 0;
    for (int64_t i = 0; i < count && found < width; i++)
        if (values[i] > high || (values[i] > low && equals-- > 0)) chosen[found++] = i;
}

/* What a row x, [inputs] in the words that enter the layer, makes of the panels that promise it the most: of the last
 * panel's missing outputs nothing. While a panel is multiplied the next one is fetched, which no CPU guesses: on an EPYC of
 * Zen 4 the shipped heads' 48 panels take 24 us so, and 43 by reaches. */
static void list_outputs(const struct matrix *layer, const struct shortlist *shortlist, const float *promises,
                         const word *x, struct listed *listed, struct stage *stage, struct bench *bench) {
    struct multiplied product = enter(layer, 1, x, WRITE, stage);
    int64_t words = panel_words(steps_of(layer), layer->kind);
    choose_largest(promises, shortlist->means.outputs, shortlist->panels, listed->panels);
    for (int64_t place = 0; place < shortlist->panels; place++) {
        int64_t first = listed->panels[place] * PANEL, end = least(first + PANEL, layer->outputs);
        float *logits = listed->logits + place * PANEL;
        product.ahead = (const char *)(layer->panels + listed->panels[least(place + 1, shortlist->panels - 1)] * words);
        multiply_outputs(&product, first, end, logits, bench);
        for (int64_t lane = end - first; lane < PANEL; lane++) logits[lane] = -INFINITY;
    }
}

/* The token of a logit that was listed. */
static int64_t token_at(const struct shortlist *shortlist, const struct listed *listed, int64_t at) {
    return shortlist->tokens[listed->panels[at / PANEL] * PANEL + at % PANEL];
}
