/* See options.h. */
#include "coordinator/options.h"

#include <stdlib.h>
#include <string.h>

#include "cluster/cluster.h"
#include "common/defaults.h"
#include "common/error.h"
#include "common/patience.h"
#include "common/structs.h"
#include "coordinator/checkpoints/save.h"
#include "coordinator/checkpoints/trigger.h"
#include "coordinator/opening.h"

/* COX_EINVAL: the environment is wrong. */
static int fill_in(struct cox_options *o, const struct cox_cluster *cluster)
{
    const struct coxi_patience_field waits[] = {
        {"COX_OPEN_TIMEOUT_MS", &o->open_timeout_ms, false},
        {"COX_WORKER_WAIT_MS", &o->worker_wait_ms, false},
        {"COX_PS_RECOVERY_MS", &o->ps_recovery_ms, true},
    };
    int r = coxi_patience_fill(waits, sizeof(waits) / sizeof(*waits));
    COXI_DEFAULTS_OPTIONS(COXI_FILL_IN)
    if (o->min_workers == 0) {
        /* Waits for no worker if all must dial us: the program may have to tell them
         * our address, which it learns only when cox_open has returned. */
        o->min_workers = cluster->n_workers > 0;
    }
    if (o->listen == NULL && cluster->n_workers == 0) {
        o->listen = cluster->listen;
    }
    if (o->listen == NULL && cluster->etcd != NULL) {
        o->listen = "tcp://0.0.0.0:0"; /* workers find it in etcd */
    }
    return r;
}

/* Checks that there can be workers. */
static int check_workers(const struct cox_options *o, const struct cox_cluster *cluster)
{
    if (cluster->n_workers == 0 && o->listen == NULL) {
        return coxi_error(COX_EINVAL,
                          "the cluster lists no \"worker\", and none can dial: set "
                          "cox_options.listen");
    }
    if (o->min_workers > cluster->n_workers && o->listen == NULL) {
        return coxi_error(COX_EINVAL, "min_workers is %u in a cluster of %u",
                          o->min_workers, cluster->n_workers);
    }
    return 0;
}

/* Checks that hold for every cluster. */
static int check_ranges(const struct cox_options *o)
{
    if (o->queue_max > COXI_AHEAD_MAX) {
        return coxi_error(COX_EINVAL, "queue_max is %u, at most %d", o->queue_max,
                          COXI_AHEAD_MAX);
    }
    if (o->checkpoint_incremental > COXI_BUILT_MAX) {
        return coxi_error(COX_EINVAL, "checkpoint_incremental is %u, at most %d",
                          o->checkpoint_incremental, COXI_BUILT_MAX);
    }
    if (o->worker_slots > 1024) {
        return coxi_error(COX_EINVAL, "worker_slots is %u, at most 1024",
                          o->worker_slots);
    }
    if (o->prefetch > 65536) {
        return coxi_error(COX_EINVAL, "prefetch is %u, at most 65536", o->prefetch);
    }
    if (o->max_crashes > UINT8_MAX) {
        return coxi_error(COX_EINVAL, "max_crashes is %u, at most %d", o->max_crashes,
                          UINT8_MAX);
    }
    if (o->max_attempts > UINT8_MAX) {
        return coxi_error(COX_EINVAL, "max_attempts is %u, at most %d", o->max_attempts,
                          UINT8_MAX);
    }
    if (o->step_timeout_ms < -1 || o->cancel_grace_ms < 1) {
        return coxi_error(COX_EINVAL,
                          "step_timeout_ms is %d and cancel_grace_ms %d: at least 1 "
                          "(or -1 for no step timeout)",
                          o->step_timeout_ms, o->cancel_grace_ms);
    }
    if (o->resume != 0 && o->resume != -1) {
        return coxi_error(COX_EINVAL, "resume is %d: 0, or -1 for never", o->resume);
    }
    if (o->ps_recovery_ms < 1) {
        return coxi_error(COX_EINVAL, "ps_recovery_ms is %d, at least 1",
                          o->ps_recovery_ms);
    }
    if (o->peer_timeout_ms < 100) {
        return coxi_error(COX_EINVAL, "peer_timeout_ms is %d, at least 100",
                          o->peer_timeout_ms);
    }
    return 0;
}

static int check(const struct cox_options *o, const struct cox_cluster *cluster)
{
    int r = check_ranges(o);
    if (r == 0) {
        r = check_workers(o, cluster);
    }
    if (r == 0) {
        r = coxi_opening_check(cluster);
    }
    return r == 0 ? coxi_trigger_check(o) : r;
}

/* Copies the strings, which the program may free when cox_open has returned. */
static int keep_texts(struct cox_options *o, char **ret)
{
    const char **texts[] = {
        &o->checkpoint_dir, &o->log_dir,        &o->bin_dir, &o->listen,
        &o->key_file,       &o->seal,           &o->http,    &o->tensorboard_dir,
        &o->trace,          &o->checkpoint_via,
    };
    const size_t n = sizeof(texts) / sizeof(*texts);
    size_t len = 0;
    for (size_t i = 0; i < n; i++) {
        len += *texts[i] != NULL ? strlen(*texts[i]) + 1 : 0;
    }
    char *kept = malloc(len + 1);
    if (kept == NULL) {
        return coxi_error_memory("the client's options");
    }
    *ret = kept;
    for (size_t i = 0; i < n; i++) {
        if (*texts[i] != NULL) {
            size_t size = strlen(*texts[i]) + 1;
            *texts[i] = memcpy(kept, *texts[i], size);
            kept += size;
        }
    }
    return 0;
}

int coxi_options_take(struct cox_coordinator *c, const struct cox_options *given,
                      const struct cox_cluster *cluster)
{
    struct cox_options defaults = COX_OPTIONS_INIT;
    int r = coxi_struct_copy(&c->options, COXI_STRUCT_OPTIONS,
                             given != NULL ? given : &defaults);
    if (r == 0) {
        r = fill_in(&c->options, cluster);
    }
    r = r == 0 ? keep_texts(&c->options, &c->option_texts) : r;
    return r == 0 ? check(&c->options, cluster) : r;
}
