/* Draws tokens from logits on a CPU and walks drafted trees: temperature, top-k, top-p and keyed noise in one call,
 * without sorting.
 *
 * The meaning is that of sampling.py and draws.py, and of the verifiers. A row's token depends on nothing but the row:
 * the order of a sum is the row's own, the same on every CPU, so nothing here may be compiled with -ffast-math.
 *
 * Of a few thousand tokens a dozen may be drawn, so that only looking for these goes over whole rows.
 *
 * Shapes: S streams, N nodes each, T draws of each node, V vocabulary, P the vocabulary padded to whole vectors with
 * weights of 0.
 */
#include "../../backbone/native/vectors.h"
#include "draws.h"

#define SUMS 16 /* that are summed up in the end, whatever a vector holds */
#define PARTS (SUMS / LANES)
#define BLOCK (4 * SUMS) /* looked at as one: most hold no token that may be drawn */
#define GOLDEN 0x9E3779B97F4A7C15u

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

/* Key of a draw of a segment's; as draws.py has it. */
static uint64_t draw_key(uint64_t stream, int64_t position, int64_t purpose, int64_t num_purposes) {
    return mix(stream + (uint64_t)(position * num_purposes + purpose + 1) * GOLDEN);
}

/* Exponential waiting time of a token under a key. */
static double waiting_time(uint64_t key, int64_t token) { return -log(uniform(key, token)); }

static int64_t padded_to_vectors(int64_t count) { return blocks_of(SUMS, count) * SUMS; }

static float from_bits(int32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float sum_of(const vec sums[PARTS]) {
    float lanes[SUMS], sum = 0;
    memcpy(lanes, sums, sizeof lanes);
    for (int lane = 0; lane < SUMS; lane++) sum += lanes[lane];
    return sum;
}

static float largest(const float *logits, int64_t vocabulary) {
    int64_t token = 0;
    float lanes[2 * SUMS], top = logits[0];
    vec tops[2 * PARTS];
    for (int part = 0; part < 2 * PARTS; part++) tops[part] = top - (vec){0};
    for (; token + 2 * SUMS <= vocabulary; token += 2 * SUMS)
        for (int part = 0; part < 2 * PARTS; part++)
            tops[part] = larger(load(logits + token + part * LANES), tops[part]);
    memcpy(lanes, tops, sizeof lanes);
    for (int lane = 0; lane < 2 * SUMS; lane++) top = lanes[lane] > top ? lanes[lane] : top;
    for (; token < vocabulary; token++) top = logits[token] > top ? logits[token] : top;
    return top;
}

static int64_t first_equal(const float *logits, int64_t vocabulary, float top) {
    int64_t token = 0;
    while (token < vocabulary - 1 && logits[token] != top) token++;
    return token;
}

/* Weights of SUMS logits up to a factor, 0 below e^-87 of the largest one's; they are added to sums. */
INLINE void weigh_some(const float *logits, float top, float sharpness, float *weights, vec sums[PARTS]) {
    for (int part = 0; part < PARTS; part++) {
        vec weight = exponential_or_zero((load(logits + part * LANES) - top) * sharpness);
        sums[part] += weight;
        store(weights + part * LANES, weight);
    }
}

/* Weights [P] up to a factor; the largest is 1. Returns their sum. */
static float weigh(const float *logits, int64_t vocabulary, float top, float sharpness, float *weights) {
    int64_t token = 0;
    float last[SUMS];
    vec sums[PARTS] = {0};
    for (; token + SUMS <= vocabulary; token += SUMS) weigh_some(logits + token, top, sharpness, weights + token, sums);
    if (token == vocabulary) return sum_of(sums);
    for (int64_t i = 0; i < SUMS; i++) last[i] = token + i < vocabulary ? logits[token + i] : -INFINITY;
    weigh_some(last, top, sharpness, weights + token, sums);
    return sum_of(sums);
}

/* The sum of what weighs more than `limit`. */
static float mass_above(const float *weights, int64_t padded, float limit) {
    vec sums[PARTS] = {0};
    for (int64_t token = 0; token < padded; token += SUMS)
        for (int part = 0; part < PARTS; part++) {
            vec weight = load(weights + token + part * LANES);
            sums[part] += (vec)((ivec)weight & (weight > limit));
        }
    return sum_of(sums);
}

static int64_t tokens_above(const float *weights, int64_t padded, float limit) {
    int32_t lanes[SUMS], sum = 0;
    ivec counts[PARTS] = {0};
    for (int64_t token = 0; token < padded; token += SUMS)
        for (int part = 0; part < PARTS; part++) counts[part] -= load(weights + token + part * LANES) > limit;
    memcpy(lanes, counts, sizeof lanes);
    for (int lane = 0; lane < SUMS; lane++) sum += lanes[lane];
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

/* What may be drawn: tokens in order, at least one, and their weights up to a factor. */
struct support {
    int64_t count;
    int32_t *tokens;
    float *weights;
    float mass; /* of all of them */
};

/* Room for one row: its weights [P], and a support of all tokens. */
struct room {
    float *weights;
    struct support support;
};

static struct room room_in(float *memory, int64_t vocabulary) {
    int64_t padded = padded_to_vectors(vocabulary);
    return (struct room){memory, {0, (int32_t *)(memory + padded), memory + 2 * padded, 0}};
}

static int64_t room_size(int64_t vocabulary) { return 3 * padded_to_vectors(vocabulary); }

/* Whether any of BLOCK weights is above the limit. */
static int any_above(const float *weights, float limit) {
    int64_t pairs[LANES / 2], any = 0;
    ivec found = {0};
    for (int64_t token = 0; token < BLOCK; token += LANES) found |= load(weights + token) > limit;
    memcpy(pairs, &found, sizeof pairs);
    for (int pair = 0; pair < LANES / 2; pair++) any |= pairs[pair];
    return any != 0;
}

/* The tokens that weigh more than `limit`. */
static void collect(const float *weights, int64_t padded, float limit, struct support *support) {
    int64_t count = 0, block;
    for (int64_t start = 0; start < padded; start = block) {
        block = start + BLOCK < padded ? start + BLOCK : padded;
        if (block - start == BLOCK && !any_above(weights + start, limit)) continue;
        for (int64_t token = start; token < block; token++) {
            support->tokens[count] = (int32_t)token;
            support->weights[count] = weights[token];
            count += weights[token] > limit;
        }
    }
    support->count = count;
}

/* Of a collected support what weighs at least `smallest`; and its mass. */
static void keep(struct support *support, float smallest) {
    int64_t count = 0;
    support->mass = 0;
    for (int64_t place = 0; place < support->count; place++) {
        if (!(support->weights[place] >= smallest)) continue;
        support->tokens[count] = support->tokens[place];
        support->weights[count] = support->weights[place];
        support->mass += support->weights[count++];
    }
    support->count = count;
}

/* A limit that the nucleus of `share` lies above: low enough, for a start, if few tokens are near it. */
static float below_nucleus(const float *weights, int64_t padded, float total, float share) {
    float limit = (total - share) / 64;
    while (limit > 0 && !(mass_above(weights, padded, limit) > share)) limit = limit > 0x1p-60f ? limit / 16 : 0;
    return limit;
}

/* The support as a stream's filters leave it, in `room`. */
static struct support supported(const float *logits, int64_t vocabulary, const struct settings *settings,
                                int64_t stream, struct room room) {
    struct support support = room.support;
    int64_t padded = padded_to_vectors(vocabulary);
    float top = largest(logits, vocabulary), top_p = (float)settings->top_p[stream], total, smallest = 0;
    if (settings->is_sampled[stream]) {
        total = weigh(logits, vocabulary, top, (float)settings->sharpness[stream], room.weights);
        if (settings->top_k[stream] < vocabulary) {
            smallest = smallest_kept(room.weights, padded, (struct bounds){.tokens = settings->top_k[stream]});
            for (int64_t token = 0; token < padded; token++) room.weights[token] *= room.weights[token] >= smallest;
            total = mass_above(room.weights, padded, 0);
        }
        collect(room.weights, padded, below_nucleus(room.weights, padded, total, top_p * total), &support);
        if (top_p < 1) {
            int64_t whole = padded_to_vectors(support.count);
            for (int64_t place = support.count; place < whole; place++) support.weights[place] = 0;
            smallest = smallest_kept(support.weights, whole, (struct bounds){.weight = top_p * total});
        }
        keep(&support, smallest);
        if (support.count) return support;
    }
    /* The most likely token, as well where logits are no numbers. */
    support.tokens[0] = (int32_t)first_equal(logits, vocabulary, top);
    support.weights[0] = support.mass = 1;
    support.count = 1;
    return support;
}

/* The token that comes first. */
static int64_t first_of(const struct support *support, uint64_t key) {
    int64_t first = support->tokens[0];
    double most = 0;
    if (support->count == 1) return first;
    for (int64_t place = 0; place < support->count; place++) {
        double hurry = support->weights[place] / waiting_time(key, support->tokens[place]);
        if (hurry > most) most = hurry, first = support->tokens[place];
    }
    return first;
}

/* A token that may be drawn has log q = its logit * sharpness - this. */
static double log_norm(const float *logits, int64_t vocabulary, double sharpness, const struct support *support) {
    return largest(logits, vocabulary) * sharpness + log(support->mass);
}

/* A support as probabilities [V]. */
static void spread_out(const struct support *support, int64_t vocabulary, float *probabilities) {
    float scale = 1 / support->mass;
    memset(probabilities, 0, vocabulary * sizeof *probabilities);
    for (int64_t place = 0; place < support->count; place++)
        probabilities[support->tokens[place]] = support->weights[place] * scale;
}

/* Room that each call here needs, in floats. */
int64_t talkahead_draw_workspace(int64_t vocabulary) { return room_size(vocabulary); }

/* tokens [S, N] from logits [S, N, V], a settings entry per stream, keys [S] and positions [S, N].
 *
 * A draw's key is that of draws.py's draw_keys: the purpose is one of num_purposes.
 */
void talkahead_draw(int64_t streams, int64_t nodes, int64_t vocabulary, const float *logits,
                    const struct settings *settings, const uint64_t *keys, const int64_t *positions, int64_t purpose,
                    int64_t num_purposes, float *memory, int64_t *tokens) {
    struct room room = room_in(memory, vocabulary);
    for (int64_t entry = 0; entry < streams * nodes; entry++) {
        int64_t stream = entry / nodes;
        struct support support = supported(logits + entry * vocabulary, vocabulary, settings, stream, room);
        tokens[entry] = first_of(&support, draw_key(keys[stream], positions[entry], purpose, num_purposes));
    }
}

/* One token, from logits [V], and the distribution [V] that it is drawn from, which are filtered once for both. */
void talkahead_draw_with_probs(int64_t vocabulary, const float *logits, const struct settings *settings,
                               uint64_t stream_key, int64_t position, int64_t purpose, int64_t num_purposes,
                               float *memory, int64_t *token, float *probabilities) {
    struct support support = supported(logits, vocabulary, settings, 0, room_in(memory, vocabulary));
    uint64_t key = draw_key(stream_key, position, purpose, num_purposes);
    *token = first_of(&support, key);
    spread_out(&support, vocabulary, probabilities);
}

/* The distribution [S, N, V] that talkahead_draw draws from. */
void talkahead_probabilities(int64_t streams, int64_t nodes, int64_t vocabulary, const float *logits,
                             const struct settings *settings, float *memory, float *probabilities) {
    struct room room = room_in(memory, vocabulary);
    for (int64_t entry = 0; entry < streams * nodes; entry++) {
        struct support support = supported(logits + entry * vocabulary, vocabulary, settings, entry / nodes, room);
        spread_out(&support, vocabulary, probabilities + entry * vocabulary);
    }
}

/* Orders some tokens of logits [V] by how likely one of the draws at a position brings them; of equals the first
 * stays first. As likely_draws.py has it.
 */
void talkahead_order_draws(const struct draws *draws, uint64_t stream, int64_t position, double sharpness,
                           const float *logits, int64_t count, int64_t *tokens) {
    double scores[count];
    for (int64_t place = 0; place < count; place++) scores[place] = -INFINITY;
    for (int64_t trial = 0; trial < draws->trials; trial++) {
        uint64_t key = trial ? draw_key(stream, trial, draws->trial_purpose, draws->num_purposes) : stream;
        key = draw_key(key, position, draws->token_purpose, draws->num_purposes);
        for (int64_t place = 0; place < count; place++) {
            double hurry = -log(waiting_time(key, tokens[place]));
            if (hurry > scores[place]) scores[place] = hurry;
        }
    }
    for (int64_t place = 0; place < count; place++) {
        int64_t token = tokens[place], at = place;
        double score = scores[place] + logits[token] * sharpness;
        for (; at > 0 && score > scores[at - 1]; at--) scores[at] = scores[at - 1], tokens[at] = tokens[at - 1];
        scores[at] = score, tokens[at] = token;
    }
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

/* Key of a draw for the token after a node of this depth. */
static uint64_t key_after(const struct step *step, int64_t stream, int64_t trial, int64_t depth, int64_t purpose) {
    uint64_t key = step->keys[stream];
    if (trial) key = draw_key(key, trial, step->trial_purpose, step->num_purposes);
    return draw_key(key, step->positions[stream] + depth + 1, purpose, step->num_purposes);
}

/* The first child of a node after `before`, or -1. */
static int64_t next_child(const struct step *step, int64_t node, int64_t before) {
    for (int64_t child = before + 1; child < step->nodes; child++)
        if (step->parents[child] == node) return child;
    return -1;
}

static struct support support_of(const struct step *step, int64_t stream, int64_t node, struct room room) {
    return supported(logits_of(step, stream, node), step->vocabulary, step->settings, stream, room);
}

/* What plain decoding draws after a node. */
static int64_t plain_draw(const struct step *step, int64_t stream, int64_t node, int64_t depth, struct room room) {
    struct support support = support_of(step, stream, node, room);
    return first_of(&support, key_after(step, stream, 0, depth, step->token_purpose));
}

/* What functions take that engine/native/steps.c calls: a single struct. Their result says that all was done. */
struct matching {
    const struct step *step;
    float *memory;
    const struct outcome *outcome;
};

/* match_verifier.py */
int talkahead_match(const struct matching *own) {
    const struct step *step = own->step;
    struct room room = room_in(own->memory, step->vocabulary);
    for (int64_t stream = 0; stream < step->streams; stream++) {
        const int64_t *tokens = step->tokens + stream * step->nodes;
        int64_t node = 0, child = 0, drawn = 0;
        for (int64_t depth = 0; child >= 0; depth++) {
            node = child;
            drawn = plain_draw(step, stream, node, depth, room);
            child = next_child(step, node, node);
            while (child >= 0 && tokens[child] != drawn) child = next_child(step, node, child);
        }
        tell(step, own->outcome, stream, node, drawn);
    }
    return 0;
}

/* How a node passes: it is among the draws after its parent, or, if `top_k` is not 0, among the best tokens there. */
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

/* Visit what passes below a node; returns the first draw after it. */
static int64_t visit_children(const struct step *step, const struct leniency *leniency, int64_t stream, int64_t node,
                              struct visit *visits, struct room room) {
    const int64_t *tokens = step->tokens + stream * step->nodes;
    const float *row = logits_of(step, stream, node);
    int64_t draws[step->trials];
    struct support support = support_of(step, stream, node, room);
    double sharpness = step->settings->sharpness[stream];
    double norm = log_norm(row, step->vocabulary, sharpness, &support);
    for (int64_t trial = 0; trial < step->trials; trial++)
        draws[trial] = first_of(&support, key_after(step, stream, trial, visits[node].depth, step->token_purpose));
    if (tokens[node] == leniency->eos) return draws[0];
    for (int64_t child = next_child(step, node, node); child >= 0; child = next_child(step, node, child))
        if (passes(row, step->vocabulary, leniency, tokens[child], draws, step->trials)) {
            visits[child].depth = visits[node].depth + 1;
            visits[child].log_likelihood = visits[node].log_likelihood + (row[tokens[child]] * sharpness - norm);
        }
    return draws[0];
}

struct lengthening {
    const struct step *step;
    const struct leniency *leniency;
    float *memory;
    const struct outcome *outcome;
};

/* longest_path.py */
int talkahead_longest(const struct lengthening *own) {
    const struct step *step = own->step;
    const struct leniency *leniency = own->leniency;
    struct room room = room_in(own->memory, step->vocabulary);
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
                first[node] = visit_children(step, leniency, stream, node, visits, room);
            if (one->depth > other->depth ||
                (one->depth == other->depth && one->log_likelihood > other->log_likelihood))
                best = node;
        }
        if (first[best] < 0) first[best] = plain_draw(step, stream, best, visits[best].depth, room);
        tell(step, own->outcome, stream, best, first[best]);
    }
    return 0;
}

/* similarity_groups.py, with one more start at the end of each list; without members, tokens are their own labels. */
struct labels {
    int64_t count;
    const int64_t *members, *starts, *owners, *owner_starts;
};

/* A token's labels: a run of owners, or the token itself. */
static int64_t num_labels(const struct labels *labels, int64_t token) {
    return labels->members ? labels->owner_starts[token + 1] - labels->owner_starts[token] : 1;
}

static int64_t label_at(const struct labels *labels, int64_t token, int64_t which) {
    return labels->members ? labels->owners[labels->owner_starts[token] + which] : token;
}

static int64_t label_of(const struct labels *labels, int64_t token, double choice) {
    int64_t count = num_labels(labels, token), which = (int64_t)(choice * count);
    return label_at(labels, token, which < count ? which : count - 1);
}

/* What tokens are proposed with, and what the target makes of them, both [V]: rules forbid those of -inf. */
struct proposal {
    const float *mass, *logits;
};

static int is_allowed(struct proposal proposal, int64_t token) { return proposal.logits[token] > -INFINITY; }

/* Of a label. A forbidden token stands for none. */
static float proposed_mass(const struct labels *labels, struct proposal proposal, int64_t label) {
    float sum = 0;
    if (!labels->members) return is_allowed(proposal, label) ? proposal.mass[label] : 0;
    for (int64_t entry = labels->starts[label]; entry < labels->starts[label + 1]; entry++) {
        int64_t token = labels->members[entry];
        if (proposal.mass[token] > 0 && is_allowed(proposal, token))
            sum += proposal.mass[token] / num_labels(labels, token);
    }
    return sum;
}

/* The labels that the target's tokens wear: of all labels those with a mass, listed as they are met. */
struct target {
    struct support support;
    int64_t count, *live;  /* [count] of at most all labels */
    float *masses, *left;  /* of every label; not live: 0 */
    float *rests;          /* room, [count] */
};

static void reset(struct target *target) {
    for (int64_t place = 0; place < target->count; place++)
        target->masses[target->live[place]] = target->left[target->live[place]] = 0;
    target->count = 0;
}

static void meet(struct target *target, const struct labels *labels, struct support support) {
    float scale = 1 / support.mass;
    reset(target);
    target->support = support;
    for (int64_t place = 0; place < support.count; place++) {
        int64_t token = support.tokens[place], count = num_labels(labels, token);
        float share = (support.weights[place] *= scale) / count;
        if (!(share > 0)) continue;
        for (int64_t which = 0; which < count; which++) {
            int64_t label = label_at(labels, token, which);
            if (target->masses[label] == 0) target->live[target->count++] = label;
            target->masses[label] += share;
        }
    }
    for (int64_t place = 0; place < target->count; place++)
        target->left[target->live[place]] = target->masses[target->live[place]];
}

/* left = (left - what was proposed)+ to a sum of 1; rounding may leave nothing where both are the same. */
static void subtract_draft(struct target *target, const struct labels *labels, struct proposal proposed) {
    double total = 0;
    for (int64_t place = 0; place < target->count; place++) {
        int64_t label = target->live[place];
        float rest = target->left[label];
        if (rest > 0) rest -= proposed_mass(labels, proposed, label);
        target->rests[place] = rest > 0 ? rest : 0;
        total += target->rests[place];
    }
    if (!(total > 0)) return;
    for (int64_t place = 0; place < target->count; place++)
        target->left[target->live[place]] = target->rests[place] / total;
}

/* What replaces a refused token: a label from what is left, then a token of it as the target has it. */
static int64_t residual_draw(struct target *target, const struct labels *labels, uint64_t key) {
    struct support *support = &target->support;
    for (int64_t place = 0; place < support->count; place++) {
        int64_t token = support->tokens[place], count = num_labels(labels, token);
        float sum = 0;
        for (int64_t which = 0; which < count; which++) {
            int64_t label = label_at(labels, token, which);
            sum += target->left[label] / target->masses[label];
        }
        support->weights[place] = support->weights[place] / count * sum;
    }
    return first_of(support, key);
}

/* Room that talkahead_ratio needs, in bytes, all 0 before its first call. */
int64_t talkahead_ratio_room(int64_t vocabulary, int64_t labels) {
    return (vocabulary + 3 * labels) * sizeof(float) + labels * sizeof(int64_t);
}

struct weighing {
    const struct step *step;
    const struct labels *labels;
    const float *draft;
    double bias;
    int64_t *zeros;
    float *memory;
    const struct outcome *outcome;
};

/* rejection.py
 *
 * `draft` [S, N, V] is what each node was drawn from; null: each was certain.
 */
int talkahead_ratio(const struct weighing *own) {
    const struct step *step = own->step;
    const struct labels *labels = own->labels;
    const float *draft = own->draft;
    int64_t *zeros = own->zeros;
    struct room room = room_in(own->memory, step->vocabulary);
    float *masses = (float *)(zeros + labels->count), *certain = masses + 3 * labels->count;
    struct target target = {
        .live = zeros, .masses = masses, .left = masses + labels->count, .rests = masses + 2 * labels->count};
    for (int64_t stream = 0; stream < step->streams; stream++) {
        int64_t node = 0, depth = 0, child = next_child(step, 0, 0), order = 0;
        while (child >= 0) {
            int64_t entry = stream * step->nodes + child, token = step->tokens[entry], label;
            struct proposal proposed = {draft ? draft + entry * step->vocabulary : certain,
                                        logits_of(step, stream, node)};
            uint64_t key = key_after(step, stream, 0, depth, step->accept_purpose);
            double p;
            if (!order) meet(&target, labels, support_of(step, stream, node, room));
            certain[token] = 1;
            label = label_of(labels, token, uniform(key, 2 * order + 1));
            p = proposed_mass(labels, proposed, label);
            if (is_allowed(proposed, token) &&
                uniform(key, 2 * order) * p < target.left[label] + own->bias * p) {
                node = child, depth++, order = 0;
                child = next_child(step, node, node);
            } else {
                subtract_draft(&target, labels, proposed);
                order++;
                child = next_child(step, node, child);
            }
            certain[token] = 0;
        }
        int64_t next_root =
            order ? residual_draw(&target, labels, key_after(step, stream, 0, depth, step->residual_purpose))
                  : plain_draw(step, stream, node, depth, room);
        tell(step, own->outcome, stream, node, next_root);
    }
    reset(&target);
    return 0;
}

struct advancing {
    int64_t streams, nodes, width;
    const int64_t *tokens;
    const float *hidden;
    const struct outcome *accepted;
    int64_t *added, *roots, *positions;
    float *reached;
};

/* What a step added to each stream, tokens [S, M]; roots [S], positions [S] and hidden states [S, D] go on to the end of
 * its path.
 *
 * Of trees of `nodes` tokens, with hidden states [S, N, D].
 */
int talkahead_advance(const struct advancing *own) {
    int64_t nodes = own->nodes, width = own->width, most = own->accepted->most;
    for (int64_t stream = 0; stream < own->streams; stream++) {
        const int64_t *path = own->accepted->paths + stream * most, *tokens = own->tokens + stream * nodes;
        int64_t count = own->accepted->counts[stream], *added = own->added + stream * most;
        memset(added, 0, most * sizeof *added);
        for (int64_t place = 1; place < count; place++) added[place - 1] = tokens[path[place]];
        added[count - 1] = own->roots[stream] = own->accepted->next_roots[stream];
        own->positions[stream] += count;
        memcpy(own->reached + stream * width, own->hidden + (stream * nodes + path[count - 1]) * width,
               width * sizeof *own->reached);
    }
    return 0;
}
