/* The rows of a call of decoder.c. Who calls it by its address includes this. */
#pragma once

#include <stdint.h>

/* A ragged batch: each sequence is the rows that enter one slot at once, a prompt or the nodes of a tree. */
struct batch {
    int64_t count;
    const int64_t *slots;   /* [count]: where */
    const int64_t *lengths; /* [slots]: after how many positions, by slot */
    const int64_t *sizes;   /* [count]: how many rows */
    const int32_t *parents; /* of each row within its sequence, -1 for the root; NULL for chains */
    const int64_t *trees;   /* [count]: where a sequence's parents begin, -1 for a chain; NULL: all at 0 */
};

/* Whose hidden states and logits are: of every row, of each sequence's last one, or logits of these and hidden states of
 * all. */
enum wanted { ALL_ROWS, LAST_ROWS, LAST_LOGITS };

struct model;
typedef int decode_function(const struct model *model, char *memory, const float *x, const struct batch *batch,
                            enum wanted wanted, float *hidden, float *logits);

decode_function talkahead_decode;
