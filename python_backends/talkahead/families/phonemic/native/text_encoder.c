/* The text encoder: one segment's symbols to the talker's prompt, in one call.
 *
 * Shapes: T symbols, W width, I inner values, H heads of W / H values.
 */

#include "frames.h"

#define BEFORE 2 /* symbols that a block sees before its own, and after it */
#define AROUND (2 * BEFORE + 1)
#define LEVELS 3 /* of prosody, that a symbol has */

/* Residual attention: of all symbols to all. */
struct wide_block {
    struct norm norm;
    struct matrix inward, outward; /* of 3 W outputs: queries, keys, values; of W */
};

struct text_encoder {
    int64_t width, inner, heads, count;
    int64_t entering;                        /* values in a word of what enters products */
    int64_t num_symbols, num_levels, num_voices;
    const float *symbols, *levels, *voices;  /* [symbols, W], [LEVELS, levels, W], [voices, W] */
    const float *start;                      /* [W]: what stands after the last symbol, but for the voice */
    const struct block *local;               /* [count], of AROUND symbols side by side */
    const struct wide_block *wide;           /* [count], each after its local one */
    struct norm norm;
};

struct text_room {
    float *rows, *seen;                   /* [T, W]; [BEFORE + T + BEFORE, W], of which the edges are zero */
    float *inner, *parts, *keys, *scores; /* [CHUNK, I]; [T, 3 W]; one head's, in panels; [ROWS, T] */
    word *entering;                       /* [CHUNK, AROUND W] */
    struct stage stage;
};

/* Keys of one head, or a query's scores: T in whole panels. */
static int64_t padded(int64_t rows) { return blocks_of(PANEL, rows) * PANEL; }

static int64_t lay_out_text(const struct text_encoder *encoder, int64_t rows, char *base, struct text_room *room) {
    int64_t used = 0, width = encoder->width, widest = largest_of(AROUND * width, encoder->inner);
    TAKE(room, rows, rows * width);
    TAKE(room, seen, (rows + 2 * BEFORE) * width);
    TAKE(room, inner, CHUNK * encoder->inner);
    TAKE(room, parts, rows * 3 * width);
    TAKE(room, keys, padded(rows) * (width / encoder->heads));
    TAKE(room, scores, ROWS * (padded(rows) + LANES));
    TAKE(room, entering, CHUNK * widest);
    return used + lay_out_stage(widest, base + used, &room->stage);
}

int64_t talkahead_text_bytes(const struct text_encoder *encoder, int64_t rows) {
    struct text_room room;
    return lay_out_text(encoder, rows, 0, &room);
}

/* symbols [T, 1 + LEVELS] name rows that there are. */
static int are_known(const struct text_encoder *encoder, const int64_t *symbols, int64_t rows) {
    for (int64_t i = 0; i < rows * (1 + LEVELS); i++) {
        int64_t known = i % (1 + LEVELS) ? encoder->num_levels : encoder->num_symbols;
        if (symbols[i] < 0 || symbols[i] >= known) return 0;
    }
    return 1;
}

static void add_row(const float *from, int64_t width, float *to) {
    for (int64_t i = 0; i < width; i += LANES) store(to + i, load(to + i) + load(from + i));
}

static void embed(const struct text_encoder *encoder, const int64_t *symbols, int64_t rows, const float *voice,
                  float *to) {
    int64_t width = encoder->width;
    for (int64_t row = 0; row < rows; row++, symbols += 1 + LEVELS, to += width) {
        memcpy(to, encoder->symbols + symbols[0] * width, (size_t)width * sizeof *to);
        add_row(voice, width, to);
        for (int64_t level = 0; level < LEVELS; level++)
            add_row(encoder->levels + (level * encoder->num_levels + symbols[1 + level]) * width, width, to);
    }
}

static void run_local(const struct text_encoder *encoder, const struct block *block, int64_t rows,
                      struct text_room *room) {
    int64_t width = encoder->width, edge = BEFORE * width;
    memset(room->seen, 0, (size_t)edge * sizeof *room->seen);
    memset(room->seen + edge + rows * width, 0, (size_t)edge * sizeof *room->seen);
    norm_frames(&block->norm, room->rows, rows, width, room->seen + edge);
    for (int64_t first = 0, some; first < rows; first += some) {
        some = least(rows - first, CHUNK);
        lay_down(encoder->entering, room->seen + first * width, width, some, AROUND * width, room->entering);
        product(&block->mix, some, room->entering, room->inner, WRITE, &room->stage);
        activate(encoder->entering, room->inner, some * encoder->inner, room->entering);
        product(&block->out, some, room->entering, room->rows + first * width, ADD, &room->stage);
    }
}

/* Products of rows [T, W], which lie `stride` apart, to or onto out [T, outputs]. */
static void multiply_all(const struct text_encoder *encoder, const struct matrix *matrix, const float *from,
                         int64_t stride, int64_t rows, float *out, enum mode mode, struct text_room *room) {
    for (int64_t first = 0, some; first < rows; first += some) {
        some = least(rows - first, CHUNK);
        lay_down(encoder->entering, from + first * stride, stride, some, encoder->width, room->entering);
        product(matrix, some, room->entering, out + first * matrix->outputs, mode, &room->stage);
    }
}

/* One head's keys as panels [dim, PANEL]; beyond the last symbol they are zero. */
static void lay_keys(const float *keys, int64_t stride, int64_t rows, int64_t dim, float *to) {
    memset(to, 0, (size_t)(padded(rows) * dim) * sizeof *to);
    for (int64_t row = 0; row < rows; row++, keys += stride)
        for (int64_t i = 0; i < dim; i++) to[row / PANEL * PANEL * dim + i * PANEL + row % PANEL] = keys[i];
}

/* Queries, `count` of them, become what they mix of all values. */
static void mix(const float *keys, const float *values, int64_t stride, int64_t rows, int64_t dim, int64_t count,
                float *queries, float *scores) {
    int64_t wide = padded(rows) + LANES;
    float totals[ROWS], scale = 1.0f / sqrtf((float)dim);
    struct task task = {(const word *)keys, PANEL, dim, (const word *)queries, stride, scores, wide, WRITE,
                        usual_reach(count)};
    for (int64_t first = 0; first < rows; first += PANEL, task.panel += dim * PANEL, task.out += PANEL)
        multiply((int)count, VECTORS, FLOAT32, &task);
    for (int64_t query = 0; query < count; query++) {
        float *own = scores + query * wide;
        for (int64_t i = 0; i < rows; i += LANES) store(own + i, load(own + i) * scale);
        totals[query] = exponentiate(1, own, rows, blocks_of(LANES, rows) * LANES);
    }
    task = (struct task){(const word *)values, stride, rows, (const word *)scores, wide, queries, stride, WRITE};
    for (int64_t at = 0, width; at < dim; at += width, task.panel += width, task.out += width) {
        width = next_width(dim - at);
        multiply((int)count, (int)(width / LANES), FLOAT32, &task);
    }
    for (int64_t query = 0; query < count; query++)
        for (int64_t i = 0; i < dim; i += LANES)
            store(queries + query * stride + i, load(queries + query * stride + i) * (1.0f / totals[query]));
}

static void run_wide(const struct text_encoder *encoder, const struct wide_block *block, int64_t rows,
                     struct text_room *room) {
    int64_t width = encoder->width, dim = width / encoder->heads, stride = 3 * width;
    norm_frames(&block->norm, room->rows, rows, width, room->seen);
    multiply_all(encoder, &block->inward, room->seen, width, rows, room->parts, WRITE, room);
    for (int64_t head = 0; head < encoder->heads; head++) {
        float *queries = room->parts + head * dim;
        lay_keys(queries + width, stride, rows, dim, room->keys);
        for (int64_t query = 0, count; query < rows; query += count) {
            count = next_rows(rows - query);
            mix(room->keys, queries + 2 * width, stride, rows, dim, count, queries + query * stride, room->scores);
        }
    }
    multiply_all(encoder, &block->outward, room->parts, stride, rows, room->rows, ADD, room);
}

/* prompt [T + 1, W] of symbols [T, 1 + LEVELS]; -1, and nothing written, where one of them or the voice is unknown. */
int talkahead_encode_text(const struct text_encoder *encoder, char *memory, const int64_t *symbols, int64_t rows,
                          int64_t voice, float *prompt) {
    struct text_room room;
    int64_t width = encoder->width;
    if (voice < 0 || voice >= encoder->num_voices || !are_known(encoder, symbols, rows)) return -1;
    const float *spoken = encoder->voices + voice * width;
    lay_out_text(encoder, rows, memory, &room);
    embed(encoder, symbols, rows, spoken, room.rows);
    for (int64_t block = 0; block < encoder->count; block++) {
        run_local(encoder, encoder->local + block, rows, &room);
        run_wide(encoder, encoder->wide + block, rows, &room);
    }
    norm_frames(&encoder->norm, room.rows, rows, width, prompt);
    memcpy(prompt + rows * width, encoder->start, (size_t)width * sizeof *prompt);
    add_row(spoken, width, prompt + rows * width);
    leave(&room.stage.bench);
    return 0;
}
