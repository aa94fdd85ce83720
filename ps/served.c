/* See served.h. */
#include "ps/served.h"

#include <string.h>

#include "common/error.h"
#include "common/sync.h"
#include "net/message.h"

void coxi_served_init(struct coxi_served *served)
{
    coxi_mutex_init(&served->lock);
    coxi_unshared(&served->lock);
    served->n = 0;
}

void coxi_served_fini(struct coxi_served *served)
{
    coxi_mutex_fini(&served->lock);
}

/* The index of a run's client; `n` if there is none. */
static size_t find(const struct coxi_served *served, uint64_t run)
    COXI_REQUIRES(served->lock)
{
    size_t i = 0;
    while (i < served->n && served->clients[i].run != run) {
        i++;
    }
    return i;
}

int coxi_served_check(struct coxi_served *served, const struct coxi_session *session,
                      uint32_t ps_index)
{
    coxi_lock(&served->lock);
    size_t i = find(served, session->run);
    uint64_t newest = i < served->n ? served->clients[i].generation : 0;
    bool same = i < served->n && coxi_session_equal(&served->clients[i], session);
    bool older = i < served->n && !same && session->generation <= newest;
    coxi_unlock(&served->lock);
    return older ? coxi_error(COX_EFENCED, "ps %u has been claimed by generation %llu",
                              ps_index, (unsigned long long)newest)
                 : 0;
}

bool coxi_served_note(struct coxi_served *served, const struct coxi_session *session)
{
    coxi_lock(&served->lock);
    bool first = served->n == 0;
    size_t i = find(served, session->run);
    if (i == COXI_SERVED_MAX) {
        i = 0;
        served->n--;
    } else if (i < served->n) {
        served->n--;
    }
    memmove(&served->clients[i], &served->clients[i + 1],
            (served->n - i) * sizeof(*served->clients));
    served->clients[served->n++] = *session;
    coxi_unlock(&served->lock);
    return !first;
}
