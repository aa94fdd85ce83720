/* See claims.h. A peer belongs to a run (`of`), because peers of several runs may name
 * the same session. */
#include "ps/claims.h"

#include <stdio.h>

#include "common/error.h"
#include "common/log.h"

/* A session of one of the runs that share the ps. */
struct of_tenant {
    const struct coxi_tenant *tenant;
    const struct coxi_session *session;
};

static bool is_owner(const void *arg, const struct coxi_peer *peer)
{
    const struct of_tenant *of = arg;
    return peer->of == of->tenant && peer->hello.role == COXI_ROLE_CLIENT &&
           coxi_session_equal(&peer->hello.session, of->session);
}

/* True if a client has the run, and is not connected; *ret is its session. */
static bool owner_is_gone(struct coxi_tenant *tenant, struct coxi_server *server,
                          struct coxi_session *ret)
{
    const struct of_tenant owner = {tenant, ret};
    return coxi_store_owner(tenant->store, ret) &&
           !coxi_server_any(server, is_owner, &owner);
}

/* True if the client that has the run has not been heard of since this peer came. It
 * may have vanished with its host, which is noticed only after --peer-timeout-ms. */
static bool owner_is_silent(struct coxi_tenant *tenant, const struct coxi_peer *peer)
{
    struct coxi_session session;
    const struct of_tenant owner = {tenant, &session};
    return coxi_store_owner(tenant->store, &session) &&
           coxi_server_heard_ms(peer->server, is_owner, &owner) < peer->since_ms;
}

/* True for the control connection of an older client of the run. */
static bool is_replaced(const void *arg, const struct coxi_peer *peer)
{
    const struct of_tenant *of = arg;
    const struct coxi_hello *hello = &peer->hello;
    return peer->of == of->tenant && hello->role == COXI_ROLE_CLIENT &&
           hello->channel == COXI_CHANNEL_CONTROL &&
           hello->session.run == of->session->run &&
           hello->session.generation < of->session->generation;
}

/* Tells older clients of the run that they were replaced, because an idle client would
 * not learn it otherwise. A client that is not connected now learns it when it greets
 * again. */
static void tell_replaced(const struct coxi_tenant *tenant, struct coxi_server *server,
                          const struct coxi_session *session)
{
    const struct of_tenant of = {tenant, session};
    struct coxi_message message = {.kind = COXI_STATUS};
    char text[128];
    (void)snprintf(text, sizeof(text), "another client has taken over: generation %llu",
                   (unsigned long long)session->generation);
    message.status.code = COX_EFENCED;
    message.status.message = text;
    coxi_server_tell(server, is_replaced, &of, &message);
}

/* Logs the answer to a claim only if it differs from the last one, because a client
 * that waits for another client's end claims ten times a second. */
static void log_claim(struct coxi_tenant *tenant, const struct coxi_session *claim,
                      int code)
{
    const struct coxi_claimed told = {claim->run, claim->generation, code};
    coxi_lock(&tenant->lock);
    bool again = code != 0 && tenant->told.run == told.run &&
                 tenant->told.generation == told.generation &&
                 tenant->told.code == code;
    tenant->told = told;
    coxi_unlock(&tenant->lock);
    if (!again) {
        coxi_log(code == 0 ? COXI_LOG_INFO : COXI_LOG_WARN, "claim",
                 "run=%016llx%s%s generation=%llu result=%s",
                 (unsigned long long)claim->run, *tenant->name != '\0' ? " name=" : "",
                 tenant->name, (unsigned long long)claim->generation,
                 coxi_error_name(code));
    }
}

static bool is_of_session(const void *arg, const struct coxi_peer *peer)
{
    const struct of_tenant *of = arg;
    return peer->of == of->tenant && peer->hello.role != COXI_ROLE_TOOL &&
           coxi_session_equal(&peer->hello.session, of->session);
}

/*
 * The session `gone` has lost the ps. Its client may have connected again in that
 * moment, and was greeted with the incarnation before; its workers may be connected,
 * too. They are cut off, and learn the incarnation when they greet again.
 */
static void cut_off(const struct coxi_tenant *tenant, struct coxi_server *server,
                    const struct coxi_session *gone)
{
    const struct of_tenant of = {tenant, gone};
    coxi_server_close(server, is_of_session, &of, COX_EPSLOST,
                      "another run has taken the ps");
}

/* ---- seats */

static bool is_claimed(struct coxi_tenant *tenant)
{
    struct coxi_session owner;
    return tenant != NULL && coxi_store_owner(tenant->store, &owner);
}

static uint32_t count_claimed(struct coxi_tenants *tenants)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < coxi_tenants_count(tenants); i++) {
        n += is_claimed(coxi_tenants_made(tenants, i));
    }
    return n;
}

/* Takes the seat of a run whose client is gone; false: there is none. */
static bool vacate_one(struct coxi_tenants *tenants, struct coxi_server *server)
{
    for (uint32_t i = 0; i < coxi_tenants_count(tenants); i++) {
        struct coxi_tenant *tenant = coxi_tenants_made(tenants, i);
        struct coxi_session gone;
        if (tenant != NULL && owner_is_gone(tenant, server, &gone) &&
            coxi_store_vacate(tenant->store, &gone)) {
            coxi_log(COXI_LOG_WARN, "seat_lost",
                     "run=%016llx name=%s text=\"its client is gone, and another run "
                     "has taken its seat\"",
                     (unsigned long long)gone.run, tenant->name);
            cut_off(tenant, server, &gone);
            return true;
        }
    }
    return false;
}

/* Finds a seat for the run, unless it has one. Seats locked. */
static int take_seat(struct coxi_tenant *tenant, struct coxi_server *server,
                     uint32_t seats)
{
    return is_claimed(tenant) || count_claimed(tenant->tenants) < seats ||
                   vacate_one(tenant->tenants, server)
               ? 0
               : coxi_error(COX_EBUSY,
                            "ps %u serves %u runs already: end one of them, or raise "
                            "--runs",
                            tenant->ps_index, seats);
}

/* True if the ps may be free for this peer soon, because a client that is in its way
 * has been silent since the peer came. */
static bool may_be_free_soon(struct coxi_tenant *tenant, const struct coxi_peer *peer)
{
    bool any = owner_is_silent(tenant, peer);
    for (uint32_t i = 0; !is_claimed(tenant) && i < coxi_tenants_count(tenant->tenants);
         i++) {
        struct coxi_tenant *other = coxi_tenants_made(tenant->tenants, i);
        any = any || (other != NULL && owner_is_silent(other, peer));
    }
    return any;
}

int coxi_claims_answer(struct coxi_tenant *tenant, struct coxi_peer *peer,
                       const struct coxi_message *request)
{
    struct coxi_server *server = peer->server;
    struct coxi_session gone;
    struct coxi_seats *seats = coxi_tenants_seats(tenant->tenants);
    coxi_lock(&seats->lock);
    bool is_gone = owner_is_gone(tenant, server, &gone);
    int r = take_seat(tenant, server, seats->n);
    if (r == 0) {
        r = coxi_store_claim(tenant->store, &request->claim, is_gone ? &gone : NULL);
    }
    coxi_unlock(&seats->lock);
    struct coxi_message answer = {.request = request->request, .kind = COXI_STATUS};
    r = r == COX_EBUSY && may_be_free_soon(tenant, peer) ? COX_EAGAIN : r;
    answer.status.code = r;
    answer.status.message = r != 0 ? coxi_error_text() : "";
    answer.status.incarnation = r == 0 ? coxi_store_incarnation(tenant->store) : 0;
    log_claim(tenant, &request->claim, r);
    int sent = coxi_message_send(peer->link, &answer, NULL, false);
    if (r == 0) {
        tell_replaced(tenant, server, &request->claim);
    }
    if (r == 0 && is_gone && gone.run != request->claim.run) {
        cut_off(tenant, server, &gone);
    }
    return sent;
}
