/* The client tells a worker to drop kept results that nobody needs any more. */
#include "coordinator/closures/closure.h"
#include "coordinator/closures/kept.h"
#include "coordinator/closures/seat.h"
#include "schema/limits.h"
#include "tests/test.h"

static size_t n_told;
static size_t n_messages;

/* Replaces the real function: checks the message, and counts what it tells. */
int __wrap_coxi_worker_send(struct coxi_worker *worker,
                            const struct coxi_message *message,
                            const struct coxi_payload *payload);

int __wrap_coxi_worker_send(struct coxi_worker *worker,
                            const struct coxi_message *message,
                            const struct coxi_payload *payload)
{
    (void)worker;
    assert_null(payload);
    assert_int_equal(COXI_RESULT_DROP, message->kind);
    assert_true(coxi_message_fits(message));
    for (size_t i = 0; i < message->recall.n_closures; i++) {
        n_told++;
        assert_int_equal(n_told, message->recall.closures[i].closure);
        assert_int_equal(n_told % 3, message->recall.closures[i].attempt);
    }
    n_messages++;
    return 0;
}

TEST(more_results_are_dropped_at_once_than_a_message_tells)
{
    static struct cox_coordinator c;
    static struct coxi_closures closures;
    static struct coxi_worker worker = {.state = COXI_WORKER_READY};
    struct coxi_seat seat = {.c = &c, .worker = &worker};
    const size_t n = COXI_WIRE_META_MAX / sizeof(struct coxi_recall_head) + 5;
    c.closures = &closures;
    for (size_t i = 1; i <= n; i++) {
        coxi_kept_drop(&seat, coxi_closure_id(i), (uint32_t)(i % 3));
    }
    coxi_kept_flush(&c);
    assert_int_equal(n, n_told);
    assert_true(n_messages > 1);
    assert_false(seat.is_dropper);
    coxi_kept_flush(&c); /* sends nothing more */
    assert_int_equal(n, n_told);
    coxi_buffer_fini(&seat.dropped);
}
