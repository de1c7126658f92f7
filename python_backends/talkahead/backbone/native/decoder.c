/* The talker's Llama decoder for CPUs: all layers, the last norm and the head over packed rows, in one call.
 *
 * A row's result is bitwise the same whatever else is computed with it: each output is one chain of sums whose
 * order depends on the model and on what the row sees, never on the number of rows, on its slot or on padding.
 * Prompt rows, steps and tree nodes take the same path. So nothing here may be compiled with -ffast-math.
 *
 * Every row has its own slot and position. It sees its slot's past and, of the rows that enter with it, its
 * ancestors. Vectors are gcc's, lowered to what the CPU has. The functions keep no state: calls that share
 * neither workspace nor slots may run at once.
 *
 * Weights, keys and values are read once for several rows, in panels (panels.h), or, where the CPU has them, weights
 * in tiles (tiles.h). Activations and KV are words of 32 bits: a float, or, where the model is packed in pairs, two
 * neighbouring bfloat16 values, whose products the CPU adds at once.
 *
 * Shapes: R rows of a call, D hidden size, H query heads, K KV heads, G query heads of a KV head, d head size,
 * I intermediate size, V vocabulary.
 */

#include "attention.h"

/* Layers */

#define GATES 16 /* that lie together, before as many ups */
#define SLICE 64 /* gates and ups that are computed together: whole panels, whatever vectors there are */

/* RMSNorm of x [hidden], as words, which may lie over it. */
static void norm(int64_t packing, const float *x, const float *weight, int64_t hidden, double epsilon, word *out) {
    vec squares = {0};
    for (int64_t i = 0; i < hidden; i += LANES) squares += load(x + i) * load(x + i);
    float scale = (float)(1.0 / sqrt((double)sum_lanes(squares) / (double)hidden + epsilon));
    for (int64_t i = 0; i < hidden; i += LANES) put(packing, out, i, load(x + i) * scale * load(weight + i));
}

static void norm_rows(const struct model *model, const float *x, const float *weight, int64_t rows, word *out) {
    int64_t hidden = model->hidden, words = hidden / model->entering;
    for (int64_t r = 0; r < rows; r++)
        norm(model->entering, x + r * hidden, weight, hidden, model->epsilon, out + r * words);
}

/* Heads of queries and keys in qkv [rows, (H + 2 K) d], where the layer norms them. */
static void norm_heads(const struct model *model, const struct layer *layer, int64_t rows, float *qkv) {
    int64_t heads = model->heads, normed = heads + model->kv_heads, dim = model->dim;
    if (!layer->query_norm) return;
    for (int64_t row = 0; row < rows; row++, qkv += (normed + model->kv_heads) * dim)
        for (int64_t head = 0; head < normed; head++)
            norm(1, qkv + head * dim, head < heads ? layer->query_norm : layer->key_norm, dim, model->epsilon,
                 (word *)(qkv + head * dim));
}

/* SwiGLU of gate_up [rows, 2 count], from index `first` of out [rows, I / packing] on. */
static void gate_slice(const struct model *model, const float *gate_up, int64_t rows, int64_t first, int64_t count,
                       word *out) {
    int64_t packing = model->entering, words = model->intermediate / packing;
    for (int64_t r = 0; r < rows; r++, gate_up += 2 * count, out += words)
        for (int64_t i = 0; i < count; i += LANES) {
            const float *gates = gate_up + 2 * i - i % GATES;
            vec gate = load(gates);
            put(packing, out, first + i, gate / (1.0f + exponential(-gate)) * load(gates + GATES));
        }
}

/* What enters `down`. Slice by slice, so that gates and ups do not leave the nearest cache. */
static void gate_rows(const struct model *model, const struct matrix *gate_up, int64_t rows, struct workspace *space) {
    const word *x = enter(gate_up, rows, space->normed, &space->stage);
    for (int64_t first = 0, outputs; first < gate_up->outputs; first += outputs) {
        outputs = least(SLICE, gate_up->outputs - first);
        struct matrix slice = slice_of(gate_up, first, outputs);
        multiply_rows_with(&slice, rows, x, space->gate_up, WRITE, &space->stage);
        gate_slice(model, space->gate_up, rows, first / 2, outputs / 2, space->gated);
    }
}

static void run_layer(const struct model *model, int64_t index, int64_t rows, struct workspace *space) {
    const struct layer *layer = &model->layers[index];
    norm_rows(model, space->x, layer->attention_norm, rows, space->normed);
    product(&layer->qkv, rows, space->normed, space->qkv, WRITE, &space->stage);
    norm_heads(model, layer, rows, space->qkv);
    place_rows(model, index, rows, space);
    attend_rows(model, index, rows, space, space->normed);
    product(&layer->out, rows, space->normed, space->x, ADD, &space->stage);
    norm_rows(model, space->x, layer->mlp_norm, rows, space->normed);
    gate_rows(model, &layer->gate_up, rows, space);
    product(&layer->down, rows, space->gated, space->x, ADD, &space->stage);
}

/* Calls */

/* Lays the workspace out from base on; returns its size in bytes. */
static int64_t lay_out(const struct model *model, char *base, struct workspace *space) {
    int64_t attended = model->heads * model->dim, positions = scores_of(model), dim = model->dim;
    int64_t normed = attended > model->hidden ? attended : model->hidden, used = 0;
    int64_t intermediate = model->intermediate;
    TAKE(space, x, CHUNK * model->hidden);
    TAKE(space, normed, CHUNK * normed);
    TAKE(space, qkv, CHUNK * (model->heads + 2 * model->kv_heads) * model->dim);
    TAKE(space, gate_up, CHUNK * SLICE);
    TAKE(space, gated, CHUNK * intermediate);
    TAKE(space, scores, TILE_ROWS * positions);
    TAKE(space, mixed, TILE_ROWS * dim);
    TAKE(space, turned, dim);
    used += lay_out_stage(normed > intermediate ? normed : intermediate, base + used, &space->stage);
    TAKE(space, queries, CHUNK * attended);
    TAKE(space, key, dim);
    TAKE(space, tail, positions / model->packing * dim);
    TAKE(space, seen, positions);
    TAKE(space, rows, CHUNK);
    return used;
}

int64_t talkahead_workspace_bytes(const struct model *model) {
    struct workspace space;
    return lay_out(model, 0, &space);
}

/* A slot's positions fill whole multiples of it. */
int64_t talkahead_panel(void) { return PANEL; }

/* What rows begin as, [D] each: those of `from` in order, or, where there are tokens, those of its rows, or of the
 * bfloat16 rows `narrow`, that these name. */
struct inputs {
    const float *from;
    const int64_t *tokens;
    const half_word *narrow;
};

static int fits(const struct model *model, const struct bursts *bursts, const int64_t *tokens) {
    int64_t rows = 0;
    for (int64_t i = 0; i < bursts->count; i++) {
        int64_t slot = bursts->slots[i], size = bursts->sizes[i];
        if (slot < 0 || slot >= model->num_slots || bursts->lengths[slot] < 0 || size < 1) return 0;
        if (bursts->lengths[slot] + size > model->num_positions) return 0;
        rows += size;
    }
    for (int64_t row = 0; tokens && row < rows; row++)
        if (tokens[row] < 0 || tokens[row] >= model->head.outputs) return 0;
    return 1;
}

static void begin_rows(const struct inputs *inputs, int64_t first, int64_t rows, int64_t hidden, float *x) {
    for (int64_t row = first; row < first + rows; row++, x += hidden) {
        int64_t at = (inputs->tokens ? inputs->tokens[row] : row) * hidden;
        if (!inputs->narrow) memcpy(x, inputs->from + at, (size_t)hidden * sizeof *x);
        for (int64_t i = 0; inputs->narrow && i < hidden; i++) ((word *)x)[i] = (word)inputs->narrow[at + i] << 16;
    }
}

static struct row row_of(const struct bursts *bursts, int64_t burst, int64_t node) {
    int64_t tree = bursts->trees ? bursts->trees[burst] : 0;
    const int32_t *parents = bursts->parents && tree >= 0 ? bursts->parents + tree : NULL;
    int64_t slot = bursts->slots[burst], size = bursts->sizes[burst];
    struct row row = {slot, bursts->lengths[slot], node, node, node + 1 == size, parents};
    if (parents) {
        row.depth = 0;
        for (int64_t above = parents[node]; above >= 0; above = parents[above]) row.depth++;
    }
    return row;
}

/* The hidden state of the chunk's row r, [D]. */
static void hidden_of(const struct model *model, int64_t r, const struct workspace *space, float *hidden) {
    const float *x = space->x + r * model->hidden;
    if (model->final_norm) norm(1, x, model->final_norm, model->hidden, model->epsilon, (word *)hidden);
    else memcpy(hidden, x, (size_t)model->hidden * sizeof *x);
}

/* What the head reads, in place of `rows` hidden states in space->normed. */
static void narrow_states(const struct model *model, int64_t rows, struct workspace *space) {
    if (!model->narrowing) return;
    int64_t rank = model->narrowing->outputs;
    product(model->narrowing, rows, space->normed, space->qkv, WRITE, &space->stage);
    for (int64_t r = 0; r < rows; r++)
        narrow(model->entering, space->qkv + r * rank, rank, space->normed + r * rank / model->entering);
}

/* Writes the hidden states [.., D] and logits [.., V] of the chunk's wanted rows, and moves on behind them. */
static void read_out(const struct model *model, int64_t rows, enum wanted wanted, struct workspace *space,
                     float **hidden, float **logits) {
    int64_t size = model->hidden, scored = 0;
    for (int64_t r = 0; r < rows; r++) {
        int is_scored = wanted == ALL_ROWS || space->rows[r].is_last;
        if (!is_scored && wanted == LAST_ROWS) continue;
        hidden_of(model, r, space, *hidden);
        if (is_scored) narrow(model->entering, *hidden, size, space->normed + scored++ * size / model->entering);
        *hidden += size;
    }
    narrow_states(model, scored, space);
    product(&model->head, scored, space->normed, *logits, WRITE, &space->stage);
    *logits += scored * model->head.outputs;
}

/* Runs the rows of all bursts, in order, through the model, and leaves their KV in the cache.
 *
 * hidden and logits receive the rows that are wanted. Returns 0, or -1 if a burst does not fit its slot or a token is
 * not of the vocabulary, with nothing written.
 */
static int decode(const struct model *model, char *memory, struct inputs inputs, const struct bursts *bursts,
                  enum wanted wanted, float *hidden, float *logits) {
    struct workspace space;
    int64_t burst = 0, node = 0, done = 0;
    if (!fits(model, bursts, inputs.tokens)) return -1;
    lay_out(model, memory, &space);
    while (burst < bursts->count) {
        int64_t rows = 0;
        for (; rows < CHUNK && burst < bursts->count; rows++) {
            space.rows[rows] = row_of(bursts, burst, node++);
            if (space.rows[rows].is_last) burst++, node = 0;
        }
        begin_rows(&inputs, done, rows, model->hidden, space.x);
        for (int64_t layer = 0; layer < model->num_layers; layer++) run_layer(model, layer, rows, &space);
        read_out(model, rows, wanted, &space, &hidden, &logits);
        done += rows;
    }
    if (space.stage.tile_rows) release_tiles();
    return 0;
}

/* `decode` of rows x [R, D]. */
int talkahead_decode(const struct model *model, char *memory, const float *x, const struct bursts *bursts,
                     enum wanted wanted, float *hidden, float *logits) {
    return decode(model, memory, (struct inputs){x}, bursts, wanted, hidden, logits);
}

/* `decode` of tokens [R], all rows of which are wanted; embeddings [V, D], floats or bfloat16. */
int talkahead_score(const struct model *model, char *memory, const void *embeddings, int is_narrow,
                    const int64_t *tokens, const struct bursts *bursts, float *hidden, float *logits) {
    struct inputs inputs = {is_narrow ? NULL : embeddings, tokens, is_narrow ? embeddings : NULL};
    return decode(model, memory, inputs, bursts, ALL_ROWS, hidden, logits);
}

/* out [count] = e^x; count in whole vectors. */
void talkahead_exponential(const float *x, int64_t count, float *out) {
    for (int64_t i = 0; i < count; i += LANES) store(out + i, exponential(load(x + i)));
}
