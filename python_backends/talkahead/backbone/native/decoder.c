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
 * neighbouring bfloat16 values, whose products some CPUs add at once.
 *
 * Shapes: R rows of a call, D hidden size, H query heads, K KV heads, G query heads of a KV head, d head size,
 * I intermediate size, V vocabulary.
 */

#include "attention.h"

/* Layers */

#define GATES 16 /* that lie together, before as many ups */
#define MOST_PARTS 16 /* of what a team shares: Llasa-1B's steps on two threads take 0.95 to 0.97 of their time with 8 */
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

/* A layer's work, or the head's, as members of a team share it. */
struct work {
    const struct model *model;
    struct workspace *space;
    struct multiplied product;
    float *out;
    int64_t layer, parts;
};

/* Parts of some whole: enough that nobody waits long for the last one. */
static int64_t parts_of(const struct model *model, int64_t whole) {
    return model->helpers.team ? least(whole, MOST_PARTS) : 1;
}

static void multiply_part(void *given, int64_t part, int64_t member) {
    const struct work *work = given;
    int64_t outputs = work->product.matrix->outputs, panels = blocks_of(PANEL, outputs);
    int64_t first = panels * part / work->parts * PANEL, end = panels * (part + 1) / work->parts * PANEL;
    multiply_outputs(&work->product, first, least(end, outputs), work->out + first, &work->space->desks[member].bench);
}

/* `product`, by all. */
static void multiply_together(const struct model *model, const struct matrix *matrix, int64_t rows, const word *x,
                              float *out, enum mode mode, struct workspace *space) {
    struct work work = {model, space, enter(matrix, rows, x, mode, &space->stage), out};
    work.parts = parts_of(model, blocks_of(PANEL, matrix->outputs));
    if (rows) share(&model->helpers, multiply_part, &work, work.parts);
}

static void attend_part(void *given, int64_t part, int64_t member) {
    const struct work *work = given;
    struct workspace *space = work->space;
    attend_sequence(work->model, work->layer, part, space, space->desks + member, space->normed);
}

/* What enters `down`, slice by slice, so that gates and ups do not leave the nearest cache. */
static void gate_part(void *given, int64_t part, int64_t member) {
    const struct work *work = given;
    struct desk *desk = work->space->desks + member;
    struct multiplied product = work->product;
    int64_t outputs = product.matrix->outputs, slices = blocks_of(SLICE, outputs), end;
    for (int64_t slice = slices * part / work->parts; slice < slices * (part + 1) / work->parts; slice++) {
        int64_t first = slice * SLICE;
        end = least(first + SLICE, outputs), product.out_stride = end - first;
        multiply_outputs(&product, first, end, desk->gate_up, &desk->bench);
        gate_slice(work->model, desk->gate_up, product.rows, first / 2, (end - first) / 2, work->space->gated);
    }
}

static void gate_together(const struct model *model, const struct matrix *gate_up, int64_t rows,
                          struct workspace *space) {
    struct work work = {model, space, enter(gate_up, rows, space->normed, WRITE, &space->stage)};
    work.parts = parts_of(model, blocks_of(SLICE, gate_up->outputs));
    share(&model->helpers, gate_part, &work, work.parts);
}

/* Where the last rows alone are wanted, these move to the front of the chunk, with what they have attended to; returns
 * how many rows are left. The others have left their keys and values, and that was all. */
static int64_t keep_wanted(const struct model *model, int64_t rows, enum wanted wanted, struct workspace *space) {
    int64_t hidden = model->hidden, words = model->heads * model->dim / model->entering, kept = 0;
    if (wanted != LAST_ROWS) return rows;
    for (int64_t r = 0; r < rows; r++) {
        if (!space->rows[r].is_last) continue;
        memmove(space->x + kept * hidden, space->x + r * hidden, (size_t)hidden * sizeof *space->x);
        memmove(space->normed + kept * words, space->normed + r * words, (size_t)words * sizeof *space->normed);
        space->rows[kept++] = space->rows[r];
    }
    return kept;
}

/* Returns the rows that are left. */
static int64_t run_layer(const struct model *model, int64_t index, int64_t rows, enum wanted wanted,
                         struct workspace *space) {
    const struct layer *layer = &model->layers[index];
    struct work attending = {model, space, .layer = index};
    norm_rows(model, space->x, layer->attention_norm, rows, space->normed);
    multiply_together(model, &layer->qkv, rows, space->normed, space->qkv, WRITE, space);
    norm_heads(model, layer, rows, space->qkv);
    share(&model->helpers, attend_part, &attending, space->num_sequences * model->kv_heads);
    if (index + 1 == model->num_layers && !(rows = keep_wanted(model, rows, wanted, space))) return 0;
    multiply_together(model, &layer->out, rows, space->normed, space->x, ADD, space);
    norm_rows(model, space->x, layer->mlp_norm, rows, space->normed);
    gate_together(model, &layer->gate_up, rows, space);
    multiply_together(model, &layer->down, rows, space->gated, space->x, ADD, space);
    return rows;
}

/* Calls */

/* Lays a desk out from base on; returns its size in bytes, as the one below. */
static int64_t lay_out_desk(const struct model *model, char *base, struct desk *desk) {
    int64_t positions = scores_of(model), dim = model->dim, used = 0;
    TAKE(desk, gate_up, CHUNK * SLICE);
    TAKE(desk, scores, TILE_ROWS * positions);
    TAKE(desk, mixed, TILE_ROWS * dim);
    TAKE(desk, turned, dim);
    TAKE(desk, key, dim);
    TAKE(desk, tail, positions / model->packing * dim);
    TAKE(desk, seen, positions);
    return used + lay_out_bench(base + used, &desk->bench);
}

static int64_t lay_out(const struct model *model, char *base, struct workspace *space) {
    int64_t attended = model->heads * model->dim, intermediate = model->intermediate, used = 0;
    int64_t normed = attended > model->hidden ? attended : model->hidden;
    int64_t desks = model->helpers.team ? MEMBERS : 1;
    TAKE(space, x, CHUNK * model->hidden);
    TAKE(space, normed, CHUNK * normed);
    TAKE(space, qkv, CHUNK * (model->heads + 2 * model->kv_heads) * model->dim);
    TAKE(space, gated, CHUNK * intermediate);
    used += lay_out_stage(normed > intermediate ? normed : intermediate, base + used, &space->stage);
    used += lay_out_listed(model->shortlist, base + used, &space->listed);
    TAKE(space, queries, CHUNK * attended);
    TAKE(space, rows, CHUNK);
    TAKE(space, sequences, CHUNK + 1);
    for (int64_t desk = 0; desk < desks; desk++) used += lay_out_desk(model, base + used, space->desks + desk);
    return used;
}

int64_t talkahead_workspace_bytes(const struct model *model) {
    struct workspace space;
    return lay_out(model, 0, &space);
}

/* A slot's positions fill whole multiples of it. */
int64_t talkahead_panel(void) { return PANEL; }

/* Rows that share a load of weights, at most. */
int64_t talkahead_rows(void) { return ROWS; }

/* What two neighbouring weights of bytes with one sign may add up to; 0: anything. */
int64_t talkahead_most_of_pair(void) { return MOST_OF_PAIR; }

/* What matrices begin with: [ROWS + 1]. */
void talkahead_usual_reach(int64_t *reach) {
    for (int64_t rows = 0; rows <= ROWS; rows++) reach[rows] = usual_reach(rows);
}

/* What rows begin as, [D] each: those of `from` in order, or, where there are tokens, those of its rows, or of the
 * bfloat16 rows `narrow`, that these name. */
struct inputs {
    const float *from;
    const int64_t *tokens;
    const half_word *narrow;
};

static int fits(const struct model *model, const struct batch *batch, const int64_t *tokens) {
    int64_t rows = 0;
    for (int64_t i = 0; i < batch->count; i++) {
        int64_t slot = batch->slots[i], size = batch->sizes[i];
        if (slot < 0 || slot >= model->num_slots || batch->lengths[slot] < 0 || size < 1) return 0;
        if (batch->lengths[slot] + size > model->num_positions) return 0;
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

static struct row row_of(const struct batch *batch, int64_t sequence, int64_t node) {
    int64_t tree = batch->trees ? batch->trees[sequence] : 0;
    const int32_t *parents = batch->parents && tree >= 0 ? batch->parents + tree : NULL;
    int64_t slot = batch->slots[sequence], size = batch->sizes[sequence];
    struct row row = {slot, batch->lengths[slot], node, node, node + 1 == size, parents};
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
    multiply_together(model, model->narrowing, rows, space->normed, space->qkv, WRITE, space);
    for (int64_t r = 0; r < rows; r++)
        narrow(model->entering, space->qkv + r * rank, rank, space->normed + r * rank / model->entering);
}

/* Logits [rows, V] of what the head reads in space->normed; without a shortlist all of them. */
static void read_head(const struct model *model, int64_t rows, struct workspace *space, float *logits) {
    const struct shortlist *shortlist = model->shortlist;
    const struct matrix *head = &model->head;
    const word *x = space->normed;
    struct listed *listed = &space->listed;
    if (!shortlist) {
        multiply_together(model, head, rows, x, logits, WRITE, space);
        return;
    }
    multiply_together(model, &shortlist->means, rows, x, listed->promises, WRITE, space);
    const float *promises = listed->promises;
    for (int64_t row = 0; row < rows; row++, logits += head->outputs, x += head->inputs / model->entering) {
        list_outputs(head, shortlist, promises, x, listed, &space->stage, &space->desks[0].bench);
        for (int64_t token = 0; token < head->outputs; token++) logits[token] = -INFINITY;
        for (int64_t at = 0; at < shortlist->panels * PANEL; at++)
            if (listed->logits[at] > -INFINITY) logits[token_at(shortlist, listed, at)] = listed->logits[at];
        promises += shortlist->means.outputs;
    }
}

/* Leaves rows whose speech is over nothing but its end. */
static void end_speech(const struct model *model, int64_t rows, enum wanted wanted, const struct row *row,
                       float *logits) {
    for (int64_t r = 0; r < rows; r++, row++) {
        if (wanted != ALL_ROWS && !row->is_last) continue;
        if (is_over(model, row)) {
            for (int64_t token = 0; token < model->head.outputs; token++) logits[token] = -INFINITY;
            logits[model->eos] = 0;
        }
        logits += model->head.outputs;
    }
}

/* Writes the hidden states [.., D] and logits [.., V] of the chunk's wanted rows, and moves on after them. */
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
    read_head(model, scored, space, *logits);
    if (model->closing) end_speech(model, rows, wanted, space->rows, *logits);
    *logits += scored * model->head.outputs;
}

/* The next chunk of rows, from a sequence's node on, which become the first that is left; returns how many. */
static int64_t take_rows(const struct batch *batch, int64_t *sequence, int64_t *node, struct workspace *space) {
    int64_t rows = 0;
    space->num_sequences = 0;
    for (; rows < CHUNK && *sequence < batch->count; rows++) {
        if (!rows || !*node) space->sequences[space->num_sequences++] = rows;
        space->rows[rows] = row_of(batch, *sequence, (*node)++);
        if (space->rows[rows].is_last) (*sequence)++, *node = 0;
    }
    space->sequences[space->num_sequences] = rows;
    return rows;
}

/* Runs the rows of all sequences, in order, through the model, and leaves their KV in the cache.
 *
 * hidden and logits receive the rows that are wanted. Returns 0, or -1 if a sequence does not fit its slot or a token is
 * not of the vocabulary, with nothing written.
 */
static int decode(const struct model *model, char *memory, struct inputs inputs, const struct batch *batch,
                  enum wanted wanted, float *hidden, float *logits) {
    struct workspace space;
    int64_t sequence = 0, node = 0, done = 0;
    if (!fits(model, batch, inputs.tokens)) return -1;
    lay_out(model, memory, &space);
    while (sequence < batch->count) {
        int64_t rows = take_rows(batch, &sequence, &node, &space);
        begin_rows(&inputs, done, rows, model->hidden, space.x);
        done += rows;
        for (int64_t layer = 0; layer < model->num_layers; layer++)
            rows = run_layer(model, layer, rows, wanted, &space);
        read_out(model, rows, wanted, &space, &hidden, &logits);
    }
    leave(&space.desks[0].bench);
    return 0;
}

/* `decode` of rows x [R, D]. */
int talkahead_decode(const struct model *model, char *memory, const float *x, const struct batch *batch,
                     enum wanted wanted, float *hidden, float *logits) {
    return decode(model, memory, (struct inputs){x}, batch, wanted, hidden, logits);
}

/* `decode` of tokens [R], all rows of which are wanted; embeddings [V, D], floats or bfloat16. */
int talkahead_score(const struct model *model, char *memory, const void *embeddings, int is_narrow,
                    const int64_t *tokens, const struct batch *batch, float *hidden, float *logits) {
    struct inputs inputs = {is_narrow ? NULL : embeddings, tokens, is_narrow ? embeddings : NULL};
    return decode(model, memory, inputs, batch, ALL_ROWS, hidden, logits);
}

/* Both of the same rows again and again: of those of engine/native/steps.c. */
struct scoring {
    const struct model *model;
    char *memory;
    const void *embeddings;
    int64_t is_narrow;
    const int64_t *tokens;
    const struct batch *batch;
    float *hidden, *logits;
};

int talkahead_score_again(const struct scoring *own) {
    return talkahead_score(own->model, own->memory, own->embeddings, (int)own->is_narrow, own->tokens, own->batch,
                           own->hidden, own->logits);
}

/* Accepted nodes of each row: how many, and in trees which. */
struct committing {
    const struct model *model;
    int64_t count, most;
    const int64_t *slots, *counts;
    const int64_t *paths; /* [count, most]; null: of chains, whose nodes lie in place */
    int64_t *lengths;     /* [slots] */
};

int talkahead_commit_again(const struct committing *own) {
    if (own->paths)
        talkahead_compact(own->model, own->count, own->slots, own->lengths, own->counts, own->paths, own->most);
    for (int64_t row = 0; row < own->count; row++) own->lengths[own->slots[row]] += own->counts[row];
    return 0;
}

/* out [count] = e^x; count in whole vectors. */
void talkahead_exponential(const float *x, int64_t count, float *out) {
    for (int64_t i = 0; i < count; i += LANES) store(out + i, exponential(load(x + i)));
}
