/* See pulls.h. Keys are first sorted by ps. When the answers have come, the rows are
 * put in the order of the caller's keys. */
#include "net/pulls.h"

#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "net/ps_round.h"

static void add_pull(const struct coxi_pull_from *from, struct coxi_ps_round *round,
                     uint32_t ps, const struct coxi_pull_item *item,
                     struct coxi_ps_round_call *call)
{
    struct coxi_message message = {.kind = COXI_PULL};
    message.pull.session = from->session;
    message.pull.incarnation = coxi_psc_incarnation(from->ps[ps]);
    message.pull.items = item;
    message.pull.n_items = 1;
    call->expect = COXI_PULLED;
    call->request.answer_len = call->request.into_len;
    call->request.timeout_ms = from->timeout_ms;
    coxi_ps_round_add(round, from->ps[ps], &message, call);
}

/* ---- dense variables */

int coxi_pull_rows(const struct coxi_pull_from *from, const struct coxi_variable *v,
                   uint64_t begin, uint64_t count, void *ret_data)
{
    size_t row_bytes = coxi_variable_row_bytes(v);
    struct coxi_ps_round_call *calls = calloc(v->n_shards, sizeof(*calls));
    struct coxi_ps_round round;
    if (calls == NULL) {
        return coxi_error_memory("reading a variable");
    }
    coxi_ps_round_begin(&round);
    for (size_t i = 0; i < v->n_shards; i++) {
        struct coxi_range part = coxi_shard_part(&v->shards[i], begin, count);
        struct coxi_pull_item item = {v->id, part.begin, part.count, 0};
        if (part.count > 0) {
            calls[i].request.into =
                (uint8_t *)ret_data + (part.begin - begin) * row_bytes;
            calls[i].request.into_len = part.count * row_bytes;
            add_pull(from, &round, (uint32_t)v->shards[i].ps, &item, &calls[i]);
        }
    }
    int r = coxi_ps_round_end(&round);
    free(calls);
    return r;
}

/* ---- tables */

/* Rows being read, sorted by ps: those of ps p are [starts[p], starts[p + 1]). */
struct row_reader {
    size_t *starts; /* n_ps + 1 */
    size_t *places; /* place of each row in the caller's array */
    uint64_t *keys;
    float *rows;
    struct coxi_ps_round_call *calls; /* by ps */
    struct iovec *payloads;
};

static void reader_fini(struct row_reader *reader)
{
    free(reader->starts);
    free(reader->places);
    free(reader->keys);
    free(reader->rows);
    free(reader->calls);
    free(reader->payloads);
}

static int reader_init(struct row_reader *reader, uint32_t n_ps, size_t n_keys,
                       size_t row_bytes)
{
    *reader = (struct row_reader){
        .starts = calloc((size_t)n_ps + 2, sizeof(*reader->starts)),
        .places = calloc(n_keys, sizeof(*reader->places)),
        .keys = calloc(n_keys, sizeof(*reader->keys)),
        .rows = calloc(n_keys, row_bytes),
        .calls = calloc(n_ps, sizeof(*reader->calls)),
        .payloads = calloc(n_ps, sizeof(*reader->payloads)),
    };
    if (reader->starts == NULL || reader->places == NULL || reader->keys == NULL ||
        reader->rows == NULL || reader->calls == NULL || reader->payloads == NULL) {
        return coxi_error_memory("reading rows");
    }
    return 0;
}

static void sort_keys(struct row_reader *reader, uint32_t n_ps, const uint64_t *keys,
                      size_t n_keys)
{
    /* The counts are shifted by one ps, because filling moves each start up to the
     * start of the next ps. */
    size_t *starts = reader->starts + 1;
    for (size_t i = 0; i < n_keys; i++) {
        starts[coxi_key_ps(keys[i], n_ps) + 1]++;
    }
    for (uint32_t p = 0; p < n_ps; p++) {
        starts[p + 1] += starts[p];
    }
    for (size_t i = 0; i < n_keys; i++) {
        size_t at = starts[coxi_key_ps(keys[i], n_ps)]++;
        reader->keys[at] = keys[i];
        reader->places[at] = i;
    }
}

/* Asks every ps for its rows. */
static int read_rows(const struct coxi_pull_from *from, const struct coxi_variable *v,
                     struct row_reader *reader)
{
    size_t dim = coxi_table_dim(v);
    struct coxi_ps_round round;
    coxi_ps_round_begin(&round);
    for (uint32_t p = 0; p < from->n_ps; p++) {
        size_t first = reader->starts[p];
        size_t n = reader->starts[p + 1] - first;
        struct coxi_pull_item item = {v->id, 0, n, 0};
        struct coxi_psc_request *request = &reader->calls[p].request;
        if (n > 0) {
            reader->payloads[p] =
                (struct iovec){reader->keys + first, n * sizeof(*reader->keys)};
            *request = (struct coxi_psc_request){
                .payload = &reader->payloads[p],
                .n_payload = 1,
                .into = reader->rows + first * dim,
                .into_len = n * dim * sizeof(float),
            };
            add_pull(from, &round, p, &item, &reader->calls[p]);
        }
    }
    return coxi_ps_round_end(&round);
}

int coxi_pull_keys(const struct coxi_pull_from *from, const struct coxi_variable *v,
                   const uint64_t *keys, size_t n_keys, float *ret_rows)
{
    size_t row_bytes = coxi_variable_row_bytes(v);
    struct row_reader reader;
    if (n_keys == 0) {
        return 0;
    }
    int r = reader_init(&reader, from->n_ps, n_keys, row_bytes);
    if (r == 0) {
        sort_keys(&reader, from->n_ps, keys, n_keys);
        r = read_rows(from, v, &reader);
    }
    for (size_t i = 0; r == 0 && i < n_keys; i++) {
        memcpy((uint8_t *)ret_rows + reader.places[i] * row_bytes,
               (const uint8_t *)reader.rows + i * row_bytes, row_bytes);
    }
    reader_fini(&reader);
    return r;
}
