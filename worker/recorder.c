/*
 * See recorder.h. The memory is a memfd of fixed size. It is sealed, so no step can
 * shrink it and break the supervisor's mapping. A step may overwrite it with garbage,
 * so every count that is read is bounded.
 *
 * Invariants: an entry is written only while it is not marked as running. So an entry
 * that is marked names the right closure, wherever the process was stopped. Crashes are
 * written only while no step process lives.
 *
 * Threads: each slot writes its own entry. The supervisor reads the entries after the
 * process has died, which stops every thread between two instructions. So it relies on
 * the order of each thread's stores (atomic_signal_fence), and on no more. Cost: a few
 * stores a step, to a cache line that no other slot has; no system call.
 */
#include "worker/recorder.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/error.h"
#include "net/message.h"
#include "worker/figures.h"

struct coxi_recorder_slot {
    struct coxi_session session;
    uint64_t closure;
    uint32_t attempt;
    atomic_uint running;
    atomic_int blamed;  /* the cause; an exit is BLAMED_EXIT; 0: not blamed */
    uint32_t unused[5]; /* to the end of the cache line */
};

/* A module that was being loaded when step processes died. */
struct killer {
    struct coxi_digest module;
    uint32_t n_deaths;
    int signal; /* signal of the last death; 0: the process exited */
};

struct coxi_recorder {
    uint64_t magic;
    atomic_uint serves;
    uint32_t n_crashed;
    atomic_uint excused;        /* steps that run and are not blamed are innocent */
    atomic_uint died;           /* a step process died since `client` came */
    struct coxi_session client; /* the last client that has come */
    uint32_t unused[4];         /* to the end of the cache line */
    struct coxi_recorder_slot slots[COXI_RECORDER_MAX];
    /* the sessions to which the entries of `crashed` belong */
    struct coxi_session sessions[COXI_RECORDER_MAX];
    struct coxi_crashed_head crashed[COXI_RECORDER_MAX];
    struct coxi_digest loading; /* valid while is_loading */
    atomic_uint is_loading;
    uint32_t n_killers; /* entries ever made */
    struct killer killers[COXI_KILLERS_MAX];
    struct coxi_figures figures;
};

enum { BLAMED_EXIT = INT32_MAX };

/* change it with the layout of the memory */
static const uint64_t magic = 0x636f7872656335ULL;

/* ---- life */

static int map(int fd, struct coxi_recorder **ret)
{
    void *at =
        mmap(NULL, sizeof(**ret), PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)0);
    if (at == MAP_FAILED) {
        return coxi_error_errno(COX_ENOMEM, "cannot map the record of what runs");
    }
    *ret = at;
    return 0;
}

int coxi_recorder_new(int *ret_fd, struct coxi_recorder **ret)
{
    struct coxi_recorder *recorder = NULL;
    int r = 0;
    int fd = memfd_create("coxswain-recorder", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, (off_t)sizeof(*recorder)) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        r = coxi_error_errno(COX_ENOMEM, "cannot make the record of what runs");
    }
    if (r == 0) {
        r = map(fd, &recorder);
    }
    if (r != 0) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return r;
    }
    recorder->magic = magic;
    *ret_fd = fd;
    *ret = recorder;
    return 0;
}

int coxi_recorder_attach(struct coxi_recorder **ret)
{
    struct stat status;
    struct coxi_recorder *recorder = NULL;
    if (fstat(COXI_RECORDER_FD, &status) != 0 ||
        status.st_size != (off_t)sizeof(*recorder)) {
        return coxi_error(COX_EINVAL, "--step-process is for the supervisor: start the "
                                      "program without it");
    }
    int r = map(COXI_RECORDER_FD, &recorder);
    if (r == 0 && recorder->magic != magic) {
        r = coxi_error(COX_EINVAL, "the supervisor is of another version: restart it");
    }
    if (r != 0) {
        coxi_recorder_free(recorder);
        return r;
    }
    (void)close(COXI_RECORDER_FD);
    *ret = recorder;
    return 0;
}

void coxi_recorder_free(struct coxi_recorder *recorder)
{
    if (recorder != NULL) {
        (void)munmap(recorder, sizeof(*recorder));
    }
}

void coxi_recorder_serve(struct coxi_recorder *recorder)
{
    atomic_store(&recorder->serves, 1);
}

bool coxi_recorder_serves(const struct coxi_recorder *recorder)
{
    return atomic_load(&recorder->serves) != 0;
}

/* ---- slots */

struct coxi_recorder_slot *coxi_recorder_slot(struct coxi_recorder *recorder,
                                              uint32_t i)
{
    return recorder != NULL ? &recorder->slots[i] : NULL;
}

struct coxi_figures *coxi_recorder_figures(struct coxi_recorder *recorder)
{
    return recorder != NULL ? &recorder->figures : NULL;
}

void coxi_recorder_note_client(struct coxi_recorder *recorder, bool here)
{
    if (recorder != NULL && here) {
        atomic_store(&recorder->figures.met, true);
    }
    if (recorder != NULL) {
        atomic_store(&recorder->figures.left_ms, here ? 0 : coxi_now_ms());
    }
}

uint64_t coxi_recorder_without_client_ms(const struct coxi_recorder *recorder)
{
    uint64_t left_ms = atomic_load(&recorder->figures.left_ms);
    uint64_t now_ms = coxi_now_ms();
    bool none = left_ms != 0 && atomic_load(&recorder->figures.met);
    return none && now_ms > left_ms ? now_ms - left_ms : 0;
}

uint32_t coxi_recorder_running(const struct coxi_recorder *recorder)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < COXI_RECORDER_MAX; i++) {
        n += coxi_recorder_runs(&recorder->slots[i]);
    }
    return n;
}

static void set_running(struct coxi_recorder_slot *slot, unsigned running)
{
    atomic_signal_fence(memory_order_seq_cst);
    atomic_store_explicit(&slot->running, running, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
}

void coxi_recorder_begin(struct coxi_recorder_slot *slot,
                         const struct coxi_session *session,
                         const struct coxi_closure_head *head)
{
    if (slot != NULL) {
        slot->session = *session;
        slot->closure = head->closure;
        slot->attempt = head->attempt;
        set_running(slot, 1);
    }
}

void coxi_recorder_end(struct coxi_recorder_slot *slot)
{
    if (slot != NULL) {
        set_running(slot, 0);
    }
}

void coxi_recorder_blame(struct coxi_recorder_slot *slot, int cause)
{
    if (slot != NULL) {
        atomic_store(&slot->blamed, cause == COXI_CAUSE_EXIT ? BLAMED_EXIT : cause);
    }
}

bool coxi_recorder_runs(const struct coxi_recorder_slot *slot)
{
    return atomic_load_explicit(&slot->running, memory_order_relaxed) != 0;
}

void coxi_recorder_excuse(struct coxi_recorder *recorder)
{
    if (recorder != NULL) {
        atomic_store(&recorder->excused, 1);
    }
}

/* ---- modules */

void coxi_recorder_load(struct coxi_recorder *recorder,
                        const struct coxi_digest *module)
{
    if (recorder != NULL) {
        recorder->loading = *module;
        atomic_signal_fence(memory_order_seq_cst);
        atomic_store(&recorder->is_loading, 1);
    }
}

void coxi_recorder_loaded(struct coxi_recorder *recorder)
{
    if (recorder != NULL) {
        atomic_store(&recorder->is_loading, 0);
    }
}

static struct killer *find_killer(struct coxi_recorder *recorder,
                                  const struct coxi_digest *module)
{
    for (uint32_t i = 0; i < COXI_KILLERS_MAX; i++) {
        struct killer *killer = &recorder->killers[i];
        if (killer->n_deaths > 0 && coxi_digest_equal(&killer->module, module)) {
            return killer;
        }
    }
    return NULL;
}

bool coxi_recorder_kills(const struct coxi_recorder *recorder,
                         const struct coxi_digest *module, int *ret_signal)
{
    const struct killer *killer =
        recorder != NULL
            ? find_killer((struct coxi_recorder *)(uintptr_t)recorder, module)
            : NULL;
    if (killer == NULL || killer->n_deaths < 2) {
        return false;
    }
    *ret_signal = killer->signal;
    return true;
}

/* The process has died: counts that against the module that it was loading, if any.
 * `excused`: a step was blamed. */
static void collect_killer(struct coxi_recorder *recorder, int signal, bool excused)
{
    bool outside = signal == SIGKILL || signal == SIGTERM || signal == SIGINT;
    if (atomic_exchange(&recorder->is_loading, 0) == 0 || excused || outside) {
        return;
    }
    struct killer *killer = find_killer(recorder, &recorder->loading);
    if (killer == NULL) {
        killer = &recorder->killers[recorder->n_killers++ % COXI_KILLERS_MAX];
        *killer = (struct killer){.module = recorder->loading};
    }
    killer->n_deaths++;
    killer->signal = signal;
}

/* ---- crashes */

static uint32_t count_crashed(const struct coxi_recorder *recorder)
{
    return recorder->n_crashed <= COXI_RECORDER_MAX ? recorder->n_crashed
                                                    : COXI_RECORDER_MAX;
}

size_t coxi_recorder_collect(struct coxi_recorder *recorder, int signal,
                             const struct coxi_crashed_head **ret)
{
    uint32_t before = count_crashed(recorder);
    uint32_t n = before;
    bool excused = atomic_exchange(&recorder->excused, 0) != 0;
    collect_killer(recorder, signal, excused);
    for (uint32_t i = 0; i < COXI_RECORDER_MAX; i++) {
        struct coxi_recorder_slot *slot = &recorder->slots[i];
        int blamed = atomic_exchange(&slot->blamed, 0);
        bool guilty = !excused || blamed != 0;
        blamed = blamed == BLAMED_EXIT ? COXI_CAUSE_EXIT : blamed;
        if (atomic_exchange(&slot->running, 0) != 0 && guilty &&
            n < COXI_RECORDER_MAX) {
            recorder->sessions[n] = slot->session;
            recorder->crashed[n] = (struct coxi_crashed_head){
                slot->closure, slot->attempt, excused ? blamed : signal};
            n++;
        }
    }
    recorder->n_crashed = n;
    atomic_store(&recorder->serves, 0);
    atomic_store(&recorder->died, 1);
    *ret = &recorder->crashed[before];
    return n - before;
}

size_t coxi_recorder_take(struct coxi_recorder *recorder,
                          const struct coxi_session *session,
                          struct coxi_crashed_head *ret)
{
    size_t n = 0;
    uint32_t n_crashed = count_crashed(recorder);
    for (uint32_t i = 0; i < n_crashed; i++) {
        if (coxi_session_equal(&recorder->sessions[i], session)) {
            ret[n++] = recorder->crashed[i];
        }
    }
    recorder->n_crashed = 0;
    return n;
}

bool coxi_recorder_meet(struct coxi_recorder *recorder,
                        const struct coxi_session *session)
{
    bool died = atomic_exchange(&recorder->died, 0) != 0 &&
                coxi_session_equal(&recorder->client, session);
    recorder->client = *session;
    return died;
}
