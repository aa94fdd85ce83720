/* See server.h: finds peers among a server's connections, tells them something, and
 * closes them; bounds how many connections a run has. Threads: any. */
#include <stdlib.h>
#include <sys/resource.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/sync.h"
#include "net/server_internal.h"

bool coxi_server_any(struct coxi_server *server, coxi_peer_match match, const void *arg)
{
    bool any = false;
    coxi_lock(&server->lock);
    for (struct coxi_connection *c = server->connections; c != NULL && !any;
         c = c->next) {
        any = c->greeted && match(arg, &c->peer);
    }
    coxi_unlock(&server->lock);
    return any;
}

uint64_t coxi_server_heard_ms(struct coxi_server *server, coxi_peer_match match,
                              const void *arg)
{
    uint64_t last = 0;
    coxi_lock(&server->lock);
    for (struct coxi_connection *c = server->connections; c != NULL; c = c->next) {
        if (c->greeted && match(arg, &c->peer)) {
            uint64_t heard = coxi_link_heard_ms(c->peer.link);
            last = heard > last ? heard : last;
        }
    }
    coxi_unlock(&server->lock);
    return last;
}

/* Lists the links of the peers for which `match` is true, with a reference to each; the
 * caller frees *ret with free(). */
static size_t take_links(struct coxi_server *server, coxi_peer_match match,
                         const void *arg, struct coxi_link ***ret)
{
    size_t n = 0;
    coxi_lock(&server->lock);
    struct coxi_link **links =
        calloc(server->n_connections + 1, sizeof(struct coxi_link *));
    for (struct coxi_connection *c = server->connections; c != NULL && links != NULL;
         c = c->next) {
        if (c->greeted && match(arg, &c->peer)) {
            links[n++] = coxi_link_ref(c->peer.link);
        }
    }
    coxi_unlock(&server->lock);
    *ret = links;
    return n;
}

void coxi_server_tell(struct coxi_server *server, coxi_peer_match match,
                      const void *arg, const struct coxi_message *message)
{
    struct coxi_link **links;
    size_t n = take_links(server, match, arg, &links);
    for (size_t i = 0; i < n; i++) {
        (void)coxi_message_send(links[i], message, NULL, false);
        coxi_link_unref(links[i]);
    }
    free(links);
}

void coxi_server_close(struct coxi_server *server, coxi_peer_match match,
                       const void *arg, int code, const char *text)
{
    struct coxi_link **links;
    size_t n = take_links(server, match, arg, &links);
    for (size_t i = 0; i < n; i++) {
        coxi_link_close(links[i], code, text);
        coxi_link_unref(links[i]);
    }
    free(links);
}

/* ---- peers that do not greet */

/* A reference to the link of the first connection that is late, or NULL. */
static struct coxi_link *take_late(struct coxi_server *server, uint64_t now)
{
    struct coxi_link *late = NULL;
    uint64_t most = (uint64_t)server->options.peer_timeout_ms;
    coxi_lock(&server->lock);
    for (struct coxi_connection *c = server->connections; c != NULL && late == NULL;
         c = c->next) {
        bool is_late = !c->dialled && !c->greeted && now > c->begun_ms + most;
        late = is_late && !coxi_link_closed(c->peer.link) ? coxi_link_ref(c->peer.link)
                                                          : NULL;
    }
    coxi_unlock(&server->lock);
    return late;
}

void coxi_server_close_late(struct coxi_server *server)
{
    uint64_t now = coxi_now_ms();
    struct coxi_link *late = NULL;
    while ((late = take_late(server, now)) != NULL) {
        coxi_link_close(late, COX_ETIMEDOUT, "the peer has not greeted");
        coxi_link_unref(late);
    }
}

/* ---- shares */

size_t coxi_server_room(void)
{
    struct rlimit files;
    /* a quarter is for peers that prove themselves (link_listen.c), and for files */
    bool known = getrlimit(RLIMIT_NOFILE, &files) == 0;
    size_t room = known ? files.rlim_cur / 4 * 3 : COXI_SERVER_CONNECTIONS_MAX;
    return room < COXI_SERVER_CONNECTIONS_MAX ? room : COXI_SERVER_CONNECTIONS_MAX;
}

/* True if both share what one party may have: the members of a run, or its readers. */
static bool is_same_party(const struct coxi_party *a, const struct coxi_party *b)
{
    return a->key == b->key &&
           (a->role == COXI_ROLE_TOOL) == (b->role == COXI_ROLE_TOOL);
}

int coxi_server_check_share(const struct coxi_server *server,
                            const struct coxi_connection *connection)
{
    const struct coxi_party *party = coxi_link_proven(connection->peer.link);
    if (party == NULL ||
        (server->options.keys == NULL && party->role != COXI_ROLE_TOOL)) {
        return 0;
    }
    size_t has = 0;
    for (const struct coxi_connection *c = server->connections; c != NULL;
         c = c->next) {
        const struct coxi_party *other =
            c->dialled ? NULL : coxi_link_proven(c->peer.link);
        has += other != NULL && is_same_party(other, party);
    }
    size_t used = server->n_connections;
    return used < server->room && has < server->room - used
               ? 0
               : coxi_error(
                     COX_ELIMIT,
                     "the %s of a run have %zu of %zu connections, and leave the "
                     "rest to others (ulimit -n)",
                     party->role == COXI_ROLE_TOOL ? "readers" : "members", has,
                     server->room);
}
