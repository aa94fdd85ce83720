/*
 * The watch over the slots, see slots_internal.h. It cancels steps that run too long.
 * It ends the process if a cancelled step has not returned in time, or if the process
 * has more memory than it may; the supervisor starts another process then.
 *
 * Invariant: while anything with a deadline runs, a timer is set that fires no later
 * than the deadline (except for the time that the loop takes to set it). When it fires,
 * the loop looks at every slot and sets it again. So a step needs no timer of its own:
 * a step that begins when the timer is set for less than its timeout adds nothing.
 *
 * Once the end of the process has begun, it is certain: the kernel is told to kill the
 * process before anything else is done that might take time.
 *
 * Threads: the loop, except coxi_watch_set and coxi_watch_cancel. Cost: a look at each
 * slot once in the shortest timeout; with a limit of memory 50 times a second, and a
 * read from /proc, while a step runs. An idle process has no timer. The client is told
 * of the memory by the loop's tick.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "common/buffer.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/log.h"
#include "common/sync.h"
#include "net/message.h"
#include "worker/batches.h"
#include "worker/results.h"
#include "worker/slots_internal.h"

enum {
    END_MS = 100,
    TELL_MEMORY_MS = 1000,
    TOLD_PARTS = 32 /* the client is told of changes by more than one part */
};

static const uint64_t ns_per_ms = 1000000;

/* ---- the end of the process */

/* From now on the kernel kills the process after END_MS, even if this thread hangs. */
static void begin_end(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    struct itimerspec in = {.it_value.tv_nsec = (long)(END_MS * ns_per_ms)};
    timer_t timer;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 ||
        timer_settime(timer, 0, &in, NULL) != 0) {
        (void)kill(getpid(), SIGKILL);
    }
}

/* Tells the client that an attempt overran, for which this process is about to end.
 * Closure 0 (the making of a resource): does nothing. Loop. */
static void tell_overrun(struct coxi_run *run, uint64_t closure, uint32_t attempt)
{
    struct coxi_crashed_head head = {
        .closure = closure, .attempt = attempt, .cause = COXI_CAUSE_OVERRUN};
    struct coxi_message message = {.kind = COXI_CRASHED};
    message.crashed.closures = &head;
    message.crashed.n_closures = 1;
    coxi_lock(&run->lock);
    if (closure != 0 && run->control != NULL) {
        (void)coxi_message_send(run->control, &message, NULL, false);
    }
    coxi_unlock(&run->lock);
}

/*
 * Ends the process now. Before, sends what other slots have to report, and which
 * closures overran: the client counts these when it loses this process, not only when
 * it meets the next one. Not locked.
 */
static void end_process(struct coxi_slots *slots)
{
    for (uint32_t i = 0; i < slots->n_threads; i++) {
        const struct coxi_running *running = &slots->threads[i].running;
        struct coxi_closure_head overran = {0};
        struct coxi_run *run = NULL;
        coxi_lock(&slots->lock);
        if (atomic_load(&running->state) != COXI_RUN_IDLE) {
            run = coxi_run_ref(running->run);
            overran = running->overran ? running->head : overran;
        }
        coxi_unlock(&slots->lock);
        if (run != NULL) {
            coxi_run_flush(run);
            tell_overrun(run, overran.closure, overran.attempt);
            coxi_run_unref(run);
        }
    }
    (void)kill(getpid(), SIGKILL);
}

/* Ends the process because a step has not returned; steps in other slots are not to
 * blame. False: the step has returned just now. */
static bool end_for_step(struct coxi_slots *slots, struct coxi_running *running,
                         enum coxi_running_state why) COXI_REQUIRES(slots->lock)
{
    if (!coxi_running_change(running, why, COXI_RUN_ENDING)) {
        return false;
    }
    begin_end();
    const struct coxi_function *function =
        coxi_run_function(running->run, &running->head);
    bool overrun = why == COXI_RUN_OVERRUN;
    if (overrun) {
        running->overran = true;
        coxi_recorder_blame(running->recorder, COXI_CAUSE_OVERRUN);
    }
    coxi_recorder_excuse(slots->options.recorder);
    coxi_log(COXI_LOG_ERROR, "step_not_returned",
             "closure=%llu attempt=%u function=%s after=%s timeout_ms=%u grace_ms=%u "
             "run=%016llx",
             (unsigned long long)running->head.closure, running->head.attempt,
             function != NULL ? function->name : "", overrun ? "timeout" : "cancel",
             running->head.timeout_ms, running->grace_ms,
             (unsigned long long)running->run->session.run);
    return true;
}

/* Ends the process because it has `bytes` of memory; every step that runs may be to
 * blame. False: no step runs any more. */
static bool end_for_memory(struct coxi_slots *slots, uint64_t bytes)
    COXI_REQUIRES(slots->lock)
{
    struct coxi_buffer names = {0};
    bool any = false;
    for (uint32_t i = 0; i < slots->n_threads; i++) {
        struct coxi_running *running = &slots->threads[i].running;
        if (!coxi_running_change(running, COXI_RUN_RUNNING, COXI_RUN_ENDING)) {
            continue;
        }
        if (!any) {
            begin_end();
        }
        coxi_recorder_blame(running->recorder, COXI_CAUSE_MEMORY);
        (void)coxi_buffer_printf(&names, "%s%llu/%u", any ? "," : "",
                                 (unsigned long long)running->head.closure,
                                 running->head.attempt);
        any = true;
    }
    if (any) {
        coxi_recorder_excuse(slots->options.recorder);
        coxi_log(COXI_LOG_ERROR, "step_memory", "bytes=%llu max=%llu closures=%.*s",
                 (unsigned long long)bytes,
                 (unsigned long long)slots->options.memory_max, (int)names.len,
                 names.len > 0 ? (const char *)names.data : "");
    }
    coxi_buffer_fini(&names);
    return any;
}

/* ---- cancelling */

static void wake_for_place(struct coxi_run *run)
{
    coxi_lock(&run->lock);
    (void)pthread_cond_broadcast(&run->room);
    coxi_unlock(&run->lock);
}

void coxi_watch_cancel(struct coxi_slots *slots, struct coxi_running *running,
                       enum coxi_running_state why, uint32_t grace_ms)
{
    uint64_t kill_at_ns = coxi_now_ns() + (uint64_t)grace_ms * ns_per_ms;
    bool waits = coxi_running_change(running, COXI_RUN_RETURNED, COXI_RUN_CANCELLED);
    bool first = waits || coxi_running_change(running, COXI_RUN_RUNNING, why);
    if (first || kill_at_ns < running->kill_at_ns) {
        running->grace_ms = grace_ms;
        running->kill_at_ns = kill_at_ns;
        coxi_watch_set(slots, grace_ms);
    }
    if (waits) {
        wake_for_place(running->run);
    }
    coxi_batches_cancel(running);
}

/* ---- looking */

/* When something must be done about what a slot runs. The slots are locked. */
static uint64_t due_ns(struct coxi_running *running, enum coxi_running_state state,
                       uint64_t now_ns)
{
    uint64_t started_ns;
    switch (state) {
    case COXI_RUN_RUNNING:
        if (running->head.timeout_ms == 0) {
            return UINT64_MAX;
        }
        started_ns = atomic_load_explicit(&running->started_ns, memory_order_relaxed);
        return (started_ns > 0 ? started_ns : now_ns) +
               (uint64_t)running->head.timeout_ms * ns_per_ms;
    case COXI_RUN_CANCELLED:
    case COXI_RUN_OVERRUN:
        return running->kill_at_ns;
    case COXI_RUN_IDLE:
    case COXI_RUN_RETURNED:
    case COXI_RUN_ENDING:
        break;
    }
    return UINT64_MAX;
}

/* Does what is due for a slot. Returns true if the process must end. */
static bool look_at(struct coxi_slots *slots, struct coxi_running *running,
                    uint64_t now_ns, uint64_t *next_ns) COXI_REQUIRES(slots->lock)
{
    enum coxi_running_state state =
        (enum coxi_running_state)atomic_load(&running->state);
    uint64_t at_ns = due_ns(running, state, now_ns);
    if (at_ns <= now_ns && state != COXI_RUN_RUNNING) {
        return end_for_step(slots, running, state);
    }
    if (at_ns <= now_ns) {
        coxi_watch_cancel(slots, running, COXI_RUN_OVERRUN, running->grace_ms);
        at_ns = running->kill_at_ns;
    }
    *next_ns = at_ns < *next_ns ? at_ns : *next_ns;
    return false;
}

/* The resident memory of this process; 0: the kernel does not say. */
static uint64_t memory_bytes(int statm)
{
    char text[128];
    char *resident;
    ssize_t n = pread(statm, text, sizeof(text) - 1, 0);
    if (n <= 0) {
        return 0;
    }
    text[n] = '\0';
    (void)strtoull(text, &resident, 10); /* the first number is the virtual size */
    return strtoull(resident, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Memory without kept results: these have a bound of their own (--kept-max), and no
 * running step is to blame for them. */
static uint64_t memory_of_steps(int statm)
{
    uint64_t bytes = memory_bytes(statm);
    uint64_t kept = coxi_results_held();
    return bytes > kept ? bytes - kept : 0;
}

/* On the loop. */
static void start_timer(struct coxi_slots *slots) COXI_REQUIRES(slots->lock);

static void on_timer(uv_timer_t *timer)
{
    struct coxi_slots *slots = timer->data;
    uint64_t next_ns = UINT64_MAX;
    bool end = false;
    coxi_lock(&slots->lock);
    uint64_t now_ns = coxi_now_ns();
    slots->watch.within_ms = COXI_WATCH_NEVER;
    for (uint32_t i = 0; i < slots->n_threads; i++) {
        end |= look_at(slots, &slots->threads[i].running, now_ns, &next_ns);
    }
    if (slots->options.memory_max > 0 && slots->n_running > 0) {
        uint64_t bytes = memory_of_steps(slots->statm);
        end |= bytes > slots->options.memory_max && end_for_memory(slots, bytes);
        uint64_t look_ns = now_ns + COXI_WATCH_MEMORY_MS * ns_per_ms;
        next_ns = look_ns < next_ns ? look_ns : next_ns;
    }
    if (next_ns != UINT64_MAX) {
        uint64_t within_ms = (next_ns - now_ns + ns_per_ms - 1) / ns_per_ms;
        slots->watch.within_ms =
            within_ms < COXI_WATCH_NEVER ? (uint32_t)within_ms : COXI_WATCH_NEVER - 1;
        start_timer(slots);
    }
    coxi_unlock(&slots->lock);
    if (end) {
        end_process(slots);
    }
}

static void start_timer(struct coxi_slots *slots)
{
    uv_update_time(coxi_loop_uv(slots->options.loop));
    (void)uv_timer_start(&slots->watch.timer, on_timer, slots->watch.within_ms, 0);
}

/* ---- life */

static void on_start(struct coxi_mail *mail)
{
    struct coxi_watch *watch =
        (struct coxi_watch *)((char *)mail - offsetof(struct coxi_watch, start));
    struct coxi_slots *slots =
        (struct coxi_slots *)((char *)watch - offsetof(struct coxi_slots, watch));
    coxi_lock(&slots->lock);
    if (watch->timer.data == NULL) {
        (void)uv_timer_init(coxi_loop_uv(slots->options.loop), &watch->timer);
        watch->timer.data = slots;
    }
    watch->posted = false;
    if (watch->within_ms != COXI_WATCH_NEVER) {
        start_timer(slots);
    }
    coxi_unlock(&slots->lock);
}

void coxi_watch_set(struct coxi_slots *slots, uint32_t within_ms)
{
    struct coxi_watch *watch = &slots->watch;
    if (within_ms >= watch->within_ms) {
        return;
    }
    watch->within_ms = within_ms;
    if (!watch->posted) {
        watch->posted = true;
        watch->used = true;
        coxi_loop_post(slots->options.loop, &watch->start);
    }
}

void coxi_slots_tell_memory(const struct coxi_slots *slots, struct coxi_run *run)
{
    struct coxi_message message = {.kind = COXI_MEMORY};
    uint64_t now_ms = coxi_now_ms();
    if (now_ms - run->resident_at_ms < TELL_MEMORY_MS) {
        return;
    }
    run->resident_at_ms = now_ms;
    uint64_t bytes = memory_bytes(slots->statm);
    uint64_t told = run->resident_told;
    if ((bytes > told ? bytes - told : told - bytes) * TOLD_PARTS > told) {
        run->resident_told = message.memory.resident = bytes;
        (void)coxi_message_send(run->control, &message, NULL, false);
    }
}

int coxi_watch_init(struct coxi_slots *slots)
{
    coxi_unshared(&slots->lock);
    struct coxi_watch *watch = &slots->watch;
    watch->start.run = on_start;
    watch->within_ms = COXI_WATCH_NEVER;
    slots->statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    return slots->statm >= 0 || slots->options.memory_max == 0
               ? 0
               : coxi_error_errno(COX_EIO, "cannot read /proc/self/statm, which a "
                                           "limit of memory needs");
}

static void slots_fini(struct coxi_slots *slots)
{
    coxi_unshared(&slots->lock);
    if (slots->statm >= 0) {
        (void)close(slots->statm);
    }
    for (uint32_t i = 0; i < slots->options.n; i++) {
        coxi_mutex_fini(&slots->threads[i].running.reading);
    }
    (void)pthread_cond_destroy(&slots->work);
    coxi_mutex_fini(&slots->lock);
    free(slots);
}

static void on_closed(uv_handle_t *timer)
{
    slots_fini(timer->data);
}

static void on_close(struct coxi_mail *mail)
{
    struct coxi_watch *watch =
        (struct coxi_watch *)((char *)mail - offsetof(struct coxi_watch, close));
    uv_close((uv_handle_t *)&watch->timer, on_closed);
}

void coxi_watch_close(struct coxi_slots *slots)
{
    coxi_unshared(&slots->lock);
    if (!slots->watch.used) {
        slots_fini(slots);
        return;
    }
    slots->watch.close.run = on_close;
    coxi_loop_post(slots->options.loop, &slots->watch.close);
}
