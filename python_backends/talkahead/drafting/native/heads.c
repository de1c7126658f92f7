/* Draft heads: residual blocks on a hidden state, and the tree of their best tokens. */

#include "../../backbone/native/shortlist.h"
#include "../../speculation/native/draws.h"

/* K heads. Products enter as floats. */
struct heads {
    int64_t count, hidden, inner, vocabulary;
    const struct matrix *inward, *outward; /* [K] each, of H and of D outputs; no outward: H = D */
    const float *inner_biases, *biases;    /* [K, H] and [K, D]; biases: of outward */
    const struct matrix *narrowings;       /* [K], of at most H outputs, which linears read; 0: these read states */
    const struct matrix *linears;          /* [K], of V outputs each */
    const struct shortlist *shortlists;    /* [K], of the linears; 0: all outputs are computed, which lie in order */
    const float *token_rows;               /* [V, D], added where a token follows; 0: heads see the same state */
};

/* What to draft below the root, depth by depth. Nodes that have children are growing. */
struct growth {
    int64_t depth, nodes, most;             /* nodes of the tree, root included; growing ones of a depth at most */
    const int64_t *sizes, *widths, *grown;  /* [depth]: nodes, best tokens after each parent, nodes that grow on */
    const int64_t *parents, *ranks, *grows; /* depth by depth: of each node its parent among the growing and its
                                               rank; then which nodes of a depth grow */
};

/* The draws that guesses are made for. Of none, and where nothing is sampled, the likeliest tokens are wanted. */
struct to_come {
    struct draws draws;
    int64_t narrow;    /* tokens among which draws are looked for */
    double confidence; /* that sharpness is multiplied by */
    order_function *order;
    struct settings settings;
    const uint64_t *keys;
    const int64_t *positions; /* of the roots */
};

struct heads_room {
    float *seen, *next, *inner, *states; /* [CHUNK, D] twice, [CHUNK, H], [CHUNK, D] */
    float *logits;                       /* [CHUNK, V]; with shortlists [V], of what was listed last */
    int64_t *best;                       /* [V] */
    struct listed listed;
    struct stage stage;
};

static int64_t lay_out_heads(const struct heads *heads, char *base, struct heads_room *room) {
    int64_t used = 0, widest = heads->inner > heads->hidden ? heads->inner : heads->hidden;
    TAKE(room, seen, CHUNK * heads->hidden);
    TAKE(room, next, CHUNK * heads->hidden);
    TAKE(room, inner, CHUNK * heads->inner);
    TAKE(room, states, CHUNK * heads->hidden);
    TAKE(room, logits, (heads->shortlists ? 1 : CHUNK) * heads->vocabulary);
    TAKE(room, best, heads->vocabulary);
    used += lay_out_listed(heads->shortlists, base + used, &room->listed);
    return used + lay_out_stage(widest, base + used, &room->stage);
}

int64_t talkahead_heads_bytes(const struct heads *heads) {
    struct heads_room room;
    return lay_out_heads(heads, 0, &room);
}

/* Nodes that may grow at one depth. */
int64_t talkahead_heads_rows(void) { return CHUNK; }

/* The `count` tokens of the largest logits among those that are listed, best first; these stand in room->logits [V]. */
static void list_shortly(const struct matrix *linear, const struct shortlist *shortlist, const float *promises,
                         const word *x, int64_t count, struct heads_room *room) {
    struct listed *listed = &room->listed;
    list_outputs(linear, shortlist, promises, x, listed, &room->stage, &room->stage.bench);
    list_best(listed->logits, shortlist->panels * PANEL, count, room->best);
    for (int64_t place = 0; place < count; place++) {
        int64_t at = room->best[place], token = token_at(shortlist, listed, at);
        room->best[place] = token, room->logits[token] = listed->logits[at];
    }
}

/* to = from, and what a token adds. */
static void tell(const struct heads *heads, const float *from, int64_t token, float *to) {
    const float *added = heads->token_rows + token * heads->hidden;
    for (int64_t i = 0; i < heads->hidden; i += LANES)
        store(to + i, heads->token_rows ? load(from + i) + load(added + i) : load(from + i));
}

/* states [R, D] = seen + W silu(V seen): a head's block, perhaps without W. */
static void pass_block(const struct heads *heads, int64_t head, int64_t rows, struct heads_room *room) {
    int64_t size = heads->hidden, inner = heads->inner;
    product(heads->inward + head, rows, (const word *)room->seen, room->inner, WRITE, &room->stage);
    for (int64_t row = 0; row < rows; row++) {
        float *x = room->inner + row * inner;
        for (int64_t i = 0; i < inner; i += LANES) {
            vec value = load(x + i) + load(heads->inner_biases + head * inner + i);
            store(x + i, value / (1.0f + exponential(-value)));
        }
        for (int64_t i = 0; i < size; i += LANES)
            store(room->states + row * size + i,
                  load(room->seen + row * size + i) +
                      load(heads->outward ? heads->biases + head * size + i : x + i));
    }
    if (heads->outward)
        product(heads->outward + head, rows, (const word *)room->inner, room->states, ADD, &room->stage);
}

/* What a head's linear layer reads of states [R, D], where it is narrowed. */
static const word *read_by(const struct heads *heads, const struct heads_room *room) {
    return (const word *)(heads->narrowings ? room->inner : room->states);
}

/* Logits [R, V] of states [R, D], or what each panel of a shortlist promises. */
static void read_out(const struct heads *heads, int64_t head, int64_t rows, struct heads_room *room) {
    if (heads->narrowings)
        product(heads->narrowings + head, rows, (const word *)room->states, room->inner, WRITE, &room->stage);
    const word *read = read_by(heads, room);
    if (heads->shortlists)
        product(&heads->shortlists[head].means, rows, read, room->listed.promises, WRITE, &room->stage);
    else
        product(heads->linears + head, rows, read, room->logits, WRITE, &room->stage);
}

/* The tokens that are likeliest to be drawn after what has been read out as `row`, `width` at least. */
static void list_likely(const struct heads *heads, int64_t head, const struct to_come *to_come, int64_t stream,
                        int64_t row, int64_t width, struct heads_room *room) {
    const struct settings *settings = &to_come->settings;
    const struct matrix *linear = heads->linears + head;
    int64_t vocabulary = heads->vocabulary, is_drawn = to_come->draws.trials && settings->is_sampled[stream];
    int64_t count = is_drawn && to_come->narrow > width ? least(to_come->narrow, vocabulary) : width;
    float *logits = room->logits;
    if (heads->shortlists) {
        const struct shortlist *shortlist = heads->shortlists + head;
        list_shortly(linear, shortlist, room->listed.promises + row * shortlist->means.outputs,
                     read_by(heads, room) + row * linear->inputs, count, room);
    } else {
        logits += row * vocabulary;
        list_best(logits, vocabulary, count, room->best);
    }
    if (is_drawn)
        to_come->order(&to_come->draws, to_come->keys[stream], to_come->positions[stream] + head + 1,
                       settings->sharpness[stream] * to_come->confidence, logits, count, room->best);
}

/* The nodes of one depth of each of some trees, whose parents are seen: tokens [S, N] from `first` on, then what the
 * growing ones among them see. */
static void grow_level(const struct heads *heads, const struct growth *growth, const struct to_come *to_come,
                       int64_t stream, int64_t level, int64_t growing, int64_t first, const int64_t *grows,
                       int64_t count, int64_t *tokens, struct heads_room *room) {
    int64_t size = heads->hidden;
    const int64_t *parents = growth->parents + first - 1, *ranks = growth->ranks + first - 1;
    pass_block(heads, level, count * growing, room);
    read_out(heads, level, count * growing, room);
    for (int64_t row = 0; row < count; row++, tokens += growth->nodes) {
        for (int64_t parent = 0; parent < growing; parent++) {
            list_likely(heads, level, to_come, stream + row, row * growing + parent, growth->widths[level], room);
            for (int64_t node = 0; node < growth->sizes[level]; node++)
                if (parents[node] == parent) tokens[first + node] = room->best[ranks[node]];
        }
        for (int64_t i = 0; i < growth->grown[level]; i++) {
            const float *from = heads->token_rows ? room->states : room->seen;
            tell(heads, from + (row * growing + parents[grows[i]]) * size, tokens[first + grows[i]],
                 room->next + (row * growth->grown[level] + i) * size);
        }
    }
}

/* What there is to be grown, for engine/native/steps.c too. */
struct growing {
    const struct heads *heads;
    const struct growth *growth;
    const struct to_come *to_come;
    char *memory;
    int64_t rows;
    const float *hidden;
    const int64_t *roots;
    int64_t *tokens;
};

/* tokens [S, N], the root's first: the trees that grow from roots [S] and the hidden states [S, D] that drew them. */
int talkahead_grow(const struct growing *own) {
    const struct heads *heads = own->heads;
    const struct growth *growth = own->growth;
    const float *hidden = own->hidden;
    const int64_t *roots = own->roots;
    int64_t *tokens = own->tokens, rows = own->rows;
    struct heads_room room;
    int64_t size = heads->hidden, stream = 0;
    lay_out_heads(heads, own->memory, &room);
    for (int64_t count; rows > 0; rows -= count, stream += count, hidden += count * size, roots += count,
                 tokens += count * growth->nodes) {
        const int64_t *grows = growth->grows;
        count = least(rows, CHUNK / growth->most);
        for (int64_t row = 0; row < count; row++) {
            tokens[row * growth->nodes] = roots[row];
            tell(heads, hidden + row * size, roots[row], room.seen + row * size);
        }
        for (int64_t level = 0, first = 1, growing = 1; level < growth->depth; level++) {
            grow_level(heads, growth, own->to_come, stream, level, growing, first, grows, count, tokens, &room);
            float *seen = room.next;
            room.next = room.seen, room.seen = seen;
            first += growth->sizes[level], growing = growth->grown[level], grows += growing;
        }
    }
    leave(&room.stage.bench);
    return 0;
}
