/* What stands around the two transforms of the spectral codec's renderer (spectral_renderer.py, which says what it
 * means): pulses as the transform takes them, spectra of what is heard, and their pieces laid over each other.
 *
 * Shapes: B rows, S subframes of H samples, L samples of a piece, N samples of a spectrum, K = N / 2 + 1 bins.
 */

#include "../../../backbone/native/vectors.h"

#define SUBFRAMES 2

struct renderer {
    int64_t hop, size, spectrum;   /* H, L, N */
    double rate, highest, loudest; /* hertz of samples, and above any harmonic; bound of log-magnitudes */
    const float *heard, *shown;    /* [N] each: what pulses are looked at through, and pieces faded by */
    const float *noise;            /* where numbers of pieces point: 2 K from each place on */
};

/* What a run leaves to the next. */
struct tail {
    float *pulses, *pieces; /* [B, L - H] */
    double *phase;          /* [B] */
    int64_t *place;         /* [B] */
};

struct runs {
    int64_t count, subframes;
    const int64_t *frames;                       /* [B]; after them is padding */
    const float *hertz;                          /* [B, S + 2] */
    const float *voice, *breath, *rest, *phase;  /* rows of K for each subframe */
    int64_t voice_stride, breath_stride, rest_stride, phase_stride; /* from one to the next */
    struct tail before, after;
    float *samples, *turns, *steps; /* room: [L - H + S H], and whole vectors of [S H] twice */
};

/* The whole number nearest to x, |x| < 2^22; its lowest bit becomes the sign of `odd`. */
INLINE vec nearest(vec x, ivec *odd) {
    const float rounder = 12582912.0f;
    vec shifted = x + rounder;
    *odd = (ivec)shifted << 31;
    return shifted - rounder;
}

/* sin(pi x) and cos(pi x): Taylor's series on -1/2..1/2, to 6e-8. */
INLINE vec sine(vec x) {
    ivec odd;
    vec r = x - nearest(x, &odd), square = r * r;
    vec series = square * -0.00737043094f + 0.0821458866f;
    series = series * square - 0.599264529f;
    series = series * square + 2.55016404f;
    series = series * square - 5.16771278f;
    series = series * square + 3.14159265f;
    return (vec)((ivec)(series * r) ^ odd);
}

INLINE vec cosine(vec x) {
    ivec odd;
    vec r = x - nearest(x, &odd), square = r * r;
    vec series = square * 0.00192957431f - 0.0258068914f;
    series = series * square + 0.235330630f;
    series = series * square - 1.33526277f;
    series = series * square + 4.05871213f;
    series = series * square - 4.93480220f;
    series = series * square + 1.0f;
    return (vec)((ivec)series ^ odd);
}

/* Whole numbers down, for a divisor of 2. */
INLINE int64_t half_of(int64_t number) { return (number - (number & 1)) / 2; }

/* Pitch of each sample [S H] between the centres of subframes, hertz [S + 2], from half a subframe after the first one
 * on; beside an unvoiced subframe, a voiced one keeps its pitch up to halfway. */
static void draw_path(const float *hertz, int64_t subframes, int64_t hop, float *path) {
    for (int64_t subframe = 0; subframe <= subframes; subframe++) {
        float begin = hertz[subframe], end = hertz[subframe + 1];
        int64_t first = subframe ? 0 : hop / 2, beyond = subframe < subframes ? hop : hop / 2;
        int is_voiced = begin > 0 && end > 0;
        for (int64_t i = first; i < beyond; i++)
            *path++ = is_voiced          ? begin + (end - begin) * (((float)i + 0.5f) / (float)hop)
                      : 2 * i + 1 < hop ? begin
                                        : end;
    }
}

/* Every harmonic at unit strength, [S H] from a phase on, in periods; returns the phase after `kept` samples. */
static double sound_pulses(const struct renderer *renderer, const struct runs *runs, const float *hertz, double phase,
                           int64_t kept, float *to) {
    int64_t hop = renderer->hop, count = runs->subframes * hop;
    double kept_phase = phase;
    draw_path(hertz, runs->subframes, hop, runs->steps);
    for (int64_t i = 0; i < count; i++) {
        phase += (double)runs->steps[i] / renderer->rate;
        runs->turns[i] = (float)(phase - rint(phase));
        if (i + 1 == kept) kept_phase = phase;
    }
    for (int64_t i = 0; i < count; i += LANES) {
        vec step = load(runs->steps + i), turn = load(runs->turns + i);
        ivec is_voiced = step > 0;
        vec most = spread((float)renderer->highest) / chosen(is_voiced, step, spread((float)renderer->highest));
        vec harmonics = __builtin_convertvector(__builtin_convertvector(most, ivec), vec);
        vec below = sine(turn), above = sine((2.0f * harmonics + 1.0f) * turn);
        ivec is_peak = larger(below, -below) < 1e-4f;
        vec sum = above / (2.0f * chosen(is_peak, spread(1.0f), below)) - 0.5f;
        vec pulse = (vec)((ivec)chosen(is_peak, harmonics, sum) & is_voiced);
        if (i + LANES <= count) store(to + i, pulse);
        else memcpy(to + i, &pulse, (size_t)(count - i) * sizeof *to);
    }
    return kept_phase - floor(kept_phase);
}

/* source [B, S, N]: pulses after those of the tail, as they are looked at. */
void talkahead_sound_source(const struct renderer *renderer, const struct runs *runs, float *source) {
    int64_t hop = renderer->hop, size = renderer->size, spectrum = renderer->spectrum, overlap = size - hop;
    int64_t ahead = half_of(spectrum - size), first = ahead > 0 ? ahead : 0;
    int64_t beyond = least(spectrum, ahead + size);
    for (int64_t row = 0; row < runs->count; row++) {
        float *pulses = runs->samples;
        int64_t kept = SUBFRAMES * hop * runs->frames[row];
        memcpy(pulses, runs->before.pulses + row * overlap, (size_t)overlap * sizeof *pulses);
        runs->after.phase[row] = sound_pulses(renderer, runs, runs->hertz + row * (runs->subframes + 2),
                                               runs->before.phase[row], kept, pulses + overlap);
        memcpy(runs->after.pulses + row * overlap, pulses + kept, (size_t)overlap * sizeof *pulses);
        for (int64_t subframe = 0; subframe < runs->subframes; subframe++, source += spectrum) {
            const float *own = pulses + subframe * hop - ahead;
            for (int64_t i = 0; i < first; i++) source[i] = 0;
            for (int64_t i = first; i < beyond; i++) source[i] = own[i] * renderer->heard[i];
            for (int64_t i = beyond; i < spectrum; i++) source[i] = 0;
        }
    }
}

/* The place in the noise's table that a piece's number picks (audio/noise.py). */
INLINE const float *noise_of(const struct renderer *renderer, int64_t number) {
    return renderer->noise + ((uint32_t)((uint64_t)number * 2654435761u) >> 16);
}

/* whole [B, S, K] complex of the pulses' transform [B, S, K]: voice * pulses + breath * noise + rest. */
void talkahead_mix_spectra(const struct renderer *renderer, const struct runs *runs, const float *pulses,
                           float *whole) {
    int64_t bins = renderer->spectrum / 2 + 1, subframes = runs->subframes;
    vec loudest = spread((float)renderer->loudest);
    for (int64_t row = 0; row < runs->count; row++)
        for (int64_t subframe = 0; subframe < subframes; subframe++, pulses += 2 * bins, whole += 2 * bins) {
            int64_t at = row * subframes + subframe;
            const float *voice = runs->voice + at * runs->voice_stride;
            const float *breath = runs->breath + at * runs->breath_stride;
            const float *rest = runs->rest + at * runs->rest_stride;
            const float *phase = runs->phase + at * runs->phase_stride;
            const float *noise = noise_of(renderer, SUBFRAMES * runs->before.place[row] + subframe);
            for (int64_t next = 0; next < bins; next += LANES) {
                int64_t bin = least(next, bins - LANES); /* the last vector begins in the one before */
                float real[LANES], imaginary[LANES];
                for (int64_t i = 0; i < LANES; i++)
                    real[i] = pulses[2 * (bin + i)], imaginary[i] = pulses[2 * (bin + i) + 1];
                vec filter = exponential(smaller(load(voice + bin), loudest));
                vec air = exponential(smaller(load(breath + bin), loudest));
                vec strength = exponential(smaller(load(rest + bin), loudest));
                vec turn = load(phase + bin) * 0.318309886f;
                store(real, load(real) * filter + air * load(noise + bin) + strength * cosine(turn));
                store(imaginary, load(imaginary) * filter + air * load(noise + bins + bin) + strength * sine(turn));
                for (int64_t i = 0; i < LANES; i++)
                    whole[2 * (bin + i)] = real[i], whole[2 * (bin + i) + 1] = imaginary[i];
            }
        }
}

/* audio [B, S H], within -1..1, of pieces [B, S, N] laid H apart over each other and over those of the tail. */
void talkahead_lay_pieces(const struct renderer *renderer, const struct runs *runs, const float *pieces,
                          float *audio) {
    int64_t hop = renderer->hop, size = renderer->size, spectrum = renderer->spectrum, overlap = size - hop;
    int64_t ahead = half_of(size - spectrum), first = ahead > 0 ? ahead : 0, beyond = least(size, ahead + spectrum);
    int64_t count = runs->subframes * hop;
    float *summed = runs->samples;
    for (int64_t row = 0; row < runs->count; row++, pieces += runs->subframes * spectrum, audio += count) {
        int64_t kept = SUBFRAMES * hop * runs->frames[row];
        memcpy(summed, runs->before.pieces + row * overlap, (size_t)overlap * sizeof *summed);
        memset(summed + overlap, 0, (size_t)count * sizeof *summed);
        for (int64_t subframe = 0; subframe < SUBFRAMES * runs->frames[row]; subframe++) {
            const float *own = pieces + subframe * spectrum - ahead, *shown = renderer->shown - ahead;
            float *to = summed + subframe * hop;
            for (int64_t i = first; i < beyond; i++) to[i] += own[i] * shown[i];
        }
        for (int64_t i = 0; i < count; i++) audio[i] = summed[i] < -1 ? -1 : summed[i] > 1 ? 1 : summed[i];
        memcpy(runs->after.pieces + row * overlap, summed + kept, (size_t)overlap * sizeof *summed);
        runs->after.place[row] = runs->before.place[row] + runs->frames[row];
    }
}
