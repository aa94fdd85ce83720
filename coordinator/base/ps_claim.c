/* See ps_claim.h. */
#include "coordinator/base/ps_claim.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cluster/cluster.h"
#include "common/error.h"
#include "common/file.h"
#include "common/rand.h"
#include "common/sync.h"
#include "coordinator/base/alive.h"
#include "coordinator/base/ps_set.h"
#include "net/ps_client.h"

enum {
    CONNECT_MS = 1000,
    RECONNECT_MS = 1000, /* a ps without a connection for this long is lost */
    REQUEST_MS = 300000, /* for a ps that is alive but does not answer */
    /* pause between two claims of a ps that still belongs to another client */
    CLAIM_MS = 100
};

/* ---- its connection */

/* Copies the address at which ps `ps` is, or at which it is expected back; release the
 * copy with free(). NULL: no memory. */
static char *address_of(struct cox_coordinator *c, uint32_t ps)
{
    coxi_lock(&c->ps.lock); /* cox_ps_address may change it */
    char *address = strdup(c->site.cluster->ps[ps]);
    coxi_unlock(&c->ps.lock);
    return address;
}

int coxi_ps_connect(struct cox_coordinator *c, uint32_t ps, struct coxi_psc **ret)
{
    char *address = address_of(c, ps);
    if (address == NULL) {
        return coxi_error_memory("a connection to a ps");
    }
    const struct coxi_psc_options options = {
        .address = address,
        .index = ps,
        .self = {.role = COXI_ROLE_CLIENT, .session = c->session},
        .links = c->site.links,
        .connect_ms = CONNECT_MS,
        .reconnect_ms = RECONNECT_MS,
        .request_ms = REQUEST_MS,
        .key = &c->site.key,
        .same_incarnation = true,
        .local_path = true,
        .on_lost = c->ps.on_lost,
        .arg = c,
    };
    int r = coxi_psc_open(&options, ret);
    free(address);
    return r;
}

void coxi_ps_lost(struct cox_coordinator *c, uint32_t ps, const char *text)
{
    struct coxi_psc *psc = c->ps.clients[ps];
    coxi_psc_give_up(psc, text);
    c->ps.on_lost(c, psc, text);
}

/* ---- claiming */

/* Waits on c->life.changed for at most `ms`; any change may wake it earlier. */
static void pause_ms(struct cox_coordinator *c, int ms)
{
    struct timespec until = coxi_deadline(ms);
    coxi_lock(&c->lock);
    (void)coxi_wait_until(&c->life.changed, &c->lock, &until);
    coxi_unlock(&c->lock);
}

/* Sends a request that the ps answers with a status. Waits at most until `end_ms`,
 * because the ps may be stopped (UINT64_MAX: as long as for any request). */
static int ask_until(struct coxi_psc *psc, const struct coxi_message *message,
                     uint64_t end_ms)
{
    struct coxi_psc_request request = {0};
    if (end_ms != UINT64_MAX) {
        int ms = coxi_left_ms(end_ms, INT_MAX);
        request.timeout_ms = ms > CLAIM_MS ? ms : CLAIM_MS;
    }
    return coxi_psc_call(psc, message, &request, COXI_STATUS, NULL, NULL);
}

static int claim_once(struct cox_coordinator *c, struct coxi_psc *psc, uint64_t end_ms)
{
    struct coxi_message claim = {.kind = COXI_CLAIM, .claim = c->session};
    return ask_until(psc, &claim, end_ms);
}

int coxi_ps_claim(struct cox_coordinator *c, struct coxi_psc *psc, uint64_t end_ms)
{
    char text[COXI_TEXT_MAX];
    int r;
    while ((r = claim_once(c, psc, end_ms)) == COX_EAGAIN) {
        uint64_t now = coxi_now_ms();
        (void)snprintf(text, sizeof(text), "%.400s", coxi_error_text());
        if (now >= end_ms) {
            return coxi_error(COX_EBUSY, "%s", text);
        }
        coxi_call_why(c, "%s", text);
        r = coxi_check_alive(c);
        if (r != 0) {
            return r;
        }
        pause_ms(c, coxi_left_ms(end_ms, CLAIM_MS));
    }
    return r;
}

/* ---- the checkpoint directory */

static int make_empty(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0) {
        return coxi_error_errno(COX_EIO, "cannot make %s", path);
    }
    (void)close(fd);
    return 0;
}

static int ask(struct cox_coordinator *c, struct coxi_psc *psc, const char *path,
               bool writes, uint64_t end_ms)
{
    struct coxi_message probe = {.kind = COXI_PROBE};
    char its[PATH_MAX];
    probe.probe = (struct coxi_probe){c->session, path, writes};
    int r = ask_until(psc, &probe, end_ms);
    if (r == 0 && writes) {
        r = coxi_path(its, "%s.ps-%u", path, coxi_psc_index(psc));
    }
    if (r == 0 && writes && unlink(its) != 0) {
        r = coxi_error_errno(COX_EIO,
                             "the file %s that it has made does not exist here", its);
    }
    return r;
}

int coxi_ps_probe(struct cox_coordinator *c, struct coxi_psc *psc, bool writes,
                  uint64_t end_ms)
{
    char path[PATH_MAX];
    if (c->saving.dir == NULL) {
        return 0;
    }
    int r = coxi_path(path, "%s/.coxswain-probe-%016" PRIx64, c->saving.dir,
                      coxi_random_id());
    if (r == 0) {
        r = make_empty(path);
    }
    if (r != 0) {
        return writes ? r : 0;
    }
    r = ask(c, psc, path, writes, end_ms);
    (void)unlink(path);
    return r != COX_EIO ? r
                        : coxi_error(r,
                                     "ps %u at %s does not share the checkpoint "
                                     "directory %s with the client: %.300s",
                                     coxi_psc_index(psc), coxi_psc_address(psc),
                                     c->saving.dir, coxi_error_text());
}
