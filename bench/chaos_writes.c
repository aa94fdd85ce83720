/*
 * See chaos_writes.h. Each writer has a variable with parts on all ps, and a thread
 * that overwrites the variable or adds to it, one operation after the other. Operation
 * k, from 1: if 4 divides k, k * 1000 is assigned to every element; otherwise 1 is
 * added. So the value of any element tells which operations it has, if none is missing,
 * doubled, or out of order. A client that continues begins with the next number that 4
 * divides.
 *
 *   while it runs     after an operation has returned, all elements are read back and
 *                     must have exactly its value
 *   after a restart   all elements must tell the same operation: one that the
 *                     checkpoint may have, and not an earlier one than it must have
 *
 * Threads: one a writer; the client's, for all functions of the header.
 */
#include "bench/chaos_writes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/chaos_client.h"
#include "common/error.h"
#include "common/sync.h"

enum {
    ASSIGN_EVERY = 4,
    STRIDE = 1000,
    SMALL = 4,         /* elements on each ps */
    LARGE = 16384,     /* elements: several blocks on each ps */
    SMALL_REST_MS = 3, /* between two operations */
    LARGE_REST_MS = 20,
};

struct writer {
    struct chaos_writes *writes;
    int index;
    struct cox_variable *variable;
    size_t n; /* elements */
    size_t bytes;
    int64_t *values;
    int64_t *found;
    int rest_ms;
    pthread_t thread;
    bool runs;
};

struct chaos_writes {
    struct chaos_client *client;
    struct writer writers[CHAOS_WRITERS];
    bool stop; /* guarded by client->lock */
};

/* The value of the variable after operation k. */
static int64_t value_after(uint64_t k)
{
    return (int64_t)(k - k % ASSIGN_EVERY) * STRIDE + (int64_t)(k % ASSIGN_EVERY);
}

/* The operation after which the variable has that value; UINT64_MAX: none. */
static uint64_t operation_of(int64_t value)
{
    uint64_t k = (uint64_t)(value / STRIDE) + (uint64_t)(value % STRIDE);
    return value >= 0 && value_after(k) == value ? k : UINT64_MAX;
}

static struct chaos_written *journal_of(const struct writer *writer)
{
    return &writer->writes->client->journal->written[writer->index];
}

/* Reads all elements, which must be equal. */
static int look(struct writer *writer, int64_t *ret_value)
{
    struct chaos_client *client = writer->writes->client;
    if (cox_variable_read(client->c, writer->variable, writer->found, writer->bytes) !=
        0) {
        return chaos_client_wrong(client, "reading w%d: %s", writer->index,
                                  cox_error_last());
    }
    for (size_t i = 1; i < writer->n; i++) {
        if (writer->found[i] != writer->found[0]) {
            return chaos_client_wrong(
                client, "w%d is torn: element 0 is %lld, element %zu is %lld",
                writer->index, (long long)writer->found[0], i,
                (long long)writer->found[i]);
        }
    }
    *ret_value = writer->found[0];
    return 0;
}

/* ---- one operation after the other */

static int write_one(struct writer *writer, uint64_t k)
{
    struct chaos_client *client = writer->writes->client;
    bool assigns = k % ASSIGN_EVERY == 0;
    int64_t value = assigns ? value_after(k) : 1;
    int64_t found = 0;
    for (size_t i = 0; i < writer->n; i++) {
        writer->values[i] = value;
    }
    atomic_store(&journal_of(writer)->begun, k);
    int r = assigns ? cox_variable_assign(client->c, writer->variable, writer->values,
                                          writer->bytes)
                    : cox_variable_add(client->c, writer->variable, writer->values,
                                       writer->bytes);
    if (r != 0) {
        return chaos_client_wrong(client, "operation %llu on w%d: %s",
                                  (unsigned long long)k, writer->index,
                                  cox_error_last());
    }
    atomic_store(&journal_of(writer)->returned, k);
    chaos_count_add(client->journal, assigns ? CHAOS_ASSIGNS : CHAOS_ADDS, 1);
    r = look(writer, &found);
    if (r == 0 && found != value_after(k)) {
        r = chaos_client_wrong(client, "w%d is %lld after operation %llu, not %lld",
                               writer->index, (long long)found, (unsigned long long)k,
                               (long long)value_after(k));
    }
    return r;
}

/* Rests; true if the writer must stop. */
static bool rests(struct writer *writer)
{
    struct chaos_client *client = writer->writes->client;
    struct timespec until = coxi_deadline(writer->rest_ms);
    coxi_lock(&client->lock);
    while (!writer->writes->stop &&
           coxi_wait_until(&client->changed, &client->lock, &until)) {
    }
    bool stop = writer->writes->stop;
    coxi_unlock(&client->lock);
    return stop;
}

static void *write_for_ever(void *arg)
{
    struct writer *writer = arg;
    uint64_t begun = atomic_load(&journal_of(writer)->begun);
    uint64_t k = begun + ASSIGN_EVERY - begun % ASSIGN_EVERY;
    while (!rests(writer) && write_one(writer, k) == 0) {
        k++;
    }
    return NULL;
}

/* ---- beginning and end */

/* Checks what earlier clients have left. */
static int check_restored(struct writer *writer)
{
    struct chaos_client *client = writer->writes->client;
    uint64_t number = client->result.progress.checkpoint;
    uint64_t least;
    uint64_t most;
    int64_t value = 0;
    chaos_save_bounds(client->journal, number, writer->index, &least, &most);
    if (look(writer, &value) != 0) {
        return -1;
    }
    uint64_t k = operation_of(value);
    if (k < least || k > most) {
        return chaos_client_wrong(
            client,
            "w%d is %lld after a restart from checkpoint %llu, which is not of the "
            "operations %llu to %llu",
            writer->index, (long long)value, (unsigned long long)number,
            (unsigned long long)least, (unsigned long long)most);
    }
    atomic_store(&journal_of(writer)->returned, k);
    chaos_count_add(client->journal, CHAOS_ASSIGNS_AGAIN, number != 0);
    return 0;
}

static int open_one(struct writer *writer)
{
    struct chaos_client *client = writer->writes->client;
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    char name[16];
    (void)snprintf(name, sizeof(name), "w%d", writer->index);
    spec.name = name;
    spec.dtype = COX_I64;
    spec.rank = 1;
    spec.shape[0] = writer->n;
    spec.shards = (uint32_t)client->config->ps;
    writer->bytes = writer->n * sizeof(int64_t);
    writer->values = malloc(writer->bytes);
    writer->found = malloc(writer->bytes);
    if (writer->values == NULL || writer->found == NULL) {
        return chaos_client_wrong(client, "no memory for w%d", writer->index);
    }
    if (cox_variable_create(client->c, &spec, &writer->variable) != 0) {
        return chaos_client_wrong(client, "creating w%d: %s", writer->index,
                                  cox_error_last());
    }
    return check_restored(writer);
}

int chaos_writes_open(struct chaos_client *client, struct chaos_writes **ret)
{
    if (!client->config->assigns) {
        return 0;
    }
    struct chaos_writes *writes = calloc(1, sizeof(*writes));
    if (writes == NULL) {
        return chaos_client_wrong(client, "no memory for writers");
    }
    writes->client = client;
    *ret = writes;
    int r = 0;
    for (int i = 0; r == 0 && i < CHAOS_WRITERS; i++) {
        struct writer *writer = &writes->writers[i];
        writer->writes = writes;
        writer->index = i;
        writer->n = i == 0 ? (size_t)client->config->ps * SMALL : LARGE;
        writer->rest_ms = i == 0 ? SMALL_REST_MS : LARGE_REST_MS;
        r = open_one(writer);
    }
    return r;
}

int chaos_writes_start(struct chaos_writes *writes)
{
    for (int i = 0; writes != NULL && i < CHAOS_WRITERS; i++) {
        struct writer *writer = &writes->writers[i];
        writer->runs =
            pthread_create(&writer->thread, NULL, write_for_ever, writer) == 0;
        if (!writer->runs) {
            return chaos_client_wrong(writes->client, "cannot start a thread");
        }
    }
    return 0;
}

/* Checks that the last operation that returned is applied, after all faults of the
 * storm. */
static void check_last(struct writer *writer)
{
    uint64_t k = atomic_load(&journal_of(writer)->returned);
    int64_t value = 0;
    if (look(writer, &value) == 0 && value != value_after(k)) {
        (void)chaos_client_wrong(
            writer->writes->client,
            "w%d is %lld in the end, after operation %llu not %lld", writer->index,
            (long long)value, (unsigned long long)k, (long long)value_after(k));
    }
}

void chaos_writes_stop(struct chaos_writes *writes)
{
    if (writes == NULL) {
        return;
    }
    coxi_lock(&writes->client->lock);
    writes->stop = true;
    (void)pthread_cond_broadcast(&writes->client->changed);
    coxi_unlock(&writes->client->lock);
    for (int i = 0; i < CHAOS_WRITERS; i++) {
        struct writer *writer = &writes->writers[i];
        if (writer->runs) {
            (void)pthread_join(writer->thread, NULL);
            check_last(writer);
            writer->runs = false;
        }
    }
}

void chaos_writes_free(struct chaos_writes *writes)
{
    for (int i = 0; writes != NULL && i < CHAOS_WRITERS; i++) {
        free(writes->writers[i].values);
        free(writes->writers[i].found);
    }
    free(writes);
}
