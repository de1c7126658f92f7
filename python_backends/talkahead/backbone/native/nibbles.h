/* Products of rows with weights of four bits.
 *
 * A group is GROUP neighbouring inputs of one output: whole numbers from 0 to 15, where 8 is zero, with one scale, which
 * bfloat16 holds. A panel is strips of STRIP outputs, one after the other, so that memory is read in its order. In a
 * strip a group of all its outputs is GROUP / 8 times [STRIP] words, of each of which the low halves of the bytes are four
 * inputs and the high ones the next four, and then [STRIP] scales.
 *
 * Rows are bytes from -127 to 127, group by group: [groups, rows, GROUP_ROW] words, so that all that meets a group of
 * weights lies at constant distances, which no register need hold. After a group's bytes stands what its sums, which are
 * whole numbers, begin with: what its eights are worth too much.
 */
#pragma once

#define GROUP 32
#define GROUP_WORDS (GROUP / 4)
#define GROUP_ROW (GROUP_WORDS + 1)
#define STRIP (VECTORS_OF_NIBBLES * LANES)
#define GROUP_STRIDE (GROUP / 8 * STRIP + STRIP / 2) /* words of a strip */

#if defined(__AVX512VNNI__)
typedef ivec nibble_sums;
INLINE nibble_sums add_nibbles(nibble_sums sums, uvec weights, word x) {
    return (ivec)_mm512_dpbusd_epi32((__m512i)sums, (__m512i)weights, _mm512_set1_epi32((int)x));
}
INLINE nibble_sums begin_nibbles(int32_t begun) { return (ivec){0} + begun; }
INLINE ivec end_nibbles(nibble_sums sums, int32_t begun) { (void)begun; return sums; }
#else /* halves of 16 bits, into which a group's products fit: each adds 2 * 15 * 127 at most, GROUP / 4 times */
typedef half_vec nibble_sums;
INLINE nibble_sums add_nibbles(nibble_sums sums, uvec weights, word x) {
    sums += byte_products(weights, (ivec){0} + (int32_t)x);
#if defined(__x86_64__)
    __asm__("" : "+v"(sums)); /* added at once, or gcc 12 keeps all products of a group, and all sums, in memory. An EPYC's
                               * core with AVX2 alone makes 48, 66, 84 G products a second of 1, 2, 4 rows and more; left to
                               * itself, and with rows that lie apart, 44, 51, 57 */
#endif
    return sums;
}
INLINE nibble_sums begin_nibbles(int32_t begun) { (void)begun; return (half_vec){0}; }
INLINE ivec end_nibbles(nibble_sums sums, int32_t begun) {
    return paired_products(sums, (half_vec){0} + 1) + begun;
}
#endif

/* Those of a group of neighbouring outputs. */
INLINE vec read_scales(const half_word *from) {
    return (vec)(__builtin_convertvector(*(const loose_halves *)from, uvec) << 16);
}

/* One of a panel's strips. The constants are known where this is inlined, so sums stay in registers. */
INLINE void multiply_strip(int rows, const struct task *task, int64_t strip) {
    int64_t groups = task->steps / GROUP_WORDS;
    const word *panel = task->panel + strip * groups * GROUP_STRIDE;
    vec sums[ROWS][VECTORS_OF_NIBBLES] = {0};
    const word *x = task->x;
    for (int64_t group = 0; group < groups; group++, x += task->x_stride) {
        const word *own = panel + group * GROUP_STRIDE;
        const half_word *scales = (const half_word *)(own + GROUP / 8 * STRIP);
#pragma GCC unroll 9
        for (int word = 0; word < GROUP_STRIDE; word += 16) __builtin_prefetch(ahead_of(own, word, task->reach), 0, 2);
        nibble_sums found[ROWS][VECTORS_OF_NIBBLES];
#pragma GCC unroll 6
        for (int row = 0; row < rows; row++)
#pragma GCC unroll 2
            for (int v = 0; v < VECTORS_OF_NIBBLES; v++)
                found[row][v] = begin_nibbles((int32_t)x[row * GROUP_ROW + GROUP_WORDS]);
#pragma GCC unroll 4
        for (int step = 0; step < GROUP / 8; step++)
#pragma GCC unroll 2
            for (int v = 0; v < VECTORS_OF_NIBBLES; v++) {
                uvec both = *(const loose_uvec *)(own + step * STRIP + v * LANES);
                uvec low = both & 0x0f0f0f0fu, high = both >> 4 & 0x0f0f0f0fu;
#pragma GCC unroll 6
                for (int row = 0; row < rows; row++) {
                    found[row][v] = add_nibbles(found[row][v], low, x[row * GROUP_ROW + 2 * step]);
                    found[row][v] = add_nibbles(found[row][v], high, x[row * GROUP_ROW + 2 * step + 1]);
                }
            }
#pragma GCC unroll 2
        for (int v = 0; v < VECTORS_OF_NIBBLES; v++) {
            vec scale = read_scales(scales + v * LANES);
#pragma GCC unroll 6
            for (int row = 0; row < rows; row++) {
                ivec whole = end_nibbles(found[row][v], (int32_t)x[row * GROUP_ROW + GROUP_WORDS]);
                sums[row][v] = add_multiplied(sums[row][v], __builtin_convertvector(whole, vec), scale);
            }
        }
    }
#pragma GCC unroll 6
    for (int row = 0; row < rows; row++)
#pragma GCC unroll 2
        for (int v = 0; v < VECTORS_OF_NIBBLES; v++) {
            float *to = task->out + row * task->out_stride + strip * STRIP + v * LANES;
            vec worth = rounded(sums[row][v] * task->row_scales[row]);
            store(to, task->mode == ADD ? load(to) + worth : worth);
        }
}

/* A whole panel. */
INLINE void multiply_nibbles(int rows, const struct task *task) {
    for (int64_t strip = 0; strip < PANEL / STRIP; strip++)
        switch (rows) {
        case 1: multiply_strip(1, task, strip); break;
        case 2: multiply_strip(2, task, strip); break;
        case 3: multiply_strip(3, task, strip); break;
        case 4: multiply_strip(4, task, strip); break;
        case 5: multiply_strip(5, task, strip); break;
        case 6: multiply_strip(6, task, strip); break;
        }
}
