/* The rows of a call of decoder.c. Who calls it by its address includes this. */
#pragma once

#include <stdint.h>

/* The rows that enter one slot at once: a prompt, or the nodes of a tree. */
struct bursts {
    int64_t count;
    const int64_t *slots;   /* [count]: where */
    const int64_t *lengths; /* [slots]: behind how many positions, by slot */
    const int64_t *sizes;   /* [count]: how many rows */
    const int32_t *parents; /* of each row within its burst, -1 for the root; NULL for chains */
    const int64_t *trees;   /* [count]: where a burst's parents begin, -1 for a chain; NULL: all at 0 */
};

struct model;
typedef int decode_function(const struct model *model, char *memory, const float *x, const struct bursts *bursts,
                            int only_last, float *hidden, float *logits);

decode_function talkahead_decode;
