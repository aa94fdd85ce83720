/* A diary of the events that on_event was called with, for tests that wait for an
 * event. */
#ifndef COXI_TESTS_COORDINATOR_DIARY_H
#define COXI_TESTS_COORDINATOR_DIARY_H

#include <pthread.h>
#include <stdatomic.h>

#include "coxswain/event.h"
#include "tests/coordinator/crew.h"

enum { DIARY_MAX = 512 };

struct diary {
    pthread_mutex_t lock;
    struct cox_event events[DIARY_MAX];
    char texts[DIARY_MAX][512];
    size_t n;
    /* the current search: */
    size_t from; /* index after the last event found */
    int code;
    size_t found;
    _Atomic(struct cox_coordinator *) c; /* for calls from the callback */
    atomic_int close_code;
    atomic_int stats_code;
};

/* A new empty diary; the caller frees it. */
struct diary *diary_new(void);

/* cox_options.on_event, with the diary as event_arg. */
void diary_note(void *arg, const struct cox_event *event);

/* Opens a crew of two ps and two workers, with a diary; closes both. */
struct diary *diary_open(struct crew *crew, const char *module,
                         struct cox_options *options);
void diary_close(struct crew *crew, struct diary *diary);

/* True if there is an event of diary->code after the last one found. */
bool diary_find(void *arg);

/* Waits for the next event of that code after the last one found; its text must contain
 * `text`. */
const struct cox_event *diary_await(struct diary *diary, enum cox_event_code code,
                                    const char *text);

#endif
