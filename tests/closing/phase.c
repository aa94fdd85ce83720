/* See phase.h. */
#include "tests/closing/phase.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file.h"
#include "common/sync.h"
#include "coordinator/base/ps_set.h"
#include "coordinator/closures/closure.h"
#include "tests/coordinator/inside.h"
#include "tests/test.h"

enum {
    N_PS = 2,
    /* peer_timeout_ms of phases in which a ps is lost because it is silent */
    LOST_MS = 1000,
    LOG_BYTES = 1 << 16,
    LOGGED_BYTES = 4096, /* arguments of a call that fills the log */
    CALLS_MAX = 100000,
};

/* ---- calls with a deadline */

static void *run_call(void *arg)
{
    struct phase_run *run = arg;
    run->run(run->arg);
    coxi_lock(&run->lock);
    run->ended = true;
    (void)pthread_cond_signal(&run->changed);
    coxi_unlock(&run->lock);
    return NULL;
}

void phase_run_start(struct phase_run *run, void (*call)(void *arg), void *arg)
{
    *run = (struct phase_run){.run = call, .arg = arg};
    coxi_mutex_init(&run->lock);
    coxi_cond_init(&run->changed);
    assert_int_equal(0, pthread_create(&run->thread, NULL, run_call, run));
}

bool phase_run_has_ended(struct phase_run *run)
{
    coxi_lock(&run->lock);
    bool ended = run->ended;
    coxi_unlock(&run->lock);
    return ended;
}

bool phase_run_join(struct phase_run *run, const struct timespec *until)
{
    coxi_lock(&run->lock);
    while (!run->ended && coxi_wait_until(&run->changed, &run->lock, until)) {
    }
    bool ended = run->ended;
    coxi_unlock(&run->lock);
    if (ended) {
        assert_int_equal(0, pthread_join(run->thread, NULL));
        (void)pthread_cond_destroy(&run->changed);
        coxi_mutex_fini(&run->lock);
    }
    return ended;
}

/* ---- processes */

/* The state of a process or thread: the field after the name in /proc/.../stat. */
static char state_of(const char *proc)
{
    char path[PATH_MAX];
    char state = '?';
    (void)snprintf(path, sizeof(path), "%s/stat", proc);
    FILE *file = fopen(path, "re");
    if (file != NULL) {
        (void)!fscanf(file, "%*d (%*[^)]) %c", &state);
        (void)fclose(file);
    }
    return state;
}

static bool is_stopped(void *arg)
{
    char proc[64];
    (void)snprintf(proc, sizeof(proc), "/proc/%d", (int)*(pid_t *)arg);
    return state_of(proc) == 'T';
}

void phase_stop(pid_t pid)
{
    assert_int_equal(0, kill(pid, SIGSTOP));
    coxi_test_until(is_stopped, &pid, "a process that stands still");
}

/* ---- other threads' calls */

static void *call(void *arg)
{
    struct phase_caller *caller = arg;
    atomic_store(&caller->tid, gettid());
    caller->code = caller->call(caller->phase);
    return NULL;
}

/* True if the thread has begun its call and sleeps: these calls sleep only where they
 * wait. */
static bool waits(void *arg)
{
    struct phase_caller *caller = arg;
    char proc[64];
    (void)snprintf(proc, sizeof(proc), "/proc/self/task/%d",
                   (int)atomic_load(&caller->tid));
    return atomic_load(&caller->tid) != 0 && state_of(proc) == 'S';
}

static void call_apart(struct phase *phase, int (*what)(struct phase *phase))
{
    struct phase_caller *caller = &phase->callers[phase->n_callers++];
    *caller = (struct phase_caller){.phase = phase, .call = what};
    assert_int_equal(0, pthread_create(&caller->thread, NULL, call, caller));
    coxi_test_until(waits, caller, "a thread that waits in its call");
}

static int read_first(struct phase *phase)
{
    int64_t value;
    return cox_variable_read(phase->crew.c, phase->counters[0], &value, sizeof(value));
}

static int join(struct phase *phase)
{
    return cox_join(phase->crew.c, -1);
}

static int wait_for_it(struct phase *phase)
{
    return cox_future_wait(phase->future, -1);
}

static int save(struct phase *phase)
{
    return cox_checkpoint_save(phase->crew.c, NULL, NULL);
}

/* Schedules closures. A call that finds no room waits until the client is closed. */
static int schedule(struct phase *phase)
{
    int r = 0;
    while (r == 0) {
        r = cox_schedule(phase->crew.c, crew_function(&phase->crew, "nothing"), NULL,
                         NULL);
    }
    return r;
}

/* ---- beginnings */

static struct cox_options options_for(void)
{
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_dir = coxi_test_path("checkpoints");
    options.speculate = -1;
    return options;
}

static void open_with(struct phase *phase, const struct cox_options *options)
{
    memset(phase, 0, sizeof(*phase));
    crew_open(&phase->crew, N_PS, 1, "hold", options);
    phase->counters[0] = crew_counter(&phase->crew, "c0");
    phase->counters[1] = crew_counter(&phase->crew, "c1");
}

static void open_scene(struct phase *phase)
{
    struct cox_options options = options_for();
    open_with(phase, &options);
}

static void hold(struct phase *phase)
{
    crew_hold(&phase->hold, &phase->crew, "hold_and_count", true);
    crew_hold_wait(&phase->hold);
    phase->holds = true;
    phase->future = phase->hold.future;
}

void phase_reach_idle(struct phase *phase)
{
    open_scene(phase);
}

void phase_reach_step(struct phase *phase)
{
    open_scene(phase);
    hold(phase);
}

void phase_reach_stopped_worker(struct phase *phase)
{
    phase_reach_step(phase);
    phase_stop(crew_step_process(&phase->crew, 0));
}

void phase_reach_stopped_ps(struct phase *phase)
{
    phase_reach_step(phase);
    phase_stop(crew_ps_process(&phase->crew, 0));
}

/* ---- a ps is lost */

static bool has_lost(void *arg)
{
    return coxi_ps_losses(arg) > 0;
}

/* The ps is stopped, not killed, so it is silent, and no other one is started. */
void phase_reach_lost_ps(struct phase *phase)
{
    struct cox_options options = options_for();
    options.peer_timeout_ms = LOST_MS;
    open_with(phase, &options);
    phase_stop(crew_ps_process(&phase->crew, 0));
    coxi_test_until(has_lost, phase->crew.c, "the loss of a ps");
}

/* Makes the shard a file that takes long to open. */
static void block_restore(struct phase *phase)
{
    assert_code(0, cox_checkpoint_save(phase->crew.c, NULL, NULL));
    phase->shard =
        coxi_test_hold_file(coxi_test_path("checkpoints/ckpt-1/ps-0-of-2.safetensors"));
    phase->holds_shard = true;
}

void phase_reach_restore(struct phase *phase)
{
    open_scene(phase);
    block_restore(phase);
    crew_kill(crew_ps_process(&phase->crew, 0));
    coxi_test_until(coxi_test_is_wanted, &phase->shard,
                    "a ps that waits for its shard");
}

/* The step counts. When it is replayed, it waits at its FIFO again. */
void phase_reach_replay(struct phase *phase)
{
    phase_reach_step(phase);
    crew_hold_release(&phase->hold);
    assert_code(0, cox_future_wait(phase->future, 8000));
    crew_kill(crew_ps_process(&phase->crew, 0));
    crew_hold_wait(&phase->hold);
}

/* ---- voidings */

struct look {
    struct cox_future *future;
    bool voiding;
};

static void take_look(void *arg)
{
    struct look *look = arg;
    look->voiding = coxi_closure_of(look->future)->state == COXI_VOIDING;
}

/* True if the ps are being asked about the phase's closure, or will be. */
static bool is_voiding(void *arg)
{
    struct phase *phase = arg;
    struct look look = {phase->future, false};
    inside_run(phase->crew.c, take_look, &look);
    return look.voiding;
}

/* Loses the first attempt with its worker, so that the client must ask all ps about the
 * closure before it ends. */
static void lose_attempt(struct phase *phase)
{
    hold(phase);
    int held = phase->hold.fd;
    pid_t first = crew_step_process(&phase->crew, 0);
    crew_kill(first);
    crew_wait_gone(first);
    crew_hold_wait(&phase->hold); /* the next attempt runs */
    assert_int_equal(0, close(held));
}

void phase_reach_voiding(struct phase *phase)
{
    open_scene(phase);
    lose_attempt(phase);
    phase_stop(crew_ps_process(&phase->crew, 1));
    crew_hold_release(&phase->hold);
    phase->holds = false;
    coxi_test_until(is_voiding, phase, "a voiding");
}

void phase_reach_held_voiding(struct phase *phase)
{
    struct cox_options options = options_for();
    options.peer_timeout_ms = LOST_MS;
    open_with(phase, &options);
    lose_attempt(phase);
    phase_stop(crew_ps_process(&phase->crew, 1));
    coxi_test_until(has_lost, phase->crew.c, "the loss of a ps");
    assert_code(0, cox_future_cancel(phase->future));
    crew_hold_release(&phase->hold);
    phase->holds = false;
    coxi_test_until(is_voiding, phase, "a voiding");
}

/* ---- checkpoints */

static bool second_is_written(void *arg)
{
    (void)arg;
    return access(coxi_test_path("checkpoints/ckpt-1.tmp/ps-1-of-2.safetensors"),
                  F_OK) == 0;
}

void phase_reach_checkpoint(struct phase *phase)
{
    open_scene(phase);
    phase_stop(crew_ps_process(&phase->crew, 0));
    call_apart(phase, save);
    coxi_test_until(second_is_written, NULL, "the other ps's shard");
}

void phase_reach_triggered_checkpoint(struct phase *phase)
{
    struct cox_options options = options_for();
    options.checkpoint_every_closures = 2;
    open_with(phase, &options);
    crew_schedule(&phase->crew, crew_function(&phase->crew, "nothing"), 1, 0);
    assert_code(0, cox_join(phase->crew.c, -1));
    phase_stop(crew_ps_process(&phase->crew, 0));
    crew_schedule(&phase->crew, crew_function(&phase->crew, "nothing"), 1, 0);
    coxi_test_until(second_is_written, NULL, "the other ps's shard");
}

/* Calls of fsync go through this file (ld --wrap). */
static atomic_bool disk_hangs;
static atomic_int n_hanging;

int __real_fsync(int fd);
int __wrap_fsync(int fd);

int __wrap_fsync(int fd)
{
    bool hangs = atomic_load(&disk_hangs);
    (void)atomic_fetch_add(&n_hanging, hangs);
    while (atomic_load(&disk_hangs)) {
        (void)poll(NULL, 0, 2);
    }
    return __real_fsync(fd);
}

static bool disk_is_waited_for(void *arg)
{
    (void)arg;
    return atomic_load(&n_hanging) > 0;
}

void phase_reach_slow_disk(struct phase *phase)
{
    open_scene(phase);
    atomic_store(&disk_hangs, true);
    call_apart(phase, save);
    coxi_test_until(disk_is_waited_for, NULL, "an fsync of the client");
}

void phase_reach_slow_disk_triggered(struct phase *phase)
{
    struct cox_options options = options_for();
    options.checkpoint_every_closures = 1;
    open_with(phase, &options);
    atomic_store(&disk_hangs, true);
    crew_schedule(&phase->crew, crew_function(&phase->crew, "nothing"), 1, 0);
    coxi_test_until(disk_is_waited_for, NULL, "an fsync of the client");
}

/* The checkpoint has a closure in its backlog, because a later one is settled; the next
 * client never loads the module. */
void phase_reach_resume(struct phase *phase)
{
    struct cox_options options = options_for();
    struct cox_progress progress = COX_PROGRESS_INIT;
    struct cox_future *later;
    options.worker_slots = 2;
    open_with(phase, &options);
    hold(phase);
    assert_code(0, cox_schedule(phase->crew.c, crew_function(&phase->crew, "nothing"),
                                NULL, &later));
    assert_code(0, cox_future_wait(later, 8000));
    cox_future_free(later);
    assert_code(0, cox_checkpoint_save(phase->crew.c, NULL, NULL));
    cox_future_free(phase->future);
    crew_hold_release(&phase->hold);
    crew_close(&phase->crew);
    memset(phase, 0, sizeof(*phase));
    crew_open(&phase->crew, N_PS, 1, NULL, &options);
    assert_code(0, cox_progress(phase->crew.c, &progress));
    assert_int_equal(1, progress.checkpoint);
    assert_int_equal(1, progress.rerun);
}

/* Checkpoints fail, because their directory is a file now. */
void phase_reach_full_log(struct phase *phase)
{
    static uint8_t bytes[LOGGED_BYTES];
    struct cox_options options = options_for();
    struct cox_value arg = COX_VECTOR("bytes", COX_U8, LOGGED_BYTES, bytes);
    struct cox_call full = COX_CALL_INIT;
    int r = 0;
    options.replay_log_bytes = LOG_BYTES;
    open_with(phase, &options);
    coxi_directory_remove(coxi_test_path("checkpoints"));
    coxi_test_write(coxi_test_path("checkpoints"), "", 0);
    full.args = &arg;
    full.n_args = 1;
    for (int i = 0; r == 0 && i < CALLS_MAX; i++) {
        r = cox_try_schedule(phase->crew.c, crew_function(&phase->crew, "number_off"),
                             &full, NULL);
    }
    assert_int_equal(COX_EAGAIN, r);
    call_apart(phase, schedule);
}

/* ---- users' threads */

static void wait_in_callback(void *arg, struct cox_future *future)
{
    struct phase *phase = arg;
    (void)future;
    atomic_store(&phase->called_back, true);
    (void)cox_future_wait(phase->future, -1);
    (void)atomic_fetch_add(&phase->n_called, 1);
}

static bool is_called_back(void *arg)
{
    struct phase *phase = arg;
    return atomic_load(&phase->called_back) && inside_is_waited_for(phase->future);
}

/* The callback waits for the held step. */
void phase_reach_callback(struct phase *phase)
{
    struct cox_future *first;
    open_scene(phase);
    assert_code(0, cox_schedule(phase->crew.c, crew_function(&phase->crew, "nothing"),
                                NULL, &first));
    assert_code(0, cox_future_wait(first, 8000));
    hold(phase);
    assert_code(0, cox_future_then(first, wait_in_callback, phase));
    cox_future_free(first);
    coxi_test_until(is_called_back, phase, "a callback that waits");
}

void phase_reach_join(struct phase *phase)
{
    phase_reach_step(phase);
    call_apart(phase, join);
}

void phase_reach_wait(struct phase *phase)
{
    phase_reach_step(phase);
    call_apart(phase, wait_for_it);
}

void phase_reach_read(struct phase *phase)
{
    phase_reach_lost_ps(phase);
    call_apart(phase, read_first);
}

void phase_reach_schedule(struct phase *phase)
{
    struct cox_options options = options_for();
    int r = 0;
    options.queue_max = 2;
    open_with(phase, &options);
    hold(phase);
    for (int i = 0; r == 0 && i < CALLS_MAX; i++) {
        r = cox_try_schedule(phase->crew.c, crew_function(&phase->crew, "nothing"),
                             NULL, NULL);
    }
    assert_int_equal(COX_EAGAIN, r);
    call_apart(phase, schedule);
}

void phase_end(struct phase *phase)
{
    atomic_store(&disk_hangs, false);
    for (size_t i = 0; i < phase->n_callers; i++) {
        assert_int_equal(0, pthread_join(phase->callers[i].thread, NULL));
        assert_int_not_equal(0, phase->callers[i].code);
    }
    if (phase->holds) {
        crew_hold_release(&phase->hold);
    }
    if (phase->holds_shard) {
        (void)close(phase->shard);
    }
    cox_future_free(phase->future);
}
