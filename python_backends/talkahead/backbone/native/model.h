/* What decodes: a model's weights and cache, the rows of a call, and the room that they need. */
#pragma once

#include "batch.h"
#include "shortlist.h"
#include "team.h"

struct layer {
    const float *attention_norm, *mlp_norm; /* [D] */
    const float *query_norm, *key_norm;     /* [d], of each head; NULL where there are none */
    struct matrix qkv, out, gate_up, down;  /* outputs (H + 2 K) d, D, 2 I, D; 16 gates, their ups, and so on */
};

/* The cache is words [layer, slot, K, 2, positions * d / packing]. Keys are panels of PANEL positions, within a
 * panel [d / packing, PANEL]; values are [positions / packing, d]. Positions fill whole panels. */
struct model {
    int64_t num_layers, hidden, heads, kv_heads, dim, intermediate, num_slots, num_positions;
    int64_t packing;  /* values in a word of queries and KV: 1, or 2 where they are bfloat16 */
    int64_t entering; /* the same of what enters matrices; bytes are made of floats where they are needed */
    int64_t in_tiles; /* whether queries meet keys and values in tiles: pairs only, d in whole tiles */
    double epsilon;
    const struct layer *layers;
    const float *final_norm; /* [D] */
    const struct matrix *narrowing; /* [r, D], whose outputs the head reads, at most (H + 2 K) d and D; NULL: none */
    struct matrix head;
    const struct shortlist *shortlist; /* of the head, whose other logits are -infinity; NULL: all are computed */
    const float *cosines, *sines; /* [positions, d / 2] */
    word *cache;
    int64_t aligned_layer, aligned_head; /* whose scores say which row of the prompt is spoken; -1: none */
    int64_t back, ahead;  /* rows of its prompt that it sees before and after the last frame's; ahead 0: all */
    int64_t longest;      /* frames that may speak one row; 0: any number */
    int64_t closing, closing_frames, eos; /* rows that close a prompt; who has spoken them so long draws `eos` */
    const int64_t *prompts;              /* [slots]: rows of each one's prompt */
    int32_t *aligned;                    /* [slots, positions]: the row of its prompt that each scores highest */
    struct helpers helpers;              /* in what the layers compute */
};

struct row {
    int64_t slot, past, node, depth;
    int is_last;            /* of its sequence */
    const int32_t *parents; /* of its sequence's rows; NULL for a chain */
};

/* What one thread has for itself. */
struct desk {
    float *gate_up, *scores, *mixed, *turned;
    word *key, *tail;
    int64_t *seen;
    struct bench bench;
};

struct workspace {
    float *x, *qkv;
    word *normed, *gated, *queries;
    struct row *rows;
    int64_t num_sequences, *sequences; /* of the chunk, and which row each begins with, up to the end */
    struct stage stage;
    struct listed listed;
    struct desk desks[MEMBERS];
};
