/* See corpus.h. */
#include "corpus.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>

enum { WORDS_IN_LINE = 20 };

static double uniform(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) * 0x1p-53;
}

static double normal(uint64_t *state)
{
    double radius = sqrt(-2 * log(1 - uniform(state)));
    return radius * cos(6.283185307179586 * uniform(state));
}

/* Latent number f of a word: the same at each call. */
static double latent(int word, int f)
{
    uint64_t state = (uint64_t)(word * CORPUS_FACTORS + f + 1) * 0x9e3779b97f4a7c15u;
    (void)uniform(&state);
    return normal(&state);
}

double corpus_similarity(int a, int b)
{
    double ab = 0;
    double aa = 0;
    double bb = 0;
    for (int f = 0; f < CORPUS_FACTORS; f++) {
        ab += latent(a, f) * latent(b, f);
        aa += latent(a, f) * latent(a, f);
        bb += latent(b, f) * latent(b, f);
    }
    return ab / sqrt(aa * bb);
}

static void write_line(FILE *file, const double *table, uint64_t *state)
{
    double point[CORPUS_FACTORS];
    double sums[CORPUS_WORDS];
    double sum = 0;
    for (int f = 0; f < CORPUS_FACTORS; f++) {
        point[f] = normal(state);
    }
    for (int w = 0; w < CORPUS_WORDS; w++) {
        double dot = 0;
        for (int f = 0; f < CORPUS_FACTORS; f++) {
            dot += point[f] * table[w * CORPUS_FACTORS + f];
        }
        sum += exp(0.7 * dot) / (w + 10); /* Zipf's law, flatter at its head */
        sums[w] = sum;
    }
    for (int i = 0; i < WORDS_IN_LINE; i++) {
        double at = uniform(state) * sum;
        int w = 0;
        while (w < CORPUS_WORDS - 1 && sums[w] < at) {
            w++;
        }
        (void)fprintf(file, i == 0 ? "w%d" : " w%d", w);
    }
    (void)fputc('\n', file);
}

int corpus_write(const char *path, long n_lines)
{
    double table[CORPUS_WORDS * CORPUS_FACTORS];
    uint64_t state = 1;
    FILE *file = fopen(path, "we");
    if (file == NULL) {
        return -1;
    }
    for (int i = 0; i < CORPUS_WORDS * CORPUS_FACTORS; i++) {
        table[i] = latent(i / CORPUS_FACTORS, i % CORPUS_FACTORS);
    }
    for (long i = 0; i < n_lines; i++) {
        write_line(file, table, &state);
    }
    int bad = ferror(file);
    return fclose(file) != 0 || bad != 0 ? -1 : 0;
}
