/*
 * The connections of a ps client: dialling, greeting, the end of requests; which
 * process to follow, and whether it is within reach.
 *
 * States of a channel: DOWN -> (connected, greeted) UP -> (link closed) DOWN. Threads:
 * each connection has one that dials and receives; coxi_psc_follow and coxi_psc_tick
 * run on any.
 */
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/sync.h"
#include "net/ps_client_internal.h"

enum {
    BACKOFF_FIRST_MS = 5,
    BACKOFF_MAX_MS = 500,
    /* how long a channel may stay connected to a process other than the one to
     * follow */
    STRANGER_MS = 1000,
};

/* Bytes of the local path in each direction, by channel: enough for the data under
 * way. */
static const size_t ring_bytes[] = {(size_t)256 * 1024, (size_t)1024 * 1024};

/* ---- the end of requests */

static const char *why_ends(const struct coxi_psc *psc, int code)
    COXI_REQUIRES(psc->lock)
{
    return psc->failed != 0        ? psc->failed_text
           : code == COX_ETIMEDOUT ? "no answer in time"
           : psc->unreached        ? psc->last_text
                                   : "it is another process now";
}

/* Finds the channel's first request that must end now, and takes it out of `waiting`;
 * NULL: there is none. */
static struct coxi_psc_request *next_to_end(struct coxi_psc_channel *channel,
                                            int *ret_code)
{
    struct coxi_psc *psc = channel->psc;
    struct coxi_psc_request *found = NULL;
    coxi_lock(&psc->lock);
    for (uint64_t id = psc->waiting.first; id < psc->waiting.next && found == NULL;
         id++) {
        struct coxi_psc_request *request = coxi_window_get(&psc->waiting, id);
        if (request != NULL && request->channel == channel->kind &&
            (psc->failed != 0 || request->ends != 0)) {
            found = coxi_psc_delist(psc, id);
            *ret_code = psc->failed != 0 ? psc->failed : request->ends;
        }
    }
    if (found != NULL) {
        (void)coxi_error(*ret_code, "ps %u at %s: %s", psc->options.index,
                         coxi_psc_address(psc), why_ends(psc, *ret_code));
    }
    coxi_unlock(&psc->lock);
    return found;
}

static void end_requests(struct coxi_psc_channel *channel)
{
    int code;
    struct coxi_psc_request *request;
    while ((request = next_to_end(channel, &code)) != NULL) {
        request->done(request, code, NULL, NULL, 0);
    }
}

/* ---- the life of a connection */

static void note_failure(struct coxi_psc *psc, int code, const char *text)
{
    coxi_lock(&psc->lock);
    psc->misnamed = code == COX_EADDRESS;
    if (code != COX_EDENIED) {
        psc->denied_ms = 0;
    } else if (psc->denied_ms == 0) {
        psc->denied_ms = coxi_now_ms();
    }
    (void)snprintf(psc->last_text, sizeof(psc->last_text), "%s", text);
    coxi_unlock(&psc->lock);
}

static void lose(struct coxi_psc *psc, int code, const char *text)
{
    if (coxi_psc_fail(psc, code, text) && psc->options.on_lost != NULL) {
        psc->options.on_lost(psc->options.arg, psc, text);
    }
}

/* True while a claim is under way. A claim may begin a new incarnation, so until its
 * answer has come, another incarnation does not mean that the ps was lost. */
static bool is_claiming(const struct coxi_psc *psc) COXI_REQUIRES(psc->lock)
{
    return coxi_window_get(&psc->waiting, psc->claim) != NULL;
}

/* The ps has greeted: the channel is up, and unanswered requests go out (again). */
static int greeted(struct coxi_psc_channel *channel, const struct coxi_hello *hello)
{
    struct coxi_psc *psc = channel->psc;
    if (hello->role != COXI_ROLE_PS || hello->index != psc->options.index) {
        return coxi_error(COX_ECONFLICT, "there is another daemon at this address: %s",
                          hello->role == COXI_ROLE_PS ? "a ps with another --index"
                                                      : "it is no ps");
    }
    coxi_lock(&psc->lock);
    bool other = psc->incarnation != 0 && psc->incarnation != hello->incarnation &&
                 !is_claiming(psc);
    if (!other || !psc->options.same_incarnation) {
        psc->incarnation = channel->incarnation = hello->incarnation;
        channel->up = true;
        channel->up_ms = coxi_now_ms();
        coxi_link_allow(channel->link, COXI_WIRE_META_MAX, COXI_PAYLOAD_MAX);
        for (uint64_t id = psc->waiting.first; id < psc->waiting.next; id++) {
            struct coxi_psc_request *request = coxi_window_get(&psc->waiting, id);
            if (request != NULL && request->channel == channel->kind) {
                (void)coxi_psc_put(channel->link, request, true);
            }
        }
        (void)pthread_cond_broadcast(&psc->changed);
    }
    struct coxi_link *link = channel->link;
    coxi_unlock(&psc->lock);
    coxi_link_flush(link);
    if (other && psc->options.same_incarnation) {
        return coxi_error(COX_EPSLOST, "it was restarted, or has served another "
                                       "client, and has lost its state");
    }
    return 0;
}

/* Notes `code` and the last error's text as the reason why this ps cannot be used any
 * more. The loss is reported when the link has ended, so that queued data leave first.
 * Returns the code. */
static int condemn(struct coxi_psc_channel *channel, int code)
{
    channel->verdict = code;
    strncpy(channel->verdict_text, coxi_error_text(),
            sizeof(channel->verdict_text) - 1);
    return code;
}

int coxi_psc_greet(struct coxi_psc_channel *channel, struct coxi_link *link,
                   const struct coxi_frame *frame)
{
    struct coxi_hello hello;
    int r = coxi_hello_read(link, frame, &hello);
    channel->greeted = r == 0;
    if (r == 0) {
        coxi_hello_change_over(link, &hello);
        r = greeted(channel, &hello);
    }
    bool is_end =
        r == COX_EVERSION || r == COX_ECONFLICT || r == COX_EPSLOST || r == COX_EFENCED;
    return is_end ? condemn(channel, r) : r;
}

int coxi_psc_told(struct coxi_psc_channel *channel, const struct coxi_message *message)
{
    if (message->kind != COXI_STATUS || message->status.code != COX_EFENCED) {
        return coxi_error(COX_EPROTO, "an answer to no request");
    }
    return condemn(channel, coxi_error(COX_EFENCED, "%s", message->status.message));
}

static void on_close(void *arg, struct coxi_link *link, int code, const char *text)
{
    struct coxi_psc_channel *channel = arg;
    struct coxi_psc *psc = channel->psc;
    note_failure(psc, code, text);
    if (channel->kind == COXI_CHANNEL_CONTROL && channel->greeted) {
        coxi_lock(&psc->lock);
        psc->reached_ms = coxi_link_heard_ms(link);
        coxi_unlock(&psc->lock);
    }
}

static const struct coxi_link_events events = {.on_frame = coxi_psc_on_frame,
                                               .on_payload = coxi_psc_on_payload,
                                               .on_batch = coxi_psc_on_batch,
                                               .on_close = on_close};

/* Makes a connection; the error is noted. */
static int dial(struct coxi_psc_channel *channel, struct coxi_link **ret)
{
    struct coxi_psc *psc = channel->psc;
    coxi_lock(&psc->lock);
    /* read before the address, so that no move of the ps is missed */
    channel->n_moves = psc->n_moves;
    coxi_dial_begin(channel->dial);
    int r = psc->failed != 0 ? COX_ECANCELLED : 0;
    coxi_unlock(&psc->lock);
    const struct coxi_guard guard =
        coxi_hello_guard(psc->options.key, &psc->options.self);
    if (r == 0) {
        r = coxi_dial_link(channel->dial, coxi_psc_address(psc), &guard,
                           psc->options.connect_ms, ret);
    }
    if (r != 0 && r != COX_ECANCELLED) {
        note_failure(psc, r, coxi_error_text());
    }
    return r;
}

/* Connects once and serves the connection until it is closed. True: it was up. */
static bool connect_and_serve(struct coxi_psc_channel *channel)
{
    struct coxi_psc *psc = channel->psc;
    struct coxi_link *link;
    if (dial(channel, &link) != 0) {
        return false;
    }
    channel->greeted = false;
    coxi_link_listen_to(link, &events, channel);
    coxi_links_add(psc->options.links, link);
    coxi_lock(&psc->lock);
    channel->link = link;
    psc->misnamed = false;
    psc->denied_ms = 0;
    bool stop = psc->failed != 0 || channel->n_moves != psc->n_moves;
    coxi_unlock(&psc->lock);
    /* End requests that have expired while no link was up, because this link must not
     * send them. */
    end_requests(channel);
    struct coxi_hello hello = psc->options.self;
    hello.channel = channel->kind;
    /* If there is no memory for rings, the link stays on the stream. */
    if (psc->options.local_path &&
        coxi_link_offer(
            link, channel->kind == COXI_CHANNEL_CONTROL ? psc->options.gather : NULL,
            ring_bytes[channel->kind], &hello.local) != 0) {
        hello.local = NULL;
    }
    (void)coxi_hello_send(link, &hello);
    if (stop) {
        coxi_link_close(link, COX_ECANCELLED, "it is not wanted any more");
    }
    (void)coxi_link_run(link);
    coxi_lock(&psc->lock);
    bool was_up = channel->up;
    channel->up = false;
    channel->link = NULL;
    coxi_unlock(&psc->lock);
    coxi_link_unref(link);
    if (channel->verdict != 0 && psc->options.unreached_ms > 0) {
        note_failure(psc, channel->verdict, channel->verdict_text);
        channel->verdict = 0;
    } else if (channel->verdict != 0) {
        lose(psc, channel->verdict, channel->verdict_text);
    }
    return was_up;
}

/* Waits before the next attempt; false: there will be none. */
static bool back_off(struct coxi_psc_channel *channel, int *backoff_ms,
                     uint64_t down_since_ms)
{
    struct coxi_psc *psc = channel->psc;
    if (psc->options.reconnect_ms >= 0 && coxi_psc_incarnation(psc) != 0 &&
        coxi_now_ms() - down_since_ms > (uint64_t)psc->options.reconnect_ms) {
        char text[sizeof(psc->last_text)];
        coxi_lock(&psc->lock);
        memcpy(text, psc->last_text, sizeof(text));
        coxi_unlock(&psc->lock);
        lose(psc, COX_EPSLOST, text);
    }
    struct timespec until = coxi_deadline(*backoff_ms);
    coxi_lock(&psc->lock);
    while (psc->failed == 0 && channel->n_moves == psc->n_moves &&
           coxi_wait_until(&psc->changed, &psc->lock, &until)) {
    }
    bool again = psc->failed == 0;
    bool moved = channel->n_moves != psc->n_moves;
    coxi_unlock(&psc->lock);
    *backoff_ms = moved ? BACKOFF_FIRST_MS / 2 : *backoff_ms;
    *backoff_ms = *backoff_ms * 2 < BACKOFF_MAX_MS ? *backoff_ms * 2 : BACKOFF_MAX_MS;
    return again;
}

static void *channel_thread(void *arg)
{
    struct coxi_psc_channel *channel = arg;
    int backoff_ms = BACKOFF_FIRST_MS;
    uint64_t down_since_ms = coxi_now_ms();
    do {
        if (connect_and_serve(channel)) {
            backoff_ms = BACKOFF_FIRST_MS;
            down_since_ms = coxi_now_ms();
        }
        end_requests(channel);
    } while (back_off(channel, &backoff_ms, down_since_ms));
    end_requests(channel);
    return NULL;
}

int coxi_psc_start_channel(struct coxi_psc *psc, enum coxi_channel kind)
{
    struct coxi_psc_channel *channel = &psc->channels[kind];
    int r =
        coxi_thread_start(&channel->thread, "cox:ps-client", channel_thread, channel);
    channel->started = r == 0;
    return r;
}

/* ---- following the ps */

/* True if the channel is up and leads to the process to follow. */
static bool leads_there(const struct coxi_psc_channel *channel)
    COXI_REQUIRES(channel->psc->lock)
{
    uint64_t told = channel->psc->told;
    return channel->up && (told == 0 || channel->incarnation == told);
}

/* Closes a channel's connection. With `requests`, the channel's requests end when the
 * connection is closed; otherwise the next connection repeats them. */
static void end_channel(struct coxi_psc_channel *channel, bool requests,
                        const char *text) COXI_REQUIRES(channel->psc->lock)
{
    struct coxi_psc *psc = channel->psc;
    for (uint64_t id = psc->waiting.first; requests && id < psc->waiting.next; id++) {
        struct coxi_psc_request *request = coxi_window_get(&psc->waiting, id);
        if (request != NULL && request->channel == channel->kind &&
            request->ends == 0) {
            request->ends = COX_EPSLOST;
        }
    }
    if (channel->link != NULL) {
        coxi_link_close(channel->link, COX_ECLOSED, text);
    }
}

/* Treats the ps as out of reach from now on: all requests end, also later ones. */
static void end_reach(struct coxi_psc *psc)
{
    coxi_lock(&psc->lock);
    psc->unreached = true;
    for (int i = 0; i < 2; i++) {
        end_channel(&psc->channels[i], true, psc->last_text);
        coxi_dial_abort(psc->channels[i].dial);
    }
    psc->n_moves++; /* wakes the threads that wait to dial, which end the requests */
    (void)pthread_cond_broadcast(&psc->changed);
    coxi_unlock(&psc->lock);
}

/* Reports when the ps gets out of reach, before its requests end, and when it is
 * reached again. */
static void look_for_reach(struct coxi_psc *psc)
{
    char text[sizeof(psc->last_text)];
    coxi_lock(&psc->lock);
    /* read the clock while holding the lock, so that `now` is not earlier than the
     * times that the lock guards */
    uint64_t now = coxi_now_ms();
    bool before = psc->unreached;
    bool reached = leads_there(&psc->channels[COXI_CHANNEL_CONTROL]);
    psc->reached_ms = reached ? now : psc->reached_ms;
    bool unreached = !reached && psc->options.unreached_ms > 0 &&
                     now - psc->reached_ms > (uint64_t)psc->options.unreached_ms;
    /* A ps that was given up is not dialled any more, so a missing connection does not
     * show that it is out of reach. */
    unreached = psc->failed != 0 ? before : unreached;
    psc->unreached = psc->unreached && unreached;
    memcpy(text, psc->last_text, sizeof(text));
    coxi_unlock(&psc->lock);
    if (unreached != before && psc->options.on_reach != NULL) {
        psc->options.on_reach(psc->options.arg, psc, unreached ? text : NULL);
    }
    if (unreached && !before) {
        end_reach(psc);
    }
}

int coxi_psc_follow(struct coxi_psc *psc, const char *address, uint64_t incarnation)
{
    bool moved = strcmp(coxi_psc_address(psc), address) != 0;
    int r = coxi_address_set(&psc->address, address);
    coxi_lock(&psc->lock);
    bool reborn = psc->told != 0 && psc->told != incarnation;
    psc->told = incarnation;
    psc->n_moves += moved || reborn;
    for (int i = 0; i < 2; i++) {
        if (moved || (reborn && !leads_there(&psc->channels[i]))) {
            end_channel(&psc->channels[i], reborn, "the ps is another process now");
        }
    }
    (void)pthread_cond_broadcast(&psc->changed);
    coxi_unlock(&psc->lock);
    look_for_reach(psc);
    return r;
}

/* ---- ticks */

/* Closes connections to a process other than the one to follow, because the ps's host
 * name may resolve to another address by now. */
static void leave_strangers(struct coxi_psc *psc, uint64_t now) COXI_REQUIRES(psc->lock)
{
    for (int i = 0; i < 2; i++) {
        struct coxi_psc_channel *channel = &psc->channels[i];
        if (channel->up && !leads_there(channel) &&
            now - channel->up_ms > STRANGER_MS) {
            end_channel(channel, false,
                        "the process at the ps's address is not the client's ps");
        }
    }
}

/* Closes the connection of an expired request. The request ends only then, because
 * until then the link may use its memory. */
static void expire(struct coxi_psc *psc, struct coxi_psc_request *request)
    COXI_REQUIRES(psc->lock)
{
    struct coxi_psc_channel *channel = &psc->channels[request->channel];
    request->ends = COX_ETIMEDOUT;
    if (channel->link != NULL) {
        coxi_link_close(channel->link, COX_ETIMEDOUT, "a request was not answered");
    }
    (void)pthread_cond_broadcast(&psc->changed);
}

void coxi_psc_tick(struct coxi_psc *psc)
{
    coxi_lock(&psc->lock);
    uint64_t now = coxi_now_ms();
    for (uint64_t id = psc->waiting.first; id < psc->waiting.next; id++) {
        struct coxi_psc_request *request = coxi_window_get(&psc->waiting, id);
        if (request != NULL && request->ends == 0 && now >= request->deadline_ms) {
            expire(psc, request);
        }
    }
    leave_strangers(psc, now);
    coxi_unlock(&psc->lock);
    look_for_reach(psc);
}
