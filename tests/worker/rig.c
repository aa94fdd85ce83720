/* See rig.h. */
#include "tests/worker/rig.h"

#include <stdio.h>
#include <string.h>

#include "common/dtype.h"
#include "common/error.h"
#include "net/link_internal.h"
#include "tests/test.h"

enum { WAIT_MS = 8000 };

/* ---- connections */

static int ignore_frame(void *arg, struct coxi_link *link,
                        const struct coxi_frame *frame)
{
    (void)arg;
    (void)link;
    (void)frame;
    return 0;
}

static void ignore_close(void *arg, struct coxi_link *link, int code, const char *text)
{
    (void)arg;
    (void)link;
    (void)code;
    (void)text;
}

static const struct coxi_link_events worker_events = {.on_frame = ignore_frame,
                                                      .on_close = ignore_close};

static void on_accepted(void *arg, struct coxi_link *link)
{
    coxi_link_listen_to(link, &worker_events, NULL);
    coxi_link_start(link);
    atomic_store((_Atomic(struct coxi_link *) *)arg, link);
}

static bool is_accepted(void *arg)
{
    return atomic_load((_Atomic(struct coxi_link *) *)arg) != NULL;
}

struct coxi_link *rig_connect(struct caller **ret)
{
    static int n_connected;
    char url[300];
    char name[32];
    _Atomic(struct coxi_link *) accepted = NULL;
    struct coxi_listener *listener;
    (void)snprintf(name, sizeof(name), "link-%d", n_connected++);
    (void)snprintf(url, sizeof(url), "ipc://%s", coxi_test_path(name));
    assert_code(0, coxi_listener_open(url, NULL, on_accepted, &accepted, &listener));
    coxi_listener_start(listener);
    *ret = caller_open(url, NULL);
    coxi_test_until(is_accepted, &accepted, "a connection");
    coxi_listener_close(listener);
    return atomic_load(&accepted);
}

/* ---- parameter servers */

static void ask(struct coxi_psc *psc, const struct coxi_message *message)
{
    struct coxi_psc_request request = {0};
    assert_code(0, coxi_psc_call(psc, message, &request, COXI_STATUS, NULL, NULL));
}

static void open_ps(struct rig *rig, uint32_t i)
{
    static int n_opened;
    char url[300];
    char name[32];
    (void)snprintf(name, sizeof(name), "ps-%d", n_opened++);
    (void)snprintf(url, sizeof(url), "ipc://%s", coxi_test_path(name));
    struct coxi_ps_options ps = {
        .listen = url, .index = i, .peer_timeout_ms = 60000, .local_path = true};
    assert_code(0, coxi_ps_open(&ps, &rig->ps[i]));
    (void)snprintf(rig->addresses[i], sizeof(rig->addresses[i]), "%s",
                   coxi_ps_url(rig->ps[i]));
    struct coxi_psc_options options = {
        .address = rig->addresses[i],
        .index = i,
        .self = {.role = COXI_ROLE_CLIENT, .session = rig->session},
        .links = rig->links,
        .connect_ms = WAIT_MS,
        .reconnect_ms = -1,
        .request_ms = WAIT_MS,
    };
    assert_code(0, coxi_psc_open(&options, &rig->client[i]));
    assert_code(0, coxi_psc_wait(rig->client[i], WAIT_MS));
    rig->incarnations[i] = coxi_psc_incarnation(rig->client[i]);
    struct coxi_message claim = {.kind = COXI_CLAIM,
                                 .claim = {.session = rig->session}};
    ask(rig->client[i], &claim);
}

uint32_t rig_create(struct rig *rig, const struct coxi_variable *variable,
                    uint32_t first_ps, uint32_t n_shards)
{
    uint32_t id = rig->n_variables++;
    assert_true(id < RIG_VARIABLES_MAX);
    coxi_shards_div(variable->shape[0], n_shards, rig->shards[id]);
    for (uint32_t i = 0; i < n_shards; i++) {
        rig->shards[id][i].ps = first_ps + i;
    }
    rig->variables[id] = *variable;
    rig->variables[id].id = id;
    rig->variables[id].shards = rig->shards[id];
    rig->variables[id].n_shards = n_shards;
    for (uint32_t p = 0; p < rig->n_ps; p++) {
        struct coxi_message message = {.kind = COXI_CREATE};
        message.create =
            (struct coxi_create){rig->session, 1000000 + id, rig->variables[id],
                                 coxi_psc_incarnation(rig->client[p])};
        ask(rig->client[p], &message);
    }
    assert_code(0, rig_layout(rig));
    return id;
}

uint32_t rig_counter(struct rig *rig, const char *name, uint32_t ps)
{
    const struct coxi_variable variable = {
        .name = name, .dtype = COX_I64, .rank = 1, .shape = {1}};
    return rig_create(rig, &variable, ps, 1);
}

uint32_t rig_spread(struct rig *rig, const char *name)
{
    const struct coxi_variable variable = {
        .name = name, .dtype = COX_F32, .rank = 1, .shape = {rig->n_ps}};
    return rig_create(rig, &variable, 0, rig->n_ps);
}

int64_t rig_read(struct rig *rig, uint32_t variable)
{
    int64_t value = -1;
    uint64_t ps = rig->shards[variable][0].ps;
    const struct coxi_pull_item item = {variable, 0, 1, 0};
    struct coxi_psc_request request = {.into = &value, .into_len = sizeof(value)};
    struct coxi_message message = {.kind = COXI_PULL};
    message.pull = (struct coxi_pull){
        rig->session, coxi_psc_incarnation(rig->client[ps]), &item, 1, false, 0, 0};
    assert_code(
        0, coxi_psc_call(rig->client[ps], &message, &request, COXI_PULLED, NULL, NULL));
    return value;
}

/* ---- the run */

static void on_run_free(void *arg)
{
    atomic_store(&((struct rig *)arg)->run_freed, true);
}

static bool is_freed(void *arg)
{
    return atomic_load(&((struct rig *)arg)->run_freed);
}

int rig_layout(struct rig *rig)
{
    struct coxi_ps_address servers[RIG_PS_MAX];
    struct coxi_message message = {.kind = COXI_LAYOUT};
    struct coxi_message decoded;
    struct coxi_buffer bytes = {0};
    const void *encoded;
    size_t len = 0;
    for (uint32_t i = 0; i < rig->n_ps; i++) {
        servers[i] = (struct coxi_ps_address){rig->addresses[i], rig->incarnations[i],
                                              rig->lost[i]};
    }
    message.layout = (struct coxi_layout){.session = rig->session,
                                          .servers = servers,
                                          .n_servers = rig->n_ps,
                                          .variables = rig->variables,
                                          .n_variables = rig->n_variables};
    assert_true(coxi_message_encode(&message, &encoded, &len));
    assert_code(0, coxi_buffer_append_raw(&bytes, encoded, len));
    assert_true(coxi_message_decode(bytes.data, bytes.len, &decoded));
    int r = coxi_run_set_layout(rig->run, &decoded.layout);
    coxi_buffer_fini(&bytes);
    return r;
}

int rig_load(struct rig *rig, uint32_t id, const char *name, bool with_bytes)
{
    size_t len = 0;
    char *bytes = coxi_test_read(coxi_test_module(name), &len);
    struct coxi_digest digest = coxi_digest_of(bytes, len);
    struct coxi_message message = {.request = 77, .kind = COXI_MODULE};
    message.module = (struct coxi_module){.id = id, .name = name, .digest = digest};
    const struct coxi_module_rules rules = {.dir = coxi_test_dir()};
    coxi_run_load(rig->run, &rules, &message, with_bytes ? bytes : NULL,
                  with_bytes ? len : 0);
    free(bytes);
    const struct coxi_message *answer = caller_expect(rig->caller, COXI_MODULE_LOADED);
    assert_int_equal(77, answer->request);
    assert_int_equal(id, answer->status.id);
    return answer->status.code;
}

void rig_open(struct rig *rig, uint32_t n_ps, uint32_t n_slots, uint32_t commit_window)
{
    *rig =
        (struct rig){.n_ps = n_ps, .session = {.run = 1, .generation = 1, .token = 9}};
    assert_code(0, coxi_links_new(60000, &rig->links));
    for (uint32_t i = 0; i < n_ps; i++) {
        open_ps(rig, i);
    }
    assert_code(0, coxi_loop_new(0, NULL, NULL, &rig->loop));
    assert_code(0, coxi_loop_start(rig->loop, "rig"));
    const struct coxi_slots_options slots = {.n = n_slots, .loop = rig->loop};
    assert_code(0, coxi_slots_new(&slots, &rig->slots));
    struct coxi_run_options options = {
        .worker = 4,
        .incarnation = 5,
        .commit_window = commit_window,
        .local_path = n_ps > RIG_STREAMS_MAX,
        .pull_cache_max = RIG_CACHE,
        .kept_max = RIG_KEPT,
        .step_rows_max = RIG_ROWS,
        .data_cache_max = 4 << 20,
        .links = rig->links,
        .loop = rig->loop,
        .on_free = on_run_free,
        .arg = rig,
    };
    rig->control = rig_connect(&rig->caller);
    assert_code(0, coxi_run_new(&options, &rig->session, rig->control, &rig->run));
    assert_code(0, rig_layout(rig));
    assert_int_equal(0, rig_load(rig, 0, "probe", true));
}

/* True if nobody else uses the link: it has ended, on a thread of nng. */
static bool is_ours(void *link)
{
    return atomic_load(&((struct coxi_link *)link)->refs) == 1;
}

void rig_close(struct rig *rig)
{
    coxi_run_close(rig->run);
    coxi_slots_drop(rig->slots, rig->run);
    coxi_run_unref(rig->run);
    coxi_slots_free(rig->slots);
    coxi_test_until(is_freed, rig, "the end of the run");
    coxi_loop_stop(rig->loop);
    coxi_loop_free(rig->loop);
    caller_close(rig->caller);
    coxi_test_until(is_ours, rig->control, "the end of the connection");
    coxi_link_unref(rig->control);
    for (uint32_t i = 0; i < rig->n_ps; i++) {
        coxi_psc_close(rig->client[i]);
        coxi_ps_close(rig->ps[i]);
    }
    coxi_links_free(rig->links);
}

/* ---- closures */

static void find_function(const struct rig *rig, const char *name,
                          struct coxi_closure_head *head)
{
    for (uint16_t m = 0; m < COXI_MODULES_MAX; m++) {
        const struct coxi_loaded *module = rig->run->modules[m];
        for (uint16_t i = 0; module != NULL && i < module->n_functions; i++) {
            if (strcmp(module->functions[i].name, name) == 0) {
                head->module = m;
                head->function = i;
                return;
            }
        }
    }
    fail_msg("no step is called %s", name);
}

void rig_batch_add(struct rig *rig, struct rig_batch *batch, uint64_t closure,
                   uint32_t attempt, const char *function, const struct cox_value *args,
                   size_t n_args)
{
    struct coxi_buffer packed = {0};
    for (size_t i = 0; i < n_args; i++) {
        assert_code(0, coxi_values_add(&packed, &args[i]));
    }
    struct coxi_closure_head head = {.closure = closure,
                                     .attempt = attempt,
                                     .args_len = (uint32_t)packed.len,
                                     .timeout_ms = batch->timeout_ms};
    find_function(rig, function, &head);
    assert_code(0, coxi_buffer_append_raw(&batch->heads, &head, sizeof(head)));
    assert_code(0, coxi_buffer_append(&batch->args, packed.data, packed.len));
    coxi_buffer_fini(&packed);
}

int rig_batch_push(struct rig *rig, struct rig_batch *batch)
{
    static const uint32_t first = 0;
    size_t n = batch->heads.len / sizeof(struct coxi_closure_head);
    struct coxi_buffer rounds = {0};
    for (size_t i = 0; rig->round.round != 0 && i < n; i++) {
        assert_code(0,
                    coxi_buffer_append_raw(&rounds, &rig->round, sizeof(rig->round)));
    }
    struct coxi_dispatch dispatch = {
        .alone = &first,
        .n_alone = batch->alone,
        .closures = (const struct coxi_closure_head *)(void *)batch->heads.data,
        .n_closures = n,
        .rounds = (const struct coxi_round_head *)(void *)rounds.data,
        .grace_ms = 60000, /* longer than any test */
    };
    int r = coxi_slots_push(rig->slots, rig->run, &dispatch, batch->args.data,
                            batch->args.len);
    coxi_buffer_fini(&rounds);
    coxi_buffer_fini(&batch->heads);
    coxi_buffer_fini(&batch->args);
    return r;
}

void rig_push(struct rig *rig, uint64_t closure, uint32_t attempt, const char *function,
              const struct cox_value *args, size_t n_args)
{
    struct rig_batch batch = {0};
    rig_batch_add(rig, &batch, closure, attempt, function, args, n_args);
    assert_code(0, rig_batch_push(rig, &batch));
}

void rig_push_add(struct rig *rig, uint64_t closure, uint32_t attempt, const char *name,
                  int64_t value)
{
    const int64_t add = COXI_OP_ADD;
    const struct cox_value args[] = {
        COX_VECTOR("variable", COX_U8, strlen(name) + 1, name),
        COX_SCALAR("op", COX_I64, &add), COX_VECTOR("values", COX_I64, 1, &value)};
    rig_push(rig, closure, attempt, "update", args, 3);
}

/* ---- their ends */

struct rig_done rig_next(struct rig *rig)
{
    struct rig_done done;
    size_t len = 0;
    if (rig->done == NULL) {
        rig->done = caller_expect(rig->caller, COXI_DONE);
        rig->done_at = rig->payload_at = rig->kept_at = 0;
    }
    done.kept = rig->kept_at < rig->done->done.n_kept &&
                rig->done->done.kept[rig->kept_at] == rig->done_at;
    rig->kept_at += done.kept;
    done.head = rig->done->done.closures[rig->done_at++];
    const uint8_t *payload = caller_payload(rig->caller, &len);
    done.touched = (const uint32_t *)(const void *)(payload + rig->payload_at);
    rig->payload_at += coxi_align(done.head.touched_n * sizeof(uint32_t), 8);
    done.result = payload + rig->payload_at;
    rig->payload_at += coxi_align(done.head.result_len, 8);
    assert_true(rig->payload_at <= len);
    if (rig->done_at == rig->done->done.n_closures) {
        assert_int_equal(len, rig->payload_at);
        rig->done = NULL; /* its bytes stay until the next message is asked for */
    }
    return done;
}

struct rig_done rig_expect(struct rig *rig, uint64_t closure, int code)
{
    struct rig_done done = rig_next(rig);
    if (done.head.code != code) {
        fail_msg("closure %d: %s (%s), not %s", (int)done.head.closure,
                 coxi_error_name(done.head.code),
                 done.head.code != 0 ? (const char *)done.result : "",
                 coxi_error_name(code));
    }
    assert_int_equal(closure, done.head.closure);
    return done;
}

struct cox_value rig_value(const struct rig_done *done, const char *name)
{
    struct cox_value values[COXI_VALUES_MAX];
    size_t n = 0;
    assert_code(0, coxi_values_unpack(done->result, done->head.result_len, values, &n));
    for (size_t i = 0; i < n; i++) {
        if (strcmp(values[i].name, name) == 0) {
            return values[i];
        }
    }
    fail_msg("no result is called %s", name);
    return (struct cox_value){0};
}

int64_t rig_result(const struct rig_done *done, const char *name)
{
    const struct cox_value value = rig_value(done, name);
    assert_int_equal(COX_I64, value.dtype);
    return *(const int64_t *)value.data;
}
