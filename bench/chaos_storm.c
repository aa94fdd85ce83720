/*
 * The storm: a thread with random numbers, timers, the signals that end the program,
 * and its deadline. It waits for the first of these in sigtimedwait.
 *
 * A process that it stops is continued before the thread ends, and before another
 * process of the same worker is stopped; nothing is done for one that dies meanwhile.
 */
#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "bench/chaos.h"
#include "bench/chaos_journal.h"
#include "bench/chaos_net.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/rand.h"
#include "common/sync.h"

enum {
    WORKERS_MAX = 64,
    WAKE_MS = 50,   /* how late it may notice that it must rage, or end */
    LONG_STOPS = 8, /* one stop in this many is longer than the peer timeout */
    LONG_CUTS = 4,  /* one cut in this many is longer than the peer timeout */
    /* the disk is full for this part of the time between two such events */
    FULL_SHARE = 4,
    STOP_MIN_MS = 5,
};

struct stopped {
    int fd; /* a pidfd; 0: no process is stopped */
    uint64_t until_ms;
};

struct chaos_storm {
    struct chaos_storm_options options;
    pthread_t thread;
    sigset_t signals;
    uint64_t random;
    atomic_bool rages;
    atomic_bool over;
    _Atomic(const char *) why;
    _Atomic(pid_t) client;
    _Atomic(struct chaos_net *) net;

    /* ---- used by the thread alone */
    uint64_t kill_ms; /* time of the next blow; 0: it does not rage */
    uint64_t kill_ps_ms;
    uint64_t kill_client_ms;
    uint64_t stop_ms;
    uint64_t reset_ms;
    uint64_t full_disk_ms;
    uint64_t empty_disk_ms; /* 0: the disk is not full */
    uint64_t partition_ms;
    uint64_t deadline_ms;
    uint64_t stuck_ms; /* when to give up waiting for the client; 0: no reason to */
    struct stopped stopped[WORKERS_MAX];
    struct chaos_storm_counts counts;

    struct coxi_mutex lock; /* guards calm; leaf */
    pthread_cond_t calmed;
    bool calm; /* it does not rage, and no process is stopped */
};

static uint64_t below(struct chaos_storm *storm, uint64_t n)
{
    assert(n > 0);
    return coxi_rand(&storm->random) % n;
}

static bool send_signal(const struct chaos_proc *proc, int signum)
{
    int fd = chaos_proc_pin(proc);
    bool sent = fd >= 0 && pidfd_send_signal(fd, signum, NULL, 0) == 0;
    if (fd >= 0) {
        (void)close(fd);
    }
    return sent;
}

/* Kills a supervisor, a step process or both with kill -9: of a random worker, or of
 * the next one that has such processes now. */
static void strike(struct chaos_storm *storm)
{
    uint32_t first = (uint32_t)below(storm, storm->options.n_workers);
    uint64_t kind = below(storm, 3);
    for (uint32_t i = 0; i < storm->options.n_workers; i++) {
        struct chaos_worker worker;
        chaos_procs_worker((first + i) % storm->options.n_workers, &worker);
        bool hit = false;
        if (kind != 0) {
            hit = send_signal(&worker.step, SIGKILL);
        }
        if (kind != 1) {
            hit = send_signal(&worker.supervisor, SIGKILL) || hit;
        }
        if (hit) {
            storm->counts.kills++;
            return;
        }
    }
}

static void strike_ps(struct chaos_storm *storm)
{
    struct chaos_proc ps = chaos_procs_ps((uint32_t)below(storm, storm->options.n_ps));
    storm->counts.kills_ps += send_signal(&ps, SIGKILL);
}

static void strike_client(struct chaos_storm *storm)
{
    struct chaos_proc client = chaos_procs_child(atomic_load(&storm->client));
    storm->counts.kills_client += send_signal(&client, SIGKILL);
}

static void let_go(struct stopped *stopped)
{
    if (stopped->fd != 0) {
        (void)pidfd_send_signal(stopped->fd, SIGCONT, NULL, 0);
        (void)close(stopped->fd);
        stopped->fd = 0;
    }
}

/* A random duration; one in `n_short` is longer than the peer timeout. */
static uint64_t draw_while(struct chaos_storm *storm, uint64_t n_short)
{
    uint64_t timeout_ms = (uint64_t)storm->options.peer_timeout_ms;
    uint64_t long_ms = timeout_ms + timeout_ms / 4 + below(storm, timeout_ms / 2);
    uint64_t short_ms = STOP_MIN_MS + below(storm, timeout_ms / 4);
    return below(storm, n_short) == 0 ? long_ms : short_ms;
}

/* Stops a step process with SIGSTOP for a while. */
static void stop_one(struct chaos_storm *storm)
{
    uint32_t index = (uint32_t)below(storm, storm->options.n_workers);
    uint64_t while_ms = draw_while(storm, LONG_STOPS);
    struct stopped *stopped = &storm->stopped[index];
    struct chaos_worker worker;
    chaos_procs_worker(index, &worker);
    int fd = chaos_proc_pin(&worker.step);
    if (stopped->fd != 0 || fd < 0 || pidfd_send_signal(fd, SIGSTOP, NULL, 0) != 0) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return;
    }
    *stopped = (struct stopped){fd, coxi_now_ms() + while_ms};
    storm->counts.stops++;
}

/* Cuts a connection of a step process, or of another process that has connections; each
 * process is equally likely. */
static void reset_one(struct chaos_storm *storm)
{
    static struct chaos_proc procs[CHAOS_PROCS_MAX];
    size_t n = chaos_procs(procs);
    uint64_t first = n > 0 ? below(storm, n) : 0;
    uint64_t draw = coxi_rand(&storm->random);
    for (size_t i = 0; i < n; i++) {
        if (chaos_proc_reset(&procs[(first + i) % n], draw)) {
            storm->counts.resets++;
            return;
        }
    }
}

static void set_disk_full(struct chaos_storm *storm, bool full)
{
    storm->counts.full_disks += full;
    atomic_store(&storm->options.journal->disk_is_full, full);
    storm->empty_disk_ms = 0;
    if (full) {
        storm->empty_disk_ms =
            coxi_now_ms() + (uint64_t)storm->options.full_disk_every_ms / FULL_SHARE;
    }
}

/* Cuts a random connection for a while. */
static void cut_one(struct chaos_storm *storm)
{
    const struct chaos_storm_options *o = &storm->options;
    struct chaos_net *net = atomic_load(&storm->net);
    enum chaos_cut kind = (enum chaos_cut)below(storm, CHAOS_CUT_KINDS);
    uint32_t index =
        (uint32_t)below(storm, kind == CHAOS_CUT_WORKER ? o->n_workers : o->n_ps);
    uint64_t draw = coxi_rand(&storm->random);
    uint64_t while_ms = draw_while(storm, LONG_CUTS);
    if (net != NULL) {
        storm->counts.partitions += chaos_net_cut(net, kind, index, draw, while_ms);
    }
}

static void set_calm(struct chaos_storm *storm, bool calm)
{
    coxi_lock(&storm->lock);
    storm->calm = calm;
    (void)pthread_cond_broadcast(&storm->calmed);
    coxi_unlock(&storm->lock);
}

/* True if the next event of a kind that comes every `every_ms` (0: never) is due; then
 * sets the time of the one after. */
static bool is_due(int every_ms, uint64_t now_ms, uint64_t *when_ms)
{
    bool due = every_ms > 0 && now_ms >= *when_ms;
    *when_ms += due ? (uint64_t)every_ms : 0;
    return due;
}

/* Strikes every blow that is due. */
static void strike_all(struct chaos_storm *storm, uint64_t now_ms)
{
    const struct chaos_storm_options *o = &storm->options;
    if (is_due(o->kill_every_ms, now_ms, &storm->kill_ms)) {
        strike(storm);
    }
    if (is_due(o->kill_ps_every_ms, now_ms, &storm->kill_ps_ms)) {
        strike_ps(storm);
    }
    if (is_due(o->kill_client_every_ms, now_ms, &storm->kill_client_ms)) {
        strike_client(storm);
    }
    if (is_due(o->stop_every_ms, now_ms, &storm->stop_ms)) {
        stop_one(storm);
    }
    if (is_due(o->reset_every_ms, now_ms, &storm->reset_ms)) {
        reset_one(storm);
    }
    if (is_due(o->full_disk_every_ms, now_ms, &storm->full_disk_ms)) {
        set_disk_full(storm, true);
    }
    if (is_due(o->partition_every_ms, now_ms, &storm->partition_ms)) {
        cut_one(storm);
    }
}

/* The storm's part of a turn. */
static void weather(struct chaos_storm *storm, uint64_t now_ms)
{
    const struct chaos_storm_options *o = &storm->options;
    bool rages = atomic_load(&storm->rages);
    for (uint32_t i = 0; i < o->n_workers; i++) {
        if (!rages || now_ms >= storm->stopped[i].until_ms) {
            let_go(&storm->stopped[i]);
        }
    }
    if (storm->empty_disk_ms != 0 && (!rages || now_ms >= storm->empty_disk_ms)) {
        set_disk_full(storm, false);
    }
    if (!rages) {
        if (storm->kill_ms != 0 && atomic_load(&storm->net) != NULL) {
            chaos_net_heal(atomic_load(&storm->net));
        }
        storm->kill_ms = 0;
        set_calm(storm, true);
        return;
    }
    if (storm->kill_ms == 0) {
        set_calm(storm, false);
        storm->kill_ms = now_ms + (uint64_t)o->kill_every_ms;
        storm->kill_ps_ms = now_ms + (uint64_t)o->kill_ps_every_ms;
        storm->kill_client_ms = now_ms + (uint64_t)o->kill_client_every_ms;
        storm->stop_ms = now_ms + (uint64_t)o->stop_every_ms;
        storm->reset_ms = now_ms + (uint64_t)o->reset_every_ms;
        storm->full_disk_ms = now_ms + (uint64_t)o->full_disk_every_ms;
        storm->partition_ms = now_ms + (uint64_t)o->partition_every_ms;
    }
    strike_all(storm, now_ms);
}

static void sooner(uint64_t *when_ms, uint64_t other_ms)
{
    *when_ms = other_ms < *when_ms ? other_ms : *when_ms;
}

/* The time when something is due next. */
static uint64_t next_ms(const struct chaos_storm *storm, uint64_t now_ms)
{
    const struct chaos_storm_options *o = &storm->options;
    const struct {
        int every_ms;
        uint64_t when_ms;
    } all[] = {{o->kill_every_ms, storm->kill_ms},
               {o->kill_ps_every_ms, storm->kill_ps_ms},
               {o->kill_client_every_ms, storm->kill_client_ms},
               {o->stop_every_ms, storm->stop_ms},
               {o->reset_every_ms, storm->reset_ms},
               {o->full_disk_every_ms, storm->full_disk_ms},
               {o->partition_every_ms, storm->partition_ms}};
    uint64_t when_ms = now_ms + WAKE_MS;
    for (size_t i = 0; storm->kill_ms != 0 && i < sizeof(all) / sizeof(*all); i++) {
        if (all[i].every_ms > 0) {
            sooner(&when_ms, all[i].when_ms);
        }
    }
    if (storm->empty_disk_ms != 0) {
        sooner(&when_ms, storm->empty_disk_ms);
    }
    for (uint32_t i = 0; i < storm->options.n_workers; i++) {
        if (storm->stopped[i].fd != 0) {
            sooner(&when_ms, storm->stopped[i].until_ms);
        }
    }
    return when_ms;
}

static void ask_to_end(struct chaos_storm *storm, const char *why, uint64_t now_ms)
{
    if (storm->stuck_ms == 0) {
        storm->stuck_ms = now_ms + (uint64_t)storm->options.grace_ms;
        atomic_store(&storm->rages, false);
        atomic_store(&storm->why, why);
    }
}

static void *thread_main(void *arg)
{
    struct chaos_storm *storm = arg;
    while (!atomic_load(&storm->over)) {
        uint64_t now_ms = coxi_now_ms();
        if (now_ms >= storm->deadline_ms) {
            ask_to_end(storm, "the deadline has passed", now_ms);
        }
        chaos_calls_look(storm->options.journal, now_ms);
        weather(storm, now_ms);
        if (storm->stuck_ms != 0 && now_ms >= storm->stuck_ms) {
            storm->options.on_stuck(storm->options.arg, atomic_load(&storm->why),
                                    &storm->counts);
        }
        uint64_t until_ms = next_ms(storm, now_ms);
        now_ms = coxi_now_ms();
        long rest_ms = until_ms > now_ms ? (long)(until_ms - now_ms) : 0;
        struct timespec rest = {0, rest_ms * 1000000};
        if (sigtimedwait(&storm->signals, NULL, &rest) > 0) {
            ask_to_end(storm, "interrupted", coxi_now_ms());
        }
    }
    atomic_store(&storm->rages, false);
    weather(storm, coxi_now_ms());
    return NULL;
}

int chaos_storm_start(const struct chaos_storm_options *options,
                      struct chaos_storm **ret)
{
    struct chaos_storm *storm = calloc(1, sizeof(*storm));
    if (storm == NULL) {
        return coxi_error_memory("a storm");
    }
    storm->options = *options;
    storm->random = options->seed;
    storm->deadline_ms = coxi_now_ms() + (uint64_t)options->deadline_s * 1000;
    storm->calm = true;
    coxi_mutex_init(&storm->lock);
    coxi_cond_init(&storm->calmed);
    (void)sigemptyset(&storm->signals);
    (void)sigaddset(&storm->signals, SIGINT);
    (void)sigaddset(&storm->signals, SIGTERM);
    (void)pthread_sigmask(SIG_BLOCK, &storm->signals, NULL);
    if (pthread_create(&storm->thread, NULL, thread_main, storm) != 0) {
        free(storm);
        return coxi_error(COX_ENOMEM, "cannot start the storm's thread");
    }
    *ret = storm;
    return 0;
}

void chaos_storm_rage(struct chaos_storm *storm, bool on)
{
    atomic_store(&storm->rages, on && atomic_load(&storm->why) == NULL);
    coxi_lock(&storm->lock);
    while (!on && !storm->calm) {
        coxi_wait_for_end(&storm->calmed, &storm->lock);
    }
    coxi_unlock(&storm->lock);
}

void chaos_storm_client(struct chaos_storm *storm, pid_t pid)
{
    atomic_store(&storm->client, pid);
}

void chaos_storm_net(struct chaos_storm *storm, struct chaos_net *net)
{
    atomic_store(&storm->net, net);
}

const char *chaos_storm_why(struct chaos_storm *storm)
{
    return atomic_load(&storm->why);
}

void chaos_storm_stop(struct chaos_storm *storm, struct chaos_storm_counts *ret)
{
    if (storm != NULL) {
        atomic_store(&storm->over, true);
        (void)pthread_join(storm->thread, NULL);
        *ret = storm->counts;
        (void)pthread_cond_destroy(&storm->calmed);
        coxi_mutex_fini(&storm->lock);
        free(storm);
    }
}
