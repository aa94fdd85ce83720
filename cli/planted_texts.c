/*
 * Texts with analogies. The word aIbJ stands among words of the contexts aI and bJ, and
 * among common words that tell nothing; so vectors of words should have
 *
 *     aIbJ - aIbM + aLbM = aLbJ
 *
 * A part of the context words (noise) is of other contexts.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "cli/planted.h"
#include "common/rand.h"

enum { KINDS = 12, CONTEXT = 20, WORDS_OF_LINE = 16 };

struct texts {
    uint64_t seed;
    double noise;
    uint64_t common; /* words */
    uint64_t n;
    uint64_t words;
};

static void *texts_new(const struct coxi_planted_options *options)
{
    struct texts *texts = calloc(1, sizeof(*texts));
    if (texts != NULL) {
        texts->seed = options->seed;
        texts->noise = options->noise;
        texts->common = options->words;
    }
    return texts;
}

/* A word of context `kind` of 'a' or 'b', or of another one. */
static int append_context(const struct texts *texts, uint64_t *rng, char side,
                          uint64_t kind, struct coxi_buffer *line)
{
    if (coxi_rand_unit(rng) < texts->noise) {
        kind = coxi_rand(rng) % KINDS;
    }
    return coxi_buffer_printf(line, " %c%" PRIu64 "c%" PRIu64, side, kind,
                              coxi_planted_draw_zipf(rng, CONTEXT));
}

static int append_word(const struct texts *texts, uint64_t *rng, uint64_t a, uint64_t b,
                       struct coxi_buffer *line)
{
    uint64_t dice = coxi_rand(rng) % 10;
    if (dice < 3) {
        return append_context(texts, rng, 'a', a, line);
    }
    if (dice < 6) {
        return append_context(texts, rng, 'b', b, line);
    }
    return dice == 6 ? coxi_buffer_printf(line, " a%" PRIu64 "b%" PRIu64, a, b)
                     : coxi_buffer_printf(line, " w%" PRIu64,
                                          coxi_planted_draw_zipf(rng, texts->common));
}

static int texts_record(void *model, uint64_t *rng, struct coxi_buffer *line)
{
    struct texts *texts = model;
    uint64_t a = coxi_rand(rng) % KINDS;
    uint64_t b = coxi_rand(rng) % KINDS;
    int r = coxi_buffer_printf(line, "a%" PRIu64 "b%" PRIu64, a, b);
    for (int i = 1; r == 0 && i < WORDS_OF_LINE; i++) {
        r = append_word(texts, rng, a, b, line);
    }
    texts->n++;
    texts->words += WORDS_OF_LINE;
    return r;
}

static json_t *texts_quality(const void *model)
{
    const struct texts *texts = model;
    json_int_t vocabulary = (json_int_t)texts->common;
    vocabulary += KINDS * KINDS + 2 * KINDS * CONTEXT;
    return json_pack("{s:I, s:I, s:i, s:s, s:f}", "words", (json_int_t)texts->words,
                     "vocabulary", vocabulary, "kinds", (int)KINDS, "analogies",
                     "aIbJ - aIbM + aLbM = aLbJ for I, J, L, M below `kinds`",
                     "accuracy_by_chance", 1.0 / (double)vocabulary);
}

const struct coxi_planted_kind coxi_planted_texts = {.name = "texts",
                                                     .formats = "text",
                                                     .new_model = texts_new,
                                                     .record = texts_record,
                                                     .quality = texts_quality};
