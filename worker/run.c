/* See run.h. */
#include "worker/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/layout.h"
#include "common/log.h"
#include "common/sync.h"
#include "net/gather.h"

enum {
    CONNECT_MS = 1000,
    REQUEST_MS = 300000, /* for a ps that is alive but does not answer */
    /* from this number of ps on, a gatherer receives; fewer have a thread each */
    GATHER_FROM = 4,
};

/* ---- life */

int coxi_run_new(const struct coxi_run_options *options,
                 const struct coxi_session *session, struct coxi_link *control,
                 struct coxi_run **ret)
{
    struct coxi_run *run = calloc(1, sizeof(*run));
    if (run == NULL) {
        return coxi_error_memory("a run");
    }
    atomic_init(&run->refs, 1);
    atomic_init(&run->grace_ms, COXI_GRACE_MS);
    run->options = *options;
    run->figures = coxi_recorder_figures(options->recorder);
    run->session = *session;
    run->begun_ns = coxi_now_ns();
    run->control = coxi_link_ref(control);
    run->data_connection = options->connection;
    coxi_mutex_init(&run->lock);
    coxi_mutex_init(&run->report_lock);
    coxi_cond_init(&run->room);
    coxi_copies_init(&run->copies, options->pull_cache_max);
    coxi_resources_init(&run->resources);
    coxi_results_init(&run->results, options->kept_max);
    coxi_client_files_init(&run->files, control, options->data_cache_max);
    *ret = run;
    return 0;
}

struct coxi_run *coxi_run_ref(struct coxi_run *run)
{
    atomic_fetch_add_explicit(&run->refs, 1, memory_order_relaxed);
    return run;
}

static void free_spares(struct coxi_spare **spares)
{
    struct coxi_spare *spare;
    while ((spare = coxi_spare_take(spares)) != NULL) {
        spare->free(spare);
    }
}

static void run_free(struct coxi_mail *mail)
{
    struct coxi_run *run = (struct coxi_run *)mail;
    for (uint32_t i = 0; i < run->n_ps; i++) {
        coxi_psc_close(run->ps[i]);
    }
    coxi_gather_free(run->gather);
    coxi_variables_fini(&run->variables);
    coxi_copies_fini(&run->copies);
    coxi_results_fini(&run->results);
    coxi_client_files_fini(&run->files);
    /* may call release functions of the modules */
    coxi_resources_fini(&run->resources);
    for (size_t i = 0; i < COXI_MODULES_MAX; i++) {
        coxi_module_unload(run->modules[i]);
    }
    free_spares(&run->spare_attempts);
    free_spares(&run->spare_scratches);
    coxi_link_unref(run->control);
    coxi_link_unref(run->data);
    coxi_buffer_fini(&run->report_payload);
    free(run->ps);
    free(run->ps_told);
    (void)pthread_cond_destroy(&run->room);
    coxi_mutex_fini(&run->report_lock);
    coxi_mutex_fini(&run->lock);
    run->options.on_free(run->options.arg);
    free(run);
}

void coxi_run_unref(struct coxi_run *run)
{
    if (run != NULL &&
        atomic_fetch_sub_explicit(&run->refs, 1, memory_order_acq_rel) == 1) {
        /* The calling thread may belong to a ps client, and freeing waits for that
         * thread. */
        run->mail.run = run_free;
        coxi_loop_post(run->options.loop, &run->mail);
    }
}

void coxi_run_close(struct coxi_run *run)
{
    atomic_store(&run->closed, true);
    coxi_resources_close(&run->resources);
    coxi_client_files_close(&run->files);
    coxi_lock(&run->lock);
    for (uint32_t i = 0; i < run->n_ps; i++) {
        coxi_psc_give_up(run->ps[i], "the client is gone");
    }
    coxi_unlock(&run->lock);
}

int coxi_run_set_data(struct coxi_run *run, struct coxi_link *data, uint64_t number)
{
    struct coxi_link *old = NULL;
    int r = 0;
    coxi_lock(&run->lock);
    if (number < run->data_connection) {
        r = coxi_error(COX_ECLOSED, "the client has opened a newer connection");
    } else {
        old = run->data;
        run->data = coxi_link_ref(data);
        run->data_connection = number;
    }
    coxi_unlock(&run->lock);
    coxi_link_unref(old);
    return r;
}

void coxi_run_drop_data(struct coxi_run *run, const struct coxi_link *data)
{
    struct coxi_link *old = NULL;
    coxi_lock(&run->lock);
    if (run->data == data) {
        old = run->data;
        run->data = NULL;
    }
    coxi_unlock(&run->lock);
    if (old != NULL && !atomic_load(&run->closed)) {
        coxi_link_close(run->control, COX_ECLOSED,
                        "the data connection is gone, with the results on it");
    }
    coxi_link_unref(old);
}

bool coxi_run_has_link(struct coxi_run *run, const struct coxi_link *link)
{
    if (run->control == link) {
        return true;
    }
    coxi_lock(&run->lock);
    bool has = run->data == link;
    coxi_unlock(&run->lock);
    return has;
}

/* ---- layout */

static void on_batch(void *arg)
{
    coxi_run_flush_reports(arg);
}

/* Tells the client that the ps is out of reach before the requests to it fail, so that
 * the client knows the reason. */
static void on_reach(void *arg, struct coxi_psc *psc, const char *text)
{
    struct coxi_run *run = arg;
    struct coxi_message message = {.kind = COXI_REACH};
    message.status.id = coxi_psc_index(psc);
    message.status.code = text != NULL ? COX_EPSLOST : 0;
    message.status.message = text != NULL ? text : "";
    coxi_log(text != NULL ? COXI_LOG_WARN : COXI_LOG_INFO,
             text != NULL ? "ps_out_of_reach" : "ps_in_reach",
             "ps=%u address=%s text=\"%s\"", coxi_psc_index(psc), coxi_psc_address(psc),
             message.status.message);
    (void)coxi_message_send(run->control, &message, NULL, false);
}

static int open_ps(struct coxi_run *run, const struct coxi_layout *layout)
{
    if (layout->n_servers == 0 || layout->n_servers > COXI_PS_MAX) {
        return coxi_error(COX_EPROTO, "a layout of %zu ps", layout->n_servers);
    }
    run->ps = calloc(layout->n_servers, sizeof(struct coxi_psc *));
    run->ps_told = calloc(layout->n_servers, sizeof(*run->ps_told));
    if (run->ps == NULL || run->ps_told == NULL) {
        return coxi_error_memory("connections to ps");
    }
    /* Without a gatherer, each connection's own thread receives. */
    if (run->options.local_path && layout->n_servers >= GATHER_FROM &&
        coxi_gather_new(&run->gather) != 0) {
        run->gather = NULL;
    }
    for (uint32_t i = 0; i < layout->n_servers; i++) {
        struct coxi_ps_address address;
        coxi_layout_ps(layout, i, &address);
        struct coxi_psc_options options = {
            .address = address.address,
            .index = i,
            .self = {.role = COXI_ROLE_WORKER,
                     .index = run->options.worker,
                     .incarnation = run->options.incarnation,
                     .session = run->session},
            .links = run->options.links,
            .connect_ms = CONNECT_MS,
            .reconnect_ms = -1, /* only the client declares a ps lost */
            .request_ms = REQUEST_MS,
            .key = run->options.key,
            .local_path = run->options.local_path,
            .gather = run->gather,
            .unreached_ms = run->options.peer_timeout_ms,
            .on_reach = on_reach,
            .on_batch = on_batch,
            .arg = run,
        };
        int r = coxi_psc_open(&options, &run->ps[i]);
        if (r != 0) {
            return r;
        }
        run->n_ps = i + 1;
    }
    return 0;
}

/* `since` changes first. So a thread that reads between the two stores does not take
 * the new incarnation for the one that its closure was dispatched with. */
static void follow_ps(struct coxi_run *run, const struct coxi_layout *layout)
{
    uint64_t number = atomic_load(&run->n_layouts) + 1;
    for (uint32_t i = 0; i < run->n_ps && i < layout->n_servers; i++) {
        struct coxi_ps_address address;
        coxi_layout_ps(layout, i, &address);
        struct coxi_run_ps *told = &run->ps_told[i];
        if (atomic_load(&told->incarnation) != address.incarnation) {
            atomic_store(&told->since, number);
            atomic_store(&told->incarnation, address.incarnation);
        }
        /* If memory is lacking, the ps stays lost to this worker. */
        (void)coxi_psc_follow(run->ps[i], address.address, address.incarnation);
        if (address.lost) {
            coxi_psc_give_up(run->ps[i], "a ps is lost for good, which ends the run");
        }
    }
    atomic_store(&run->n_layouts, number);
}

int coxi_run_set_layout(struct coxi_run *run, const struct coxi_layout *layout)
{
    coxi_lock(&run->lock);
    if (run->n_ps == 0 && coxi_maybe_is_some(layout->worker)) {
        run->options.worker =
            coxi_maybe_index(layout->worker); /* before any step can ask */
    }
    int r = run->n_ps == 0 ? open_ps(run, layout) : 0;
    if (r == 0 && layout->n_servers != run->n_ps) {
        r = coxi_error(COX_EPROTO, "the number of ps has changed");
    }
    for (size_t i = 0; r == 0 && i < layout->n_variables; i++) {
        struct coxi_variable variable;
        r = coxi_layout_variable(layout, i, &variable)
                ? coxi_variables_add(&run->variables, &variable, run->n_ps)
                : coxi_error(COX_EPROTO, "a malformed variable in the layout");
    }
    if (r == 0) {
        follow_ps(run, layout);
    }
    coxi_unlock(&run->lock);
    return r;
}

struct coxi_copy *coxi_run_copy(struct coxi_run *run, struct cox_variable *variable)
{
    coxi_lock(&run->lock);
    if (variable->copy == NULL) {
        variable->copy = coxi_copies_add(&run->copies, variable->description);
    }
    struct coxi_copy *copy = variable->copy;
    coxi_unlock(&run->lock);
    return copy;
}

/* ---- modules */

/* Loads the module, unless it is known to end the process; notes in the recorder that
 * it is being loaded. */
static int load_recorded(struct coxi_recorder *recorder,
                         const struct coxi_module_rules *rules,
                         const struct coxi_module *module, const void *bytes,
                         size_t len, struct coxi_loaded **ret)
{
    static struct coxi_mutex one_at_a_time = COXI_MUTEX_INIT;
    int signum = 0;
    if (coxi_recorder_kills(recorder, &module->digest, &signum)) {
        return coxi_error(
            COX_EMODULE,
            "module %s ended the process that loaded it, twice: %s "
            "(what it said is at the worker's standard error: its log, or "
            "that of the client in a local cluster without log_dir)",
            module->name, signum != 0 ? strsignal(signum) : "it exited");
    }
    coxi_lock(&one_at_a_time);
    coxi_recorder_load(recorder, &module->digest);
    int r = coxi_module_load(rules, module, bytes, len, ret);
    coxi_recorder_loaded(recorder);
    coxi_unlock(&one_at_a_time);
    return r;
}

static int load(struct coxi_run *run, const struct coxi_module_rules *rules,
                const struct coxi_module *module, const void *bytes, size_t len)
{
    struct coxi_loaded *loaded = NULL;
    struct coxi_loaded *none = NULL;
    if (module->id >= COXI_MODULES_MAX) {
        return coxi_error(COX_ELIMIT, "more than %d modules", COXI_MODULES_MAX);
    }
    bool there = atomic_load(&run->modules[module->id]) != NULL;
    int r = there ? 0
                  : load_recorded(run->options.recorder, rules, module, bytes, len,
                                  &loaded);
    /* The client may ask over both its connections: the first module stays. */
    if (r == 0 && !there &&
        !atomic_compare_exchange_strong(&run->modules[module->id], &none, loaded)) {
        coxi_module_unload(loaded);
    }
    return r;
}

void coxi_run_load(struct coxi_run *run, const struct coxi_module_rules *rules,
                   const struct coxi_message *request, const void *bytes, size_t len)
{
    int r = load(run, rules, &request->module, bytes, len);
    struct coxi_message answer = {.request = request->request,
                                  .kind = COXI_MODULE_LOADED};
    answer.status.id = request->module.id;
    answer.status.code = r;
    answer.status.message = r != 0 ? coxi_error_text() : "";
    if (r != COX_ENOENT) {
        coxi_log(r == 0 ? COXI_LOG_INFO : COXI_LOG_ERROR, "module",
                 "name=%s result=%s text=\"%s\"", request->module.name,
                 coxi_error_name(r), answer.status.message);
    }
    (void)coxi_message_send(run->control, &answer, NULL, false);
}

struct coxi_function *coxi_run_function(struct coxi_run *run,
                                        const struct coxi_closure_head *head)
{
    struct coxi_function *function = NULL;
    struct coxi_loaded *module = head->module < COXI_MODULES_MAX
                                     ? atomic_load(&run->modules[head->module])
                                     : NULL;
    if (module != NULL && head->function < module->n_functions) {
        function = &module->functions[head->function];
    }
    if (function == NULL) {
        (void)coxi_error(COX_EMODULE, "worker %u has no function %u of module %u",
                         run->options.worker, head->function, head->module);
    }
    return function;
}

/* ---- resources */

static void answer_resource(struct coxi_run *run, const char *name, uint32_t id,
                            int code, const char *text)
{
    struct coxi_message answer = {.kind = COXI_RESOURCE_MADE};
    answer.status.id = id;
    answer.status.code = code;
    answer.status.message = code != 0 ? text : "";
    coxi_log(code == 0 ? COXI_LOG_INFO : COXI_LOG_ERROR, "resource",
             "name=%s result=%s text=\"%s\"", name, coxi_error_name(code),
             answer.status.message);
    (void)coxi_message_send(run->control, &answer, NULL, false);
}

int coxi_run_add_resource(struct coxi_run *run, const struct coxi_resource *wanted,
                          const void *args, size_t len, bool *ret_waits)
{
    bool waits = false;
    if (wanted->grace_ms > 0) {
        atomic_store(&run->grace_ms, wanted->grace_ms);
    }
    int r = coxi_resources_add(&run->resources, wanted, args, len,
                               atomic_load(&run->n_layouts), &waits);
    if (r == 0 && !waits) {
        answer_resource(run, wanted->name, wanted->id, wanted->code, wanted->message);
    }
    if (r == 0) {
        *ret_waits = waits;
    }
    return r;
}

void coxi_run_made(struct coxi_run *run, struct coxi_kept *kept, int code,
                   const char *text)
{
    char name[COXI_WIRE_NAME_MAX + 1];
    uint32_t id = kept->head.attempt;
    (void)snprintf(name, sizeof(name), "%s", kept->name);
    coxi_resources_made(&run->resources, kept, code, text);
    answer_resource(run, name, id, code, text);
}

/* ---- results */

/* A reference to the connection that takes a payload of `len` bytes. */
static struct coxi_link *link_for(struct coxi_run *run, size_t len)
{
    if (len < COXI_REPORT_LONG) {
        return coxi_link_ref(run->control);
    }
    coxi_lock(&run->lock);
    struct coxi_link *link =
        coxi_link_ref(run->data != NULL ? run->data : run->control);
    coxi_unlock(&run->lock);
    return link;
}

void coxi_run_echo(struct coxi_run *run, uint64_t sent_us)
{
    coxi_lock(&run->report_lock);
    run->echo_us = sent_us;
    run->heard_us = coxi_now_us();
    coxi_unlock(&run->report_lock);
}

/* Adds how long messages to the client and commits to the ps take. Report lock held. */
static void tell_ways(struct coxi_run *run, struct coxi_done *done)
{
    done->sent_us = coxi_now_us();
    if (run->echo_us != 0) {
        uint64_t held_us = done->sent_us - run->heard_us;
        done->echo_us = run->echo_us;
        done->held_us = held_us < UINT32_MAX ? (uint32_t)held_us : UINT32_MAX;
        run->echo_us = 0;
    }
    coxi_lock(&run->lock);
    done->commit_us = (uint32_t)coxi_least(&run->commit_us);
    coxi_unlock(&run->lock);
}

/* Sends the outbox. Report lock held. */
static void send_reports(struct coxi_run *run)
{
    if (run->n_reports == 0) {
        return;
    }
    struct coxi_message message = {.kind = COXI_DONE};
    message.done.closures = run->reports;
    message.done.n_closures = run->n_reports;
    message.done.kept = run->kept;
    message.done.n_kept = run->n_kept;
    message.done.weights = run->weighed ? run->weights : NULL;
    message.done.times = run->times;
    message.done.scalars = run->logged ? run->scalars : NULL;
    message.done.ended = run->ended;
    message.done.n_ended = run->n_ended;
    tell_ways(run, &message.done);
    struct iovec segment = {run->report_payload.data, run->report_payload.len};
    struct coxi_payload payload = {.segments = &segment, .n_segments = 1};
    struct coxi_link *link = link_for(run, segment.iov_len);
    run->reports_long = segment.iov_len >= COXI_REPORT_LONG;
    if (segment.iov_len >= COXI_LINK_COPY_MAX) {
        payload.release = free;
        payload.arg = run->report_payload.data;
        run->report_payload = (struct coxi_buffer){0};
    }
    int r = coxi_message_send(link, &message, &payload, false);
    if (r != 0 && r != COX_ECLOSED) {
        coxi_link_close(run->control, r, "results could not be sent");
    }
    coxi_link_unref(link);
    run->n_reports = 0;
    run->n_kept = 0;
    run->n_ended = 0;
    run->weighed = run->logged = false;
    run->report_payload.len = 0;
}

int coxi_run_send_result(struct coxi_run *run, const struct coxi_result *wanted)
{
    struct coxi_message message = {.kind = COXI_RESULT, .result = *wanted};
    struct coxi_held *held = coxi_results_get(&run->results, wanted->closure);
    struct iovec segment = {0};
    struct coxi_payload payload = {&segment, 1, coxi_held_unref, held};
    if (held != NULL) {
        segment = (struct iovec){held->values.data, held->values.len};
    } else {
        message.result.code =
            coxi_error(COX_ENOENT, "worker %u keeps nothing of closure %llu",
                       run->options.worker, (unsigned long long)wanted->closure);
        message.result.message = coxi_error_text();
    }
    struct coxi_link *link = link_for(run, segment.iov_len);
    int r = coxi_message_send(link, &message, held != NULL ? &payload : NULL, false);
    coxi_link_unref(link);
    return r == COX_ECLOSED ? 0 : r;
}

void coxi_run_report(struct coxi_run *run, const struct coxi_report *report)
{
    if (atomic_load(&run->closed)) {
        return;
    }
    struct coxi_done_head head = {
        .closure = report->closure,
        .attempt = report->attempt,
        .code = report->code,
        .step_code = report->step_code,
        .touched_n = (uint32_t)report->n_touched,
        .result_len = (uint32_t)report->result_len,
        .run_us = report->run_us,
    };
    coxi_lock(&run->report_lock);
    struct coxi_buffer *payload = &run->report_payload;
    /* After a long report, expect another: growing would copy it all again. */
    int r = payload->data == NULL && run->reports_long
                ? coxi_buffer_reserve(payload, (size_t)COXI_REPORT_LONG * 2)
                : 0;
    if (r == 0) {
        r = coxi_buffer_append(payload, report->touched,
                               report->n_touched * sizeof(*report->touched));
    }
    r = r == 0 ? coxi_buffer_append(payload, report->result, report->result_len) : r;
    r = r == 0 ? coxi_buffer_append(payload, report->scalars, report->scalars_len) : r;
    if (r == 0) {
        run->kept[run->n_kept] = (uint32_t)run->n_reports;
        run->n_kept += report->kept;
        run->ended[run->n_ended] = (uint32_t)run->n_reports;
        run->n_ended += report->ended;
        run->weights[run->n_reports] = report->weight;
        run->weighed = run->weighed || (report->code == 0 && report->weight != 1);
        run->times[run->n_reports] =
            report->times != NULL ? *report->times : (struct coxi_step_times){0};
        run->scalars[run->n_reports] = (uint32_t)report->scalars_len;
        run->logged = run->logged || report->scalars_len > 0;
        run->reports[run->n_reports++] = head;
    } else {
        /* A result that cannot be reported is lost, so the session must begin anew. */
        coxi_link_close(run->control, COX_ENOMEM, "out of memory for results");
    }
    if (run->n_reports == COXI_REPORTS_MAX || payload->len >= COXI_REPORT_LONG) {
        send_reports(run);
    }
    coxi_unlock(&run->report_lock);
}

void coxi_run_flush_reports(struct coxi_run *run)
{
    if (atomic_load(&run->n_reports) == 0) {
        return; /* a thread that adds a report flushes it afterwards */
    }
    coxi_lock(&run->report_lock);
    send_reports(run);
    coxi_unlock(&run->report_lock);
}

void coxi_run_flush(struct coxi_run *run)
{
    coxi_run_flush_reports(run);
    for (uint32_t i = 0; i < run->n_ps; i++) {
        coxi_psc_flush(run->ps[i]);
    }
}

void coxi_run_tick(struct coxi_run *run)
{
    coxi_run_flush_reports(run);
    coxi_lock(&run->lock);
    for (uint32_t i = 0; i < run->n_ps; i++) {
        coxi_psc_flush(run->ps[i]); /* commits may be queued while a long step runs */
        coxi_psc_tick(run->ps[i]);
    }
    coxi_unlock(&run->lock);
}

bool coxi_run_drain(struct coxi_run *run)
{
    coxi_run_tick(run);
    coxi_lock(&run->lock);
    bool idle = run->n_committing == 0;
    struct coxi_link *links[2] = {run->control, run->data};
    for (int i = 0; idle && i < 2; i++) {
        idle = links[i] == NULL || coxi_link_closed(links[i]) ||
               coxi_link_queued(links[i]) == 0;
    }
    coxi_unlock(&run->lock);
    return idle;
}
