/*
 * The client library reports everything in one way: as events, which go to the
 * program's on_event or else to standard error (coxswain/event.h). No other file of the
 * coordinator logs.
 */
#ifndef COXI_COORDINATOR_BASE_EVENT_H
#define COXI_COORDINATOR_BASE_EVENT_H

#include "coordinator/base/ids.h"
#include "coxswain/event.h"
#include "schema/maybe.h"

struct cox_coordinator;

/* The subjects of an event; 0: it has none of that kind. */
struct coxi_event_of {
    struct coxi_maybe ps;
    struct coxi_maybe worker;
    struct coxi_closure_id closure;
    uint64_t checkpoint;
    uint64_t seconds;
    int error;
    int level; /* 1 + enum cox_event_level; 0: that of the code */
};
#define COXI_OF(...) (&(const struct coxi_event_of){__VA_ARGS__})

/*
 * Emits an event; `format` makes its sentence, which is cut to COXI_TEXT_MAX. Does not
 * block: the event waits in a queue for a thread of its own. Any thread, with any lock
 * held.
 */
void coxi_event(struct cox_coordinator *c, enum cox_event_code code,
                const struct coxi_event_of *of, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Call before the first event. COX_EINVAL: COX_LOG is none of its words; COX_ENOMEM. */
int coxi_events_start(struct cox_coordinator *c);

/* Hands out all events in the queue, and no later ones. Takes events that were not
 * started. */
void coxi_events_stop(struct cox_coordinator *c);
void coxi_events_free(struct cox_coordinator *c);

/* COX_EDEADLK within on_event of `c`, otherwise 0. Any thread. */
int coxi_events_check(const struct cox_coordinator *c, const char *what);

#endif
