/* See server_internal.h: whom a server dials, and when. Any thread. */
#include <string.h>

#include "common/error.h"
#include "net/server_internal.h"

bool coxi_server_rest(struct coxi_server *server, int rest_ms, bool quiet,
                      uint64_t *n_redials)
{
    struct timespec until = coxi_deadline(rest_ms);
    coxi_lock(&server->lock);
    server->quiet = quiet;
    while (!server->stopping && server->n_redials == *n_redials &&
           coxi_wait_until(&server->changed, &server->lock, &until)) {
    }
    *n_redials = server->n_redials;
    bool go_on = !server->stopping;
    coxi_unlock(&server->lock);
    return go_on;
}

void coxi_server_await_dial(struct coxi_server *server, uint64_t *ret_n_redials)
{
    coxi_lock(&server->lock);
    while (!(server->started && server->has_dial) && !server->stopping) {
        coxi_wait_for_work(&server->changed, &server->lock);
    }
    *ret_n_redials = server->n_redials;
    coxi_unlock(&server->lock);
}

int coxi_server_redial(struct coxi_server *server, const char *url)
{
    struct coxi_link *old = NULL;
    coxi_lock(&server->lock);
    bool moves = !server->has_dial || strcmp(coxi_address_get(&server->dial), url) != 0;
    int r = moves ? coxi_address_set(&server->dial, url) : 0;
    if (r == 0 && moves) {
        server->has_dial = true;
        server->n_redials++;
        old = server->dialled != NULL ? coxi_link_ref(server->dialled) : NULL;
        (void)pthread_cond_broadcast(&server->changed);
    }
    coxi_unlock(&server->lock);
    if (old != NULL) {
        coxi_link_close(old, COX_ECLOSED, "the client has moved");
        coxi_link_unref(old);
    }
    return r;
}

void coxi_server_dial_stop(struct coxi_server *server)
{
    coxi_lock(&server->lock);
    server->stopping = true;
    (void)pthread_cond_broadcast(&server->changed);
    coxi_unlock(&server->lock);
}
