/* Steps of the same rows, one after the other, in one call: between them nothing is interpreted.
 *
 * What a step does is a list of calls into other libraries, which stays the same as long as the rows do: draft, score,
 * accept, commit, observe, advance.
 *
 * Shapes: S rows; M tokens that a step adds to a row at most; K steps at most; T tokens of all of them at most.
 */
#include <stdint.h>
#include <string.h>

#include "../../backbone/native/clock.h"

/* 0, or what it is given does not fit. */
typedef int step_call(const void *given);

struct call {
    step_call *function;
    const void *given;
};

struct steps {
    int64_t num_calls;
    const struct call *calls;
    int64_t rows, most, most_steps; /* S, M, K */
    const int64_t *counts, *added;  /* [S], [S, M]: what a step's calls leave behind */
    int64_t eos;
    int64_t *tokens, *totals; /* [S, K M], [S] */
    int64_t *by_step;         /* [K, S]: tokens that each step added */
};

/* When no further step is begun; where there is none, after the first. */
struct stop {
    const int64_t *until;   /* [S]: a row has so many tokens more */
    const int64_t *is_asked; /* somebody waits for the end */
    int64_t nanoseconds;    /* have passed */
};

/* Whether all of a step's calls did what they were to do. */
static int run_calls(const struct steps *steps) {
    for (int64_t i = 0; i < steps->num_calls; i++)
        if (steps->calls[i].function(steps->calls[i].given)) return 0;
    return 1;
}

/* Whether a row has come to its end, or to where it is waited for. */
static int note_step(const struct steps *steps, int64_t done, const struct stop *stop) {
    int is_due = !stop;
    for (int64_t row = 0; row < steps->rows; row++) {
        const int64_t *own = steps->added + row * steps->most;
        int64_t count = steps->counts[row], *to = steps->tokens + row * steps->most_steps * steps->most;
        memcpy(to + steps->totals[row], own, (size_t)count * sizeof *own);
        steps->totals[row] += count;
        steps->by_step[done * steps->rows + row] = count;
        is_due |= stop && steps->totals[row] >= stop->until[row];
        for (int64_t i = 0; i < count; i++) is_due |= own[i] == steps->eos;
    }
    return is_due;
}

/* Returns how many steps were done, 1 at least; -1: what a call was given did not fit. */
int64_t talkahead_steps(const struct steps *steps, const struct stop *stop) {
    int64_t done = 0, end_ns = now_ns() + (stop ? stop->nanoseconds : 0);
    memset(steps->totals, 0, (size_t)steps->rows * sizeof *steps->totals);
    for (int is_over = 0; !is_over && done < steps->most_steps; done++) {
        if (!run_calls(steps)) return -1;
        is_over = note_step(steps, done, stop);
        is_over |= stop && (__atomic_load_n(stop->is_asked, __ATOMIC_RELAXED) || now_ns() >= end_ns);
    }
    return done;
}
