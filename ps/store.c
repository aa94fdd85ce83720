/* See store.h. */
#include "ps/store.h"

#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/message.h"
#include "ps/store_internal.h"

int coxi_store_new(uint32_t ps_index, uint64_t incarnation, struct coxi_store **ret)
{
    struct coxi_store *store = calloc(1, sizeof(*store));
    if (store == NULL) {
        return coxi_error_memory("the store");
    }
    store->ps_index = ps_index;
    store->incarnation = incarnation;
    /* Commits come without end: a snapshot that waits must not wait for ever. */
    pthread_rwlockattr_t attr;
    (void)pthread_rwlockattr_init(&attr);
    (void)pthread_rwlockattr_setkind_np(&attr,
                                        PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    (void)pthread_rwlock_init(&store->registry, &attr);
    (void)pthread_rwlock_init(&store->moment, &attr);
    (void)pthread_rwlockattr_destroy(&attr);
    (void)pthread_mutex_init(&store->snapshots, NULL);
    *ret = store;
    return 0;
}

void coxi_store_set_memory_max(struct coxi_store *store, uint64_t bytes)
{
    store->memory.max_bytes = bytes;
}

static void part_fini(struct coxi_part *part)
{
    coxi_dense_free(part->dense);
    coxi_table_free(part->table);
    coxi_variable_free(part->variable);
}

/* Back to a store that nobody has claimed. Registry written. */
static void forget(struct coxi_store *store)
{
    for (size_t i = 0; i < store->n_parts; i++) {
        part_fini(&store->parts[i]);
    }
    free(store->parts);
    coxi_applied_free(store->applied);
    store->parts = NULL;
    store->n_parts = 0;
    store->applied = NULL;
    store->claimed = false;
    store->session = (struct coxi_session){0};
    atomic_store(&store->commits, 0);
    atomic_store(&store->duplicates, 0);
    atomic_store(&store->pulls, 0);
}

void coxi_store_free(struct coxi_store *store)
{
    if (store != NULL) {
        forget(store);
        free(store->last.applied);
        (void)pthread_mutex_destroy(&store->snapshots);
        (void)pthread_rwlock_destroy(&store->registry);
        (void)pthread_rwlock_destroy(&store->moment);
        free(store);
    }
}

/* ---- whose it is */

int coxi_store_fenced(const struct coxi_store *store,
                      const struct coxi_session *session)
{
    if (store->claimed && coxi_session_equal(&store->session, session)) {
        return 0;
    }
    return coxi_error(COX_EFENCED, "ps %u serves another client", store->ps_index);
}

int coxi_store_claim(struct coxi_store *store, const struct coxi_session *session,
                     bool owner_gone)
{
    int r = 0;
    (void)pthread_rwlock_wrlock(&store->registry);
    const struct coxi_session *owner = &store->session;
    bool same_run = store->claimed && owner->run == session->run;
    if (!same_run || !coxi_session_equal(owner, session)) {
        if (same_run && session->generation <= owner->generation) {
            r = coxi_error(COX_EFENCED, "ps %u has been claimed by generation %llu",
                           store->ps_index, (unsigned long long)owner->generation);
        } else if (store->claimed && !same_run && !owner_gone) {
            r = coxi_error(COX_EBUSY, "ps %u serves run %016llx: end that first",
                           store->ps_index, (unsigned long long)owner->run);
        } else {
            forget(store);
            r = coxi_applied_new(&store->applied);
            store->claimed = r == 0;
            store->session = *session;
        }
    }
    (void)pthread_rwlock_unlock(&store->registry);
    return r;
}

int coxi_store_release(struct coxi_store *store, const struct coxi_session *session)
{
    (void)pthread_rwlock_wrlock(&store->registry);
    int r = coxi_store_fenced(store, session);
    if (r == 0) {
        forget(store);
    }
    (void)pthread_rwlock_unlock(&store->registry);
    return r;
}

bool coxi_store_owner(struct coxi_store *store, struct coxi_session *ret)
{
    (void)pthread_rwlock_rdlock(&store->registry);
    bool claimed = store->claimed;
    *ret = store->session;
    (void)pthread_rwlock_unlock(&store->registry);
    return claimed;
}

/* ---- variables */

static int part_init(struct coxi_store *store, const struct coxi_variable *variable,
                     struct coxi_part *part)
{
    int r = coxi_variable_copy(variable, &part->variable);
    if (r != 0) {
        return r;
    }
    part->layout = coxi_optimizer_layout(part->variable);
    part->shard = coxi_variable_shard(part->variable, store->ps_index);
    if (variable->kind == COXI_KIND_TABLE) {
        r = coxi_table_new(part->variable, &store->memory, &part->table);
    } else if (part->shard != NULL) {
        r = coxi_dense_new(part->variable, part->shard, &store->memory, &part->dense);
    }
    return r;
}

/* Room in the registry for variable `id`. Written. */
static int make_room(struct coxi_store *store, uint32_t id)
{
    if (id >= COXI_VARIABLES_MAX) {
        return coxi_error(COX_ELIMIT, "more than %d variables", COXI_VARIABLES_MAX);
    }
    if (id < store->n_parts) {
        return 0;
    }
    struct coxi_part *parts = realloc(store->parts, (id + 1) * sizeof(*parts));
    if (parts == NULL) {
        return coxi_error_memory("variables");
    }
    memset(parts + store->n_parts, 0, (id + 1 - store->n_parts) * sizeof(*parts));
    store->parts = parts;
    store->n_parts = id + 1;
    return 0;
}

static int check_new(const struct coxi_store *store,
                     const struct coxi_variable *variable)
{
    for (size_t i = 0; i < store->n_parts; i++) {
        const struct coxi_variable *other = store->parts[i].variable;
        if (other != NULL &&
            (i == variable->id || strcmp(other->name, variable->name) == 0)) {
            return coxi_error(COX_EEXIST, "variable '%s' exists already", other->name);
        }
    }
    return coxi_variable_check(variable, COXI_PS_MAX);
}

int coxi_store_create(struct coxi_store *store, const struct coxi_create *create)
{
    (void)pthread_rwlock_wrlock(&store->registry);
    int r = coxi_store_fenced(store, &create->session);
    struct coxi_commit commit = {
        .closure = create->closure, .attempt = 1, .last = true};
    if (r == 0) {
        r = coxi_applied_begin(store->applied, &commit);
    }
    if (r != 0) {
        (void)pthread_rwlock_unlock(&store->registry);
        return r == COX_EEXIST ? 0 : r; /* this very creation has been done */
    }
    struct coxi_part part = {0};
    r = check_new(store, &create->variable);
    if (r == 0) {
        r = make_room(store, create->variable.id);
    }
    if (r == 0) {
        r = part_init(store, &create->variable, &part);
    }
    if (r == 0) {
        store->parts[create->variable.id] = part;
    } else {
        part_fini(&part);
    }
    coxi_applied_end(store->applied, create->closure, r);
    (void)pthread_rwlock_unlock(&store->registry);
    return r;
}

/* ---- requests: what each item means */

static int check_target(const struct coxi_store *store,
                        const struct coxi_session *session, uint64_t incarnation)
{
    /* First whether it was meant for us: one that has just been restarted knows of no
     * client, and is lost to those that it had. */
    if (incarnation != store->incarnation) {
        return coxi_error(COX_EPSLOST, "ps %u has been restarted", store->ps_index);
    }
    return coxi_store_fenced(store, session);
}

/* The part an item names, its rows in range; *ret_begin is relative to the shard. */
static int find_part(const struct coxi_store *store, uint64_t id, uint64_t begin,
                     uint64_t count, struct coxi_part **ret, uint64_t *ret_begin)
{
    if (id >= store->n_parts || store->parts[id].variable == NULL) {
        return coxi_error(COX_ENOENT, "ps %u has no variable %llu", store->ps_index,
                          (unsigned long long)id);
    }
    struct coxi_part *part = &store->parts[id];
    if (part->table != NULL) {
        if (count > COXI_PAYLOAD_MAX / coxi_variable_row_bytes(part->variable)) {
            return coxi_error(COX_EINVAL, "too many keys of table '%s'",
                              part->variable->name);
        }
        *ret_begin = 0;
    } else if (part->shard == NULL || begin < part->shard->begin ||
               begin - part->shard->begin > part->shard->count ||
               count > part->shard->count - (begin - part->shard->begin)) {
        return coxi_error(COX_EINVAL,
                          "rows %llu+%llu of variable '%s' are not on ps %u",
                          (unsigned long long)begin, (unsigned long long)count,
                          part->variable->name, store->ps_index);
    } else {
        *ret_begin = begin - part->shard->begin;
    }
    *ret = part;
    return 0;
}

/* Takes an item's keys off *keys_len, and adds its answer to *bytes. */
static int check_item(const struct coxi_store *store, const struct coxi_pull_item *item,
                      size_t *keys_len, size_t *bytes)
{
    struct coxi_part *part = NULL;
    uint64_t begin = 0;
    int r = find_part(store, item->variable, item->begin, item->count, &part, &begin);
    if (r != 0) {
        return r;
    }
    size_t len = part->table != NULL ? item->count * sizeof(uint64_t) : 0;
    if (len > *keys_len) {
        return coxi_error(COX_EINVAL, "keys of table '%s' are missing",
                          part->variable->name);
    }
    size_t values = item->count * coxi_variable_row_bytes(part->variable);
    if (values > COXI_PAYLOAD_MAX - *bytes) {
        return coxi_error(COX_ELIMIT, "a pull of more than %zu bytes",
                          COXI_PAYLOAD_MAX);
    }
    *keys_len -= len;
    *bytes += values;
    return 0;
}

int coxi_store_pull_begin(struct coxi_store *store, const struct coxi_pull *pull,
                          const void *keys, size_t len, struct coxi_pulling *ret)
{
    size_t bytes = 0;
    (void)pthread_rwlock_rdlock(&store->registry);
    int r = check_target(store, &pull->session, pull->incarnation);
    for (size_t i = 0; r == 0 && i < pull->n_items; i++) {
        r = check_item(store, &pull->items[i], &len, &bytes);
    }
    (void)pthread_rwlock_unlock(&store->registry);
    if (r == 0 && len > 0) {
        r = coxi_error(COX_EINVAL, "a pull has %zu bytes more than its keys", len);
    }
    if (r != 0) {
        return r;
    }
    atomic_fetch_add_explicit(&store->pulls, 1, memory_order_relaxed);
    *ret = (struct coxi_pulling){.pull = pull, .keys = keys, .left = bytes};
    return 0;
}

/* The rows of a table that come next and fit: how many bytes. */
static size_t pull_rows(struct coxi_pulling *p, struct coxi_part *part, uint64_t count,
                        uint8_t *to, size_t room)
{
    size_t row_bytes = coxi_variable_row_bytes(part->variable);
    uint64_t fit = room / row_bytes;
    uint64_t n = count - p->at < fit ? count - p->at : fit;
    coxi_table_pull(part->table, p->keys, n, to);
    p->keys += n;
    p->at += n;
    return n * row_bytes;
}

/* The blocks of `bytes` from byte `begin` of a shard that come next and fit. */
static size_t pull_blocks(struct coxi_pulling *p, struct coxi_part *part, size_t begin,
                          size_t bytes, uint8_t *to, size_t room)
{
    size_t from = begin + p->at;
    size_t n = bytes - p->at;
    if (n > room) {
        n = room - (from + room) % COXI_DENSE_BLOCK;
    }
    coxi_dense_read(part->dense, from, n, to);
    p->at += n;
    return n;
}

/* What fits of the item that comes next; *ret_len 0: nothing does. */
static int pull_piece(const struct coxi_store *store, struct coxi_pulling *p,
                      uint8_t *to, size_t room, size_t *ret_len)
{
    const struct coxi_pull_item *item = &p->pull->items[p->item];
    struct coxi_part *part = NULL;
    uint64_t begin = 0;
    int r = find_part(store, item->variable, item->begin, item->count, &part, &begin);
    if (r != 0) {
        return r;
    }
    size_t row_bytes = coxi_variable_row_bytes(part->variable);
    size_t end = part->table != NULL ? item->count : item->count * row_bytes;
    *ret_len = part->table != NULL
                   ? pull_rows(p, part, item->count, to, room)
                   : pull_blocks(p, part, begin * row_bytes, end, to, room);
    if (p->at == end) {
        p->item++;
        p->at = 0;
    }
    return 0;
}

int coxi_store_pull_some(struct coxi_store *store, struct coxi_pulling *pulling,
                         void *to, size_t room, size_t *ret_len)
{
    const struct coxi_pull *pull = pulling->pull;
    size_t len = 0;
    (void)pthread_rwlock_rdlock(&store->registry);
    int r = check_target(store, &pull->session, pull->incarnation);
    while (r == 0 && pulling->left > len && room - len >= COXI_PULL_ROOM / 2) {
        size_t n = 0;
        r = pull_piece(store, pulling, (uint8_t *)to + len, room - len, &n);
        len += n;
    }
    (void)pthread_rwlock_unlock(&store->registry);
    if (r == 0) {
        pulling->left -= len;
        *ret_len = len;
    }
    return r;
}

int coxi_store_pull(struct coxi_store *store, const struct coxi_pull *pull,
                    const void *keys, size_t len, struct coxi_buffer *ret)
{
    struct coxi_pulling pulling;
    int r = coxi_store_pull_begin(store, pull, keys, len, &pulling);
    if (r == 0) {
        r = coxi_buffer_reserve(ret, pulling.left + COXI_PULL_ROOM);
    }
    while (r == 0 && pulling.left > 0) {
        size_t n = 0;
        r = coxi_store_pull_some(store, &pulling, ret->data + ret->len,
                                 pulling.left + COXI_PULL_ROOM, &n);
        ret->len += n;
    }
    return r;
}

/* ---- commits: all of an update that can fail is done before any of it is applied */

struct ready_update {
    struct coxi_part *part;
    enum coxi_op op;
    uint64_t begin;
    uint64_t count;
    const void *values;
    struct coxi_table_change change; /* of a table; has rows from when it is resolved */
};

/* What a table draws from for an update. */
static uint64_t draw_of(const struct coxi_commit *commit, uint32_t variable)
{
    uint64_t draw = coxi_hash_key(commit->session.run ^ variable);
    draw = coxi_hash_key(draw ^ commit->closure);
    return coxi_hash_key(draw ^ commit->segment);
}

/* Finds the rows of an update of a table. */
static int resolve_update(const struct coxi_commit *commit, const void *keys,
                          struct ready_update *ret)
{
    struct coxi_table_change change = {
        .op = ret->op,
        .draw = draw_of(commit, ret->part->variable->id),
        .keys = keys,
        .n = ret->count,
        .values = ret->values,
        .rows = malloc(ret->count * sizeof(*change.rows)),
    };
    if (change.rows == NULL) {
        return coxi_error_memory("an update");
    }
    int r = coxi_table_resolve(ret->part->table, &change);
    if (r != 0) {
        free(change.rows);
        return r;
    }
    ret->change = change;
    return 0;
}

static int prepare_update(const struct coxi_store *store,
                          const struct coxi_commit *commit,
                          const struct coxi_update *update, const uint8_t **at,
                          size_t *len, struct ready_update *ret)
{
    int r = find_part(store, update->variable, update->begin, update->count, &ret->part,
                      &ret->begin);
    if (r != 0) {
        return r;
    }
    const struct coxi_variable *variable = ret->part->variable;
    ret->op = (enum coxi_op)update->op;
    ret->count = update->count;
    if (!coxi_dense_takes(variable, ret->op)) {
        return coxi_error(COX_EINVAL, "variable '%s' takes no %s", variable->name,
                          ret->op == COXI_OP_GRADIENT ? "gradients: it has no optimizer"
                                                      : "additions: not in its type");
    }
    size_t keys_len = ret->part->table != NULL ? update->count * sizeof(uint64_t) : 0;
    size_t values_len =
        coxi_align(update->count * coxi_variable_row_bytes(variable), 8);
    if (keys_len > *len || values_len > *len - keys_len) {
        return coxi_error(COX_EINVAL, "values of variable '%s' are missing",
                          variable->name);
    }
    ret->values = *at + keys_len;
    if (ret->part->table != NULL && update->count > 0) {
        r = resolve_update(commit, *at, ret);
    }
    *at += keys_len + values_len;
    *len -= keys_len + values_len;
    return r;
}

static void apply_update(const struct ready_update *update)
{
    if (update->part->table != NULL) {
        coxi_table_update(update->part->table, &update->change);
    } else {
        coxi_dense_update(update->part->dense, update->begin, update->count, update->op,
                          update->values);
    }
}

static int apply_commit(struct coxi_store *store, const struct coxi_commit *commit,
                        const void *payload, size_t len)
{
    enum { FEW = 16 };
    struct ready_update few[FEW] = {{0}};
    struct ready_update *updates = few;
    const uint8_t *at = payload;
    int r = 0;
    if (commit->n_updates > FEW) {
        updates = calloc(commit->n_updates, sizeof(*updates));
        if (updates == NULL) {
            return coxi_error_memory("a commit");
        }
    }
    for (size_t i = 0; r == 0 && i < commit->n_updates; i++) {
        r = prepare_update(store, commit, &commit->updates[i], &at, &len, &updates[i]);
    }
    if (r == 0 && len > 0) {
        r = coxi_error(COX_EINVAL, "a commit has %zu bytes more than its updates", len);
    }
    for (size_t i = 0; i < commit->n_updates; i++) {
        if (r == 0) {
            apply_update(&updates[i]);
        } else if (updates[i].change.rows != NULL) {
            coxi_table_release(updates[i].part->table, &updates[i].change);
        }
        free(updates[i].change.rows);
    }
    if (updates != few) {
        free(updates);
    }
    return r;
}

int coxi_store_commit(struct coxi_store *store, const struct coxi_commit *commit,
                      const void *payload, size_t len, bool *ret_duplicate)
{
    (void)pthread_rwlock_rdlock(&store->registry);
    (void)pthread_rwlock_rdlock(&store->moment);
    int r = check_target(store, &commit->session, commit->incarnation);
    if (r == 0) {
        r = coxi_applied_begin(store->applied, commit);
        *ret_duplicate = r == COX_EEXIST;
        if (r == 0) {
            r = apply_commit(store, commit, payload, len);
            coxi_applied_end(store->applied, commit->closure, r);
            atomic_fetch_add_explicit(&store->commits, r == 0, memory_order_relaxed);
        } else if (r == COX_EEXIST) {
            atomic_fetch_add_explicit(&store->duplicates, 1, memory_order_relaxed);
            r = 0;
        }
    }
    (void)pthread_rwlock_unlock(&store->moment);
    (void)pthread_rwlock_unlock(&store->registry);
    return r;
}

int coxi_store_void(struct coxi_store *store, const struct coxi_void *request,
                    struct coxi_buffer *segments, struct coxi_buffer *touched)
{
    (void)pthread_rwlock_rdlock(&store->registry);
    int r = coxi_store_fenced(store, &request->session);
    if (r == 0) {
        r = coxi_applied_void(store->applied, request->closure, request->attempt,
                              segments, touched);
    }
    (void)pthread_rwlock_unlock(&store->registry);
    return r;
}

int coxi_store_advance(struct coxi_store *store, const struct coxi_watermark *watermark)
{
    (void)pthread_rwlock_rdlock(&store->registry);
    int r = coxi_store_fenced(store, &watermark->session);
    if (r == 0) {
        coxi_applied_advance(store->applied, watermark->watermark);
    }
    (void)pthread_rwlock_unlock(&store->registry);
    return r;
}

/* Adds what a part has to what they all have. */
static void count_part(struct coxi_part *part, struct coxi_counters *all)
{
    if (part->table != NULL) {
        all->rows += coxi_table_rows(part->table);
        all->bytes += coxi_table_bytes(part->table);
    } else if (part->dense != NULL) {
        all->bytes += coxi_dense_bytes(part->dense);
    }
}

void coxi_store_counts(struct coxi_store *store, uint32_t table,
                       struct coxi_counts *ret)
{
    (void)pthread_rwlock_rdlock(&store->registry);
    struct coxi_counts counts = {
        .all = {.commits = atomic_load(&store->commits),
                .duplicates = atomic_load(&store->duplicates),
                .pulls = atomic_load(&store->pulls)},
    };
    for (size_t i = 0; i < store->n_parts; i++) {
        count_part(&store->parts[i], &counts.all);
    }
    if (table > 0 && table - 1 < store->n_parts &&
        store->parts[table - 1].table != NULL) {
        coxi_table_counts(store->parts[table - 1].table, &counts.table);
    }
    (void)pthread_rwlock_unlock(&store->registry);
    *ret = counts;
}
