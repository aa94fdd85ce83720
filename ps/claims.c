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
    uint64_t n;
    if (!again && coxi_seldom_some(&tenant->told_of.claims[code != 0], &n)) {
        coxi_log(code == 0 ? COXI_LOG_INFO : COXI_LOG_WARN, "claim",
                 "run=%016llx%s%s generation=%llu result=%s claims=%llu",
                 (unsigned long long)claim->run, *tenant->name != '\0' ? " name=" : "",
                 tenant->name, (unsigned long long)claim->generation,
                 coxi_error_name(code), (unsigned long long)n);
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

static bool has_seat(const struct coxi_seats *seats, const struct coxi_tenant *tenant)
    COXI_REQUIRES(seats->lock)
{
    (void)seats;
    return tenant != NULL && (tenant->seat.is_owned || tenant->seat.n_claims > 0);
}

static uint32_t count_taken(const struct coxi_seats *seats,
                            struct coxi_tenants *tenants) COXI_REQUIRES(seats->lock)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < coxi_tenants_count(tenants); i++) {
        n += has_seat(seats, coxi_tenants_made(tenants, i));
    }
    return n;
}

/* Takes the seat of a run whose client is gone, and returns the run; NULL: there is
 * none. */
static struct coxi_tenant *unseat_one(const struct coxi_seats *seats,
                                      struct coxi_tenants *tenants,
                                      struct coxi_server *server)
    COXI_REQUIRES(seats->lock)
{
    (void)seats;
    for (uint32_t i = 0; i < coxi_tenants_count(tenants); i++) {
        struct coxi_tenant *tenant = coxi_tenants_made(tenants, i);
        if (tenant == NULL || !tenant->seat.is_owned || tenant->seat.n_claims > 0) {
            continue;
        }
        const struct of_tenant owner = {tenant, &tenant->seat.owner};
        if (!coxi_server_any(server, is_owner, &owner)) {
            tenant->seat.is_owned = false;
            return tenant;
        }
    }
    return NULL;
}

/* The run has lost its seat: empties its store, unless a client has come back. */
static void vacate(struct coxi_tenant *tenant, struct coxi_server *server)
{
    struct coxi_session gone;
    if (owner_is_gone(tenant, server, &gone) &&
        coxi_store_vacate(tenant->store, &gone)) {
        uint64_t n;
        if (coxi_seldom_some(&tenant->told_of.seats_lost, &n)) {
            coxi_log(COXI_LOG_WARN, "seat_lost",
                     "run=%016llx name=%s lost=%llu text=\"its client is gone, and "
                     "another run has taken its seat\"",
                     (unsigned long long)gone.run, tenant->name, (unsigned long long)n);
        }
        cut_off(tenant, server, &gone);
    }
}

/* Finds a seat for the run, which stays its own until end_claim. COX_EBUSY. No store is
 * asked with the seats locked, because one may be busy for long. */
static int begin_claim(struct coxi_tenant *tenant, struct coxi_server *server)
{
    struct coxi_seats *seats = coxi_tenants_seats(tenant->tenants);
    struct coxi_tenant *unseated = NULL;
    coxi_lock(&seats->lock);
    bool has_room =
        has_seat(seats, tenant) || count_taken(seats, tenant->tenants) < seats->n;
    if (!has_room) {
        unseated = unseat_one(seats, tenant->tenants, server);
    }
    bool may_claim = has_room || unseated != NULL;
    tenant->seat.n_claims += may_claim;
    coxi_unlock(&seats->lock);
    if (unseated != NULL) {
        vacate(unseated, server);
    }
    return may_claim ? 0
                     : coxi_error(COX_EBUSY,
                                  "ps %u serves as many runs as its --runs allows, %u: "
                                  "end one of them, or raise --runs",
                                  tenant->ps_index, seats->n);
}

/* `owner` NULL: the claim has failed. */
static void end_claim(struct coxi_tenant *tenant, const struct coxi_session *owner)
{
    struct coxi_seats *seats = coxi_tenants_seats(tenant->tenants);
    coxi_lock(&seats->lock);
    tenant->seat.n_claims--;
    if (owner != NULL) {
        tenant->seat.is_owned = true;
        tenant->seat.owner = *owner;
    }
    coxi_unlock(&seats->lock);
}

/* True if a client that has a seat, and keeps this peer's run from one, has been silent
 * since the peer came. */
static bool seat_may_be_free_soon(struct coxi_tenant *tenant,
                                  const struct coxi_peer *peer)
{
    struct coxi_seats *seats = coxi_tenants_seats(tenant->tenants);
    bool any = false;
    coxi_lock(&seats->lock);
    for (uint32_t i = 0;
         !has_seat(seats, tenant) && i < coxi_tenants_count(tenant->tenants); i++) {
        struct coxi_tenant *other = coxi_tenants_made(tenant->tenants, i);
        const struct of_tenant owner = {other,
                                        other != NULL ? &other->seat.owner : NULL};
        any = any ||
              (has_seat(seats, other) &&
               coxi_server_heard_ms(peer->server, is_owner, &owner) < peer->since_ms);
    }
    coxi_unlock(&seats->lock);
    return any;
}

/* ---- claims */

static int claim(struct coxi_tenant *tenant, const struct coxi_peer *peer,
                 const struct coxi_claim *claim, const struct coxi_session *gone)
{
    const struct coxi_session *session = &claim->session;
    int r = begin_claim(tenant, peer->server);
    if (r == 0) {
        r = coxi_store_claim(tenant->store, session, gone);
        if (r == 0 && claim->leaves != 0) {
            r = coxi_store_renew(tenant->store, session, claim->leaves);
        }
        end_claim(tenant, r == 0 ? session : NULL);
    }
    return r == COX_EBUSY && (owner_is_silent(tenant, peer) ||
                              seat_may_be_free_soon(tenant, peer))
               ? COX_EAGAIN
               : r;
}

int coxi_claims_answer(struct coxi_tenant *tenant, struct coxi_peer *peer,
                       const struct coxi_message *request)
{
    struct coxi_server *server = peer->server;
    struct coxi_session gone;
    bool is_gone = owner_is_gone(tenant, server, &gone);
    int r = claim(tenant, peer, &request->claim, is_gone ? &gone : NULL);
    struct coxi_message answer = {.request = request->request, .kind = COXI_STATUS};
    answer.status.code = r;
    answer.status.message = r != 0 ? coxi_error_text() : "";
    answer.status.incarnation = r == 0 ? coxi_store_incarnation(tenant->store) : 0;
    log_claim(tenant, &request->claim.session, r);
    int sent = coxi_message_send(peer->link, &answer, NULL, false);
    if (r == 0) {
        tell_replaced(tenant, server, &request->claim.session);
    }
    if (r == 0 && is_gone && gone.run != request->claim.session.run) {
        cut_off(tenant, server, &gone);
    }
    return sent;
}

int coxi_claims_release(struct coxi_tenant *tenant, const struct coxi_session *session)
{
    struct coxi_seats *seats = coxi_tenants_seats(tenant->tenants);
    int r = coxi_store_release(tenant->store, session);
    coxi_lock(&seats->lock);
    if (r == 0 && coxi_session_equal(&tenant->seat.owner, session)) {
        tenant->seat.is_owned = false;
    }
    coxi_unlock(&seats->lock);
    return r;
}
