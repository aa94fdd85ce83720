/*
 * See chaos_resources.h. From time to time the model gets a new number, and a new
 * resource is created. Workers may make it at any time from then on, from what the
 * model holds by then: that number or a later one. A client that continues creates
 * again the resources that its steps may still ask for; the floor of these is the
 * number that the checkpoint must have of the model.
 *
 * Threads: the client's.
 */
#include "bench/chaos_resources.h"

#include <stdio.h>
#include <stdlib.h>

#include "bench/chaos_client.h"

enum {
    VERSIONS = 16, /* of the resource, in all */
    USE_EVERY = 4, /* one step in this many uses a resource */
    ELEMENTS = 8,  /* of the model, on each ps */
};

struct chaos_resources {
    struct chaos_client *client;
    struct cox_function *make;
    struct cox_variable *model;
    struct cox_variable *good;
    struct cox_variable *bad;
    uint64_t n_made; /* versions created */
};

static int wrong(struct chaos_resources *resources, const char *what)
{
    return chaos_client_wrong(resources->client, "%s: %s", what, cox_error_last());
}

static int create(struct chaos_resources *resources, const char *name, uint64_t n,
                  uint32_t shards, struct cox_variable **ret)
{
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    spec.name = name;
    spec.dtype = COX_I64;
    spec.rank = 1;
    spec.shape[0] = n;
    spec.shards = shards;
    return cox_variable_create(resources->client->c, &spec, ret) == 0
               ? 0
               : wrong(resources, "creating the model");
}

/* Assigns the next number to the model; *ret_floor: the floor for resources made from
 * now on. */
static int assign_next(struct chaos_resources *resources, int64_t *ret_floor)
{
    struct chaos_client *client = resources->client;
    struct chaos_written *written = &client->journal->written[CHAOS_MODEL];
    int64_t values[CHAOS_MODEL_MAX];
    uint64_t number = atomic_load(&written->begun) + 1;
    size_t n = (size_t)client->config->ps * ELEMENTS;
    for (size_t i = 0; i < n; i++) {
        values[i] = (int64_t)number;
    }
    atomic_store(&written->begun, number);
    if (cox_variable_assign(client->c, resources->model, values, n * sizeof(*values)) !=
        0) {
        return wrong(resources, "assigning the model");
    }
    atomic_store(&written->returned, number);
    chaos_count_add(client->journal, CHAOS_ASSIGNS, 1);
    *ret_floor = (int64_t)number;
    return 0;
}

static int make(struct chaos_resources *resources, int64_t floor)
{
    char name[32];
    struct cox_value arg = COX_SCALAR("floor", COX_I64, &floor);
    struct cox_call call = COX_CALL_INIT;
    call.args = &arg;
    call.n_args = 1;
    (void)snprintf(name, sizeof(name), "seen-%llu",
                   (unsigned long long)resources->n_made++);
    return cox_resource_create(resources->client->c, name, resources->make, &call,
                               NULL) == 0
               ? 0
               : wrong(resources, "creating a resource");
}

static uint64_t version_of(const struct chaos_client *client, uint64_t number)
{
    uint64_t steps = (uint64_t)client->config->steps / VERSIONS;
    return number / (steps > 0 ? steps : 1);
}

int64_t chaos_resources_version(const struct chaos_client *client, uint64_t number)
{
    return client->config->resources && number % USE_EVERY == 0
               ? 1 + (int64_t)version_of(client, number)
               : 0;
}

/* Creates again the resources of steps before `next`, because the backlog may have some
 * of these steps. */
static int make_again(struct chaos_resources *resources, uint64_t next)
{
    struct chaos_client *client = resources->client;
    uint64_t least;
    uint64_t most;
    int r = 0;
    chaos_save_bounds(client->journal, client->result.progress.checkpoint, CHAOS_MODEL,
                      &least, &most);
    while (r == 0 && resources->n_made <= version_of(client, next - 1)) {
        r = make(resources, (int64_t)least);
        chaos_count_add(client->journal, CHAOS_RESOURCES_AGAIN, 1);
    }
    return r;
}

int chaos_resources_open(struct chaos_client *client, struct cox_module *module,
                         uint64_t next, struct chaos_resources **ret)
{
    if (!client->config->resources) {
        return 0;
    }
    struct chaos_resources *resources = calloc(1, sizeof(*resources));
    if (resources == NULL) {
        return chaos_client_wrong(client, "no memory for resources");
    }
    resources->client = client;
    *ret = resources;
    uint32_t n_ps = (uint32_t)client->config->ps;
    int r = create(resources, CHAOS_MODEL_NAME, (uint64_t)n_ps * ELEMENTS, n_ps,
                   &resources->model);
    r = r != 0 ? r : create(resources, CHAOS_GOOD, 1, 0, &resources->good);
    r = r != 0 ? r : create(resources, CHAOS_BAD, 1, 0, &resources->bad);
    if (r == 0 && cox_function_get(module, "make_seen", &resources->make) != 0) {
        r = wrong(resources, "loading chaos_steps.so");
    }
    return r != 0 || next == 0 ? r : make_again(resources, next);
}

int chaos_resources_prepare(struct chaos_resources *resources, uint64_t number)
{
    int r = 0;
    int64_t floor = 0;
    while (r == 0 && resources != NULL &&
           resources->n_made <= version_of(resources->client, number)) {
        r = assign_next(resources, &floor);
        r = r != 0 ? r : make(resources, floor);
        chaos_count_add(resources->client->journal, CHAOS_RESOURCES, 1);
    }
    return r;
}

int chaos_resources_check(struct chaos_resources *resources, uint64_t n_steps)
{
    int64_t good = 0;
    int64_t bad = 0;
    if (resources == NULL) {
        return 0;
    }
    struct chaos_client *client = resources->client;
    int64_t expected = (int64_t)((n_steps + USE_EVERY - 1) / USE_EVERY);
    if (cox_variable_read(client->c, resources->good, &good, sizeof(good)) != 0 ||
        cox_variable_read(client->c, resources->bad, &bad, sizeof(bad)) != 0) {
        return wrong(resources, "reading what steps found of resources");
    }
    if (bad != 0 || good != expected) {
        return chaos_client_wrong(client,
                                  "%lld steps found a resource that was made of the "
                                  "model's number or a later one, and %lld one of an "
                                  "older one; not %lld and 0",
                                  (long long)good, (long long)bad, (long long)expected);
    }
    return 0;
}

void chaos_resources_free(struct chaos_resources *resources)
{
    free(resources);
}
