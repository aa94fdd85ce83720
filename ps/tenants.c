/* See tenants.h. Lock order: that of the seats before the locks of stores. Making a run
 * may wait for the disk, so each key has a lock for that, which only peers with this key
 * wait for. */
#include "ps/tenants.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "checkpoint/place.h"
#include "common/buffer.h"
#include "common/error.h"
#include "common/rand.h"

enum { ROOT_MODE = 0700 };

struct coxi_tenants {
    struct coxi_tenants_options options;
    uint32_t n_slots;
    struct coxi_memory memory; /* of the variables and tables of all runs */
    struct coxi_memory payloads;
    struct coxi_seats seats;
    struct slot *slots; /* by key */
};

/* The place of a run. */
struct slot {
    struct coxi_mutex making;
    struct coxi_tenant *_Atomic made; /* NULL: not yet; written with `making` held */
};

/* ---- a run */

static void tenant_stop(struct coxi_tenant *tenant)
{
    if (tenant->store != NULL) {
        coxi_store_abandon_restore(tenant->store);
    }
    coxi_carry_stop(tenant->outgoing);
    coxi_carry_stop(tenant->incoming);
    coxi_deferred_free(tenant->snapshots);
    coxi_deferred_free(tenant->restores);
    tenant->snapshots = tenant->restores = NULL;
}

static void tenant_free(struct coxi_tenant *tenant)
{
    tenant_stop(tenant);
    coxi_carry_free(tenant->outgoing);
    coxi_carry_free(tenant->incoming);
    coxi_store_free(tenant->store);
    (void)pthread_cond_destroy(&tenant->left);
    coxi_mutex_fini(&tenant->lock);
    coxi_mutex_fini(&tenant->describing);
    free(tenant->root);
    free(tenant);
}

/* Sets the run's root, and makes the directory if the run has one of its own. */
static int set_root(struct coxi_tenant *tenant)
{
    const struct coxi_tenants_options *options = &tenant->tenants->options;
    if (options->root == NULL) {
        return 0;
    }
    struct coxi_buffer path = {0};
    bool is_own = options->keys != NULL;
    int r = coxi_buffer_printf(&path, "%s%s%s", options->root, is_own ? "/" : "",
                               tenant->name);
    if (r == 0 && is_own && !coxi_place_in_store(options->root) &&
        mkdir((const char *)path.data, ROOT_MODE) != 0 && errno != EEXIST) {
        r = coxi_error_errno(COX_EIO, "cannot make the directory %s",
                             (const char *)path.data);
    }
    if (r == 0) {
        tenant->root = strdup((const char *)path.data);
        r = tenant->root == NULL ? coxi_error_memory("a run") : 0;
    }
    coxi_buffer_fini(&path);
    return r;
}

static int make_store(struct coxi_tenant *tenant)
{
    struct coxi_tenants *tenants = tenant->tenants;
    int r = coxi_store_new(tenant->ps_index, coxi_random_id(), &tenant->store);
    if (r == 0) {
        coxi_store_count_in(tenant->store, &tenants->memory);
        coxi_store_set_quota(tenant->store, &tenants->options.quota);
        coxi_store_set_root(tenant->store, tenant->root);
        coxi_payloads_init(&tenant->payloads, tenant->store,
                           tenants->options.memory_max);
        tenant->payloads.memory.whole = &tenants->payloads;
        coxi_store_work_in(tenant->store, &tenant->payloads.memory);
        atomic_store(&tenant->payloads.is_shared, coxi_tenants_count(tenants) > 1);
    }
    return r;
}

static int tenant_new(struct coxi_tenants *tenants, uint32_t key,
                      struct coxi_tenant **ret)
{
    const struct coxi_tenants_options *options = &tenants->options;
    struct coxi_tenant *tenant = calloc(1, sizeof(*tenant));
    if (tenant == NULL) {
        return coxi_error_memory("a run");
    }
    coxi_mutex_init(&tenant->lock);
    coxi_cond_init(&tenant->left);
    coxi_mutex_init(&tenant->describing);
    tenant->tenants = tenants;
    tenant->name = options->keys != NULL ? coxi_keyring_name(options->keys, key) : "";
    tenant->ps_index = options->ps_index;
    tenant->key = key;
    int r = set_root(tenant);
    if (r == 0) {
        r = make_store(tenant);
    }
    if (r == 0) {
        r = coxi_carry_new(false, &tenant->payloads, &tenant->outgoing);
    }
    if (r == 0) {
        r = coxi_carry_new(true, &tenant->payloads, &tenant->incoming);
    }
    if (r == 0) {
        r = coxi_deferred_new("cox:snapshots", options->do_snapshot, tenant,
                              &tenant->payloads, &tenant->snapshots);
    }
    if (r == 0) {
        r = coxi_deferred_new("cox:restores", options->do_reading, tenant,
                              &tenant->payloads, &tenant->restores);
    }
    if (r != 0) {
        tenant_free(tenant);
        return r;
    }
    *ret = tenant;
    return 0;
}

int coxi_tenant_enter(struct coxi_tenant *tenant)
{
    uint32_t max = tenant->tenants->options.quota.connections_max;
    unsigned n = atomic_load(&tenant->n_connections);
    do {
        if (max > 0 && n >= max) {
            return coxi_error(
                COX_ELIMIT,
                "this run has %u connections to this ps, and may not have "
                "more (--run-connections-max)",
                n);
        }
    } while (!atomic_compare_exchange_weak(&tenant->n_connections, &n, n + 1));
    return 0;
}

void coxi_tenant_leave(struct coxi_tenant *tenant)
{
    coxi_lock(&tenant->lock);
    if (atomic_fetch_sub(&tenant->n_connections, 1) == 1) {
        (void)pthread_cond_broadcast(&tenant->left);
    }
    coxi_unlock(&tenant->lock);
}

/* ---- all runs */

int coxi_tenants_new(const struct coxi_tenants_options *options,
                     struct coxi_tenants **ret)
{
    struct coxi_tenants *tenants = calloc(1, sizeof(*tenants));
    if (tenants == NULL) {
        return coxi_error_memory("the runs");
    }
    coxi_mutex_init(&tenants->seats.lock);
    tenants->seats.n = options->seats;
    tenants->options = *options;
    tenants->n_slots = options->keys != NULL ? COXI_KEYRING_MAX : 1;
    coxi_memory_init(&tenants->memory);
    tenants->memory.max_bytes = options->memory_max;
    coxi_payloads_budget(&tenants->payloads, options->memory_max);
    tenants->slots = calloc(tenants->n_slots, sizeof(*tenants->slots));
    if (tenants->slots == NULL) {
        coxi_tenants_free(tenants);
        return coxi_error_memory("the runs");
    }
    for (uint32_t i = 0; i < tenants->n_slots; i++) {
        coxi_mutex_init(&tenants->slots[i].making);
    }
    *ret = tenants;
    return 0;
}

int coxi_tenants_get(struct coxi_tenants *tenants, uint32_t key,
                     struct coxi_tenant **ret)
{
    struct slot *slot = &tenants->slots[key];
    int r = 0;
    coxi_lock(&slot->making);
    struct coxi_tenant *tenant = atomic_load(&slot->made);
    if (tenant == NULL) {
        r = tenant_new(tenants, key, &tenant);
        atomic_store(&slot->made, tenant);
    }
    coxi_unlock(&slot->making);
    *ret = tenant;
    return r;
}

uint32_t coxi_tenants_count(const struct coxi_tenants *tenants)
{
    struct coxi_keyring *keys = tenants->options.keys;
    return keys != NULL ? coxi_keyring_count(keys) : 1;
}

struct coxi_tenant *coxi_tenants_made(struct coxi_tenants *tenants, uint32_t key)
{
    return atomic_load(&tenants->slots[key].made);
}

struct coxi_seats *coxi_tenants_seats(struct coxi_tenants *tenants)
{
    return &tenants->seats;
}

void coxi_tenants_tick(struct coxi_tenants *tenants)
{
    for (uint32_t i = 0; i < tenants->n_slots; i++) {
        struct coxi_tenant *tenant = coxi_tenants_made(tenants, i);
        if (tenant != NULL && coxi_deferred_is_orphaned(tenant->restores)) {
            coxi_store_abandon_restore(tenant->store);
        }
    }
}

/* ---- keys that are removed */

bool coxi_tenant_is_removed(const struct coxi_tenant *tenant)
{
    struct coxi_keyring *keys = tenant->tenants->options.keys;
    return keys != NULL && !coxi_keyring_has(keys, tenant->key);
}

bool coxi_tenant_await_left(struct coxi_tenant *tenant, int wait_ms)
{
    struct timespec until = coxi_deadline(wait_ms);
    coxi_lock(&tenant->lock);
    while (atomic_load(&tenant->n_connections) > 0 &&
           coxi_wait_until(&tenant->left, &tenant->lock, &until)) {
    }
    bool left = atomic_load(&tenant->n_connections) == 0;
    coxi_unlock(&tenant->lock);
    return left;
}

/* Nobody claims meanwhile, because the run has no connections. */
void coxi_tenant_forget(struct coxi_tenant *tenant)
{
    struct coxi_seats *seats = &tenant->tenants->seats;
    struct coxi_session owner;
    coxi_store_abandon_restore(tenant->store);
    if (coxi_store_owner(tenant->store, &owner)) {
        (void)coxi_store_vacate(tenant->store, &owner);
    }
    coxi_lock(&seats->lock);
    tenant->seat.is_owned = false;
    coxi_unlock(&seats->lock);
}

void coxi_tenants_note_count(struct coxi_tenants *tenants)
{
    bool shared = coxi_tenants_count(tenants) > 1;
    for (uint32_t i = 0; i < tenants->n_slots; i++) {
        struct coxi_tenant *tenant = coxi_tenants_made(tenants, i);
        if (tenant != NULL) {
            atomic_store(&tenant->payloads.is_shared, shared);
        }
    }
}

void coxi_tenants_stop(struct coxi_tenants *tenants)
{
    for (uint32_t i = 0; tenants != NULL && i < tenants->n_slots; i++) {
        struct coxi_tenant *tenant = coxi_tenants_made(tenants, i);
        if (tenant != NULL) {
            tenant_stop(tenant);
        }
    }
}

void coxi_tenants_free(struct coxi_tenants *tenants)
{
    if (tenants == NULL) {
        return;
    }
    for (uint32_t i = 0; tenants->slots != NULL && i < tenants->n_slots; i++) {
        struct coxi_tenant *tenant = coxi_tenants_made(tenants, i);
        if (tenant != NULL) {
            tenant_free(tenant);
        }
        coxi_mutex_fini(&tenants->slots[i].making);
    }
    free(tenants->slots);
    coxi_mutex_fini(&tenants->seats.lock);
    free(tenants);
}
