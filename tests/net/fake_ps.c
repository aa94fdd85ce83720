/* See fake_ps.h. */
#include "tests/net/fake_ps.h"

#include <stdio.h>
#include <string.h>

#include "common/error.h"
#include "common/hash.h"
#include "common/sync.h"
#include "net/gather.h"
#include "tests/test.h"

enum { WAIT_MS = 8000 };

uint8_t fake_ps_byte(uint64_t variable, size_t i)
{
    return (uint8_t)(variable * 31 + i * 7 + i / 256);
}

uint64_t fake_ps_sum(const void *bytes, size_t len)
{
    uint64_t sum = len;
    for (size_t i = 0; i < len; i++) {
        sum = sum * 31 + ((const uint8_t *)bytes)[i];
    }
    return sum;
}

/* ---- answers */

static int answer_pull(struct coxi_peer *peer, const struct coxi_message *message)
{
    struct coxi_message answer = {.request = message->request, .kind = COXI_PULLED};
    size_t len = message->pull.n_items > 0 ? message->pull.items[0].count : 0;
    uint64_t variable = len > 0 ? message->pull.items[0].variable : 0;
    uint8_t *bytes = malloc(len + 1);
    if (bytes == NULL) {
        abort();
    }
    for (size_t i = 0; i < len; i++) {
        bytes[i] = fake_ps_byte(variable, i);
    }
    struct iovec segment = {bytes, len};
    struct coxi_payload payload = {&segment, len > 0 ? 1 : 0, free, bytes};
    return coxi_message_send(peer->link, &answer, &payload, false);
}

static int answer(struct fake_ps *ps, struct coxi_peer *peer,
                  const struct coxi_message *message, const struct coxi_frame *frame)
{
    char text[64];
    struct coxi_message answer = {.request = message->request};
    if (message->kind == COXI_COUNT) {
        answer.kind = COXI_COUNTS;
        answer.counts.all.commits = message->request;
    } else if (message->kind == COXI_PULL) {
        return answer_pull(peer, message);
    } else if (message->kind == COXI_COMMIT) {
        answer.kind = COXI_COMMITTED;
        coxi_lock(&ps->lock);
        ps->commit_len = frame->payload_len;
        ps->commit_sum = fake_ps_sum(frame->payload, frame->payload_len);
        coxi_unlock(&ps->lock);
    } else if (message->kind == COXI_CLAIM) {
        answer.kind = COXI_STATUS;
        answer.status.code = -(int)message->claim.session.run;
        answer.status.message = text;
        (void)snprintf(text, sizeof(text), "the claim says %d", answer.status.code);
    } else {
        return coxi_error(COX_EPROTO, "a message that the fake does not know");
    }
    return coxi_message_send(peer->link, &answer, NULL, false);
}

static int on_hello(void *arg, struct coxi_peer *peer)
{
    struct fake_ps *ps = arg;
    coxi_lock(&ps->lock);
    ps->n_hellos[peer->hello.channel]++;
    coxi_unlock(&ps->lock);
    return 0;
}

static int on_message(void *arg, struct coxi_peer *peer,
                      const struct coxi_message *message,
                      const struct coxi_frame *frame)
{
    struct fake_ps *ps = arg;
    coxi_lock(&ps->lock);
    while (ps->waiting) {
        coxi_wait_for_end(&ps->changed, &ps->lock);
    }
    ps->n_messages[peer->hello.channel]++;
    ps->n_since++;
    bool breaks = ps->n_breaks > 0 && ps->n_since == ps->breaks_at;
    if (breaks) {
        ps->n_since = 0;
        ps->n_breaks--;
    }
    if (message->kind == COXI_WATERMARK) {
        ps->watermark = message->watermark.watermark;
    }
    bool mute = ps->mute || message->kind == COXI_WATERMARK;
    (void)pthread_cond_broadcast(&ps->changed);
    coxi_unlock(&ps->lock);
    if (breaks) {
        return coxi_error(COX_ECLOSED, "broken by the test");
    }
    return mute ? 0 : answer(ps, peer, message, frame);
}

static const struct coxi_server_events events = {.on_hello = on_hello,
                                                 .on_message = on_message};

/* How these tests are run a second time; see CMakeLists.txt. */
static bool is_local(void)
{
    return getenv("FAKE_PS_LOCAL") != NULL;
}

static bool is_gathered(void)
{
    return is_local() && strcmp(getenv("FAKE_PS_LOCAL"), "gathered") == 0;
}

void fake_ps_start(struct fake_ps *ps, const char *url, uint64_t incarnation)
{
    static int n_started;
    struct coxi_server_options options = {
        .self = {.role = COXI_ROLE_PS,
                 .index = FAKE_PS_INDEX,
                 .incarnation = incarnation},
        .peer_timeout_ms = 60000,
        .local_path = is_local(),
        .events = &events,
        .arg = ps,
    };
    *ps = (struct fake_ps){0};
    (void)snprintf(ps->url, sizeof(ps->url), "ipc://%s/ps-%d", coxi_test_dir(),
                   n_started++);
    if (url != NULL) {
        (void)snprintf(ps->url, sizeof(ps->url), "%s", url);
    }
    coxi_mutex_init(&ps->lock);
    coxi_cond_init(&ps->changed);
    options.listen = ps->url;
    assert_code(0, coxi_server_open(&options, &ps->server));
    (void)snprintf(ps->url, sizeof(ps->url), "%s", coxi_server_url(ps->server));
    coxi_server_start(ps->server);
}

void fake_ps_stop(struct fake_ps *ps)
{
    fake_ps_set(ps, false, true);
    coxi_server_free(ps->server);
    (void)pthread_cond_destroy(&ps->changed);
    coxi_mutex_fini(&ps->lock);
}

void fake_ps_set(struct fake_ps *ps, bool waiting, bool mute)
{
    coxi_lock(&ps->lock);
    ps->waiting = waiting;
    ps->mute = mute;
    (void)pthread_cond_broadcast(&ps->changed);
    coxi_unlock(&ps->lock);
}

void fake_ps_break(struct fake_ps *ps, int at, int times)
{
    coxi_lock(&ps->lock);
    ps->n_since = 0;
    ps->breaks_at = at;
    ps->n_breaks = times;
    coxi_unlock(&ps->lock);
}

void fake_ps_look(struct fake_ps *ps)
{
    coxi_lock(&ps->lock);
    coxi_unlock(&ps->lock);
}

int fake_ps_messages(struct fake_ps *ps)
{
    coxi_lock(&ps->lock);
    int n = ps->n_messages[0] + ps->n_messages[1];
    coxi_unlock(&ps->lock);
    return n;
}

void fake_ps_wait_messages(struct fake_ps *ps, int n)
{
    struct timespec until = coxi_deadline(WAIT_MS);
    coxi_lock(&ps->lock);
    while (ps->n_messages[0] + ps->n_messages[1] < n &&
           coxi_wait_until(&ps->changed, &ps->lock, &until)) {
    }
    int have = ps->n_messages[0] + ps->n_messages[1];
    coxi_unlock(&ps->lock);
    assert_true(have >= n);
}

/* ---- its client */

static void on_lost(void *arg, struct coxi_psc *psc, const char *text)
{
    (void)psc;
    struct client *client = arg;
    coxi_lock(&client->lock);
    client->n_lost++;
    (void)snprintf(client->lost_text, sizeof(client->lost_text), "%s", text);
    (void)pthread_cond_broadcast(&client->changed);
    coxi_unlock(&client->lock);
}

static void on_batch(void *arg)
{
    struct client *client = arg;
    coxi_lock(&client->lock);
    client->n_batches++;
    (void)pthread_cond_broadcast(&client->changed);
    coxi_unlock(&client->lock);
}

struct coxi_psc_options client_options(struct client *client, const char *url)
{
    return (struct coxi_psc_options){
        .address = url,
        .index = FAKE_PS_INDEX,
        .self = {.role = COXI_ROLE_WORKER, .index = 1, .incarnation = 77},
        .connect_ms = WAIT_MS,
        .reconnect_ms = -1,
        .request_ms = 60000,
        .local_path = is_local(),
        .on_lost = on_lost,
        .on_batch = on_batch,
        .arg = client,
    };
}

void client_open(struct client *client, const struct coxi_psc_options *options)
{
    struct coxi_psc_options with_links = *options;
    *client = (struct client){0};
    if (is_gathered()) {
        assert_code(0, coxi_gather_new(&client->gather));
        with_links.gather = client->gather;
    }
    coxi_mutex_init(&client->lock);
    coxi_cond_init(&client->changed);
    assert_code(0, coxi_links_new(60000, &client->links));
    with_links.links = client->links;
    assert_code(0, coxi_psc_open(&with_links, &client->psc));
}

void client_open_to(struct client *client, const struct fake_ps *ps)
{
    struct coxi_psc_options options = client_options(client, ps->url);
    client_open(client, &options);
    assert_code(0, coxi_psc_wait(client->psc, WAIT_MS));
}

void client_end_psc(struct client *client)
{
    coxi_psc_close(client->psc);
    client->psc = NULL;
}

void client_close(struct client *client)
{
    client_end_psc(client);
    coxi_gather_free(client->gather);
    coxi_links_free(client->links);
    (void)pthread_cond_destroy(&client->changed);
    coxi_mutex_fini(&client->lock);
}

int client_times_lost(struct client *client)
{
    coxi_lock(&client->lock);
    int n = client->n_lost;
    coxi_unlock(&client->lock);
    return n;
}

/* ---- requests */

static void done(struct coxi_psc_request *request, int code,
                 const struct coxi_message *message, void *payload, size_t len)
{
    struct asked *asked = (struct asked *)request;
    struct client *client = asked->client;
    coxi_lock(&client->lock);
    asked->n_done++;
    asked->code = code;
    asked->payload = payload;
    asked->payload_len = len;
    (void)snprintf(asked->text, sizeof(asked->text), "%s",
                   code != 0 ? coxi_error_text() : "");
    if (message != NULL) {
        asked->kind = message->kind;
        asked->number = message->kind == COXI_COUNTS ? message->counts.all.commits
                                                     : message->request;
    }
    (void)pthread_cond_broadcast(&client->changed);
    coxi_unlock(&client->lock);
}

void asked_init(struct asked *asked, struct client *client)
{
    *asked = (struct asked){.client = client, .request = {.done = done}};
}

int ask_count(struct asked *asked)
{
    struct coxi_message message = {.kind = COXI_COUNT};
    return coxi_psc_submit(asked->client->psc, &message, &asked->request, false);
}

int ask_pull(struct asked *asked, uint64_t variable, void *into, size_t len)
{
    struct coxi_pull_item item = {variable, 0, len, 0};
    struct coxi_message message = {.kind = COXI_PULL};
    message.pull.items = &item;
    message.pull.n_items = 1;
    asked->request.into = into;
    asked->request.into_len = into != NULL ? len : 0;
    asked->request.answer_len = len;
    return coxi_psc_submit(asked->client->psc, &message, &asked->request, false);
}

int ask_commit(struct asked *asked, const void *payload, size_t len)
{
    struct coxi_message message = {.kind = COXI_COMMIT};
    asked->segment = (struct iovec){(void *)(uintptr_t)payload, len};
    asked->request.payload = &asked->segment;
    asked->request.n_payload = 1;
    return coxi_psc_submit(asked->client->psc, &message, &asked->request, false);
}

void asked_wait(struct asked *asked, int code)
{
    struct client *client = asked->client;
    struct timespec until = coxi_deadline(WAIT_MS);
    coxi_lock(&client->lock);
    while (asked->n_done == 0 &&
           coxi_wait_until(&client->changed, &client->lock, &until)) {
    }
    int n_done = asked->n_done;
    int got = asked->code;
    coxi_unlock(&client->lock);
    assert_int_equal(1, n_done);
    if (got != code) {
        fail_msg("a request ended with %d (%s), not %d", got, asked->text, code);
    }
}
