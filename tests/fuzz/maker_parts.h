/* Shared by maker.c and maker_answers.c only: parts of messages. */
#ifndef COXI_TESTS_FUZZ_MAKER_PARTS_H
#define COXI_TESTS_FUZZ_MAKER_PARTS_H

#include <string.h>

#include "common/buffer.h"
#include "tests/fuzz/maker.h"

/* A step that is cancelled ends in this time, or its process is ended. */
enum { PATIENCE_MS = 60000 };

/* What a maker works with. */
struct bench {
    struct made *made;
    struct fuzz_input *input;
    const struct known *known;
};

typedef struct bench *bench;

/* ---- parts */

static inline uint64_t any(bench b)
{
    return fuzz_any(b->input);
}

static inline uint32_t any32(bench b)
{
    return (uint32_t)fuzz_any(b->input);
}

static inline uint64_t below(bench b, uint64_t n)
{
    return fuzz_below(b->input, n);
}

static inline bool maybe(bench b)
{
    return below(b, 2) == 1;
}

static inline float any_float(bench b)
{
    static const float some[] = {0.0F, 1.0F, 0.5F, -1.0F, 1e-6F, 1e30F, 0.9F, 0.01F};
    return some[below(b, 8)];
}

/* A code of ours, or 0, mostly. */
static inline int32_t any_code(bench b)
{
    uint64_t n = fuzz_number(b->input, 1);
    return n < 160 ? 0 : n < 250 ? -(int32_t)(n % 32) : (int32_t)any(b);
}

static inline struct coxi_session any_session(bench b)
{
    if (b->known->own != NULL && below(b, 4) != 3) {
        return *b->known->own;
    }
    struct coxi_session session =
        b->known->sessions[below(b, 8 * b->known->n_sessions) % b->known->n_sessions];
    if (below(b, 16) == 15) {
        session.generation += any(b);
        session.token = any(b);
    }
    return session;
}

static inline uint64_t any_incarnation(bench b)
{
    return below(b, 8) == 7 ? any(b) : b->known->incarnation;
}

/* A text that is known, or a few bytes. */
static inline const char *any_text(bench b)
{
    struct made *made = b->made;
    size_t n = below(b, b->known->n_texts + 4);
    if (n < b->known->n_texts) {
        return b->known->texts[n];
    }
    char *text = made->texts[made->n_texts++ % (2 * MADE_MAX)];
    size_t len = below(b, 8);
    const uint8_t *bytes = fuzz_bytes(b->input, &len);
    memset(text, 0, sizeof(made->texts[0]));
    if (len > 0) {
        memcpy(text, bytes, len);
    }
    return text;
}

static inline const char *any_name(bench b)
{
    static const char *const names[] = {"w", "t", "w/t", "v", "", "x"};
    size_t n = below(b, 8);
    return n < 6 ? names[n] : any_text(b);
}

static inline size_t any_length(bench b)
{
    return below(b, MADE_MAX + 1);
}

/* The list of numbers `i`. */
static inline const uint32_t *any_numbers(bench b, size_t i, bool rising, size_t *ret_n)
{
    uint32_t *list = b->made->numbers[i];
    *ret_n = any_length(b);
    for (size_t k = 0; k < *ret_n; k++) {
        list[k] = rising ? (uint32_t)k : any32(b) % 40;
    }
    if (rising && *ret_n > 0 && below(b, 4) == 0) {
        list[*ret_n - 1] = any32(b);
    }
    return list;
}

/* The payload has the length that it needs, or sometimes another. */
static inline void payload_of(bench b, size_t len)
{
    made_payload(b->made, b->input, below(b, 8) == 7 ? fuzz_any(b->input) % 4096 : len);
}

/* A payload whose length is not known. */
static inline void some_payload(bench b)
{
    static const size_t units[] = {8, 8, 4, 128, 1};
    made_payload(b->made, b->input,
                 fuzz_number(b->input, 1) * units[below(b, 5)] *
                     (below(b, 64) == 63 ? 1024 : 1));
}

static inline const struct coxi_interval *any_intervals(bench b, size_t *ret_n)
{
    *ret_n = any_length(b);
    for (size_t i = 0; i < *ret_n; i++) {
        uint64_t first = any(b);
        b->made->intervals[i] =
            (struct coxi_interval){.first = first,
                                   .last = first + below(b, 8),
                                   .segment = (uint32_t)below(b, 3),
                                   .ends = (uint32_t)below(b, 2),
                                   .touched_at = 0,
                                   .touched_n = (uint32_t)below(b, 3)};
    }
    return b->made->intervals;
}

/* ---- maker_answers.c: messages of a ps or a worker to its peers */

void make_status(bench b, struct coxi_message *m);
void make_refuse(bench b, struct coxi_message *m);
void make_snapshot_done(bench b, struct coxi_message *m);
void make_counts(bench b, struct coxi_message *m);
void make_done(bench b, struct coxi_message *m);
void make_voided(bench b, struct coxi_message *m);
void make_crashed(bench b, struct coxi_message *m);
void make_result(bench b, struct coxi_message *m);

#endif
