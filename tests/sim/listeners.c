/* See listeners.h. */
#include "tests/sim/listeners.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LISTENERS_MAX = 64 };

static struct coxi_listener *listeners[LISTENERS_MAX];
static size_t n_listeners;

void sim_listeners_begin(void)
{
    n_listeners = 0;
}

void sim_listeners_drop(const struct sim_proc *proc)
{
    for (size_t i = 0; i < n_listeners;) {
        if (listeners[i]->proc == proc) {
            listeners[i] = listeners[--n_listeners];
        } else {
            i++;
        }
    }
}

int coxi_listener_open(const char *url, const struct coxi_guard *guard,
                       coxi_listener_accepted accepted, void *arg,
                       struct coxi_listener **ret)
{
    (void)guard; /* simulated runs have no key */
    struct coxi_listener *listener = calloc(1, sizeof(*listener));
    if (n_listeners == LISTENERS_MAX) {
        abort();
    }
    (void)snprintf(listener->url, sizeof(listener->url), "%s", url);
    listener->accepted = accepted;
    listener->arg = arg;
    listener->proc = sim_self_proc();
    listeners[n_listeners++] = listener;
    *ret = listener;
    return 0;
}

int coxi_listener_claim(const char *url, const struct coxi_guard *guard,
                        coxi_listener_accepted accepted, void *arg,
                        struct coxi_listener **ret)
{
    return coxi_listener_open(url, guard, accepted, arg, ret);
}

void coxi_listener_tell(struct coxi_listener *listener,
                        void (*denied)(void *arg, const char *peer, uint64_t n))
{
    (void)listener;
    (void)denied;
}

void coxi_listener_start(struct coxi_listener *listener)
{
    listener->started = true;
}

const char *coxi_listener_url(const struct coxi_listener *listener)
{
    return listener->url;
}

static void delist(const struct coxi_listener *listener)
{
    for (size_t i = 0; i < n_listeners; i++) {
        if (listeners[i] == listener) {
            listeners[i] = listeners[--n_listeners];
        }
    }
}

void coxi_listener_close(struct coxi_listener *listener)
{
    if (listener == NULL) {
        return;
    }
    delist(listener);
    while (listener->n_accepting > 0) {
        (void)sim_wait(&listener->quiet, SIM_NEVER, "what is being accepted");
    }
}

struct coxi_listener *sim_listener_find(const char *url)
{
    for (size_t i = 0; i < n_listeners; i++) {
        if (strcmp(listeners[i]->url, url) == 0 && listeners[i]->started) {
            return listeners[i];
        }
    }
    return NULL;
}

int coxi_url_check(const char *url)
{
    (void)url;
    return 0;
}

int coxi_url_from(const char *address, char ret[COXI_URL_MAX + 1])
{
    (void)snprintf(ret, COXI_URL_MAX + 1, "%s", address);
    return 0;
}

/* Only members of the simulated run reach an address. */
bool coxi_url_is_ipc(const char *url)
{
    (void)url;
    return true;
}

bool coxi_url_is_local(const char *url)
{
    (void)url;
    return true;
}
