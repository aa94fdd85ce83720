/* See chaos_journal.h. The file is never read back: it lives in the page cache, which
 * outlives a killed process. */
#include "bench/chaos_journal.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/error.h"

int chaos_journal_open(const char *path, bool create, struct chaos_journal **ret)
{
    size_t size = sizeof(struct chaos_journal);
    int fd =
        open(path, create ? O_RDWR | O_CREAT | O_CLOEXEC : O_RDWR | O_CLOEXEC, 0600);
    void *at = MAP_FAILED;
    if (fd >= 0 && (!create || ftruncate(fd, (off_t)size) == 0)) {
        at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    int r = at == MAP_FAILED ? coxi_error_errno(COX_EIO, "cannot map %s", path) : 0;
    if (fd >= 0) {
        (void)close(fd);
    }
    if (r == 0) {
        *ret = at;
    }
    return r;
}

void chaos_journal_close(struct chaos_journal *journal)
{
    if (journal != NULL) {
        (void)munmap(journal, sizeof(*journal));
    }
}

/* ---- counts */

const char *chaos_count_name(enum chaos_count count)
{
    static const char *const names[] = {
#define NAME(id, name) name,
        CHAOS_COUNTS(NAME)
#undef NAME
    };
    return names[count];
}

void chaos_count_add(struct chaos_journal *journal, enum chaos_count count, uint64_t n)
{
    (void)atomic_fetch_add(&journal->counts[count], n);
}

uint64_t chaos_count_of(const struct chaos_journal *journal, enum chaos_count count)
{
    return atomic_load(&journal->counts[count]);
}

/* ---- calls with a deadline */

struct chaos_timed *chaos_call_begin(struct chaos_journal *journal, const char *name,
                                     int timeout_ms)
{
    uint64_t until_ms = coxi_now_ms() + (uint64_t)timeout_ms + CHAOS_GRACE_MS;
    chaos_count_add(journal, CHAOS_TIMED, 1);
    for (size_t i = 0; i < CHAOS_CALLS; i++) {
        struct chaos_timed *call = &journal->calls[i];
        uint64_t none = 0;
        if (atomic_compare_exchange_strong(&call->until_ms, &none, UINT64_MAX)) {
            (void)snprintf(call->name, sizeof(call->name), "%s", name);
            atomic_store(&call->timeout_ms, (uint32_t)timeout_ms);
            atomic_store(&call->until_ms, until_ms);
            return call;
        }
    }
    return NULL;
}

/* Notes a call that is late, unless it was noted before. */
static void look(struct chaos_journal *journal, struct chaos_timed *call,
                 uint64_t now_ms)
{
    uint64_t until_ms = atomic_load(&call->until_ms);
    if (until_ms == 0 || now_ms <= until_ms ||
        !atomic_compare_exchange_strong(&call->until_ms, &until_ms, UINT64_MAX)) {
        return;
    }
    chaos_count_add(journal, CHAOS_LATE, 1);
    if (!atomic_exchange(&journal->has_late, true)) {
        (void)snprintf(journal->late, sizeof(journal->late),
                       "%s, which had %u ms, had not returned %d ms after that",
                       call->name, (unsigned)atomic_load(&call->timeout_ms),
                       (int)CHAOS_GRACE_MS);
    }
}

void chaos_call_end(struct chaos_journal *journal, struct chaos_timed *call)
{
    if (call != NULL) {
        look(journal, call, coxi_now_ms());
        atomic_store(&call->until_ms, 0);
    }
}

void chaos_calls_look(struct chaos_journal *journal, uint64_t now_ms)
{
    for (size_t i = 0; i < CHAOS_CALLS; i++) {
        look(journal, &journal->calls[i], now_ms);
    }
}

void chaos_calls_clear(struct chaos_journal *journal)
{
    for (size_t i = 0; i < CHAOS_CALLS; i++) {
        atomic_store(&journal->calls[i].until_ms, 0);
    }
}

/* ---- checkpoints */

void chaos_save_begin(const struct chaos_journal *journal, struct chaos_saved *ret)
{
    for (int i = 0; i <= CHAOS_WRITERS; i++) {
        ret->least[i] = atomic_load(&journal->written[i].returned);
    }
}

void chaos_save_end(struct chaos_journal *journal, const struct chaos_saved *begun,
                    uint64_t number)
{
    struct chaos_saved *saved = &journal->saves[number % CHAOS_SAVES];
    atomic_store(&saved->number, 0);
    for (int i = 0; i <= CHAOS_WRITERS; i++) {
        saved->least[i] = begun->least[i];
        saved->most[i] = atomic_load(&journal->written[i].begun);
    }
    atomic_store(&saved->number, number);
    atomic_store(&journal->last_saved, number);
}

void chaos_save_bounds(const struct chaos_journal *journal, uint64_t number, int writer,
                       uint64_t *ret_least, uint64_t *ret_most)
{
    uint64_t before = 0;
    uint64_t behind = UINT64_MAX;
    *ret_least = 0;
    *ret_most = number == 0 ? 0 : atomic_load(&journal->written[writer].begun);
    for (size_t i = 0; number != 0 && i < CHAOS_SAVES; i++) {
        const struct chaos_saved *saved = &journal->saves[i];
        uint64_t other = atomic_load(&saved->number);
        if (other != 0 && other <= number && other > before) {
            before = other;
            *ret_least = saved->least[writer];
        }
        if (other >= number && other < behind) {
            behind = other;
            *ret_most = saved->most[writer];
        }
    }
}

void chaos_saves_restore(struct chaos_journal *journal, uint64_t number)
{
    for (int i = 0; i <= CHAOS_WRITERS; i++) {
        uint64_t least;
        uint64_t most;
        chaos_save_bounds(journal, number, i, &least, &most);
        atomic_store(&journal->written[i].returned, least);
    }
}
