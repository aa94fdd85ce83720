/*
 * See culprit.h. The handler stores two numbers and passes the signal on to the handler
 * that was there before, so the process dies as it would have died without us.
 *
 * Invariant: only the process that called coxi_culprit_watch writes to the record; a
 * forked child shares that memory, but does not write. Threads: the one that faults or
 * exits. Cost: nothing without a fault.
 */
#include "worker/culprit.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/log.h"
#include "net/daemon.h"

enum {
    /* the handler's own stack, because the thread's may have overflowed */
    STACK_BYTES = 64 * 1024
};

static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};

enum { N_FAULTS = sizeof(faults) / sizeof(*faults) };

static struct coxi_recorder *watched;
static pid_t watcher;
static struct sigaction before[N_FAULTS];
static _Thread_local struct coxi_recorder_slot *mine;
/* the same slot; its destructor runs when the thread ends */
static pthread_key_t own_slot;
static pthread_once_t own_slot_made = PTHREAD_ONCE_INIT;

static void blame_mine(int cause)
{
    if (mine != NULL && getpid() == watcher && coxi_recorder_runs(mine)) {
        coxi_recorder_blame(mine, cause);
        coxi_recorder_excuse(watched);
    }
}

/* A signal from another process blames nobody, because any thread may take it. */
static void on_fault(int signum, siginfo_t *info, void *context)
{
    (void)context;
    bool sent = info->si_code <= 0;
    if (!sent || (info->si_code == SI_TKILL && info->si_pid == getpid())) {
        blame_mine(signum);
    }
    for (size_t i = 0; i < N_FAULTS; i++) {
        if (faults[i] == signum) {
            (void)sigaction(signum, &before[i], NULL);
        }
    }
    if (sent) {
        /*
         * A sent signal comes again when this returns; a fault comes again by itself.
         */
        (void)raise(signum);
    }
}

/* A step has ended its thread, and with it the slot. Ends the process, because nobody
 * would answer for the closure. */
static void on_thread_end(void *slot)
{
    if (getpid() == watcher && coxi_recorder_runs(slot)) {
        coxi_recorder_blame(slot, COXI_CAUSE_EXIT);
        coxi_recorder_excuse(watched);
        coxi_log(COXI_LOG_ERROR, "step_ended_its_thread", "text=\"pthread_exit\"");
        _exit(COXI_EXIT_AGAIN);
    }
}

static void make_key(void)
{
    (void)pthread_key_create(&own_slot, on_thread_end);
}

static void on_exit_call(void)
{
    blame_mine(COXI_CAUSE_EXIT);
}

void coxi_culprit_watch(struct coxi_recorder *recorder)
{
    struct sigaction action = {.sa_sigaction = on_fault,
                               .sa_flags = SA_SIGINFO | SA_ONSTACK};
    watched = recorder;
    watcher = getpid();
    for (size_t i = 0; i < N_FAULTS; i++) {
        (void)sigaction(faults[i], &action, &before[i]);
    }
    (void)atexit(on_exit_call);
}

/*
 * Unblocks faults, because a blocked fault ends the process without calling a handler.
 */
static void unblock_faults(void)
{
    sigset_t set;
    (void)sigemptyset(&set);
    for (size_t i = 0; i < N_FAULTS; i++) {
        if (faults[i] != SIGABRT) { /* abort() unblocks it */
            (void)sigaddset(&set, faults[i]);
        }
    }
    (void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

void coxi_culprit_begin(struct coxi_culprit_stack *stack,
                        struct coxi_recorder_slot *slot)
{
    stack_t there = {0};
    stack->memory = NULL;
    if (slot == NULL) {
        return;
    }
    if (sigaltstack(NULL, &there) == 0 && (there.ss_flags & SS_DISABLE) != 0) {
        stack->memory = malloc(STACK_BYTES);
    }
    if (stack->memory != NULL) {
        const stack_t own = {.ss_sp = stack->memory, .ss_size = STACK_BYTES};
        (void)sigaltstack(&own, NULL);
    }
    mine = slot;
    (void)pthread_once(&own_slot_made, make_key);
    (void)pthread_setspecific(own_slot, slot);
    unblock_faults();
}

void coxi_culprit_end(struct coxi_culprit_stack *stack)
{
    const stack_t none = {.ss_flags = SS_DISABLE};
    if (mine != NULL) {
        (void)pthread_setspecific(own_slot, NULL);
        mine = NULL;
    }
    if (stack->memory != NULL) {
        (void)sigaltstack(&none, NULL);
        free(stack->memory);
        stack->memory = NULL;
    }
}
