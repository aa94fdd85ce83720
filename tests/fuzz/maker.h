/* Makes messages of every kind from the bytes of an input. Their numbers come from a
 * small range, so that messages meet; some are near an edge. */
#ifndef COXI_TESTS_FUZZ_MAKER_H
#define COXI_TESTS_FUZZ_MAKER_H

#include "schema/wire.h"
#include "tests/fuzz/fuzz.h"

enum { MADE_MAX = 4 }; /* entries of a message's lists */

/* What messages may name. */
struct known {
    const struct coxi_session *sessions;
    size_t n_sessions;
    const struct coxi_session *own; /* the one to name mostly; or NULL */
    uint64_t incarnation;           /* of the ps */
    const char *const *texts;       /* addresses, paths */
    size_t n_texts;
    const struct coxi_module *module; /* or NULL */
};

/* A message and what it refers to. */
struct made {
    struct coxi_message message;
    uint8_t *payload; /* for made_fini */
    size_t payload_len;
    char texts[2 * MADE_MAX][16];
    size_t n_texts;
    struct coxi_shard shards[MADE_MAX];
    struct coxi_variable variables[MADE_MAX];
    union {
        struct coxi_interval intervals[MADE_MAX];
        struct coxi_pull_item items[MADE_MAX];
        struct coxi_update updates[MADE_MAX];
        struct coxi_closure_head heads[MADE_MAX];
        struct coxi_done_head done[MADE_MAX];
        struct coxi_recall_head recalled[MADE_MAX];
        struct coxi_crashed_head crashed[MADE_MAX];
        struct coxi_voided_segment segments[MADE_MAX];
        struct coxi_ps_address servers[MADE_MAX];
        uint64_t versions[MADE_MAX];
    };
    struct coxi_kept_input inputs[MADE_MAX];
    uint32_t numbers[2][MADE_MAX];
    uint64_t pulled[MADE_MAX];
    struct coxi_round_head rounds[MADE_MAX];
    float weights[MADE_MAX];
    struct coxi_trace_span spans[MADE_MAX];
    struct coxi_trace_thread threads[MADE_MAX];
};

/* Makes a message of this kind; also its payload, mostly of the length that it needs. */
void made_init(struct made *made, struct fuzz_input *input, const struct known *known,
               enum coxi_message_kind kind);
void made_fini(struct made *made);

/* Gives the message a payload of `len` bytes: zeros after the first few. */
void made_payload(struct made *made, struct fuzz_input *input, size_t len);

#endif
