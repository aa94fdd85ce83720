/* See claims.h. */
#include "ps/claims.h"

#include <stdio.h>

#include "common/error.h"
#include "common/log.h"

void coxi_claims_init(struct coxi_claims *claims)
{
    coxi_mutex_init(&claims->lock);
    coxi_unshared(&claims->lock);
    claims->told = (struct coxi_claimed){0};
}

void coxi_claims_fini(struct coxi_claims *claims)
{
    coxi_mutex_fini(&claims->lock);
}

static bool is_owner(const void *arg, const struct coxi_hello *hello)
{
    return hello->role == COXI_ROLE_CLIENT && coxi_session_equal(&hello->session, arg);
}

/* True if no client of the session that has the store is connected; *ret is that
 * session. */
static bool owner_is_gone(struct coxi_store *store, struct coxi_server *server,
                          struct coxi_session *ret)
{
    return coxi_store_owner(store, ret) && !coxi_server_any(server, is_owner, ret);
}

/* True if the client that has the store has not been heard of since this peer came. It
 * may have vanished with its host, which is noticed only after --peer-timeout-ms. */
static bool owner_is_silent(struct coxi_store *store, const struct coxi_peer *peer)
{
    struct coxi_session owner;
    return coxi_store_owner(store, &owner) &&
           coxi_server_heard_ms(peer->server, is_owner, &owner) < peer->since_ms;
}

/* True for the control connection of an older client of the run. */
static bool is_replaced(const void *arg, const struct coxi_hello *hello)
{
    const struct coxi_session *session = arg;
    return hello->role == COXI_ROLE_CLIENT && hello->channel == COXI_CHANNEL_CONTROL &&
           hello->session.run == session->run &&
           hello->session.generation < session->generation;
}

/* Tells older clients of the run that they were replaced, because an idle client would
 * not learn it otherwise. A client that is not connected now learns it when it greets
 * again. */
static void tell_replaced(struct coxi_server *server,
                          const struct coxi_session *session)
{
    struct coxi_message message = {.kind = COXI_STATUS};
    char text[128];
    (void)snprintf(text, sizeof(text), "another client has taken over: generation %llu",
                   (unsigned long long)session->generation);
    message.status.code = COX_EFENCED;
    message.status.message = text;
    coxi_server_tell(server, is_replaced, session, &message);
}

/* Logs the answer to a claim only if it differs from the last one, because a client
 * that waits for another client's end claims ten times a second. */
static void log_claim(struct coxi_claims *claims, const struct coxi_session *claim,
                      int code)
{
    const struct coxi_claimed told = {claim->run, claim->generation, code};
    coxi_lock(&claims->lock);
    bool again = code != 0 && claims->told.run == told.run &&
                 claims->told.generation == told.generation &&
                 claims->told.code == code;
    claims->told = told;
    coxi_unlock(&claims->lock);
    if (!again) {
        coxi_log(code == 0 ? COXI_LOG_INFO : COXI_LOG_WARN, "claim",
                 "run=%016llx generation=%llu result=%s",
                 (unsigned long long)claim->run, (unsigned long long)claim->generation,
                 coxi_error_name(code));
    }
}

static bool is_of_session(const void *arg, const struct coxi_hello *hello)
{
    return hello->role != COXI_ROLE_TOOL && coxi_session_equal(&hello->session, arg);
}

/*
 * Another run has taken the ps from the session `gone`. Its client may have connected
 * again in that moment, and was greeted with the incarnation before; its workers may be
 * connected, too. They are cut off, and learn the incarnation when they greet again.
 */
static void cut_off(struct coxi_server *server, const struct coxi_session *gone)
{
    coxi_server_close(server, is_of_session, gone, COX_EPSLOST,
                      "another run has taken the ps");
}

int coxi_claims_answer(struct coxi_claims *claims, struct coxi_store *store,
                       struct coxi_peer *peer, const struct coxi_message *request)
{
    struct coxi_session gone;
    bool is_gone = owner_is_gone(store, peer->server, &gone);
    int r = coxi_store_claim(store, &request->claim, is_gone ? &gone : NULL);
    struct coxi_message answer = {.request = request->request, .kind = COXI_STATUS};
    r = r == COX_EBUSY && owner_is_silent(store, peer) ? COX_EAGAIN : r;
    answer.status.code = r;
    answer.status.message = r != 0 ? coxi_error_text() : "";
    answer.status.incarnation = r == 0 ? coxi_store_incarnation(store) : 0;
    log_claim(claims, &request->claim, r);
    int sent = coxi_message_send(peer->link, &answer, NULL, false);
    if (r == 0) {
        tell_replaced(peer->server, &request->claim);
    }
    if (r == 0 && is_gone && gone.run != request->claim.run) {
        cut_off(peer->server, &gone);
    }
    return sent;
}
