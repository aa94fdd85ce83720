/* See maker.h. */
#include "tests/fuzz/maker.h"

#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/maker_parts.h"
#include "tests/schema/samples.h"

void made_payload(struct made *made, struct fuzz_input *input, size_t len)
{
    free(made->payload);
    made->payload = calloc(1, len + 1);
    if (made->payload == NULL) {
        fuzz_fail("no memory");
    }
    size_t given = len < 64 ? len : 64;
    const uint8_t *bytes = fuzz_bytes(input, &given);
    if (given > 0) {
        memcpy(made->payload, bytes, given);
    }
    made->payload_len = len;
}

/* ---- variables */

static struct coxi_optimizer any_optimizer(bench b)
{
    return (struct coxi_optimizer){.kind = (uint32_t)below(b, 14),
                                   .learning_rate = any_float(b),
                                   .epsilon = any_float(b),
                                   .initial_accumulator = 0.1F,
                                   .momentum = 0.9F,
                                   .rho = 0.9F,
                                   .beta1 = 0.9F,
                                   .beta2 = 0.99F,
                                   .clip_norm = any_float(b),
                                   .growth_factor = any_float(b),
                                   .growth_interval = any_float(b),
                                   .schedule = {.kind = (uint32_t)below(b, 6),
                                                .end_rate = 0.1F,
                                                .power = any_float(b),
                                                .gamma = 0.5F,
                                                .steps = any(b)}};
}

static void any_shape(bench b, struct coxi_variable *v, size_t i)
{
    struct coxi_shard *shard = &b->made->shards[i];
    *shard = (struct coxi_shard){.count = fuzz_rows(b->input)};
    if (below(b, 16) == 15) {
        shard->ps = any(b);
        shard->begin = any(b);
    }
    v->shape[0] =
        v->kind == COXI_KIND_TABLE ? 1 + below(b, 40) : shard->begin + shard->count;
    v->shape[1] = below(b, 4) == 3 ? fuzz_rows(b->input) : 1 + below(b, 40);
    v->shape[2] = 2;
    v->shards = shard;
    v->n_shards = v->kind == COXI_KIND_TABLE ? 0 : 1;
}

static const struct coxi_variable *any_variable(bench b, size_t i)
{
    struct coxi_variable *v = &b->made->variables[i];
    *v = (struct coxi_variable){.id = any32(b) % 8,
                                .name = any_name(b),
                                .kind = (enum coxi_kind)below(b, 2),
                                .dtype = (uint32_t)below(b, 9),
                                .rank = (uint32_t)(1 + below(b, 3)),
                                .optimizer = any_optimizer(b),
                                .initializer = {.kind = (uint32_t)below(b, 8),
                                                .a = any_float(b),
                                                .b = any_float(b),
                                                .seed = any(b)}};
    any_shape(b, v, i);
    if (below(b, 4) == 0) {
        v->wire_dtype = (uint32_t)below(b, 9);
        v->wire_rounding = (uint32_t)below(b, 4);
        v->nonfinite = (uint32_t)below(b, 4);
        v->metric = (uint32_t)below(b, 6);
        v->staleness = (struct coxi_staleness){v->nonfinite, v->optimizer.clip_norm,
                                               v->wire_rounding};
    }
    if (below(b, 4) == 0) {
        v->lifecycle = (struct coxi_lifecycle){.admit_count = (uint32_t)below(b, 4),
                                               .admit_probability = any_float(b),
                                               .evict_age = any(b),
                                               .evict_count = (uint32_t)below(b, 4),
                                               .evict_count_age = any(b),
                                               .rows_max = any(b)};
    }
    return v;
}

/* ---- messages of a client to a ps */

static void make_claim(bench b, struct coxi_message *m)
{
    m->claim = (struct coxi_claim){any_session(b), any_incarnation(b)};
}

static void make_release(bench b, struct coxi_message *m)
{
    m->release = any_session(b);
}

static void make_create(bench b, struct coxi_message *m)
{
    m->create = (struct coxi_create){.session = any_session(b),
                                     .closure = any(b),
                                     .variable = *any_variable(b, 0),
                                     .incarnation = any_incarnation(b)};
}

static void make_watermark(bench b, struct coxi_message *m)
{
    m->watermark = (struct coxi_watermark){any_session(b), any(b), any_incarnation(b)};
}

static void make_snapshot(bench b, struct coxi_message *m)
{
    m->snapshot = (struct coxi_snapshot){.session = any_session(b),
                                         .number = any(b),
                                         .path = any_text(b),
                                         .base = maybe(b) ? any(b) : 0,
                                         .track = maybe(b),
                                         .incarnation = any_incarnation(b),
                                         .carry = below(b, 8) == 0 ? below(b, 4) : 0};
}

static void make_restore(bench b, struct coxi_message *m)
{
    struct coxi_restore *r = &m->restore;
    *r = (struct coxi_restore){.session = any_session(b),
                               .round = any(b),
                               .path = any_text(b),
                               .bytes = any(b),
                               .crc32 = any32(b),
                               .watermark = any(b),
                               .at = below(b, 3),
                               .incarnation = any_incarnation(b),
                               .more = maybe(b)};
    r->applied = any_intervals(b, &r->n_applied);
    r->touched = any_numbers(b, 0, false, &r->n_touched);
}

static void make_probe(bench b, struct coxi_message *m)
{
    m->probe = (struct coxi_probe){any_session(b), any_text(b), maybe(b)};
}

static void make_load(bench b, struct coxi_message *m)
{
    m->load = (struct coxi_load){.session = any_session(b),
                                 .incarnation = any_incarnation(b),
                                 .closure = any(b),
                                 .variable = any32(b) % 8,
                                 .begin = any(b),
                                 .count = fuzz_rows(b->input),
                                 .state = maybe(b),
                                 .life = maybe(b),
                                 .step = any(b),
                                 .last = below(b, 4) == 0};
    some_payload(b);
}

static void make_count(bench b, struct coxi_message *m)
{
    m->count.table.number = any32(b);
    m->count.index = m->count.table.number / 4;
    m->count.stale_of = (enum coxi_stale_of)(m->count.table.number % 4);
}

static void make_pull(bench b, struct coxi_message *m)
{
    struct coxi_pull *p = &m->pull;
    size_t listed = 0;
    *p = (struct coxi_pull){.session = any_session(b),
                            .incarnation = any_incarnation(b),
                            .items = b->made->items,
                            .n_items = any_length(b)};
    uint64_t how = fuzz_number(b->input, 1);
    p->narrow = how % 2 == 1;
    p->after = how >= 0xf0 ? any(b) : 0;
    for (size_t i = 0; i < p->n_items; i++) {
        bool lists = below(b, 3) == 0;
        uint64_t count = fuzz_rows(b->input);
        b->made->items[i] = (struct coxi_pull_item){
            .variable = below(b, 16) == 15 ? any(b) : below(b, 8),
            .begin = lists ? COXI_ROWS_LISTED : below(b, 4),
            .count = count,
            .version = below(b, 4)};
        listed += lists ? count % 4096 : 0;
    }
    payload_of(b, listed * sizeof(uint64_t));
}

/* The commit waits for the end of a round. */
static void put_in_round(bench b, struct coxi_commit *c)
{
    c->round = maybe(b) ? c->closure + 1 + below(b, 4) : any(b);
    c->share.n = maybe(b) ? (uint32_t)(c->round - c->closure) : any32(b);
    c->share.mean = maybe(b);
    c->share.weight = fuzz_weight(below(b, 16));
    c->share.after = maybe(b) ? any(b) : 0;
}

static void make_commit(bench b, struct coxi_message *m)
{
    struct coxi_commit *c = &m->commit;
    *c = (struct coxi_commit){.session = any_session(b),
                              .incarnation = any_incarnation(b),
                              .closure = any(b),
                              .attempt = (uint32_t)fuzz_number(b->input, 1)};
    if (c->attempt >= 0xe0) {
        put_in_round(b, c);
    }
    c->attempt %= 4;
    c->segment = below(b, 16) == 15 ? any32(b) : below(b, 3) & 3;
    c->last = maybe(b);
    c->updates = b->made->updates;
    c->n_updates = any_length(b);
    c->step = any(b);
    c->loss_scale = maybe(b) ? any_float(b) : 0.0F;
    c->n_waiting = c->attempt;
    c->touched = any_numbers(b, 0, false, &c->n_touched);
    for (size_t i = 0; i < c->n_updates; i++) {
        b->made->updates[i] = (struct coxi_update){
            .variable = below(b, 16) == 15 ? any32(b) : (uint32_t)below(b, 8),
            .op = (uint32_t)below(b, 7),
            .begin = below(b, 3) == 0 ? COXI_ROWS_LISTED : below(b, 4),
            .count = fuzz_rows(b->input)};
        if (i > 0 && b->made->updates[i].op == COXI_OP_ROUND) {
            b->made->updates[i].op = COXI_OP_COMPENSATED;
        }
        b->made->pulled[i] = b->made->updates[i].begin;
    }
    c->pulled = b->made->pulled;
    c->n_pulled = c->segment < c->n_updates ? c->segment : c->n_updates;
    some_payload(b);
}

static void make_void(bench b, struct coxi_message *m)
{
    m->void_ = (struct coxi_void){any_session(b), any(b), (uint32_t)below(b, 5),
                                  any_incarnation(b)};
}

/* Of a worker to a client. */
static void make_file_read(bench b, struct coxi_message *m)
{
    m->file_read = (struct coxi_file_read){
        .dataset = any_name(b),
        .file = any_text(b),
        .place = below(b, 8),
        .offset = maybe(b) ? any(b) : below(b, 4) << 20,
        .len = below(b, 4) == 3 ? any32(b) : (uint32_t)below(b, 200)};
}

static void make_file_bytes(bench b, struct coxi_message *m)
{
    m->file_bytes = (struct coxi_file_bytes){.code = any_code(b),
                                             .message = any_name(b),
                                             .bytes = any(b),
                                             .changed_ns = below(b, 2)};
    some_payload(b);
}

static void make_nothing(bench b, struct coxi_message *m)
{
    (void)b;
    (void)m;
}

/* ---- messages of a client to a worker */

static void make_hello(bench b, struct coxi_message *m)
{
    m->hello = (struct coxi_hello){.version = below(b, 32) == 31 ? any32(b)
                                                                 : COXI_WIRE_VERSION,
                                   .role = (enum coxi_role)(1 + below(b, 4)),
                                   .channel = (enum coxi_channel)below(b, 2),
                                   .index = below(b, 8) == 7 ? any32(b) : 0,
                                   .incarnation = any_incarnation(b),
                                   .session = any_session(b),
                                   .slots = any32(b),
                                   .name = any_name(b),
                                   .local = below(b, 16) == 15 ? any_text(b) : ""};
}

static void make_layout(bench b, struct coxi_message *m)
{
    struct coxi_layout *l = &m->layout;
    *l = (struct coxi_layout){.session = any_session(b),
                              .servers = b->made->servers,
                              .n_servers = any_length(b),
                              .variables = b->made->variables,
                              .n_variables = any_length(b)};
    l->worker.number = (uint32_t)below(b, 4);
    for (size_t i = 0; i < l->n_servers; i++) {
        b->made->servers[i] =
            (struct coxi_ps_address){any_text(b), any_incarnation(b), below(b, 8) == 7};
    }
    for (size_t i = 0; i < l->n_variables; i++) {
        (void)any_variable(b, i);
    }
}

static void make_module(bench b, struct coxi_message *m)
{
    m->module = (struct coxi_module){.name = any_name(b)};
    if (b->known->module != NULL && below(b, 4) != 3) {
        m->module = *b->known->module;
    } else {
        m->module.digest.words[0] = any(b);
        some_payload(b);
    }
    m->module.id = (uint32_t)below(b, 4);
    if (below(b, 8) == 7) {
        m->module.signature.bytes[0] = (uint8_t)any(b);
    }
}

/* One of the steps of steps.c; "weigh" is the last. */
static uint16_t any_step(bench b)
{
    uint64_t n = fuzz_number(b->input, 1);
    return (uint16_t)(n >= 0xe0 ? 8 : n % 8);
}

static void any_inputs(bench b, struct coxi_dispatch *d)
{
    d->n_inputs = below(b, 4) == 3 ? any_length(b) : 0;
    d->inputs = b->made->inputs;
    for (size_t i = 0; i < d->n_inputs; i++) {
        b->made->inputs[i] = (struct coxi_kept_input){.at = (uint32_t)(i / 2),
                                                      .position = (uint32_t)(i % 2),
                                                      .closure = any(b),
                                                      .name = any_name(b),
                                                      .result = any_name(b)};
    }
}

/* The closures are in rounds. Their numbers come from others, so that messages of older
 * inputs stay as they were. */
static void put_in_rounds(bench b, struct coxi_dispatch *d)
{
    for (size_t i = 0; i < d->n_closures; i++) {
        const struct coxi_closure_head *head = &d->closures[i];
        b->made->rounds[i] =
            (struct coxi_round_head){.round = head->closure + head->attempt,
                                     .after = d->first % 4,
                                     .n = head->module,
                                     .mean = head->function};
    }
    d->rounds = b->made->rounds;
}

static void make_dispatch(bench b, struct coxi_message *m)
{
    struct coxi_dispatch *d = &m->dispatch;
    size_t len = 0;
    *d = (struct coxi_dispatch){.closures = b->made->heads,
                                .n_closures = any_length(b),
                                .grace_ms = PATIENCE_MS,
                                .sent_us = any(b),
                                .first = any(b)};
    for (size_t i = 0; i < d->n_closures; i++) {
        b->made->heads[i] =
            (struct coxi_closure_head){.closure = any(b),
                                       .attempt = (uint32_t)below(b, 3),
                                       .module = (uint16_t)below(b, 4),
                                       .function = any_step(b),
                                       .args_len = (uint32_t)(8 * below(b, 12)),
                                       .timeout_ms = below(b, 16) == 15 ? 2 : 0};
        len += b->made->heads[i].args_len;
    }
    if (d->sent_us % 4 == 3) {
        put_in_rounds(b, d);
    }
    d->keep = any_numbers(b, 0, true, &d->n_keep);
    d->alone = any_numbers(b, 1, true, &d->n_alone);
    any_inputs(b, d);
    payload_of(b, len);
}

/* Also of results that are dropped. */
static void make_recall(bench b, struct coxi_message *m)
{
    m->recall = (struct coxi_recall){.closures = b->made->recalled,
                                     .n_closures = any_length(b),
                                     .all = below(b, 8) == 7,
                                     .running = maybe(b),
                                     .grace_ms = PATIENCE_MS};
    for (size_t i = 0; i < m->recall.n_closures; i++) {
        b->made->recalled[i] =
            (struct coxi_recall_head){any(b), (uint32_t)below(b, 3), 0};
    }
}

/* Also of a resource that is dropped. */
static void make_resource(bench b, struct coxi_message *m)
{
    m->resource = (struct coxi_resource){.id = any32(b) % 8,
                                         .name = any_name(b),
                                         .module = (uint16_t)below(b, 4),
                                         .function = (uint16_t)below(b, 8),
                                         .code = any_code(b),
                                         .message = any_name(b),
                                         .grace_ms = PATIENCE_MS,
                                         .position = any(b),
                                         .until = maybe(b) ? any(b) : 0};
    some_payload(b);
}

static void make_trace_ask(bench b, struct coxi_message *m)
{
    m->trace_ask = (struct coxi_trace_ask){maybe(b)};
}

static void make_trace_told(bench b, struct coxi_message *m)
{
    struct coxi_trace_told *t = &m->trace_told;
    *t = (struct coxi_trace_told){.code = any_code(b),
                                  .now_us = any(b),
                                  .dropped = any(b),
                                  .spans = b->made->spans,
                                  .n_spans = any_length(b),
                                  .threads = b->made->threads,
                                  .n_threads = any_length(b)};
    for (size_t i = 0; i < t->n_spans; i++) {
        b->made->spans[i] = (struct coxi_trace_span){any(b), any(b),   any(b),  any(b),
                                                     any(b), any32(b), any32(b)};
    }
    for (size_t i = 0; i < t->n_threads; i++) {
        b->made->threads[i] = (struct coxi_trace_thread){.id = any(b)};
        memset(b->made->threads[i].name, (int)below(b, 256),
               sizeof(b->made->threads[i].name));
    }
}

static void make_memory(bench b, struct coxi_message *m)
{
    m->memory.resident = any(b);
}

static void make_exchange(bench b, struct coxi_message *m)
{
    m->exchange = (struct coxi_exchange){.session = any_session(b),
                                         .incarnation = any_incarnation(b),
                                         .carry = below(b, 4),
                                         .restores = maybe(b),
                                         .lane = any32(b) % 8,
                                         .turn = any32(b) % 4,
                                         .code = any_code(b),
                                         .message = any_name(b)};
    some_payload(b);
}

static void make_exchanged(bench b, struct coxi_message *m)
{
    m->exchanged = (struct coxi_exchanged){.code = any_code(b),
                                           .message = any_name(b),
                                           .offset = any(b),
                                           .len = any32(b),
                                           .over = maybe(b)};
    some_payload(b);
}

/* ---- all of them */

static void (*const makers[])(bench b, struct coxi_message *m) = {
    [COXI_HELLO] = make_hello,
    [COXI_REFUSE] = make_refuse,
    [COXI_STATUS] = make_status,
    [COXI_CLAIM] = make_claim,
    [COXI_RELEASE] = make_release,
    [COXI_CREATE] = make_create,
    [COXI_WATERMARK] = make_watermark,
    [COXI_SNAPSHOT] = make_snapshot,
    [COXI_SNAPSHOT_DONE] = make_snapshot_done,
    [COXI_COUNT] = make_count,
    [COXI_COUNTS] = make_counts,
    [COXI_PULL] = make_pull,
    [COXI_PULLED] = make_status,
    [COXI_COMMIT] = make_commit,
    [COXI_COMMITTED] = make_status,
    [COXI_LAYOUT] = make_layout,
    [COXI_MODULE] = make_module,
    [COXI_MODULE_LOADED] = make_status,
    [COXI_DISPATCH] = make_dispatch,
    [COXI_RECALL] = make_recall,
    [COXI_DONE] = make_done,
    [COXI_VOID] = make_void,
    [COXI_VOIDED] = make_voided,
    [COXI_CRASHED] = make_crashed,
    [COXI_LEAVING] = make_nothing,
    [COXI_WANT_DATA] = make_nothing,
    [COXI_RESOURCE] = make_resource,
    [COXI_RESOURCE_MADE] = make_status,
    [COXI_RESOURCE_DROP] = make_resource,
    [COXI_RESTORE] = make_restore,
    [COXI_RESULT_DROP] = make_recall,
    [COXI_RESULT_WANT] = make_result,
    [COXI_RESULT] = make_result,
    [COXI_LOAD] = make_load,
    [COXI_DESCRIBE] = make_nothing,
    [COXI_REACH] = make_status,
    [COXI_PROBE] = make_probe,
    [COXI_FILE_READ] = make_file_read,
    [COXI_FILE_BYTES] = make_file_bytes,
    [COXI_TRACE_ASK] = make_trace_ask,
    [COXI_TRACE_TOLD] = make_trace_told,
    [COXI_MEMORY] = make_memory,
    [COXI_EXCHANGE] = make_exchange,
    [COXI_EXCHANGED] = make_exchanged,
};
_Static_assert(sizeof(makers) / sizeof(*makers) == SAMPLE_KINDS + 1,
               "there is a maker of every kind");

void made_init(struct made *made, struct fuzz_input *input, const struct known *known,
               enum coxi_message_kind kind)
{
    struct bench b = {made, input, known};
    *made = (struct made){.message = {.kind = kind}};
    makers[kind](&b, &made->message);
}

void made_fini(struct made *made)
{
    free(made->payload);
    made->payload = NULL;
}
