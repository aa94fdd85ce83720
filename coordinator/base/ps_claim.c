/* See ps_claim.h. */
#include "coordinator/base/ps_claim.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/place.h"
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

static int claim_once(struct cox_coordinator *c, struct coxi_psc *psc, uint64_t leaves,
                      uint64_t end_ms)
{
    struct coxi_message claim = {.kind = COXI_CLAIM, .claim = {c->session, leaves}};
    return ask_until(psc, &claim, end_ms);
}

int coxi_ps_claim(struct cox_coordinator *c, struct coxi_psc *psc, uint64_t leaves,
                  uint64_t end_ms)
{
    char text[COXI_TEXT_MAX];
    int r;
    while ((r = claim_once(c, psc, leaves, end_ms)) == COX_EAGAIN) {
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
    if (coxi_place_in_store(path)) {
        return coxi_place_write(path, "", 0);
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0) {
        return coxi_error_errno(COX_EIO, "cannot make %s", path);
    }
    (void)close(fd);
    return 0;
}

/* A probe: an empty file in a directory of its own. */
struct probe {
    bool in_store;
    char dir[PATH_MAX];
    char file[PATH_MAX];
    char its[PATH_MAX]; /* the file that the ps makes beside it */
};

/* Makes the directory as that of a checkpoint is made, because a ps whose user may not
 * write there could write no checkpoint. */
static int probe_make(const char *dir, uint32_t ps, struct probe *ret)
{
    uint64_t id = coxi_random_id();
    ret->in_store = coxi_place_in_store(dir);
    int r = coxi_path(ret->dir, "%s/.coxswain-probe-%016" PRIx64, dir, id);
    r = r != 0 ? r
               : coxi_path(ret->file, "%s/.coxswain-probe-%016" PRIx64, ret->dir, id);
    r = r != 0 ? r : coxi_path(ret->its, "%s.ps-%" PRIu32, ret->file, ps);
    if (r == 0 && !ret->in_store && mkdir(ret->dir, 0777) != 0) {
        r = coxi_error_errno(COX_EIO, "cannot make the directory %s", ret->dir);
    }
    if (r != 0) {
        return r;
    }
    r = make_empty(ret->file);
    if (r != 0 && !ret->in_store) {
        (void)rmdir(ret->dir);
    }
    return r;
}

static void probe_remove(const struct probe *probe)
{
    (void)coxi_place_remove(probe->its);
    (void)coxi_place_remove(probe->file);
    if (!probe->in_store) {
        (void)rmdir(probe->dir);
    }
}

static bool is_there(const char *path)
{
    uint8_t *nothing = NULL;
    size_t len = 0;
    if (!coxi_place_in_store(path)) {
        return access(path, F_OK) == 0;
    }
    bool is = coxi_place_read(path, 0, &nothing, &len) == 0;
    free(nothing);
    return is;
}

static int ask(struct cox_coordinator *c, struct coxi_psc *psc,
               const struct probe *probe, bool writes, uint64_t end_ms)
{
    struct coxi_message request = {.kind = COXI_PROBE};
    request.probe = (struct coxi_probe){c->session, probe->file, writes};
    int r = ask_until(psc, &request, end_ms);
    if (r == 0 && writes && !is_there(probe->its)) {
        r = coxi_error(COX_EIO, "the file %s that it has made does not exist here",
                       probe->its);
    }
    return r;
}

int coxi_ps_probe(struct cox_coordinator *c, struct coxi_psc *psc, bool writes,
                  uint64_t end_ms)
{
    struct probe probe;
    if (c->saving.dir == NULL || c->saving.via_client) {
        return 0;
    }
    int r = probe_make(c->saving.dir, coxi_psc_index(psc), &probe);
    if (r != 0) {
        return writes ? r : 0;
    }
    r = ask(c, psc, &probe, writes, end_ms);
    probe_remove(&probe);
    return r != COX_EIO
               ? r
               : coxi_error(r,
                            "ps %u at %s does not share the checkpoint directory %s "
                            "with the client, or its user may not write in what the "
                            "client makes there: %.300s",
                            coxi_psc_index(psc), coxi_psc_address(psc), c->saving.dir,
                            coxi_error_text());
}
