/*
 * See gather.h.
 *
 * Invariant: the gatherer sleeps only if it has looked at every link since it last
 * listened to the bell, which rings for data, for room, for a link that closes and for
 * one that joins.
 *
 * Threads: `members` is used by the gatherer's thread alone; links join through
 * `joining`, under the lock. A member is on the stack of the thread that waits for its
 * end.
 *
 * Cost: a look at each link when it wakes.
 */
#include "net/gather.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/error.h"
#include "common/sync.h"
#include "net/rings.h"

struct coxi_gather {
    struct coxi_bell *bell;
    pthread_t thread;
    bool started;
    struct member *members;
    struct coxi_mutex lock; /* leaf */
    pthread_cond_t left;    /* a member has ended */
    struct member *joining COXI_GUARDED_BY(lock);
    bool stop COXI_GUARDED_BY(lock);
};

/* A link whose data the gatherer receives. */
struct member {
    struct member *next;
    const struct coxi_gathered *from;
    bool ended COXI_GUARDED_BY_OF(struct coxi_gather, lock);
};

/* Moves the links from `joining` to `members`; false: the gatherer must stop. */
static bool take_in(struct coxi_gather *gather)
{
    coxi_lock(&gather->lock);
    while (gather->joining != NULL) {
        struct member *member = gather->joining;
        gather->joining = member->next;
        member->next = gather->members;
        gather->members = member;
    }
    bool goes_on = !gather->stop;
    coxi_unlock(&gather->lock);
    return goes_on;
}

/* Wakes the thread that waits for the member's end. */
static void let_go(struct coxi_gather *gather, struct member *member)
{
    coxi_lock(&gather->lock);
    member->ended = true;
    (void)pthread_cond_broadcast(&gather->left);
    coxi_unlock(&gather->lock);
}

/* Handles the data that have come on all links; true: there were some. */
static bool receive_all(struct coxi_gather *gather)
{
    bool any = false;
    for (struct member **at = &gather->members; *at != NULL;) {
        struct member *member = *at;
        if (member->from->receive(member->from->arg, &any) == 0) {
            at = &member->next;
        } else {
            /* first, because the member's memory is gone after let_go */
            *at = member->next;
            let_go(gather, member);
        }
    }
    return any;
}

static bool any_has_data(const struct coxi_gather *gather)
{
    const struct member *member = gather->members;
    while (member != NULL && !coxi_rings_have_data(member->from->rings)) {
        member = member->next;
    }
    return member != NULL;
}

static void *gather_thread(void *arg)
{
    struct coxi_gather *gather = arg;
    uint32_t heard = coxi_bell_listen(gather->bell);
    while (take_in(gather)) {
        if (!receive_all(gather)) {
            coxi_bell_doze(gather->bell);
            if (!any_has_data(gather)) {
                coxi_bell_wait(gather->bell, heard);
            }
            coxi_bell_rouse(gather->bell);
        }
        heard = coxi_bell_listen(gather->bell);
    }
    return NULL;
}

int coxi_gather_new(struct coxi_gather **ret)
{
    struct coxi_gather *gather = calloc(1, sizeof(*gather));
    if (gather == NULL) {
        return coxi_error_memory("a gatherer");
    }
    coxi_mutex_init(&gather->lock);
    coxi_cond_init(&gather->left);
    int r = coxi_bell_new(&gather->bell);
    if (r == 0) {
        r = coxi_thread_start(&gather->thread, "cox:gather", gather_thread, gather);
        gather->started = r == 0;
    }
    if (r != 0) {
        coxi_gather_free(gather);
        return r;
    }
    *ret = gather;
    return 0;
}

void coxi_gather_free(struct coxi_gather *gather)
{
    if (gather == NULL) {
        return;
    }
    coxi_lock(&gather->lock);
    gather->stop = true;
    coxi_unlock(&gather->lock);
    if (gather->started) {
        coxi_bell_ring(gather->bell);
        (void)pthread_join(gather->thread, NULL);
    }
    coxi_bell_free(gather->bell);
    (void)pthread_cond_destroy(&gather->left);
    coxi_mutex_fini(&gather->lock);
    free(gather);
}

struct coxi_bell *coxi_gather_bell(struct coxi_gather *gather)
{
    return gather->bell;
}

pthread_t coxi_gather_thread(const struct coxi_gather *gather)
{
    return gather->thread;
}

void coxi_gather_receive(struct coxi_gather *gather, const struct coxi_gathered *from)
{
    struct member member = {.from = from};
    coxi_lock(&gather->lock);
    member.next = gather->joining;
    gather->joining = &member;
    coxi_unlock(&gather->lock);
    coxi_bell_ring(gather->bell);
    coxi_lock(&gather->lock);
    while (!member.ended) {
        coxi_wait_for_work(&gather->left, &gather->lock);
    }
    coxi_unlock(&gather->lock);
}
