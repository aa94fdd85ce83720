/* Shared by checkpoint/records.c and checkpoint/records_read.c only. */
#ifndef COXI_CHECKPOINT_RECORDS_INTERNAL_H
#define COXI_CHECKPOINT_RECORDS_INTERNAL_H

#include <stdatomic.h>

#include "checkpoint/records.h"
#include "common/names.h"
#include "common/sync.h"

/* The members of a record that is no scalar. References: of its stream, of the pending
 * records, and of a reader. */
struct coxi_record_text {
    atomic_int refs;
    size_t len;
    char json[];
};

struct coxi_record_series;

struct coxi_record_item {
    uint64_t seq;
    uint64_t nth; /* in its stream, with those that were dropped */
    double t;
    enum coxi_record_kind kind;
    struct coxi_record_text *text; /* or, of a scalar: */
    const struct coxi_record_series *series;
    uint64_t step;
    double value;
};

struct coxi_record_stream {
    struct coxi_record_item *items; /* by rising number */
    size_t n;
    size_t capacity;
    size_t bytes;     /* of their texts */
    uint64_t n_added; /* since its beginning */
    uint64_t stride;  /* of those that thinning has left, a power of two; 0: as 1 */
};

/* Lives as long as the records. */
struct coxi_record_series {
    struct coxi_named named; /* name, then 1, then source; must be the first member */
    const char *name;
    const char *source;
    struct coxi_record_stream stream;
};

struct coxi_records {
    bool pending_on;
    struct coxi_mutex lock; /* guards all below; leaf */
    uint64_t last;          /* number of the newest record */
    struct coxi_record_stream kinds[COXI_N_RECORD_KINDS];
    struct coxi_names names;
    struct coxi_record_series *series[COXI_SCALAR_NAMES_MAX];
    size_t n_series;
    size_t n_points;
    struct coxi_record_item *pending; /* COXI_PENDING_MAX at most */
    size_t n_pending;
    size_t pending_capacity;
    size_t pending_bytes; /* of their texts */
    uint64_t n_lost;
    uint32_t scattered; /* a number that changes */
};

/* With a reference of its own to the item's text. */
struct coxi_record_item coxi_record_item_ref(const struct coxi_record_item *item);
void coxi_record_text_unref(struct coxi_record_text *text); /* takes NULL */

/* Borrows the item's texts. */
struct coxi_record coxi_record_of_item(const struct coxi_record_item *item);

/* The streams of kinds come first, then those of series. */
static inline struct coxi_record_stream *
coxi_records_stream(struct coxi_records *records, size_t i) COXI_REQUIRES(records->lock)
{
    return i < COXI_N_RECORD_KINDS ? &records->kinds[i]
                                   : &records->series[i - COXI_N_RECORD_KINDS]->stream;
}

#endif
