/* The spectral codec's network: what is told of frames to their spectra and pitch, in one call.
 *
 * Frames go through window by window, and a frame's result is bitwise the same whatever window it lies in and whatever
 * is computed with it: each output is one chain of sums, and what a block sees of earlier frames is carried. So nothing
 * here may be compiled with -ffast-math.
 *
 * Shapes: T frames of a window, D numbers told of a frame, W width, I inner values, H hidden values of a subframe,
 * K bins.
 */

#include "frames.h"

#define BEFORE 2    /* frames that a block sees before its own */
#define SUBFRAMES 2
#define PITCHED 4   /* frames that a frame's pitch depends on */
#define TOLD_BEFORE 2 /* frames told of before a window's first */

struct network {
    int64_t told, lookahead, width, inner, count, hidden, pitch_width;
    const int64_t *levels; /* [D - 1]: a code is the mixed-radix number of so many */
    int64_t entering; /* values in a word of what enters the blocks and the magnitudes */
    struct matrix inward; /* from lookahead + 1 frames side by side; it and the rest take floats */
    const struct block *blocks;
    struct norm norm;
    struct matrix outward;            /* SUBFRAMES H outputs */
    struct matrix magnitudes, phases; /* of a subframe: 3 K and K outputs */
    struct matrix pitch_inward, pitch_outward; /* from PITCHED frames side by side; to height and voicing of subframes */
};

struct network_room {
    float *told;                           /* [CHUNK and the frames that its own ones look at, D] */
    float *frames, *seen, *inner, *hidden; /* [CHUNK, W], [BEFORE + CHUNK, W], [CHUNK, I], [CHUNK, SUBFRAMES H] */
    word *entering;                        /* [CHUNK, ..]: frames side by side, or what else enters a product */
    struct stage stage;
};

/* Windows of a call, all of T frames. */
struct windows {
    int64_t count, frames;
    const int64_t *codes; /* [count, TOLD_BEFORE + T + lookahead] */
    const uint8_t *valid; /* the same: which of these are frames */
    const float *before; /* [count, blocks, BEFORE, W]: what the blocks saw last */
    float *seen;         /* the same [count, blocks, BEFORE + T, W], and what they see */
    float *magnitudes, *phases; /* [count, SUBFRAMES T, 3 K] and [.., K] */
    float *pitch;               /* [count, T + 1, SUBFRAMES, 2] */
};

static int64_t lay_out_network(const struct network *network, char *base, struct network_room *room) {
    int64_t used = 0, width = network->width, subframes = SUBFRAMES * network->hidden;
    int64_t widest = largest_of(largest_of((BEFORE + 1) * width, network->inner), subframes);
    int64_t looked_at = largest_of(PITCHED, network->lookahead + 1);
    widest = largest_of(widest, looked_at * network->told);
    TAKE(room, told, (CHUNK + looked_at) * network->told);
    TAKE(room, frames, CHUNK * width);
    TAKE(room, seen, (BEFORE + CHUNK) * width);
    TAKE(room, inner, CHUNK * largest_of(network->inner, network->pitch_width));
    TAKE(room, hidden, CHUNK * subframes);
    TAKE(room, entering, CHUNK * widest);
    return used + lay_out_stage(widest, base + used, &room->stage);
}

int64_t talkahead_network_bytes(const struct network *network) {
    struct network_room room;
    return lay_out_network(network, 0, &room);
}

/* frames [rows, W] changed by a block, which sees `before` [BEFORE, W] and writes what it sees of them after that. */
static void run_block(const struct network *network, const struct block *block, int64_t rows, float *before,
                      struct network_room *room) {
    int64_t width = network->width;
    norm_frames(&block->norm, room->frames, rows, width, before + BEFORE * width);
    lay_down(network->entering, before, width, rows, (BEFORE + 1) * width, room->entering);
    product(&block->mix, rows, room->entering, room->inner, WRITE, &room->stage);
    activate(network->entering, room->inner, rows * network->inner, room->entering);
    product(&block->out, rows, room->entering, room->frames, ADD, &room->stage);
}

/* Frames [rows, W] to what the last layer makes of their subframes. */
static void show(const struct network *network, int64_t rows, float *magnitudes, float *phases,
                 struct network_room *room) {
    int64_t subframes = SUBFRAMES * rows, hidden = network->hidden;
    norm_frames(&network->norm, room->frames, rows, network->width, room->seen);
    product(&network->outward, rows, (const word *)room->seen, room->hidden, WRITE, &room->stage);
    for (int64_t first = 0, some; first < subframes; first += some) {
        const float *own = room->hidden + first * hidden;
        some = least(subframes - first, CHUNK);
        lay_down(network->entering, own, hidden, some, hidden, room->entering);
        product(&network->magnitudes, some, room->entering, magnitudes + first * network->magnitudes.outputs, WRITE,
                &room->stage);
        product(&network->phases, some, (const word *)own, phases + first * network->phases.outputs, WRITE,
                &room->stage);
    }
}

static void tell_pitch(const struct network *network, int64_t rows, float *pitch, struct network_room *room) {
    lay_down(1, room->told, network->told, rows, PITCHED * network->told, room->entering);
    product(&network->pitch_inward, rows, room->entering, room->inner, WRITE, &room->stage);
    activate(1, room->inner, rows * network->pitch_width, room->entering);
    product(&network->pitch_outward, rows, room->entering, pitch, WRITE, &room->stage);
}

/* What is told of frames (quantizer.py, spectral_decoder.py): zeros of what is none. */
static void tell(const struct network *network, const int64_t *codes, const uint8_t *valid, int64_t count, float *told) {
    int64_t last = network->told - 1;
    for (int64_t i = 0; i < count; i++, told += network->told) {
        int64_t code = codes[i];
        for (int64_t k = 0; k < last; code /= network->levels[k++])
            told[k] = valid[i] ? (float)(code % network->levels[k]) / ((float)(network->levels[k] - 1) / 2) - 1 : 0;
        told[last] = valid[i] ? 1 : 0;
    }
}

/* One window, some frames at a time. */
static void run_window(const struct network *network, const struct windows *windows, int64_t window,
                       struct network_room *room) {
    int64_t length = windows->frames, ahead = network->lookahead, width = network->width;
    int64_t state = (BEFORE + length) * width, bins = network->phases.outputs;
    int64_t row = window * (TOLD_BEFORE + length + ahead);
    const int64_t *codes = windows->codes + row;
    const uint8_t *valid = windows->valid + row;
    float *seen = windows->seen + window * network->count * state;
    float *magnitudes = windows->magnitudes + window * SUBFRAMES * length * network->magnitudes.outputs;
    float *phases = windows->phases + window * SUBFRAMES * length * bins;
    float *pitch = windows->pitch + window * (length + 1) * network->pitch_outward.outputs;
    for (int64_t block = 0; block < network->count; block++)
        memcpy(seen + block * state, windows->before + (window * network->count + block) * BEFORE * width,
               BEFORE * (size_t)width * sizeof *seen);
    for (int64_t first = 0, rows; first < length; first += rows) {
        rows = least(length - first, CHUNK);
        tell(network, codes + TOLD_BEFORE + first, valid + TOLD_BEFORE + first, rows + ahead, room->told);
        lay_down(1, room->told, network->told, rows, (ahead + 1) * network->told, room->entering);
        product(&network->inward, rows, room->entering, room->frames, WRITE, &room->stage);
        for (int64_t block = 0; block < network->count; block++)
            run_block(network, network->blocks + block, rows, seen + block * state + first * width, room);
        show(network, rows, magnitudes + first * SUBFRAMES * network->magnitudes.outputs,
             phases + first * SUBFRAMES * bins, room);
    }
    for (int64_t first = 0, rows; first <= length; first += rows) {
        rows = least(length + 1 - first, CHUNK);
        tell(network, codes + first, valid + first, rows + PITCHED - 1, room->told);
        tell_pitch(network, rows, pitch + first * network->pitch_outward.outputs, room);
    }
}

void talkahead_run_network(const struct network *network, char *memory, const struct windows *windows) {
    struct network_room room;
    lay_out_network(network, memory, &room);
    for (int64_t window = 0; window < windows->count; window++) run_window(network, windows, window, &room);
    leave(&room.stage.bench);
}
