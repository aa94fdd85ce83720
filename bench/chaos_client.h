/*
 * The client of a storm: what schedules the counting steps and knows what they must add up
 * to. In the process of the storm, or (where clients are killed, too) in one of its own, which
 * goes on where the one before it ended.
 */
#ifndef COXI_BENCH_CHAOS_CLIENT_H
#define COXI_BENCH_CHAOS_CLIENT_H

#include <limits.h>
#include <pthread.h>

#include "bench/chaos.h"
#include "bench/chaos_config.h"
#include "bench/chaos_journal.h"
#include "common/sync.h"
#include "coxswain/coxswain.h"

/* What came of the steps. */
struct chaos_result {
    uint64_t n_scheduled;
    uint64_t n_unreturned; /* steps that are applied, and whose results were lost */
    uint64_t n_checkpoints;
    struct cox_stats stats; /* of the last client */
    struct cox_progress progress;
    int64_t expected[CHAOS_PS_MAX];
    int64_t found[CHAOS_PS_MAX];
    int64_t wrong_rows; /* of both tables, that are not what they were to be */
    bool again;         /* it could not begin, and may try again */
    char error[1024];   /* the first; "": all is well */
};

struct chaos_client {
    const struct chaos_config *config;
    const char *log_dir;
    const char *checkpoint_dir; /* NULL: no checkpoints */
    struct chaos_journal *journal;
    struct chaos_storm *storm; /* that is to rage meanwhile; NULL: it does so anyway */

    struct cox_coordinator *c;
    struct cox_function *function;
    struct cox_variable *counters[CHAOS_PS_MAX];
    struct cox_table *rows;
    struct cox_table *fading; /* with --evict */
    struct chaos_writes *writes;
    struct chaos_resources *resources;
    struct coxi_mutex counting;  /* guards counted; leaf */
    struct cox_stats counted;    /* what the journal has of this client's statistics */
    struct cox_future **futures; /* a ring of config->in_flight, with --results */
    uint64_t first;              /* step that this client has scheduled itself */
    uint64_t n_resolved;
    pthread_t saver;
    bool saves;

    struct coxi_mutex lock; /* guards all below; leaf */
    pthread_cond_t changed; /* `ended` is */
    bool ended;             /* no more checkpoints */
    const char *doing;
    struct chaos_result result;
};

/* Zeroed but for what it is given. */
int chaos_client_init(struct chaos_client *client);

/* Opens the cluster (a local one, or, of a client alone, that of COX_CLUSTER), has all steps
 * run, reads what they added up to, and closes it. What went wrong is in the result. */
void chaos_client_run(struct chaos_client *client);

/* What it is about, for who asks why it does not end. */
void chaos_client_doing(struct chaos_client *client, const char *what);

/* Notes what a call of the library says, unless `code` is 0: 0 or -1. */
int chaos_client_check(struct chaos_client *client, int code);

/* Notes the first error; -1. Any thread. */
int chaos_client_wrong(struct chaos_client *client, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
