/* See maker_parts.h: messages of a ps or a worker to its peers. */
#include "tests/fuzz/maker_parts.h"

/* Every message that has a code and a text, and at most a few numbers. */
void make_status(bench b, struct coxi_message *m)
{
    m->status = (struct coxi_status){.code = any_code(b),
                                     .message = any_name(b),
                                     .id = any32(b) % 8,
                                     .duplicate = maybe(b),
                                     .incarnation = any_incarnation(b)};
    m->status.ended = m->status.id % 2 == 1;
    if (m->kind == COXI_PULLED) {
        m->status.versions = b->made->versions;
        m->status.n_versions = any_length(b);
        for (size_t i = 0; i < m->status.n_versions; i++) {
            b->made->versions[i] = any(b);
        }
        some_payload(b);
    }
}

void make_refuse(bench b, struct coxi_message *m)
{
    m->refuse = (struct coxi_refuse){COXI_WIRE_VERSION, any_code(b), any_name(b)};
}

void make_snapshot_done(bench b, struct coxi_message *m)
{
    struct coxi_snapshot_done *d = &m->snapshot_done;
    *d = (struct coxi_snapshot_done){.code = any_code(b),
                                     .message = any_name(b),
                                     .bytes = any(b),
                                     .crc32 = any32(b),
                                     .watermark = any(b),
                                     .held_us_max = any(b),
                                     .saved_bytes = any(b),
                                     .base = any(b)};
    d->applied = any_intervals(b, &d->n_applied);
    d->touched = any_numbers(b, 0, false, &d->n_touched);
}

void make_counts(bench b, struct coxi_message *m)
{
    m->counts.all.commits = any(b);
    m->counts.table.rows = any(b);
    m->counts.infinite = any(b);
    for (size_t i = 0; i < COXI_STALE_BUCKETS; i++) {
        m->counts.stale.counts[i] = m->counts.all.commits;
    }
    m->counts.stale.sum = m->counts.table.rows;
    m->counts.stale.max = m->counts.stale.dropped = m->counts.infinite;
}

/* What rounds take of a report. The numbers come from others, as in put_in_rounds. */
static void put_weights(bench b, struct coxi_done *d)
{
    struct made *made = b->made;
    for (size_t i = 0; i < d->n_closures; i++) {
        made->weights[i] = fuzz_weight(made->done[i].run_us / 2);
        if (made->done[i].run_us % 2 == 1) {
            made->numbers[1][d->n_ended++] = (uint32_t)i;
        }
    }
    d->ended = made->numbers[1];
    d->weights = d->echo_us % 2 == 1 ? made->weights : NULL;
}

void make_done(bench b, struct coxi_message *m)
{
    struct coxi_done *d = &m->done;
    size_t len = 0;
    *d = (struct coxi_done){.closures = b->made->done,
                            .n_closures = any_length(b),
                            .echo_us = any(b),
                            .held_us = any32(b),
                            .commit_us = any32(b)};
    for (size_t i = 0; i < d->n_closures; i++) {
        struct coxi_done_head *head = &b->made->done[i];
        *head = (struct coxi_done_head){.closure = any(b),
                                        .attempt = (uint32_t)below(b, 3),
                                        .code = any_code(b),
                                        .step_code = (int32_t)any(b),
                                        .touched_n = (uint32_t)below(b, 3),
                                        .result_len = (uint32_t)below(b, 64),
                                        .run_us = any32(b)};
        len += coxi_align((size_t)4 * head->touched_n, 8) +
               coxi_align(head->result_len, 8);
    }
    d->kept = any_numbers(b, 0, true, &d->n_kept);
    put_weights(b, d);
    payload_of(b, len);
}

void make_voided(bench b, struct coxi_message *m)
{
    struct coxi_voided *v = &m->voided;
    *v = (struct coxi_voided){.code = any_code(b),
                              .message = any_name(b),
                              .segments = b->made->segments,
                              .n_segments = any_length(b)};
    v->touched = any_numbers(b, 0, false, &v->n_touched);
    for (size_t i = 0; i < v->n_segments; i++) {
        b->made->segments[i] =
            (struct coxi_voided_segment){(uint32_t)below(b, 4), (uint32_t)below(b, 2),
                                         i == 0 ? (uint32_t)v->n_touched : 0};
    }
}

void make_crashed(bench b, struct coxi_message *m)
{
    m->crashed = (struct coxi_crashed){b->made->crashed, any_length(b)};
    for (size_t i = 0; i < m->crashed.n_closures; i++) {
        b->made->crashed[i] = (struct coxi_crashed_head){any(b), (uint32_t)below(b, 3),
                                                         (int32_t)below(b, 16) - 2};
    }
}

void make_result(bench b, struct coxi_message *m)
{
    m->result =
        (struct coxi_result){any(b), (uint32_t)below(b, 3), any_code(b), any_name(b)};
    if (m->kind == COXI_RESULT) {
        some_payload(b);
    }
}
