/*
 * See replay_log.h. The entries are an array in the order of arrival, which readers
 * sort. Every scheduled closure checks how full the log is. So that check takes no
 * lock; its answer may be a moment old.
 */
#include "coordinator/base/replay_log.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/sync.h"
#include "coordinator/coordinator.h"

struct coxi_replay_log {
    struct coxi_replay_refs refs;
    uint32_t n_words; /* words of a set of ps */
    uint64_t bytes_max;
    struct coxi_mutex lock; /* guards all below; leaf */
    struct coxi_replay_entry *entries;
    size_t n;
    size_t capacity;
    uint64_t n_forgotten; /* entries that were dropped before these */
    size_t n_undone;      /* operations that are not done */
    /* written with the lock held: */
    atomic_uint_least64_t bytes;
    /* part of `bytes`: operations that are not done */
    atomic_uint_least64_t bytes_undone;
    atomic_uint_least64_t bytes_held;  /* part of bytes_undone: held operations */
    atomic_uint_least64_t first_id;    /* of the first entry; 0: there is none */
    atomic_uint_least64_t oldest_call; /* the lowest id of a call; 0: there is none */
};

int coxi_replay_log_new(uint32_t n_ps, uint64_t bytes_max,
                        const struct coxi_replay_refs *refs,
                        struct coxi_replay_log **ret)
{
    struct coxi_replay_log *log = calloc(1, sizeof(*log));
    if (log == NULL) {
        return coxi_error_memory("the replay log");
    }
    log->refs = *refs;
    log->n_words = (n_ps + 63) / 64;
    log->bytes_max = bytes_max;
    coxi_mutex_init(&log->lock);
    *ret = log;
    return 0;
}

/* True if the entry has a call, with the ps that it touched. */
static bool has_call(const struct coxi_replay_entry *entry)
{
    return entry->kind == COXI_REPLAY_CALL || entry->kind == COXI_REPLAY_ROUND;
}

static uint64_t bytes_of(const struct coxi_replay_log *log,
                         const struct coxi_replay_entry *entry)
{
    uint64_t bytes = sizeof(*entry);
    if (has_call(entry)) {
        bytes += log->refs.call_bytes(entry->call);
        bytes += entry->n_words > 1 ? entry->n_words * sizeof(uint64_t) : 0;
    } else if (entry->kind == COXI_REPLAY_UPDATE) {
        bytes += sizeof(*entry->update) + entry->update->bytes;
    } else if (entry->kind == COXI_REPLAY_LOAD) {
        bytes += log->refs.loading_bytes(entry->loading);
    }
    return bytes;
}

/* Frees the content of an entry. Call without the log's lock, because freeing a call
 * takes another lock. */
static void entry_fini(const struct coxi_replay_log *log,
                       struct coxi_replay_entry *entry)
{
    if (has_call(entry)) {
        log->refs.call_forgotten(entry->call);
    } else if (entry->kind == COXI_REPLAY_UPDATE) {
        free(entry->update);
    } else if (entry->kind == COXI_REPLAY_LOAD) {
        log->refs.loading_unref(entry->loading);
    }
    if (entry->n_words > 1) {
        free(entry->touched.words);
    }
}

void coxi_replay_log_free(struct coxi_replay_log *log)
{
    if (log != NULL) {
        for (size_t i = 0; i < log->n; i++) {
            entry_fini(log, &log->entries[i]);
        }
        free(log->entries);
        coxi_mutex_fini(&log->lock);
        free(log);
    }
}

/* ---- writing */

/* The entries have changed: counts `bytes` more (modulo 2^64, so it may also be
 * fewer). */
static void count(struct coxi_replay_log *log, uint64_t bytes) COXI_REQUIRES(log->lock)
{
    atomic_fetch_add_explicit(&log->bytes, bytes, memory_order_relaxed);
    atomic_store_explicit(&log->first_id, log->n > 0 ? log->entries[0].id.n : 0,
                          memory_order_relaxed);
}

/* An entry was added: notes its id, if it is a call's. */
static void note_call(struct coxi_replay_log *log,
                      const struct coxi_replay_entry *entry) COXI_REQUIRES(log->lock)
{
    uint64_t oldest = atomic_load_explicit(&log->oldest_call, memory_order_relaxed);
    if (entry->kind == COXI_REPLAY_CALL && (oldest == 0 || entry->id.n < oldest)) {
        atomic_store_explicit(&log->oldest_call, entry->id.n, memory_order_relaxed);
    }
}

uint64_t coxi_replay_log_oldest_call(const struct coxi_replay_log *log)
{
    if (log == NULL) {
        return UINT64_MAX;
    }
    uint64_t oldest = atomic_load_explicit(&log->oldest_call, memory_order_relaxed);
    return oldest != 0 ? oldest : UINT64_MAX;
}

/* Counts (`sign` 1) an entry as not done, or (`sign` -1) takes it out of that count. */
static void count_undone(struct coxi_replay_log *log,
                         const struct coxi_replay_entry *entry, int sign)
    COXI_REQUIRES(log->lock)
{
    uint64_t bytes = (uint64_t)sign * entry->bytes;
    if (entry->state != COXI_REPLAY_DONE) {
        log->n_undone += (size_t)sign;
        atomic_fetch_add_explicit(&log->bytes_undone, bytes, memory_order_relaxed);
    }
    if (entry->state == COXI_REPLAY_HELD) {
        atomic_fetch_add_explicit(&log->bytes_held, bytes, memory_order_relaxed);
    }
}

/* Makes room for n more entries. */
static int make_room(struct coxi_replay_log *log, size_t n) COXI_REQUIRES(log->lock)
{
    if (log->capacity - log->n >= n) {
        return 0;
    }
    size_t capacity = log->capacity == 0 ? 1024 : log->capacity * 2;
    capacity = capacity - log->n >= n ? capacity : log->n + n;
    struct coxi_replay_entry *entries =
        realloc(log->entries, capacity * sizeof(*entries));
    if (entries == NULL) {
        return coxi_error_memory("the replay log");
    }
    log->entries = entries;
    log->capacity = capacity;
    return 0;
}

/* Puts an entry at the end, where there is room. */
static void put(struct coxi_replay_log *log, const struct coxi_replay_entry *entry)
    COXI_REQUIRES(log->lock)
{
    struct coxi_replay_entry *place = &log->entries[log->n++];
    *place = *entry;
    place->position = entry->position != 0 ? entry->position : entry->id.n;
    place->bytes = bytes_of(log, entry);
    count(log, place->bytes);
    count_undone(log, place, 1);
    note_call(log, place);
}

static int append(struct coxi_replay_log *log, const struct coxi_replay_entry *entry)
{
    coxi_lock(&log->lock);
    int r = make_room(log, 1);
    if (r == 0) {
        put(log, entry);
    }
    coxi_unlock(&log->lock);
    return r;
}

static int set_touched(struct coxi_replay_entry *entry, const uint32_t *touched,
                       size_t n_touched)
{
    uint64_t *words = &entry->touched.word;
    if (entry->n_words > 1) {
        words = entry->touched.words = calloc(entry->n_words, sizeof(*words));
        if (words == NULL) {
            return coxi_error_memory("the replay log");
        }
    }
    for (size_t i = 0; i < n_touched; i++) {
        if (touched[i] / 64 < entry->n_words) {
            words[touched[i] / 64] |= UINT64_C(1) << (touched[i] % 64);
        }
    }
    return 0;
}

int coxi_replay_log_call(struct coxi_replay_log *log,
                         const struct coxi_replay_entry *entry, const uint32_t *touched,
                         size_t n_touched)
{
    struct coxi_replay_entry whole = *entry;
    whole.n_words = log->n_words;
    int r = set_touched(&whole, touched, n_touched);
    if (r == 0) {
        r = append(log, &whole);
    }
    if (r != 0 && whole.n_words > 1) {
        free(whole.touched.words);
    }
    return r;
}

int coxi_replay_log_barred(struct coxi_replay_log *log, struct coxi_closure_id id)
{
    return append(log,
                  &(struct coxi_replay_entry){.id = id, .kind = COXI_REPLAY_BARRED});
}

/* ---- operations */

int coxi_replay_log_operation(struct coxi_replay_log *log,
                              const struct coxi_replay_entry *operation)
{
    if (log == NULL) {
        return 0;
    }
    int r = append(log, operation);
    if (r == 0 && operation->kind == COXI_REPLAY_LOAD) {
        log->refs.loading_ref(operation->loading);
    }
    return r;
}

static bool is_of(const struct coxi_replay_entry *entry, struct coxi_closure_id id)
{
    return entry->id.n == id.n && entry->kind != COXI_REPLAY_CALL;
}

/* Sets the state of an entry. */
static void set_state(struct coxi_replay_log *log, struct coxi_replay_entry *entry,
                      enum coxi_replay_state state) COXI_REQUIRES(log->lock)
{
    count_undone(log, entry, -1);
    entry->state = state;
    count_undone(log, entry, 1);
}

void coxi_replay_log_set(struct coxi_replay_log *log, struct coxi_closure_id id,
                         enum coxi_replay_state state)
{
    if (log == NULL) {
        return;
    }
    coxi_lock(&log->lock);
    /* from the newest on, because rounds, which are many, end soon */
    bool found = false;
    for (size_t i = log->n; !found && i > 0; i--) {
        struct coxi_replay_entry *entry = &log->entries[i - 1];
        if (is_of(entry, id) && entry->kind != COXI_REPLAY_BARRED) {
            set_state(log, entry, state);
            found = entry->kind == COXI_REPLAY_ROUND; /* it has one entry */
        }
    }
    coxi_unlock(&log->lock);
}

/* Replaces an entry by another. A call that it had is left to the caller, because
 * freeing it takes another lock. */
static void exchange(struct coxi_replay_log *log, struct coxi_replay_entry *entry,
                     const struct coxi_replay_entry *other) COXI_REQUIRES(log->lock)
{
    uint64_t bytes = entry->bytes;
    count_undone(log, entry, -1);
    if (!has_call(entry)) {
        entry_fini(log, entry);
    }
    *entry = *other;
    entry->bytes = bytes_of(log, entry);
    count(log, entry->bytes - bytes);
}

/* Bars the newest entry that is known to ps by that id. Sets *ret to what it was; false:
 * there is none. */
static bool bar_newest(struct coxi_replay_log *log, struct coxi_closure_id id,
                       struct coxi_replay_entry *ret)
{
    coxi_lock(&log->lock);
    size_t i = log->n;
    while (i > 0 && (log->entries[i - 1].kind == COXI_REPLAY_BARRED ||
                     coxi_replay_applied_as(&log->entries[i - 1]).n != id.n)) {
        i--;
    }
    if (i > 0) {
        struct coxi_replay_entry *entry = &log->entries[i - 1];
        const struct coxi_replay_entry barred = {.id = entry->id,
                                                 .kind = COXI_REPLAY_BARRED};
        *ret = *entry;
        exchange(log, entry, &barred);
    }
    coxi_unlock(&log->lock);
    return i > 0;
}

void coxi_replay_log_retract(struct coxi_replay_log *log, struct coxi_closure_id id)
{
    struct coxi_replay_entry entry;
    while (log != NULL && bar_newest(log, id, &entry)) {
        if (has_call(&entry)) {
            entry_fini(log, &entry);
        }
    }
}

/* Makes entries for these rows of an update. COX_ENOMEM: makes none. */
static int cut(const struct coxi_replay_entry *entry, const struct coxi_range *ranges,
               size_t n, struct coxi_replay_entry *ret)
{
    const struct coxi_replay_update *all = entry->update;
    size_t row_bytes = coxi_variable_row_bytes(all->variable);
    size_t k = 0;
    while (k < n) {
        const struct coxi_range *range = &ranges[k];
        ret[k] = (struct coxi_replay_entry){
            .id = entry->id, .position = entry->position, .kind = COXI_REPLAY_UPDATE};
        ret[k].update =
            coxi_replay_update_new(all->variable, all->op, range->begin, range->count,
                                   all->data + (range->begin - all->begin) * row_bytes);
        if (ret[k].update == NULL) {
            break;
        }
        k++;
    }
    if (k == n) {
        return 0;
    }
    while (k-- > 0) {
        free(ret[k].update);
    }
    return coxi_error_memory("the replay log");
}

/* Replaces an entry by those in `places`, which has room for them. */
static int narrow(struct coxi_replay_log *log, size_t at,
                  const struct coxi_range *ranges, size_t n,
                  struct coxi_replay_entry *places) COXI_REQUIRES(log->lock)
{
    int r = make_room(log, n - 1);
    if (r == 0) {
        r = cut(&log->entries[at], ranges, n, places);
    }
    if (r == 0) {
        exchange(log, &log->entries[at], &places[0]);
        for (size_t k = 1; k < n; k++) {
            put(log, &places[k]);
        }
    }
    return r;
}

/* The index of the entry of update `id` whose rows begin at `begin`; log->n: there is
 * none. */
static size_t find_update(const struct coxi_replay_log *log, struct coxi_closure_id id,
                          uint64_t begin) COXI_REQUIRES(log->lock)
{
    size_t i = 0;
    while (i < log->n && !(log->entries[i].id.n == id.n &&
                           log->entries[i].kind == COXI_REPLAY_UPDATE &&
                           log->entries[i].update->begin == begin)) {
        i++;
    }
    return i;
}

/* True if the same update has rows in another entry. */
static bool has_other_rows(const struct coxi_replay_log *log, size_t at)
    COXI_REQUIRES(log->lock)
{
    bool has = false;
    for (size_t i = 0; !has && i < log->n; i++) {
        const struct coxi_replay_entry *entry = &log->entries[i];
        has = i != at && entry->id.n == log->entries[at].id.n &&
              entry->kind == COXI_REPLAY_UPDATE && entry->update->count > 0;
    }
    return has;
}

/*
 * Notes that no ps has the rows of entry `at`. If no other entry of the same update has
 * rows, the update is barred: it must never apply. Otherwise the entry becomes an empty
 * update. A bar would hold for the whole update, and a restored ps could not get the
 * rows of the other entries back.
 */
static void be_nowhere(struct coxi_replay_log *log, size_t at) COXI_REQUIRES(log->lock)
{
    struct coxi_replay_entry *entry = &log->entries[at];
    const struct coxi_replay_entry barred = {.id = entry->id,
                                             .kind = COXI_REPLAY_BARRED};
    if (has_other_rows(log, at)) {
        entry->update->count = 0;
        set_state(log, entry, COXI_REPLAY_DONE);
    } else {
        exchange(log, entry, &barred);
    }
}

void coxi_replay_log_hold(struct coxi_replay_log *log, struct coxi_closure_id id,
                          uint64_t begin)
{
    if (log == NULL) {
        return;
    }
    coxi_lock(&log->lock);
    size_t at = find_update(log, id, begin);
    if (at < log->n) {
        set_state(log, &log->entries[at], COXI_REPLAY_HELD);
    }
    coxi_unlock(&log->lock);
}

int coxi_replay_log_narrow(struct coxi_replay_log *log, struct coxi_closure_id id,
                           uint64_t begin, const struct coxi_range *ranges, size_t n)
{
    struct coxi_replay_entry *places = calloc(n + 1, sizeof(*places));
    if (places == NULL) {
        return coxi_error_memory("the replay log");
    }
    int r = 0;
    coxi_lock(&log->lock);
    size_t at = find_update(log, id, begin);
    if (at < log->n && n > 0) {
        r = narrow(log, at, ranges, n, places);
    } else if (at < log->n) {
        be_nowhere(log, at);
    }
    coxi_unlock(&log->lock);
    free(places);
    return r;
}

/* ---- forgetting */

uint64_t coxi_replay_log_mark(struct coxi_replay_log *log)
{
    coxi_lock(&log->lock);
    size_t n = 0;
    if (log->n_undone == 0) {
        n = log->n;
    }
    while (n < log->n && log->entries[n].state == COXI_REPLAY_DONE) {
        n++;
    }
    uint64_t mark = log->n_forgotten + n;
    coxi_unlock(&log->lock);
    return mark;
}

/* Takes the first n entries out of the log; returns an array of them, or NULL. */
static struct coxi_replay_entry *take_first(struct coxi_replay_log *log, size_t n)
    COXI_REQUIRES(log->lock)
{
    struct coxi_replay_entry *taken = log->entries;
    size_t left = log->n - n;
    struct coxi_replay_entry *others = calloc(left + 1, sizeof(*others));
    if (n == 0 || others == NULL) {
        free(others);
        return NULL; /* without memory, they are dropped the next time */
    }
    memcpy(others, taken + n, left * sizeof(*others));
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        bytes += taken[i].bytes;
    }
    log->entries = others;
    log->capacity = left + 1;
    log->n = left;
    log->n_forgotten += n;
    count(log, -bytes);
    atomic_store_explicit(&log->oldest_call, 0, memory_order_relaxed);
    for (size_t i = 0; i < left; i++) {
        note_call(log, &others[i]);
    }
    return taken;
}

void coxi_replay_log_forget(struct coxi_replay_log *log, uint64_t mark)
{
    coxi_lock(&log->lock);
    size_t n = mark > log->n_forgotten ? (size_t)(mark - log->n_forgotten) : 0;
    n = n < log->n ? n : log->n;
    struct coxi_replay_entry *taken = take_first(log, n);
    coxi_unlock(&log->lock);
    /* all are done, because they are before a mark */
    for (size_t i = 0; taken != NULL && i < n; i++) {
        entry_fini(log, &taken[i]);
    }
    free(taken);
}

/* ---- how full the log is */

/* True if the log holds too much. A restored ps accepts ids up to COXI_WINDOW above the
 * lowest id that it still lacks, which is about that of the first entry. */
static bool is_beyond(struct coxi_replay_log *log, uint64_t next_id, uint64_t bytes,
                      uint64_t bytes_max, uint64_t ids)
{
    uint64_t first_id = atomic_load_explicit(&log->first_id, memory_order_relaxed);
    return bytes >= bytes_max ||
           (first_id > 0 && next_id > first_id && next_id - first_id >= ids);
}

/* `log->bytes` less `those`. The two are read one after the other, so the result may be
 * off for a moment. */
static uint64_t bytes_but(const struct coxi_replay_log *log,
                          const atomic_uint_least64_t *those)
{
    uint64_t others = atomic_load_explicit(those, memory_order_relaxed);
    uint64_t bytes = atomic_load_explicit(&log->bytes, memory_order_relaxed);
    return bytes > others ? bytes - others : 0;
}

bool coxi_replay_log_is_due(struct coxi_replay_log *log, uint64_t next_id)
{
    uint64_t bytes = bytes_but(log, &log->bytes_undone);
    return is_beyond(log, next_id, bytes, log->bytes_max / 2, COXI_AHEAD_MAX / 2);
}

bool coxi_replay_log_is_full(struct coxi_replay_log *log, uint64_t next_id)
{
    if (log == NULL) {
        return false;
    }
    uint64_t bytes = bytes_but(log, &log->bytes_held);
    return is_beyond(log, next_id, bytes, log->bytes_max, COXI_AHEAD_MAX);
}

/* ---- reading */

static int by_position(const void *a, const void *b)
{
    const struct coxi_replay_entry *x = *(const struct coxi_replay_entry *const *)a;
    const struct coxi_replay_entry *y = *(const struct coxi_replay_entry *const *)b;
    if (x->position != y->position) {
        return x->position < y->position ? -1 : 1;
    }
    bool x_is_call = x->kind == COXI_REPLAY_CALL;
    bool y_is_call = y->kind == COXI_REPLAY_CALL;
    if (x_is_call != y_is_call) {
        return x_is_call ? 1 : -1;
    }
    return x->id.n < y->id.n ? -1 : x->id.n > y->id.n;
}

int coxi_replay_log_each_since(struct coxi_replay_log *log, uint64_t mark,
                               int (*visit)(void *arg,
                                            const struct coxi_replay_entry *entry),
                               void *arg)
{
    int r = 0;
    coxi_lock(&log->lock);
    size_t i = mark > log->n_forgotten ? (size_t)(mark - log->n_forgotten) : 0;
    for (; r == 0 && i < log->n; i++) {
        r = visit(arg, &log->entries[i]);
    }
    coxi_unlock(&log->lock);
    return r;
}

int coxi_replay_log_each(struct coxi_replay_log *log,
                         int (*visit)(void *arg, const struct coxi_replay_entry *entry),
                         void *arg)
{
    coxi_lock(&log->lock);
    size_t n = log->n;
    const struct coxi_replay_entry **sorted = calloc(n + 1, sizeof(void *));
    for (size_t i = 0; sorted != NULL && i < n; i++) {
        sorted[i] = &log->entries[i];
    }
    int r = sorted == NULL ? coxi_error_memory("reading the replay log") : 0;
    if (r == 0) {
        qsort(sorted, n, sizeof(void *), by_position);
    }
    for (size_t i = 0; r == 0 && i < n; i++) {
        r = visit(arg, sorted[i]);
    }
    coxi_unlock(&log->lock);
    free(sorted);
    return r;
}
