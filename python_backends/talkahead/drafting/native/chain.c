/* A drafted chain for all rows in one call: what is missing is fed, a token is drawn, fed, and so on; and in another
 * call, what a step made of it.
 *
 * The meaning is that of draft_lm_drafter.py and mtp_drafter.py. A draft model is one decoder that is fed tokens, its
 * own draws among them; modules are a decoder each, fed the states of the one before and what their tokens tell them.
 * Decoders and draws are those of decoder.c and sampler.c, called through their addresses.
 *
 * Shapes: S running rows; L drafted tokens; T positions of a slot's tables; W positions fed to a
 * slot at once, at most; D hidden size; V vocabulary.
 */
#include "../../backbone/native/batch.h"
#include "../../backbone/native/matrices.h"
#include "../../speculation/native/draws.h"

struct decoder {
    const struct model *model;
    char *workspace;
    int64_t *lengths; /* [slots] */
};

/* What a module is fed, [D]: its projector's product with the normed state, and what the token tells. */
struct module {
    struct matrix projector; /* of D outputs */
    const float *norm;       /* [D] */
    const float *token_rows; /* [V, D], or [D] for all tokens */
    float *states;           /* [slots, T, D], of the module before */
};

struct drafter {
    int64_t length, slots, table, most_fed, hidden, vocabulary;
    int64_t num_kept;                       /* drafted tokens that are remembered */
    int64_t sees_tokens;                    /* of modules */
    double epsilon;                         /* of their norms */
    const struct decoder *decoders;         /* [L] with modules, else one */
    const struct module *modules;           /* [L]; null: tokens are fed */
    const float *embeddings;                /* [V, D], without modules */
    const int64_t *num_prompt;              /* [slots], positions before the first token; null: none */
    int64_t *said, *kept;                   /* [slots, T], [slots, num_kept] */
    float *x, *states, *logits, *weights;   /* room: [S W, D] twice, [S W, V], what draws need */
    char *memory;                           /* room for products: talkahead_chain_bytes */
    decode_function *decode;
    draw_function *draw;
    draw_with_probs_function *draw_with_probs;
    int64_t purpose, num_purposes;
};

/* One step's rows, [S] each. */
struct rows {
    int64_t count, length; /* length: L tokens to draft, at most the drafter's */
    const int64_t *slots, *roots, *positions;
    const float *hidden; /* [S, D] */
    const uint64_t *keys;
    struct settings settings;
    int64_t *tokens; /* [S, L + 1], the roots first */
    float *probs;    /* [S, L + 1, V], the roots' zero; or null */
};

static int64_t *said_at(const struct drafter *drafter, int64_t slot, int64_t place) {
    return drafter->said + slot * drafter->table + least(place, drafter->table - 1);
}

static float *state_at(const struct drafter *drafter, int64_t depth, int64_t slot, int64_t place) {
    return drafter->modules[depth].states + (slot * drafter->table + least(place, drafter->table - 1)) * drafter->hidden;
}

static int64_t prompt_of(const struct drafter *drafter, int64_t slot) {
    return drafter->num_prompt ? drafter->num_prompt[slot] : 0;
}

int64_t talkahead_chain_bytes(int64_t hidden) {
    struct stage stage;
    return lay_out_stage(hidden, 0, &stage);
}

/* to [D] = a state, normed. */
static void norm_state(const struct drafter *drafter, const float *norm, const float *state, float *to) {
    int64_t hidden = drafter->hidden;
    double squares = 0;
    for (int64_t i = 0; i < hidden; i++) squares += (double)state[i] * state[i];
    float scale = (float)(1 / sqrt(squares / (double)hidden + drafter->epsilon));
    for (int64_t i = 0; i < hidden; i++) to[i] = state[i] * scale * norm[i];
}

/* What the first layer is fed at a slot's `count` positions from `first` on, [count, D]: embeddings, or, of modules,
 * what tokens tell, which is still to be added to the projected states that are written to `states` [count, D]. */
static void gather(const struct drafter *drafter, int64_t depth, int64_t slot, int64_t first, int64_t count, float *to,
                  float *states) {
    int64_t hidden = drafter->hidden, place = first - prompt_of(drafter, slot);
    for (int64_t i = 0; i < count; i++, place++, to += hidden, states += hidden) {
        const float *from = drafter->embeddings;
        int64_t token = *said_at(drafter, slot, drafter->modules ? place + depth : place);
        if (drafter->modules) {
            const struct module *module = drafter->modules + depth;
            norm_state(drafter, module->norm, state_at(drafter, depth, slot, place), states);
            from = module->token_rows, token = drafter->sees_tokens ? token : 0;
        }
        memcpy(to, from + token * hidden, (size_t)hidden * sizeof *to);
    }
}

/* x [rows, D] += a module's projections of normed states [rows, D]. */
static void project(const struct drafter *drafter, int64_t depth, int64_t rows, const float *states, float *x) {
    struct stage stage;
    int64_t hidden = drafter->hidden;
    lay_out_stage(hidden, drafter->memory, &stage);
    for (int64_t count; rows > 0; rows -= count, states += count * hidden, x += count * hidden) {
        count = least(rows, CHUNK);
        product(&drafter->modules[depth].projector, count, (const word *)states, x, ADD, &stage);
    }
    leave(&stage.bench);
}

/* Feeds each row up to W of the positions that it lacks before ends [S]; returns -1 if they do not fit, 1 if some are
 * still missing, else 0. logits [S, V] are those after each row's last position, where any was fed. */
static int feed_once(const struct drafter *drafter, const struct decoder *decoder, int64_t depth,
                     const struct rows *rows, const int64_t *ends) {
    int64_t slots[rows->count], sizes[rows->count], lines[rows->count], fed = 0;
    int64_t hidden = drafter->hidden, vocabulary = drafter->vocabulary;
    struct batch batch = {.slots = slots, .lengths = decoder->lengths, .sizes = sizes}; /* chains: no parents */
    int needs_states = drafter->modules && depth + 1 < drafter->length, is_behind = 0;
    for (int64_t s = 0; s < rows->count; s++) {
        int64_t slot = rows->slots[s], length = decoder->lengths[slot], left = ends[s] - length;
        if (left <= 0) continue;
        is_behind |= left > drafter->most_fed;
        lines[batch.count] = s, slots[batch.count] = slot;
        sizes[batch.count++] = left = least(left, drafter->most_fed);
        gather(drafter, depth, slot, length, left, drafter->x + fed * hidden, drafter->states + fed * hidden);
        fed += left;
    }
    if (drafter->modules) project(drafter, depth, fed, drafter->states, drafter->x);
    /* Room for the logits of all rows that are fed, after those of the rows as they are told. */
    float *logits = drafter->logits + rows->count * vocabulary;
    if (drafter->decode(decoder->model, decoder->workspace, drafter->x, &batch, needs_states ? LAST_LOGITS : LAST_ROWS,
                        drafter->states, logits))
        return -1;
    const float *state = drafter->states;
    for (int64_t sequence = 0; sequence < batch.count; sequence++) {
        int64_t slot = slots[sequence], size = sizes[sequence], place = decoder->lengths[slot] - prompt_of(drafter, slot);
        for (int64_t i = 0; needs_states && i < size; i++, state += hidden)
            memcpy(state_at(drafter, depth + 1, slot, place + i), state, (size_t)hidden * sizeof *state);
        memcpy(drafter->logits + lines[sequence] * vocabulary, logits, (size_t)vocabulary * sizeof *logits);
        logits += vocabulary;
        decoder->lengths[slot] += size;
    }
    return is_behind;
}

/* Draws each row's token after the one at `depth`. */
static void draw(const struct drafter *drafter, int64_t depth, const struct rows *rows) {
    int64_t vocabulary = drafter->vocabulary, nodes = rows->length + 1;
    for (int64_t s = 0; s < rows->count; s++) {
        const struct settings *all = &rows->settings;
        struct settings own = {all->sharpness + s, all->is_sampled + s, all->top_k + s, all->top_p + s};
        const float *logits = drafter->logits + s * vocabulary;
        int64_t slot = rows->slots[s], position = rows->positions[s] + depth + 1;
        int64_t *token = rows->tokens + s * nodes + depth + 1;
        if (rows->probs)
            drafter->draw_with_probs(vocabulary, logits, &own, rows->keys[s], position, drafter->purpose,
                                     drafter->num_purposes, drafter->weights, token,
                                     rows->probs + (s * nodes + depth + 1) * vocabulary);
        else
            drafter->draw(1, 1, vocabulary, logits, &own, rows->keys + s, &position, drafter->purpose,
                          drafter->num_purposes, drafter->weights, token);
        if (depth < drafter->num_kept) drafter->kept[slot * drafter->num_kept + depth] = *token;
        *said_at(drafter, slot, position) = *token;
    }
}

/* The chain of each row; returns -1 if positions do not fit their slots. */
int talkahead_draft(const struct drafter *drafter, const struct rows *rows) {
    int64_t ends[rows->count];
    for (int64_t s = 0; s < rows->count; s++) {
        int64_t slot = rows->slots[s], position = rows->positions[s];
        rows->tokens[s * (rows->length + 1)] = *said_at(drafter, slot, position) = rows->roots[s];
        ends[s] = prompt_of(drafter, slot) + position + 1;
        if (rows->probs)
            memset(rows->probs + s * (rows->length + 1) * drafter->vocabulary, 0,
                   (size_t)drafter->vocabulary * sizeof(float));
        if (drafter->modules)
            memcpy(state_at(drafter, 0, slot, position), rows->hidden + s * drafter->hidden,
                   (size_t)drafter->hidden * sizeof(float));
    }
    for (int64_t depth = 0; depth < rows->length; depth++) {
        const struct decoder *decoder = drafter->decoders + (drafter->modules ? depth : 0);
        int is_behind;
        while ((is_behind = feed_once(drafter, decoder, depth, rows, ends)) > 0) continue;
        if (is_behind < 0) return -1;
        draw(drafter, depth, rows);
        for (int64_t s = 0; !drafter->modules && s < rows->count; s++) ends[s]++;
    }
    return 0;
}

/* What a step made of its trees [S, N], as verifiers tell it. */
struct observed {
    int64_t count, nodes, most;       /* most: M, nodes of a path at most */
    const int64_t *slots, *positions; /* [S], positions of the roots */
    const int64_t *tokens;            /* [S, N] */
    const int64_t *counts, *paths;    /* [S], [S, M] */
    const int64_t *next_roots;        /* [S] */
    const float *before, *hidden;     /* [S, D] that drew the roots, [S, N, D] */
};

/* The token said so far after the root, the root itself at 0. */
static int64_t said_after(const struct observed *observed, int64_t s, int64_t after) {
    if (after == observed->counts[s]) return observed->next_roots[s];
    return observed->tokens[s * observed->nodes + observed->paths[s * observed->most + after]];
}

/* Of the remembered drafted tokens, how many were said, one after the other. */
static int64_t num_right(const struct drafter *drafter, const struct observed *observed, int64_t s) {
    const int64_t *kept = drafter->kept + observed->slots[s] * drafter->num_kept;
    int64_t known = least(observed->counts[s] - !drafter->modules, drafter->num_kept), right = 0;
    while (right < known && kept[right] == said_after(observed, s, right + 1)) right++;
    return right;
}

/* Writes down what was said, and cuts KV back to what was fed with tokens that were said. */
void talkahead_observe(const struct drafter *drafter, const struct observed *observed) {
    int64_t hidden = drafter->hidden, num_decoders = drafter->modules ? drafter->length : 1;
    size_t bytes = (size_t)hidden * sizeof(float);
    for (int64_t s = 0; s < observed->count; s++) {
        int64_t slot = observed->slots[s], position = observed->positions[s], count = observed->counts[s];
        const int64_t *path = observed->paths + s * observed->most;
        for (int64_t i = 0; i <= count; i++) *said_at(drafter, slot, position + i) = said_after(observed, s, i);
        if (drafter->modules) memcpy(state_at(drafter, 0, slot, position), observed->before + s * hidden, bytes);
        for (int64_t i = 0; drafter->modules && i < count; i++)
            memcpy(state_at(drafter, 0, slot, position + 1 + i),
                   observed->hidden + (s * observed->nodes + path[i]) * hidden, bytes);
        if (drafter->modules && !drafter->sees_tokens) continue;
        int64_t known = prompt_of(drafter, slot) + position + 1 + num_right(drafter, observed, s);
        for (int64_t depth = 0; depth < num_decoders; depth++) {
            int64_t *length = drafter->decoders[depth].lengths + slot, most = known > depth ? known - depth : 0;
            *length = least(*length, most);
        }
    }
}

/* Both of the same rows again and again: of those of engine/native/steps.c. */
struct drafting {
    const struct drafter *drafter;
    const struct rows *rows;
};

int talkahead_draft_again(const struct drafting *own) { return talkahead_draft(own->drafter, own->rows); }

struct observing {
    const struct drafter *drafter;
    const struct observed *observed;
};

int talkahead_observe_again(const struct observing *own) {
    talkahead_observe(own->drafter, own->observed);
    return 0;
}
