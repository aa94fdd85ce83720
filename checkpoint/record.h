/*
 * A record of a run: something that happened, as one line of JSON. metrics.jsonl is made of
 * such lines (checkpoint/history_file.h; docs/watching.md lists the kinds and their
 * members):
 *
 *     {"seq":12,"t":1790000000.250,"kind":"scalar","name":"loss","step":7,"value":0.5,...}
 *
 * Numbers (seq) rise, also from one client of a run to the next. Any thread.
 */
#ifndef COXI_CHECKPOINT_RECORD_H
#define COXI_CHECKPOINT_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"

enum {
    COXI_SCALAR_NAME_MAX = 127, /* bytes of a scalar's name */
    COXI_RECORD_MAX = 1 << 20,  /* bytes of the members of a record */
};

enum coxi_record_kind {
    COXI_RECORD_RUN,
    COXI_RECORD_CONFIG,
    COXI_RECORD_SAMPLE,
    COXI_RECORD_WORKERS,
    COXI_RECORD_PS,
    COXI_RECORD_SCALAR,
    COXI_RECORD_EVENT,
    COXI_RECORD_CHECKPOINT,
    COXI_RECORD_EVAL,
    COXI_N_RECORD_KINDS,
};

/* "sample". */
const char *coxi_record_kind_name(enum coxi_record_kind kind);

/* COXI_N_RECORD_KINDS: there is no such kind. */
enum coxi_record_kind coxi_record_kind_of(const char *name);

/* A set of kinds. */
#define COXI_RECORDS_OF(kind) (1U << (kind))

/* A scalar is known by its name and its source: "client" (the program), "eval" (an
 * evaluator) or the function whose steps have logged it. */
struct coxi_record_scalar {
    const char *name;
    const char *source;
    uint64_t step;
    double value;
};

struct coxi_record {
    uint64_t seq;
    double t; /* since 1970, in s */
    enum coxi_record_kind kind;
    /* The other members as JSON, without braces: "\"a\":1,\"b\":2"; or "". Not of a
     * scalar. */
    const char *fields;
    struct coxi_record_scalar scalar; /* of a scalar */
};

/* Appends the line of a record, with its newline. COX_ENOMEM. */
int coxi_record_line(struct coxi_buffer *to, const struct coxi_record *record);

/* A record that was read, and the memory of its texts. Zeroed is valid and empty. */
struct coxi_record_read {
    struct coxi_record record;
    struct coxi_buffer texts;
};

/* Reads a line without its newline. False: it is no record of a known kind, as
 * coxi_record_line makes them; a line that was cut, for instance. Use `ret` again for the
 * next line. */
bool coxi_record_read(const char *line, size_t len, struct coxi_record_read *ret);

/* True if the line, which a newline follows, may be a record of the kinds: it is not read as
 * JSON for that. */
bool coxi_record_may_be(const char *line, unsigned kinds);

/* The member `name` of a record that is no scalar, if it is a whole number above 0;
 * otherwise 0. */
uint64_t coxi_record_count(const struct coxi_record *record, const char *name);

/*
 * What a client that has gone on from a checkpoint does again: a `run` record says it.
 * Scalars that were logged after the checkpoint and before that record are void.
 */
struct coxi_repeated {
    uint64_t seq;     /* scalars after this record are void; 0: not known */
    uint64_t closure; /* if not known: those of closures after this one */
};

/* True: the record is that of a client that has gone on from a checkpoint. */
bool coxi_record_repeats(const struct coxi_record *record, struct coxi_repeated *ret);

/* True if the scalar, which is older than the `run` record, is void. */
bool coxi_repeated_has(const struct coxi_repeated *repeated,
                       const struct coxi_record *scalar);

#endif
