/*
 * See contact.h. A worker has a control connection, and also a data connection if there
 * are long payloads. The client dials the workers that its cluster lists; others dial
 * it (door.c), for data when they are asked to. Both kinds of connections are handled
 * alike.
 *
 * Invariants
 *   - Frames on a data connection that breaks are lost, so the session with the worker
 *     restarts.
 *   - A connection that was given up may still deliver frames and its end; these say
 *     nothing about the worker. So each event is compared with the current connection.
 *
 * Threads: loop.
 */
#include "coordinator/workers/contact.h"

#include "common/error.h"
#include "common/sync.h"
#include "coordinator/workers/conn.h"
#include "coordinator/workers/reach.h"

enum { SLOTS_MAX = 1024 };

/* ---- the control connection */

int coxi_worker_send(struct coxi_worker *worker, const struct coxi_message *message,
                     const struct coxi_payload *payload)
{
    return coxi_message_send(coxi_conn_link(worker->control), message, payload, false);
}

void coxi_worker_give_up(struct coxi_worker *worker, int code, const char *text)
{
    coxi_conn_close(worker->control, code, text);
}

/* Both have greeted: sets the worker up. */
static void set_up(struct coxi_worker *worker, const struct coxi_hello *hello)
{
    coxi_link_allow(coxi_conn_link(worker->control), COXI_WIRE_META_MAX,
                    COXI_PAYLOAD_MAX);
    if (worker->incarnation == hello->incarnation) { /* its process has not died */
        worker->c->workers->events->returned(worker);
    }
    worker->incarnation = hello->incarnation;
    worker->slots = hello->slots < 1           ? 1
                    : hello->slots > SLOTS_MAX ? SLOTS_MAX
                                               : hello->slots;
    coxi_worker_set_up(worker);
}

static int greeted(struct coxi_worker *worker, const struct coxi_frame *frame)
{
    struct coxi_hello hello;
    int r = coxi_hello_read(coxi_conn_link(worker->control), frame, &hello);
    if (r != 0) {
        return r;
    }
    if (worker->hopeless) {
        worker->hopeless = false;
        coxi_lock(&worker->c->lock);
        worker->c->workers->n_hopeless--;
        coxi_unlock(&worker->c->lock);
    }
    if (hello.role != COXI_ROLE_WORKER) {
        return coxi_error(COX_ECONFLICT,
                          "there is another daemon at this address: it is no worker");
    }
    /* UINT32_MAX: the worker takes the index that the list gives it. */
    if (hello.index != worker->index && hello.index != UINT32_MAX) {
        return coxi_error(COX_ECONFLICT,
                          "there is another daemon at this address: a worker with "
                          "--index %u, which the cluster lists as number %u",
                          hello.index, worker->index);
    }
    set_up(worker, &hello);
    coxi_worker_tried(worker);
    return 0;
}

static void control_opened(void *arg, struct coxi_conn *conn)
{
    (void)conn;
    coxi_worker_set_state(arg, COXI_WORKER_GREETING);
}

void coxi_worker_let_leave(struct coxi_worker *worker)
{
    if (worker->state == COXI_WORKER_DRAINING &&
        worker->c->workers->events->is_idle(worker)) {
        coxi_conn_close(worker->control, COX_ECLOSED, "it has nothing left to do");
    }
}

/* Handles results, from either connection. */
static int done(struct coxi_worker *worker, const struct coxi_message *message,
                const struct coxi_frame *frame)
{
    int r = worker->c->workers->events->done(worker, &message->done, frame->payload,
                                             frame->payload_len);
    coxi_worker_let_leave(worker);
    return r;
}

/* Handles kept results, from either connection. */
static int sent(struct coxi_worker *worker, const struct coxi_message *message,
                const struct coxi_frame *frame)
{
    int r = worker->c->workers->events->result(worker, &message->result, frame->payload,
                                               frame->payload_len);
    coxi_worker_let_leave(worker);
    return r;
}

static int handle(struct coxi_worker *worker, const struct coxi_message *message,
                  const struct coxi_frame *frame)
{
    if (message->kind == COXI_DONE) {
        return done(worker, message, frame);
    }
    if (message->kind == COXI_RESULT) {
        return sent(worker, message, frame);
    }
    if (message->kind == COXI_MODULE_LOADED) {
        return coxi_worker_module_loaded(worker, &message->status);
    }
    if (message->kind == COXI_RESOURCE_MADE) {
        return coxi_worker_resource_made(worker, &message->status);
    }
    if (message->kind == COXI_REACH) {
        return coxi_reach_told(worker, &message->status);
    }
    if (message->kind == COXI_MEMORY) {
        worker->resident = message->memory.resident;
        return 0;
    }
    if (message->kind == COXI_FILE_READ) {
        worker->c->workers->events->wanted(worker, message->request,
                                           &message->file_read);
        return 0;
    }
    if (message->kind == COXI_TRACE_TOLD) {
        worker->c->workers->traced(worker->c, worker->index, message->request,
                                   &message->trace_told);
        return 0;
    }
    if (message->kind == COXI_CRASHED) {
        worker->c->workers->events->crashed(worker, &message->crashed);
        return 0;
    }
    if (message->kind == COXI_LEAVING) {
        coxi_worker_leave(worker);
        coxi_worker_let_leave(worker);
        return 0;
    }
    return coxi_error(COX_EPROTO, "a client takes no message of kind %d",
                      (int)message->kind);
}

static int control_frame(void *arg, struct coxi_conn *conn,
                         const struct coxi_frame *frame)
{
    struct coxi_worker *worker = arg;
    struct coxi_message message;
    if (conn != worker->control) {
        return 0;
    }
    if (worker->state == COXI_WORKER_GREETING) {
        return greeted(worker, frame);
    }
    int r = coxi_message_read(frame, &message);
    return r != 0 ? r : handle(worker, &message, frame);
}

/* The control connection is closed, so the worker is away. */
static void lose(struct coxi_worker *worker, int code, const char *text)
{
    struct coxi_conn *data = worker->data;
    worker->control = NULL;
    worker->data = NULL;
    worker->data_up = false;
    worker->data_asked = false;
    coxi_conn_close(data, COX_ECLOSED, "the worker's control connection is gone");
    coxi_worker_lose(worker, code, text);
}

static void control_closed(void *arg, struct coxi_conn *conn, int code,
                           const char *text)
{
    struct coxi_worker *worker = arg;
    if (conn == worker->control) {
        lose(worker, code, text);
    }
}

static const struct coxi_conn_events control_events = {
    control_opened,
    control_frame,
    control_closed,
};

void coxi_worker_dial(struct coxi_worker *worker)
{
    coxi_worker_set_state(worker, COXI_WORKER_DIALLING);
    int r = coxi_conn_open(worker->c, worker->url, COXI_CHANNEL_CONTROL,
                           &control_events, worker, &worker->control);
    if (r != 0) {
        lose(worker, r, coxi_error_text());
    }
}

void coxi_worker_join(struct coxi_worker *worker, struct coxi_conn *conn,
                      const struct coxi_hello *hello)
{
    if (coxi_worker_is_there(worker)) {
        struct coxi_conn *old = worker->control;
        lose(worker, COX_ECLOSED, "it has dialled again");
        coxi_conn_close(old, COX_ECLOSED, "it has dialled again");
    }
    worker->control = conn;
    coxi_conn_adopt(conn, &control_events, worker);
    coxi_conn_greet(conn, COXI_CHANNEL_CONTROL);
    set_up(worker, hello);
}

/* ---- the data connection */

static void data_up(struct coxi_worker *worker)
{
    worker->data_up = true;
    coxi_link_allow(coxi_conn_link(worker->data), COXI_WIRE_META_MAX, COXI_PAYLOAD_MAX);
    coxi_worker_send_wanted(worker);
}

static int data_frame(void *arg, struct coxi_conn *conn, const struct coxi_frame *frame)
{
    struct coxi_worker *worker = arg;
    struct coxi_message message;
    struct coxi_hello hello;
    if (conn != worker->data) {
        return 0;
    }
    if (worker->data_up) {
        int r = coxi_message_read(frame, &message);
        return r != 0                      ? r
               : message.kind == COXI_DONE ? done(worker, &message, frame)
               : message.kind == COXI_RESULT
                   ? sent(worker, &message, frame)
                   : coxi_error(COX_EPROTO, "only results come over "
                                            "data");
    }
    int r = coxi_hello_read(coxi_conn_link(conn), frame, &hello);
    if (r == 0) {
        data_up(worker);
    }
    return r;
}

static void data_opened(void *arg, struct coxi_conn *conn)
{
    (void)arg;
    (void)conn;
}

static void data_closed(void *arg, struct coxi_conn *conn, int code, const char *text)
{
    struct coxi_worker *worker = arg;
    if (conn == worker->data) {
        worker->data = NULL;
        worker->data_up = false;
        coxi_conn_close(worker->control, code, text);
    }
}

static const struct coxi_conn_events data_events = {data_opened, data_frame,
                                                    data_closed};

void coxi_worker_open_data(struct coxi_worker *worker)
{
    struct coxi_message message = {.kind = COXI_WANT_DATA};
    int r = 0;
    if (worker->data != NULL || worker->data_asked) {
        return;
    }
    if (worker->name == NULL) {
        r = coxi_conn_open(worker->c, worker->url, COXI_CHANNEL_DATA, &data_events,
                           worker, &worker->data);
    } else {
        worker->data_asked = true;
        r = coxi_message_send(coxi_conn_link(worker->control), &message, NULL, false);
    }
    if (r != 0) {
        coxi_conn_close(worker->control, r, coxi_error_text());
    }
}

bool coxi_worker_wants_data(const struct coxi_worker *worker, uint64_t incarnation)
{
    return worker->data_asked && worker->data == NULL &&
           worker->incarnation == incarnation;
}

void coxi_worker_join_data(struct coxi_worker *worker, struct coxi_conn *conn)
{
    worker->data = conn;
    coxi_conn_adopt(conn, &data_events, worker);
    coxi_conn_greet(conn, COXI_CHANNEL_DATA);
    data_up(worker);
}
