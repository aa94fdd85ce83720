/*
 * The client of a storm: schedules the counting steps and knows what they must add up
 * to. It runs in the process of the storm or (if clients are killed, too) in a process
 * of its own, which continues where the client before it ended.
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

/* The result of the steps. */
struct chaos_result {
    uint64_t n_scheduled;
    uint64_t n_unreturned; /* steps that were applied and whose results were lost */
    uint64_t n_checkpoints;
    struct cox_stats stats; /* of the last client */
    struct cox_progress progress;
    int64_t expected[CHAOS_PS_MAX];
    int64_t found[CHAOS_PS_MAX];
    uint64_t checksum;  /* with --deterministic */
    int64_t wrong_rows; /* rows of both tables that differ from what they must be */
    /* with --dataset: its progress at the end */
    uint64_t n_records;
    uint64_t n_tasks;
    uint64_t n_task_retries;
    bool again;       /* the client could not begin, and may try again */
    char error[1024]; /* the first error; "": all is well */
};

struct chaos_client {
    const struct chaos_config *config;
    const char *log_dir;
    const char *checkpoint_dir; /* NULL: no checkpoints */
    const char *data_dir;       /* with --dataset */
    struct chaos_journal *journal;
    /* the storm that must rage meanwhile; NULL: it rages anyway */
    struct chaos_storm *storm;

    struct cox_coordinator *c;
    struct cox_function *function;
    struct cox_variable *counters[CHAOS_PS_MAX];
    struct cox_variable *exact; /* with --deterministic; and the table */
    struct cox_table *exact_rows;
    struct cox_table *rows;
    struct cox_table *fading; /* with --evict */
    struct chaos_writes *writes;
    struct chaos_resources *resources;
    struct chaos_dataset *dataset; /* with --dataset */
    struct chaos_rounds *rounds;   /* with --mode; or NULL */
    struct coxi_mutex counting;    /* guards counted; leaf */
    /* the statistics of this client that the journal has */
    struct cox_stats counted;
    struct cox_future **futures; /* a ring of config->in_flight, with --results */
    /* the first step that this client has scheduled itself */
    uint64_t first;
    uint64_t n_resolved;
    pthread_t saver;
    bool saves;

    struct coxi_mutex lock; /* guards all below; leaf */
    pthread_cond_t changed; /* signalled when `ended` changes */
    bool ended;             /* take no more checkpoints */
    const char *doing;
    struct chaos_result result;
};

/* Initializes a client that is zeroed except for the fields that the caller sets. */
int chaos_client_init(struct chaos_client *client);

/* Opens the cluster (a local one; for a client alone, the one in COX_CLUSTER), runs all
 * steps, reads what they added up to, and closes it. Errors are in the result. */
void chaos_client_run(struct chaos_client *client);

/* Notes what the client is doing, for the message if it does not end. */
void chaos_client_doing(struct chaos_client *client, const char *what);

/* Notes the error of a library call, unless `code` is 0. Returns 0 or -1. */
int chaos_client_check(struct chaos_client *client, int code);

/* -1, and the reason is noted, if the client must end early. */
int chaos_client_storm(struct chaos_client *client);

/* Notes the first error. Returns -1. Any thread. */
int chaos_client_wrong(struct chaos_client *client, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
