/* See store.h. pull.c has pulls, commit.c has commits, counts.c has counts. */
#include "ps/store.h"

#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/rand.h"
#include "net/message.h"
#include "ps/rounds.h"
#include "ps/store_internal.h"

int coxi_store_new(uint32_t ps_index, uint64_t incarnation, struct coxi_store **ret)
{
    struct coxi_store *store = calloc(1, sizeof(*store));
    if (store == NULL) {
        return coxi_error_memory("the store");
    }
    store->ps_index = ps_index;
    atomic_init(&store->incarnation, incarnation);
    coxi_served_init(&store->served);
    coxi_memory_init(&store->memory);
    coxi_rwlock_init(&store->registry);
    coxi_rwlock_init(&store->moment);
    coxi_mutex_init(&store->snapshots);
    coxi_ends_init(&store->ends);
    *ret = store;
    return 0;
}

void coxi_store_set_memory_max(struct coxi_store *store, uint64_t bytes)
{
    store->memory.max_bytes = bytes;
}

void coxi_store_set_quota(struct coxi_store *store, const struct coxi_quota *quota)
{
    store->memory.max_bytes = quota->bytes_max;
    store->memory.is_quota = true;
    store->variables_max = quota->variables_max;
}

void coxi_store_count_in(struct coxi_store *store, struct coxi_memory *whole)
{
    store->memory.whole = whole;
}

void coxi_store_work_in(struct coxi_store *store, struct coxi_memory *work)
{
    store->work = work;
}

void coxi_store_set_root(struct coxi_store *store, const char *root)
{
    store->root = root;
}

enum { PARTS_FIRST = 16 };

static void part_fini(struct coxi_part *part)
{
    coxi_dense_free(part->dense);
    coxi_table_free(part->table);
    coxi_variable_free(part->variable);
    free(part->stale);
}

/* Empties the store, as if nobody had claimed it yet. Registry written. */
static void forget(struct coxi_store *store)
{
    for (size_t i = 0; i < store->n_parts; i++) {
        part_fini(&store->parts[i]);
    }
    free(store->parts);
    coxi_part_names_fini(&store->names);
    coxi_applied_free(store->applied);
    coxi_rounds_free(store->rounds);
    coxi_stale_workers_free(store->workers);
    store->parts = NULL;
    store->n_parts = 0;
    store->room = 0;
    store->applied = NULL;
    store->rounds = NULL;
    store->workers = NULL;
    store->claimed = false;
    store->restored = 0;
    store->restored_at = 0;
    store->restoring = NULL; /* the restore notices that */
    store->unready = false;
    store->tracking = (struct coxi_tracking){0};
    store->taking = NULL; /* its cuts are freed with the parts */
    coxi_ends_changed(&store->ends);
    store->session = (struct coxi_session){0};
    atomic_store(&store->commits, 0);
    atomic_store(&store->duplicates, 0);
    atomic_store(&store->pulls, 0);
    atomic_store(&store->infinite, 0);
}

void coxi_store_free(struct coxi_store *store)
{
    if (store != NULL) {
        forget(store);
        coxi_applied_list_fini(&store->last.file.applied);
        coxi_served_fini(&store->served);
        coxi_mutex_fini(&store->snapshots);
        coxi_ends_fini(&store->ends);
        coxi_rwlock_fini(&store->registry);
        coxi_rwlock_fini(&store->moment);
        free(store);
    }
}

/* ---- claims */

int coxi_store_fenced(const struct coxi_store *store,
                      const struct coxi_session *session)
{
    if (store->claimed && coxi_session_equal(&store->session, session)) {
        return 0;
    }
    return coxi_error(COX_EFENCED, "ps %u serves another client", store->ps_index);
}

int coxi_store_ready(const struct coxi_store *store, const struct coxi_session *session)
{
    int r = coxi_store_fenced(store, session);
    return r == 0 && store->unready
               ? coxi_error(COX_EPSLOST, "ps %u is not restored yet", store->ps_index)
               : r;
}

/* Checks whether another client may claim the store. Registry written. */
static int may_take(struct coxi_store *store, const struct coxi_session *session,
                    const struct coxi_session *gone)
{
    const struct coxi_session *owner = &store->session;
    bool owner_gone = gone != NULL && coxi_session_equal(owner, gone);
    int r = coxi_served_check(&store->served, session, store->ps_index);
    if (r == 0 && store->claimed && owner->run != session->run && !owner_gone) {
        r = coxi_error(COX_EBUSY, "ps %u serves run %016llx: end that first",
                       store->ps_index, (unsigned long long)owner->run);
    }
    return r;
}

/* Makes the session the owner of an empty store. Registry written. */
static int take(struct coxi_store *store, const struct coxi_session *session)
{
    forget(store);
    int r = coxi_applied_new(&store->applied);
    r = r == 0 ? coxi_rounds_new(&store->memory, &store->rounds) : r;
    r = r == 0 ? coxi_stale_workers_new(&store->workers) : r;
    if (r == 0) {
        store->claimed = true;
        store->session = *session;
        if (coxi_served_note(&store->served, session)) {
            atomic_store(&store->incarnation, coxi_random_id());
        }
    }
    return r;
}

int coxi_store_claim(struct coxi_store *store, const struct coxi_session *session,
                     const struct coxi_session *gone)
{
    int r = 0;
    coxi_write_lock(&store->registry);
    if (!store->claimed || !coxi_session_equal(&store->session, session)) {
        r = may_take(store, session, gone);
        if (r == 0) {
            r = take(store, session);
        }
    }
    coxi_rw_unlock(&store->registry);
    return r;
}

int coxi_store_renew(struct coxi_store *store, const struct coxi_session *session,
                     uint64_t leaves)
{
    coxi_write_lock(&store->registry);
    int r = coxi_store_fenced(store, session);
    if (r == 0 && atomic_load(&store->incarnation) == leaves) {
        const struct coxi_session same = *session; /* it may be the store's own */
        r = take(store, &same);
    }
    coxi_rw_unlock(&store->registry);
    return r;
}

uint64_t coxi_store_incarnation(const struct coxi_store *store)
{
    return atomic_load(&store->incarnation);
}

int coxi_store_greeted(struct coxi_store *store, const struct coxi_session *session)
{
    return coxi_served_check(&store->served, session, store->ps_index);
}

int coxi_store_release(struct coxi_store *store, const struct coxi_session *session)
{
    coxi_write_lock(&store->registry);
    int r = coxi_store_fenced(store, session);
    if (r == 0) {
        forget(store);
    }
    coxi_rw_unlock(&store->registry);
    return r;
}

bool coxi_store_vacate(struct coxi_store *store, const struct coxi_session *gone)
{
    coxi_write_lock(&store->registry);
    bool vacated = store->claimed && coxi_session_equal(&store->session, gone);
    if (vacated) {
        forget(store);
        atomic_store(&store->incarnation, coxi_random_id());
    }
    coxi_rw_unlock(&store->registry);
    return vacated;
}

bool coxi_store_owner(struct coxi_store *store, struct coxi_session *ret)
{
    coxi_read_lock(&store->registry);
    bool claimed = store->claimed;
    *ret = store->session;
    coxi_rw_unlock(&store->registry);
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
    part->created = part->variable->optimizer;
    part->row_bytes = coxi_variable_row_bytes(part->variable);
    part->layout = coxi_optimizer_layout(part->variable);
    part->shard = coxi_variable_shard(part->variable, store->ps_index);
    if (variable->kind == COXI_KIND_TABLE) {
        r = coxi_table_new(part->variable, &store->memory, &part->table);
        if (r == 0 && store->tracking.last != 0) {
            r = coxi_table_track(part->table);
        }
    } else if (part->shard != NULL) {
        r = coxi_dense_new(part->variable, part->shard, &store->memory, &part->dense);
    }
    if (r == 0 && coxi_variable_is_trained(variable)) {
        part->stale = calloc(1, sizeof(*part->stale));
        r = part->stale == NULL ? coxi_error_memory("a variable") : 0;
    }
    return r;
}

/* COX_ELIMIT if the run has as many variables as it may. Registry read. */
static int check_count(const struct coxi_store *store)
{
    uint32_t n = 0;
    for (size_t i = 0; store->variables_max > 0 && i < store->n_parts; i++) {
        n += store->parts[i].variable != NULL;
    }
    return store->variables_max == 0 || n < store->variables_max
               ? 0
               : coxi_error(COX_ELIMIT,
                            "this run has %u variables on this ps, and may not have "
                            "more (--run-variables-max)",
                            n);
}

/* Makes room in the registry for variable `id`. Registry written. */
static int make_room(struct coxi_store *store, uint32_t id)
{
    if (id >= COXI_VARIABLES_MAX) {
        return coxi_error(COX_ELIMIT, "more than %d variables", COXI_VARIABLES_MAX);
    }
    if (id >= store->room) {
        size_t room = id < PARTS_FIRST / 2 ? PARTS_FIRST : 2 * (size_t)id;
        struct coxi_part *parts = realloc(store->parts, room * sizeof(*parts));
        if (parts == NULL) {
            return coxi_error_memory("variables");
        }
        memset(parts + store->room, 0, (room - store->room) * sizeof(*parts));
        store->parts = parts;
        store->room = room;
    }
    store->n_parts = id >= store->n_parts ? id + 1 : store->n_parts;
    return 0;
}

static int check_new(const struct coxi_store *store,
                     const struct coxi_variable *variable)
{
    uint32_t id = variable->id;
    size_t there = id < store->n_parts && store->parts[id].variable != NULL
                       ? id
                       : coxi_part_names_get(&store->names, variable->name);
    /* A higher id is allowed, because the name's first creation may have failed: see
     * drop_failed. */
    return there < COXI_VARIABLES_MAX && there >= id
               ? coxi_error(COX_EEXIST, "variable '%s' exists already",
                            store->parts[there].variable->name)
               : coxi_variable_check(variable, COXI_PS_MAX);
}

/*
 * Drops this ps's part of a variable whose creation has failed. The creation must have
 * failed if the client gives the name a second, higher id: it does so only if another
 * ps has refused the first creation. Refuses while a snapshot is being written, because
 * it may be reading the part. Registry written.
 */
static int drop_failed(struct coxi_store *store, const char *name)
{
    uint32_t there = coxi_part_names_get(&store->names, name);
    if (there == COXI_VARIABLES_MAX) {
        return 0;
    }
    if (store->taking != NULL) {
        return coxi_error(COX_EAGAIN,
                          "ps %u holds a part of variable '%s', whose creation failed "
                          "before, and writes a snapshot of it: create it again later",
                          store->ps_index, name);
    }
    part_fini(&store->parts[there]);
    store->parts[there] = (struct coxi_part){0};
    return coxi_part_names_set(&store->names, name, COXI_VARIABLES_MAX);
}

int coxi_part_rate(struct coxi_part *part, const struct coxi_rate *rate)
{
    int r = coxi_rate_set(&part->variable->optimizer, rate);
    if (r != 0) {
        return coxi_error(r, "variable '%s': %s", part->variable->name,
                          coxi_error_text());
    }
    part->rated = true;
    if (part->dense != NULL) {
        coxi_dense_touch(part->dense);
    }
    return 0;
}

/* True if the variable exists already, perhaps with another rate by now. Registry
 * read. */
static bool is_there(const struct coxi_store *store,
                     const struct coxi_variable *variable)
{
    const struct coxi_part *part =
        variable->id < store->n_parts ? &store->parts[variable->id] : NULL;
    if (part == NULL || part->variable == NULL) {
        return false;
    }
    struct coxi_variable there = *part->variable;
    there.optimizer = part->created;
    return coxi_variable_equal(&there, variable);
}

/* Adds a part. Registry written. */
static int add_part(struct coxi_store *store, const struct coxi_variable *variable)
{
    struct coxi_part part = {0};
    int r = check_new(store, variable);
    if (r == 0 && store->restoring != NULL) {
        r = coxi_error(COX_EPSLOST, "ps %u is not restored yet", store->ps_index);
    }
    if (r == 0) {
        r = drop_failed(store, variable->name);
    }
    if (r == 0) {
        r = check_count(store);
    }
    if (r == 0) {
        r = make_room(store, variable->id);
    }
    if (r == 0) {
        r = part_init(store, variable, &part);
    }
    if (r == 0) {
        r = coxi_part_names_set(&store->names, variable->name, variable->id);
    }
    if (r == 0) {
        part.made = ++store->n_made;
        store->parts[variable->id] = part;
    } else {
        part_fini(&part);
    }
    return r;
}

/* Looks at the variables, not at the applied set, to see whether there is something to
 * create. A restore replaces the set, which may then contain the operation although the
 * variable does not exist. */
int coxi_store_create(struct coxi_store *store, const struct coxi_create *create)
{
    const struct coxi_commit commit = {
        .closure = create->closure, .attempt = 1, .last = true};
    bool begun = false;
    coxi_write_lock(&store->registry);
    int r = coxi_store_fenced(store, &create->session);
    if (r == 0 && create->closure != 0) {
        r = coxi_applied_begin(store->applied, &commit);
        begun = r == 0;
        r = r == COX_EEXIST ? 0 : r;
    }
    if (r == 0 && !is_there(store, &create->variable)) {
        r = add_part(store, &create->variable);
    }
    if (begun) {
        coxi_applied_end(store->applied, create->closure, r);
    }
    coxi_rw_unlock(&store->registry);
    return r;
}

/* ---- requests: finding the rows of an item */

int coxi_store_meant(const struct coxi_store *store, uint64_t incarnation)
{
    return incarnation == atomic_load(&store->incarnation)
               ? 0
               : coxi_error(COX_EPSLOST,
                            "ps %u has been restarted, or has served another client",
                            store->ps_index);
}

int coxi_store_check(const struct coxi_store *store, const struct coxi_session *session,
                     uint64_t incarnation)
{
    const struct coxi_session *owner = &store->session;
    bool is_older = store->claimed && session->run == owner->run &&
                    session->generation < owner->generation;
    /* Look first whether the request was meant for this incarnation: a ps that was
     * restarted, or has served others meanwhile, is lost to its former peers. */
    int r = is_older ? 0 : coxi_store_meant(store, incarnation);
    return r == 0 ? coxi_store_ready(store, session) : r;
}

int coxi_store_serves(struct coxi_store *store, const struct coxi_session *session,
                      uint64_t incarnation)
{
    coxi_read_lock(&store->registry);
    int r = coxi_store_check(store, session, incarnation);
    coxi_rw_unlock(&store->registry);
    return r;
}

int coxi_store_belongs(struct coxi_store *store, const struct coxi_session *session,
                       uint64_t incarnation)
{
    coxi_read_lock(&store->registry);
    int r = coxi_store_fenced(store, session);
    coxi_rw_unlock(&store->registry);
    return r == 0 ? coxi_store_meant(store, incarnation) : r;
}

static int outside(const struct coxi_store *store, const struct coxi_place *place)
{
    const struct coxi_dense_rows *rows = &place->rows;
    const char *name = place->part->variable->name;
    if (rows->listed != NULL) {
        return coxi_error(COX_EINVAL,
                          "of the %llu rows of variable '%s' that are listed, some are "
                          "not on ps %u",
                          (unsigned long long)rows->count, name, store->ps_index);
    }
    return coxi_error(COX_EINVAL, "rows %llu+%llu of variable '%s' are not on ps %u",
                      (unsigned long long)rows->begin, (unsigned long long)rows->count,
                      name, store->ps_index);
}

/* Takes the item's list of rows or keys off the payload. */
static int take_list(struct coxi_place *place, const uint8_t **at, size_t *len)
{
    const struct coxi_variable *variable = place->part->variable;
    if (place->rows.count > *len / sizeof(uint64_t)) {
        return coxi_error(COX_EINVAL, "%s of %s '%s' are missing",
                          place->part->table != NULL ? "keys" : "the listed rows",
                          place->part->table != NULL ? "table" : "variable",
                          variable->name);
    }
    place->rows.listed = (const uint64_t *)(const void *)*at;
    *at += place->rows.count * sizeof(uint64_t);
    *len -= place->rows.count * sizeof(uint64_t);
    return 0;
}

int coxi_store_find(const struct coxi_store *store, uint64_t variable, uint64_t begin,
                    uint64_t count, const uint8_t **at, size_t *len,
                    struct coxi_place *ret)
{
    if (variable >= store->n_parts || store->parts[variable].variable == NULL) {
        return coxi_error(COX_ENOENT, "ps %u has no variable %llu", store->ps_index,
                          (unsigned long long)variable);
    }
    struct coxi_place place = {.part = &store->parts[variable],
                               .rows = {.begin = begin, .count = count}};
    const struct coxi_part *part = place.part;
    place.row_bytes = part->row_bytes;
    if (part->table != NULL || begin == COXI_ROWS_LISTED) {
        int r = take_list(&place, at, len);
        if (r != 0) {
            return r;
        }
    }
    *ret = place;
    return 0;
}

int coxi_store_holds(const struct coxi_store *store, const struct coxi_place *place)
{
    const struct coxi_part *part = place->part;
    if (part->table == NULL &&
        (part->dense == NULL || !coxi_dense_holds(part->dense, &place->rows))) {
        return outside(store, place);
    }
    if (place->rows.count > COXI_PAYLOAD_MAX / place->row_bytes) {
        return coxi_error(COX_ELIMIT, "%llu rows of '%s' have more than %zu bytes",
                          (unsigned long long)place->rows.count, part->variable->name,
                          COXI_PAYLOAD_MAX);
    }
    return 0;
}

int coxi_store_void(struct coxi_store *store, const struct coxi_void *request,
                    struct coxi_buffer *segments, struct coxi_buffer *touched)
{
    coxi_read_lock(&store->registry);
    int r = coxi_store_ready(store, &request->session);
    if (r == 0) {
        r = coxi_applied_void(store->applied, request->closure, request->attempt,
                              segments, touched);
    }
    coxi_rw_unlock(&store->registry);
    return r;
}

int coxi_store_advance(struct coxi_store *store, const struct coxi_watermark *watermark)
{
    coxi_read_lock(&store->registry);
    int r = coxi_store_ready(store, &watermark->session);
    if (r == 0) {
        r = coxi_applied_advance(store->applied, watermark->watermark);
    }
    if (r == 0) {
        coxi_rounds_drop_below(store->rounds, watermark->watermark);
    }
    coxi_rw_unlock(&store->registry);
    return r;
}
