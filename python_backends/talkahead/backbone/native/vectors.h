/* Vectors of floats: gcc's, as wide as the CPU's own, since how it passes wider ones by value is not settled.
 * Activations and KV are words of 32 bits: a float, or, where a model is packed in pairs, two neighbouring bfloat16
 * values. */
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define LANES 16
#define VECTORS 4 /* across a panel: with ROWS rows of sums they fill the vector registers */
#define MOST_ABREAST 1 /* panels that one row meets at once, so that enough sums are under way */
#elif defined(__AVX__)
#define LANES 8
#define VECTORS 2
#define MOST_ABREAST 4
#else
#define LANES 4
#define VECTORS 4
#define MOST_ABREAST 4
#endif
#define PANEL (VECTORS * LANES) /* outputs that are computed together */

#define INLINE static inline __attribute__((always_inline))

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef int32_t ivec __attribute__((vector_size(4 * LANES)));
typedef uint32_t uvec __attribute__((vector_size(4 * LANES)));
typedef int8_t byte_vec __attribute__((vector_size(4 * LANES)));
typedef int16_t half_vec __attribute__((vector_size(4 * LANES)));
typedef uint16_t unsigned_half_vec __attribute__((vector_size(4 * LANES)));
typedef float loose_vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t loose_ivec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef uint32_t loose_uvec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef uint16_t loose_halves __attribute__((vector_size(2 * LANES), aligned(2), may_alias));
typedef uint8_t loose_bytes __attribute__((vector_size(LANES), aligned(1), may_alias));
typedef uint32_t __attribute__((may_alias)) word;
typedef uint16_t __attribute__((may_alias)) half_word;

INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t blocks_of(int64_t size, int64_t count) { return (count + size - 1) / size; }

INLINE vec load(const float *from) { return *(const loose_vec *)from; }
INLINE void store(float *to, vec value) { *(loose_vec *)to = value; }
INLINE vec spread(float value) { return value - (vec){0}; }

/* sum + a * b, rounded once where the CPU can: wherever this is inlined, or a row's sums would depend on company. Left to
 * itself, gcc 12 rounds the product of one row with one vector apart and those of several rows not. */
INLINE vec add_multiplied(vec sum, vec a, vec b) {
#if defined(__AVX512F__)
    return (vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)sum);
#elif defined(__FMA__)
    return (vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)sum);
#else
    return sum + a * b;
#endif
}

/* A value that is rounded before anything is added to it: left to itself, gcc adds its product in one rounding in one place
 * and in two in another, and panels and tiles would not agree. */
INLINE vec rounded(vec value) {
#if defined(__x86_64__)
    __asm__("" : "+v"(value));
#endif
    return value;
}

/* Of each word's two halves of 16 bits the sum of their products. */
INLINE ivec paired_products(half_vec a, half_vec b) {
#if defined(__AVX512BW__)
    return (ivec)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
    return (ivec)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#else
    ivec low = ((ivec)a << 16 >> 16) * ((ivec)b << 16 >> 16);
    return low + ((ivec)a >> 16) * ((ivec)b >> 16);
#endif
}

/* Of each half of 16 bits the sum of its two products of bytes: of a without a sign, of b with one. It has to fit. */
INLINE half_vec byte_products(uvec a, ivec b) {
#if defined(__AVX512BW__)
    return (half_vec)_mm512_maddubs_epi16((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
    return (half_vec)_mm256_maddubs_epi16((__m256i)a, (__m256i)b);
#else
    half_vec low = (half_vec)((unsigned_half_vec)a & 0xff), high = (half_vec)((unsigned_half_vec)a >> 8);
    return low * ((half_vec)b << 8 >> 8) + high * ((half_vec)b >> 8);
#endif
}

/* Of each lane a where all bits of `first` are set, b where none is. */
INLINE vec chosen(ivec first, vec a, vec b) { return (vec)((first & (ivec)a) | (~first & (ivec)b)); }

/* As the CPU's own instructions: of two the second where either is no number; sums of lanes halve them. */
#if defined(__AVX512F__)
INLINE vec larger(vec a, vec b) { return (vec)_mm512_max_ps((__m512)a, (__m512)b); }
INLINE vec smaller(vec a, vec b) { return (vec)_mm512_min_ps((__m512)a, (__m512)b); }
INLINE float sum_lanes(vec value) { return _mm512_reduce_add_ps((__m512)value); }
INLINE float largest_lane(vec value) { return _mm512_reduce_max_ps((__m512)value); }
INLINE uint32_t lanes_above(vec value, float limit) { /* a bit each */
    return _mm512_cmp_ps_mask((__m512)value, _mm512_set1_ps(limit), _CMP_GT_OQ);
}
#else
#if defined(__AVX__)
INLINE vec larger(vec a, vec b) { return (vec)_mm256_max_ps((__m256)a, (__m256)b); }
INLINE vec smaller(vec a, vec b) { return (vec)_mm256_min_ps((__m256)a, (__m256)b); }
INLINE uint32_t lanes_above(vec value, float limit) { return (uint32_t)_mm256_movemask_ps((__m256)(value > limit)); }
#else
INLINE vec larger(vec a, vec b) { return chosen(a > b, a, b); }
INLINE vec smaller(vec a, vec b) { return chosen(a < b, a, b); }
INLINE uint32_t lanes_above(vec value, float limit) {
    ivec above = value > limit;
    uint32_t bits = 0;
    for (int lane = 0; lane < LANES; lane++) bits |= (above[lane] & 1u) << lane;
    return bits;
}
#endif

INLINE float sum_lanes(vec value) {
    float lanes[LANES];
    store(lanes, value);
    for (int width = LANES / 2; width; width /= 2)
        for (int lane = 0; lane < width; lane++) lanes[lane] += lanes[lane + width];
    return lanes[0];
}

INLINE float largest_lane(vec value) {
    float lanes[LANES], largest;
    store(lanes, value);
    largest = lanes[0];
    for (int lane = 1; lane < LANES; lane++) largest = lanes[lane] > largest ? lanes[lane] : largest;
    return largest;
}
#endif

/* e^x, relative error below 2e-7; x is held within [-87, 88], where the result is finite and not denormal. */
INLINE vec exponential(vec x) {
    const float rounder = 12582912.0f; /* 1.5 * 2^23: adding it leaves the nearest whole number in the low bits */
    x = larger(x, spread(-87.0f));
    x = smaller(x, spread(88.0f));
    vec shifted = x * 1.44269504f + rounder;
    vec whole = shifted - rounder;
    vec r = x - whole * 0.693145752f; /* ln 2 in two parts: the first product is exact */
    r = r - whole * 1.42860677e-6f;
    /* (e^r - 1 - r) / r^2 on |r| <= ln 2 / 2, minimax in the relative error of e^r (3e-9). */
    vec series = r * 1.38144668e-3f + 8.36878041e-3f;
    series = series * r + 4.16683942e-2f;
    series = series * r + 1.66665201e-1f;
    series = series * r + 4.99999934e-1f;
    vec power = series * (r * r) + (r + 1.0f);
    return (vec)((ivec)power + ((ivec)shifted << 23));
}

/* e^x for x of 0 and less; 0 below -87, and where x is no number. */
INLINE vec exponential_or_zero(vec x) { return (vec)((ivec)exponential(x) & (x >= -87.0f)); }

/* Writes words of at most 16 bits, or of at most eight, side by side. gcc 12 takes 256 bits apart lane by lane. */
#if defined(__AVX2__) && !defined(__AVX512F__)
INLINE __m128i words_as_halves(uvec words) {
    return _mm_packus_epi32(_mm256_castsi256_si128((__m256i)words), _mm256_extracti128_si256((__m256i)words, 1));
}
INLINE void put_halves(half_word *to, uvec words) { _mm_storeu_si128((void *)to, words_as_halves(words)); }
INLINE void put_bytes(uint8_t *to, uvec words) {
    __m128i halves = words_as_halves(words);
    _mm_storel_epi64((void *)to, _mm_packus_epi16(halves, halves));
}
#else
INLINE void put_halves(half_word *to, uvec words) {
    *(loose_halves *)to = __builtin_convertvector(words, loose_halves);
}
INLINE void put_bytes(uint8_t *to, uvec words) { *(loose_bytes *)to = __builtin_convertvector(words, loose_bytes); }
#endif

/* Writes a vector as bfloat16, rounded to the nearest, to index `at` of words of two; returns what was kept of it. */
INLINE vec put_narrow(word *to, int64_t at, vec value) {
#if defined(__AVX512BF16__)
    __m256i narrow = (__m256i)_mm512_cvtneps_pbh((__m512)value);
    _mm256_storeu_si256((void *)((half_word *)to + at), narrow);
    return (vec)_mm512_slli_epi32(_mm512_cvtepu16_epi32(narrow), 16);
#else
    uvec bits = (uvec)value, halves = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16; /* of two that are as near the even */
    put_halves((half_word *)to + at, halves);
    return (vec)(halves << 16);
#endif
}

/* Writes a vector of values at index `at` of words that hold `packing` values each. */
INLINE void put(int64_t packing, word *to, int64_t at, vec value) {
    if (packing == 2)
        put_narrow(to, at, value);
    else
        store((float *)to + at, value);
}

/* from [count] as words. */
INLINE void narrow(int64_t packing, const float *from, int64_t count, word *to) {
    for (int64_t i = 0; i < count; i += LANES) put(packing, to, i, load(from + i));
}

/* scores become their exponentials as words, zero from count up to extent; returns their sum. */
static float exponentiate(int64_t packing, float *scores, int64_t count, int64_t extent) {
    vec largest = spread(-3e38f), total = {0};
    for (int64_t i = count; i < extent; i++) scores[i] = -INFINITY;
    for (int64_t first = 0; first < count; first += LANES) largest = larger(load(scores + first), largest);
    float best = largest_lane(largest);
    for (int64_t first = 0; first < extent; first += LANES) {
        vec power = exponential_or_zero(load(scores + first) - best);
        total += power;
        put(packing, (word *)scores, first, power);
    }
    return sum_lanes(total);
}
