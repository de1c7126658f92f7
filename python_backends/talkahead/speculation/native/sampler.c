/* Draws tokens from logits on a CPU and walks drafted trees: temperature, top-k, top-p and keyed noise in one call,
 * without sorting.
 *
 * The meaning is that of sampling.py and draws.py, and of the verifiers. A row's token depends on nothing but the row: sums run over fixed
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

static double uniform(uint64_t key, int64_t index) {
    uint64_t bits = mix(key + ((uint64_t)index + 1) * GOLDEN) >> 11;
    return ((double)bits + 0.5) * 0x1p-53;
}

/* Exponential waiting time of a token under a key. */
static double waiting_time(uint64_t key, int64_t token) { return -log(uniform(key, token)); }

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

static void distribution(const float *row, int64_t vocabulary, const struct settings *settings, int64_t stream,
                         float *weights, float *out) {
    int64_t best = most_likely(row, vocabulary);
    float smallest, scale;
    memset(out, 0, vocabulary * sizeof *out);
    out[best] = 1;
    if (!settings->is_sampled[stream]) return;
    smallest = filter(row, vocabulary, settings, stream, row[best], weights);
    scale = 1 / mass_kept(weights, vocabulary, smallest);
    for (int64_t token = 0; token < vocabulary; token++)
        out[token] = weights[token] >= smallest ? weights[token] * scale : 0;
}

/* One token, from logits [V], and the distribution [V] that it is drawn from, which are filtered once for both. */
void talkahead_draw_told(int64_t vocabulary, const float *logits, const struct settings *settings, uint64_t stream_key,
                         int64_t position, int64_t purpose, int64_t num_purposes, float *weights, int64_t *token,
                         float *probabilities) {
    int64_t best = most_likely(logits, vocabulary);
    memset(probabilities, 0, vocabulary * sizeof *probabilities);
    if (settings->is_sampled[0]) {
        uint64_t key = mix(stream_key + (uint64_t)(position * num_purposes + purpose + 1) * GOLDEN);
        float smallest = filter(logits, vocabulary, settings, 0, logits[best], weights);
        float scale = 1 / mass_kept(weights, vocabulary, smallest);
        *token = first_of(weights, vocabulary, smallest, key);
        for (int64_t other = 0; other < vocabulary; other++)
            probabilities[other] = weights[other] >= smallest ? weights[other] * scale : 0;
    } else {
        *token = best;
        probabilities[best] = 1;
    }
}

/* The distribution [S, N, V] that talkahead_draw draws from. */
void talkahead_probabilities(int64_t streams, int64_t nodes, int64_t vocabulary, const float *logits,
                             const struct settings *settings, float *weights, float *probabilities) {
    for (int64_t entry = 0; entry < streams * nodes; entry++)
        distribution(logits + entry * vocabulary, vocabulary, settings, entry / nodes, weights,
                     probabilities + entry * vocabulary);
}

/* A scored tree for each stream. Only nodes that a walk comes to are looked at. */
struct step {
    int64_t streams, nodes, vocabulary;
    const float *logits; /* [S, N, V] */
    const struct settings *settings;
    const uint64_t *keys;     /* [S] */
    const int64_t *positions; /* [S], of the roots */
    const int64_t *parents;   /* [N], lower than the node; the root's is not looked at */
    const int64_t *tokens;    /* [S, N] */
    int64_t trials;           /* T; a trial's key derives from the stream's, which the first one has itself */
    int64_t num_purposes, token_purpose, accept_purpose, residual_purpose, trial_purpose;
};

/* Of each stream: nodes on its path, the path, node 0 first and padded with it, and the next root. */
struct outcome {
    int64_t most; /* M, of a path */
    int64_t *counts, *paths, *next_roots; /* [S], [S, M], [S] */
};

static void tell(const struct step *step, const struct outcome *outcome, int64_t stream, int64_t last,
                 int64_t next_root) {
    int64_t *path = outcome->paths + stream * outcome->most, count = 1;
    for (int64_t node = last; node > 0; node = step->parents[node]) count++;
    memset(path, 0, outcome->most * sizeof *path);
    outcome->counts[stream] = count;
    for (int64_t node = last; node > 0; node = step->parents[node]) path[--count] = node;
    outcome->next_roots[stream] = next_root;
}

static const float *logits_of(const struct step *step, int64_t stream, int64_t node) {
    return step->logits + (stream * step->nodes + node) * step->vocabulary;
}

/* Key of a draw for the token behind a node of this depth. */
static uint64_t key_behind(const struct step *step, int64_t stream, int64_t trial, int64_t depth, int64_t purpose) {
    int64_t position = step->positions[stream] + depth + 1;
    uint64_t key = step->keys[stream];
    if (trial) key = mix(key + (uint64_t)(trial * step->num_purposes + step->trial_purpose + 1) * GOLDEN);
    return mix(key + (uint64_t)(position * step->num_purposes + purpose + 1) * GOLDEN);
}

/* The first child of a node behind `before`, or -1. */
static int64_t next_child(const struct step *step, int64_t node, int64_t before) {
    for (int64_t child = before + 1; child < step->nodes; child++)
        if (step->parents[child] == node) return child;
    return -1;
}

/* What plain decoding draws behind a node. */
static int64_t plain_draw(const struct step *step, int64_t stream, int64_t node, int64_t depth, float *weights) {
    const float *row = logits_of(step, stream, node);
    int64_t best = most_likely(row, step->vocabulary);
    float smallest;
    if (!step->settings->is_sampled[stream]) return best;
    smallest = filter(row, step->vocabulary, step->settings, stream, row[best], weights);
    return first_of(weights, step->vocabulary, smallest, key_behind(step, stream, 0, depth, step->token_purpose));
}

/* match_verifier.py */
void talkahead_match(const struct step *step, float *weights, const struct outcome *outcome) {
    for (int64_t stream = 0; stream < step->streams; stream++) {
        const int64_t *tokens = step->tokens + stream * step->nodes;
        int64_t node = 0, child = 0, drawn = 0;
        for (int64_t depth = 0; child >= 0; depth++) {
            node = child;
            drawn = plain_draw(step, stream, node, depth, weights);
            child = next_child(step, node, node);
            while (child >= 0 && tokens[child] != drawn) child = next_child(step, node, child);
        }
        tell(step, outcome, stream, node, drawn);
    }
}

/* How a node passes: it is among the draws behind its parent, or, if `top_k` is not 0, among the best tokens there. */
struct leniency {
    int64_t top_k, eos_top_k, eos;
};

static int64_t rank_of(const float *row, int64_t vocabulary, int64_t token) {
    int32_t above = 0;
    for (int64_t other = 0; other < vocabulary; other++) above += row[other] > row[token];
    return above;
}

static int passes(const float *row, int64_t vocabulary, const struct leniency *leniency, int64_t token,
                  const int64_t *draws, int64_t trials) {
    if (leniency->top_k)
        return rank_of(row, vocabulary, token) < (token == leniency->eos ? leniency->eos_top_k : leniency->top_k);
    for (int64_t trial = 0; trial < trials; trial++)
        if (draws[trial] == token) return 1;
    return 0;
}

struct visit {
    int64_t depth; /* -1: not reached */
    double log_likelihood;
};

/* Visit what passes below a node; returns the first draw behind it. */
static int64_t visit_children(const struct step *step, const struct leniency *leniency, int64_t stream, int64_t node,
                              struct visit *visits, float *weights) {
    const int64_t *tokens = step->tokens + stream * step->nodes;
    const float *row = logits_of(step, stream, node);
    int64_t draws[step->trials], best = most_likely(row, step->vocabulary);
    int is_sampled = step->settings->is_sampled[stream];
    double sharpness = step->settings->sharpness[stream], log_norm = row[best] * sharpness;
    float smallest = 0;
    if (is_sampled) {
        smallest = filter(row, step->vocabulary, step->settings, stream, row[best], weights);
        log_norm += log(mass_kept(weights, step->vocabulary, smallest));
    }
    for (int64_t trial = 0; trial < step->trials; trial++) {
        uint64_t key = key_behind(step, stream, trial, visits[node].depth, step->token_purpose);
        draws[trial] = is_sampled ? first_of(weights, step->vocabulary, smallest, key) : best;
    }
    if (tokens[node] == leniency->eos) return draws[0];
    for (int64_t child = next_child(step, node, node); child >= 0; child = next_child(step, node, child))
        if (passes(row, step->vocabulary, leniency, tokens[child], draws, step->trials)) {
            visits[child].depth = visits[node].depth + 1;
            visits[child].log_likelihood =
                visits[node].log_likelihood + (row[tokens[child]] * sharpness - log_norm);
        }
    return draws[0];
}

/* longest_path.py */
void talkahead_longest(const struct step *step, const struct leniency *leniency, float *weights,
                       const struct outcome *outcome) {
    for (int64_t stream = 0; stream < step->streams; stream++) {
        struct visit visits[step->nodes];
        int64_t first[step->nodes], best = 0;
        visits[0] = (struct visit){0, 0};
        for (int64_t node = 1; node < step->nodes; node++) visits[node].depth = -1;
        for (int64_t node = 0; node < step->nodes; node++) {
            const struct visit *one = visits + node, *other = visits + best;
            if (one->depth < 0) continue;
            first[node] = -1;
            if (next_child(step, node, node) >= 0)
                first[node] = visit_children(step, leniency, stream, node, visits, weights);
            if (one->depth > other->depth ||
                (one->depth == other->depth && one->log_likelihood > other->log_likelihood))
                best = node;
        }
        if (first[best] < 0) first[best] = plain_draw(step, stream, best, visits[best].depth, weights);
        tell(step, outcome, stream, best, first[best]);
    }
}

/* similarity_groups.py, with one more start at the end of each list; without members, tokens are their own labels. */
struct labels {
    int64_t count;
    const int64_t *members, *starts, *owners, *owner_starts;
};

static float share_of(const struct labels *labels, int64_t token) {
    return labels->owner_starts[token + 1] - labels->owner_starts[token];
}

static int64_t label_of(const struct labels *labels, int64_t token, double choice) {
    int64_t count, which;
    if (!labels->members) return token;
    count = labels->owner_starts[token + 1] - labels->owner_starts[token];
    which = (int64_t)(choice * count);
    return labels->owners[labels->owner_starts[token] + (which < count ? which : count - 1)];
}

static float label_mass(const struct labels *labels, const float *probs, int64_t label) {
    float sum = 0;
    if (!labels->members) return probs[label];
    for (int64_t entry = labels->starts[label]; entry < labels->starts[label + 1]; entry++) {
        int64_t token = labels->members[entry];
        if (probs[token] > 0) sum += probs[token] / share_of(labels, token);
    }
    return sum;
}

/* left = (left - what was proposed)+ to a sum of 1; rounding may leave nothing where both are the same. */
static void take_away(const struct labels *labels, const float *proposed, float *left, float *kept) {
    double total = 0;
    for (int64_t label = 0; label < labels->count; label++) {
        float rest = left[label] - label_mass(labels, proposed, label);
        kept[label] = rest > 0 ? rest : 0;
        total += kept[label];
    }
    if (!(total > 0)) return;
    for (int64_t label = 0; label < labels->count; label++) left[label] = kept[label] / total;
}

/* What replaces a refused token: a label from `left`, then a token of it as the target has it. */
static int64_t residual_draw(const struct labels *labels, const float *target, float *left, int64_t vocabulary,
                             uint64_t key, float *weights) {
    const float smallest = 0x1p-149f;
    if (!labels->members) return first_of(left, vocabulary, smallest, key);
    for (int64_t label = 0; label < labels->count; label++)
        left[label] = left[label] > 0 ? left[label] / label_mass(labels, target, label) : 0;
    for (int64_t token = 0; token < vocabulary; token++) {
        float sum = 0;
        for (int64_t entry = labels->owner_starts[token]; entry < labels->owner_starts[token + 1]; entry++)
            sum += left[labels->owners[entry]];
        weights[token] = target[token] / share_of(labels, token) * sum;
    }
    return first_of(weights, vocabulary, smallest, key);
}

/* rejection_walk.py
 *
 * `draft` [S, N, V] is what each node was drawn from; null: each was certain. `room` holds two vocabularies and the
 * labels, `weights` the larger of both.
 */
void talkahead_ratio(const struct step *step, const struct labels *labels, const float *draft, double bias,
                     float *weights, float *room, const struct outcome *outcome) {
    int64_t vocabulary = step->vocabulary;
    float *target = room, *certain = room + vocabulary, *left = room + 2 * vocabulary;
    memset(certain, 0, vocabulary * sizeof *certain);
    for (int64_t stream = 0; stream < step->streams; stream++) {
        int64_t node = 0, depth = 0, child = next_child(step, 0, 0), order = 0;
        while (child >= 0) {
            int64_t token = step->tokens[stream * step->nodes + child], label;
            const float *proposed = draft ? draft + (stream * step->nodes + child) * vocabulary : certain;
            uint64_t key = key_behind(step, stream, 0, depth, step->accept_purpose);
            double p;
            if (!order) {
                distribution(logits_of(step, stream, node), vocabulary, step->settings, stream, weights, target);
                for (label = 0; label < labels->count; label++) left[label] = label_mass(labels, target, label);
            }
            certain[token] = 1;
            label = label_of(labels, token, uniform(key, 2 * order + 1));
            p = label_mass(labels, proposed, label);
            if (uniform(key, 2 * order) * p < left[label] + bias * p) {
                node = child, depth++, order = 0;
                child = next_child(step, node, node);
            } else {
                take_away(labels, proposed, left, weights);
                order++;
                child = next_child(step, node, child);
            }
            certain[token] = 0;
        }
        int64_t next_root =
            order ? residual_draw(labels, target, left, vocabulary,
                                  key_behind(step, stream, 0, depth, step->residual_purpose), weights)
                  : plain_draw(step, stream, node, depth, weights);
        tell(step, outcome, stream, node, next_root);
    }
}

/* What a step added to each stream, tokens [S, M], and the hidden state [S, D] at the end of its path.
 *
 * Of trees of `nodes` tokens, with hidden states [S, N, D].
 */
void talkahead_advance(int64_t streams, int64_t nodes, int64_t width, const int64_t *tokens, const float *hidden,
                       const struct outcome *accepted, int64_t *added, float *reached) {
    for (int64_t stream = 0; stream < streams; stream++) {
        const int64_t *path = accepted->paths + stream * accepted->most;
        int64_t count = accepted->counts[stream], *own = added + stream * accepted->most;
        memset(own, 0, accepted->most * sizeof *own);
        for (int64_t place = 1; place < count; place++) own[place - 1] = tokens[stream * nodes + path[place]];
        own[count - 1] = accepted->next_roots[stream];
        memcpy(reached + stream * width, hidden + (stream * nodes + path[count - 1]) * width, width * sizeof *reached);
    }
}
