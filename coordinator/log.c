/* See log.h. Entries in the order of their coming, in one array; sorted when they are
 * asked for. How full it is is asked for every closure, and so without the lock: an answer
 * from a moment ago will do. */
#include "coordinator/log.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/sync.h"
#include "coordinator/coordinator.h"
#include "coordinator/inputs.h"
#include "coordinator/kept.h"
#include "coordinator/load.h"

struct coxi_log {
    uint32_t n_words; /* of a set of ps */
    uint64_t bytes_max;
    pthread_mutex_t lock; /* guards all below; leaf */
    struct coxi_log_entry *entries;
    size_t n;
    size_t capacity;
    uint64_t n_forgotten; /* entries that were before those */
    /* Written with the lock. */
    atomic_uint_least64_t bytes;
    atomic_uint_least64_t first_id; /* of the first entry; 0: there is none */
};

int coxi_log_new(uint32_t n_ps, uint64_t bytes_max, struct coxi_log **ret)
{
    struct coxi_log *log = calloc(1, sizeof(*log));
    if (log == NULL) {
        return coxi_error_memory("the replay log");
    }
    log->n_words = (n_ps + 63) / 64;
    log->bytes_max = bytes_max;
    (void)pthread_mutex_init(&log->lock, NULL);
    *ret = log;
    return 0;
}

static uint64_t bytes_of(const struct coxi_log_entry *entry)
{
    uint64_t bytes = sizeof(*entry);
    if (entry->kind == COXI_LOG_CALL) {
        size_t args_len = 0;
        (void)coxi_inputs_args(entry->call, &args_len);
        bytes += sizeof(struct cox_future) + args_len + entry->call->result_len;
        bytes += entry->n_words > 1 ? entry->n_words * sizeof(uint64_t) : 0;
    } else if (entry->kind == COXI_LOG_UPDATE) {
        bytes += sizeof(*entry->update) + entry->update->bytes;
    } else if (entry->kind == COXI_LOG_LOAD) {
        bytes += sizeof(*entry->loading) +
                 entry->loading->n_items * sizeof(*entry->loading->items);
    }
    return bytes;
}

/* Frees what it has; without the log's lock, for calls have one of their own. */
static void entry_fini(struct coxi_log_entry *entry)
{
    if (entry->kind == COXI_LOG_CALL) {
        atomic_store(&entry->call->logged, false);
        coxi_kept_unlogged(entry->call);
        coxi_future_unref(entry->call);
    } else if (entry->kind == COXI_LOG_UPDATE) {
        free(entry->update);
    } else if (entry->kind == COXI_LOG_LOAD) {
        coxi_loading_unref(entry->loading);
    }
    if (entry->n_words > 1) {
        free(entry->touched.words);
    }
}

void coxi_log_free(struct coxi_log *log)
{
    if (log != NULL) {
        for (size_t i = 0; i < log->n; i++) {
            entry_fini(&log->entries[i]);
        }
        free(log->entries);
        (void)pthread_mutex_destroy(&log->lock);
        free(log);
    }
}

/* ---- writing */

/* The entries have changed, and have so many bytes more (modulo 2^64). Locked. */
static void count(struct coxi_log *log, uint64_t bytes)
{
    atomic_fetch_add_explicit(&log->bytes, bytes, memory_order_relaxed);
    atomic_store_explicit(&log->first_id, log->n > 0 ? log->entries[0].id : 0,
                          memory_order_relaxed);
}

static int append(struct coxi_log *log, const struct coxi_log_entry *entry)
{
    coxi_lock(&log->lock);
    if (log->n == log->capacity) {
        size_t capacity = log->capacity == 0 ? 1024 : log->capacity * 2;
        struct coxi_log_entry *entries =
            realloc(log->entries, capacity * sizeof(*entries));
        if (entries == NULL) {
            coxi_unlock(&log->lock);
            return coxi_error_memory("the replay log");
        }
        log->entries = entries;
        log->capacity = capacity;
    }
    log->entries[log->n] = *entry;
    log->entries[log->n].bytes = bytes_of(entry);
    count(log, log->entries[log->n++].bytes);
    coxi_unlock(&log->lock);
    return 0;
}

static int set_touched(struct coxi_log_entry *entry, const uint32_t *touched,
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

int coxi_log_call(struct coxi_log *log, struct cox_future *call,
                  const uint32_t *touched, size_t n_touched)
{
    struct coxi_log_entry entry = {
        .id = call->id, .kind = COXI_LOG_CALL, .n_words = log->n_words, .call = call};
    if (n_touched == 0) {
        return 0;
    }
    int r = set_touched(&entry, touched, n_touched);
    if (r != 0) {
        return r;
    }
    /* Before it is in the log, from which it may go at any moment. */
    atomic_fetch_add_explicit(&call->refs, 1, memory_order_relaxed);
    atomic_store(&call->logged, true);
    r = append(log, &entry);
    if (r != 0) {
        entry_fini(&entry);
    }
    return r;
}

int coxi_log_barred(struct coxi_log *log, uint64_t id)
{
    return append(log, &(struct coxi_log_entry){.id = id, .kind = COXI_LOG_BARRED});
}

int coxi_log_create(struct coxi_log *log, uint64_t id,
                    const struct coxi_variable *variable)
{
    return append(log, &(struct coxi_log_entry){
                           .id = id, .kind = COXI_LOG_CREATE, .created = variable});
}

int coxi_log_update(struct coxi_log *log, uint64_t id,
                    const struct coxi_log_update *update)
{
    size_t bytes = sizeof(*update) + update->bytes;
    struct coxi_log_update *copy = malloc(bytes);
    if (copy == NULL) {
        return coxi_error_memory("the replay log");
    }
    memcpy(copy, update, bytes);
    int r = append(log, &(struct coxi_log_entry){
                            .id = id, .kind = COXI_LOG_UPDATE, .update = copy});
    if (r != 0) {
        free(copy);
    }
    return r;
}

int coxi_log_load(struct coxi_log *log, uint64_t id, struct coxi_loading *loading)
{
    int r = append(log, &(struct coxi_log_entry){
                            .id = id, .kind = COXI_LOG_LOAD, .loading = loading});
    if (r == 0) {
        (void)coxi_loading_ref(loading);
    }
    return r;
}

/* ---- forgetting */

void coxi_log_retract(struct coxi_log *log, uint64_t id)
{
    coxi_lock(&log->lock);
    for (size_t i = log->n; i-- > 0;) {
        struct coxi_log_entry *entry = &log->entries[i];
        if (entry->id == id &&
            (entry->kind == COXI_LOG_UPDATE || entry->kind == COXI_LOG_LOAD)) {
            uint64_t bytes = entry->bytes;
            entry_fini(entry); /* no call */
            *entry = (struct coxi_log_entry){.id = id, .kind = COXI_LOG_BARRED};
            entry->bytes = bytes_of(entry);
            count(log, entry->bytes - bytes);
            break;
        }
    }
    coxi_unlock(&log->lock);
}

uint64_t coxi_log_mark(struct coxi_log *log)
{
    coxi_lock(&log->lock);
    uint64_t mark = log->n_forgotten + log->n;
    coxi_unlock(&log->lock);
    return mark;
}

/* Takes the first n entries out of the log: an array of them, or NULL. Locked. */
static struct coxi_log_entry *take_first(struct coxi_log *log, size_t n)
{
    struct coxi_log_entry *taken = log->entries;
    size_t left = log->n - n;
    struct coxi_log_entry *others = calloc(left + 1, sizeof(*others));
    if (n == 0 || others == NULL) {
        free(others);
        return NULL; /* they are forgotten the next time */
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
    return taken;
}

void coxi_log_forget(struct coxi_log *log, uint64_t mark)
{
    coxi_lock(&log->lock);
    size_t n = mark > log->n_forgotten ? (size_t)(mark - log->n_forgotten) : 0;
    n = n < log->n ? n : log->n;
    struct coxi_log_entry *taken = take_first(log, n);
    coxi_unlock(&log->lock);
    for (size_t i = 0; taken != NULL && i < n; i++) {
        entry_fini(&taken[i]);
    }
    free(taken);
}

/* ---- how full it is */

/* A restored ps takes ids up to COXI_WINDOW above the lowest that it is owed: that is
 * about the first that came. */
static bool is_beyond(struct coxi_log *log, uint64_t next_id, uint64_t bytes,
                      uint64_t ids)
{
    uint64_t first_id = atomic_load_explicit(&log->first_id, memory_order_relaxed);
    return atomic_load_explicit(&log->bytes, memory_order_relaxed) >= bytes ||
           (first_id > 0 && next_id > first_id && next_id - first_id >= ids);
}

bool coxi_log_is_due(struct coxi_log *log, uint64_t next_id)
{
    return is_beyond(log, next_id, log->bytes_max / 2, COXI_AHEAD_MAX / 2);
}

bool coxi_log_is_full(struct coxi_log *log, uint64_t next_id)
{
    return is_beyond(log, next_id, log->bytes_max, COXI_AHEAD_MAX);
}

/* ---- reading */

static int by_id(const void *a, const void *b)
{
    const struct coxi_log_entry *x = *(const struct coxi_log_entry *const *)a;
    const struct coxi_log_entry *y = *(const struct coxi_log_entry *const *)b;
    return x->id < y->id ? -1 : x->id > y->id;
}

int coxi_log_each_since(struct coxi_log *log, uint64_t mark,
                        int (*visit)(void *arg, const struct coxi_log_entry *entry),
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

int coxi_log_each(struct coxi_log *log,
                  int (*visit)(void *arg, const struct coxi_log_entry *entry),
                  void *arg)
{
    coxi_lock(&log->lock);
    size_t n = log->n;
    const struct coxi_log_entry **sorted = calloc(n + 1, sizeof(void *));
    for (size_t i = 0; sorted != NULL && i < n; i++) {
        sorted[i] = &log->entries[i];
    }
    int r = sorted == NULL ? coxi_error_memory("reading the replay log") : 0;
    if (r == 0) {
        qsort(sorted, n, sizeof(void *), by_id);
    }
    for (size_t i = 0; r == 0 && i < n; i++) {
        r = visit(arg, sorted[i]);
    }
    coxi_unlock(&log->lock);
    free(sorted);
    return r;
}
