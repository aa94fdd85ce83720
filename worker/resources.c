/*
 * See resources.h. The resources are a list in the order of arrival: a run has few of
 * them, and a step asks for each once.
 *
 * Invariants: a resource that is dropped, has no user and nothing to release is not in
 * the list. `making`: one resource is MAKING. No function of a module is called under
 * the lock.
 */
#include "worker/resources.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/sync.h"

static void kept_free(struct coxi_kept *kept)
{
    if (kept->release != NULL) {
        kept->release(kept->value);
    }
    coxi_buffer_fini(&kept->args);
    free(kept->name);
    free(kept);
}

static void free_all(struct coxi_kept *kept)
{
    while (kept != NULL) {
        struct coxi_kept *next = kept->next;
        kept_free(kept);
        kept = next;
    }
}

void coxi_resources_init(struct coxi_resources *resources)
{
    *resources = (struct coxi_resources){0};
    coxi_mutex_init(&resources->lock);
}

void coxi_resources_fini(struct coxi_resources *resources)
{
    coxi_unshared(&resources->lock);
    free_all(resources->first);
    coxi_mutex_fini(&resources->lock);
}

/* Takes out resources that nobody needs any more; with `quiet`, only those that have
 * nothing to release. */
static struct coxi_kept *take_unneeded(struct coxi_resources *resources, bool quiet)
    COXI_REQUIRES(resources->lock)
{
    struct coxi_kept *taken = NULL;
    for (struct coxi_kept **at = &resources->first; *at != NULL;) {
        struct coxi_kept *kept = *at;
        if (!kept->dropped || kept->users > 0 || (quiet && kept->release != NULL)) {
            at = &kept->next;
            continue;
        }
        *at = kept->next;
        kept->next = taken;
        taken = kept;
    }
    return taken;
}

/* ---- what the client wants */

static int kept_new(const struct coxi_resource *wanted, const void *args, size_t len,
                    struct coxi_kept **ret)
{
    struct coxi_kept *kept = calloc(1, sizeof(*kept));
    char *name = strdup(wanted->name);
    int r = kept == NULL || name == NULL ? coxi_error_memory("a resource") : 0;
    if (r == 0) {
        r = coxi_buffer_append(&kept->args, args, len);
    }
    if (r != 0) {
        free(kept);
        free(name);
        return r;
    }
    kept->name = name;
    kept->head = (struct coxi_closure_head){.attempt = wanted->id,
                                            .module = wanted->module,
                                            .function = wanted->function,
                                            .args_len = (uint32_t)len,
                                            .timeout_ms = wanted->timeout_ms};
    kept->position = wanted->position;
    if (wanted->code != 0) {
        kept->state = COXI_KEPT_FAILED;
        kept->code = wanted->code;
        (void)snprintf(kept->text, sizeof(kept->text), "%s", wanted->message);
    }
    *ret = kept;
    return 0;
}

int coxi_resources_add(struct coxi_resources *resources,
                       const struct coxi_resource *wanted, const void *args, size_t len,
                       uint64_t layouts, bool *ret_waits)
{
    struct coxi_kept *kept = NULL;
    if (wanted->id == 0 || len > UINT32_MAX) {
        return coxi_error(COX_EPROTO, "resource %u with arguments of %zu bytes",
                          wanted->id, len);
    }
    int r = kept_new(wanted, args, len, &kept);
    if (r != 0) {
        return r;
    }
    kept->layouts = layouts;
    coxi_lock(&resources->lock);
    struct coxi_kept **end = &resources->first;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    if (resources->closed) {
        r = coxi_error(COX_ECLOSED, "the client is gone");
    } else if (resources->n == COXI_RESOURCES_MAX) {
        r = coxi_error(COX_EPROTO, "more than %d resources", COXI_RESOURCES_MAX);
    } else {
        *end = kept;
        resources->n++;
        *ret_waits = kept->state == COXI_KEPT_WAITING;
    }
    coxi_unlock(&resources->lock);
    if (r != 0) {
        kept_free(kept);
    }
    return r;
}

void coxi_resources_hide(struct coxi_resources *resources, uint32_t id, uint64_t until)
{
    coxi_lock(&resources->lock);
    for (struct coxi_kept *kept = resources->first; kept != NULL; kept = kept->next) {
        if (kept->head.attempt == id) {
            kept->until = until;
        }
    }
    coxi_unlock(&resources->lock);
}

/* Drops the resources with this id (0: all), and frees those that no slot has to
 * release. */
static void drop(struct coxi_resources *resources, uint32_t id, bool close)
{
    coxi_lock(&resources->lock);
    resources->closed = resources->closed || close;
    for (struct coxi_kept *kept = resources->first; kept != NULL; kept = kept->next) {
        if (!kept->dropped && (id == 0 || kept->head.attempt == id)) {
            kept->dropped = true;
            resources->n--;
        }
    }
    struct coxi_kept *quiet = take_unneeded(resources, true);
    coxi_unlock(&resources->lock);
    free_all(quiet);
}

void coxi_resources_drop(struct coxi_resources *resources, uint32_t id)
{
    if (id != 0) {
        drop(resources, id, false);
    }
}

void coxi_resources_close(struct coxi_resources *resources)
{
    drop(resources, 0, true);
}

/* ---- making and releasing */

bool coxi_resources_wait(struct coxi_resources *resources)
{
    bool waits = false;
    coxi_lock(&resources->lock);
    for (const struct coxi_kept *kept = resources->first; kept != NULL && !waits;
         kept = kept->next) {
        waits = kept->dropped ? kept->users == 0
                              : kept->state == COXI_KEPT_WAITING && !resources->making;
    }
    coxi_unlock(&resources->lock);
    return waits;
}

struct coxi_kept *coxi_resources_tend(struct coxi_resources *resources)
{
    coxi_lock(&resources->lock);
    struct coxi_kept *unneeded = take_unneeded(resources, false);
    coxi_unlock(&resources->lock);
    /* before the next is made, because it may replace one of these */
    free_all(unneeded);
    coxi_lock(&resources->lock);
    struct coxi_kept *kept = resources->first;
    while (kept != NULL && (kept->dropped || kept->state != COXI_KEPT_WAITING)) {
        kept = kept->next;
    }
    if (resources->making) {
        kept = NULL;
    } else if (kept != NULL) {
        kept->state = COXI_KEPT_MAKING;
        kept->users = 1;
        resources->making = true;
    }
    coxi_unlock(&resources->lock);
    return kept;
}

bool coxi_resources_dropped(struct coxi_resources *resources,
                            const struct coxi_kept *kept)
{
    coxi_lock(&resources->lock);
    bool dropped = kept->dropped;
    coxi_unlock(&resources->lock);
    return dropped;
}

void coxi_resources_made(struct coxi_resources *resources, struct coxi_kept *kept,
                         int code, const char *text)
{
    if (code != 0 && kept->release != NULL) {
        kept->release(kept->value);
        kept->release = NULL;
    }
    coxi_buffer_fini(&kept->args);
    kept->args = (struct coxi_buffer){0};
    coxi_lock(&resources->lock);
    kept->state = code == 0 ? COXI_KEPT_MADE : COXI_KEPT_FAILED;
    kept->code = code;
    if (code != 0) {
        (void)snprintf(kept->text, sizeof(kept->text), "%s", text);
    }
    resources->making = false;
    coxi_unlock(&resources->lock);
    coxi_resources_unuse(resources, kept);
}

/* ---- using */

static bool is_visible(const struct coxi_kept *kept, const char *name, uint64_t closure)
{
    return !kept->dropped && (kept->until == 0 || closure < kept->until) &&
           strcmp(kept->name, name) == 0;
}

/* Finds a resource by the rule in resources.h, or NULL. The list is in the order of
 * creation. */
static struct coxi_kept *find(struct coxi_resources *resources, const char *name,
                              uint64_t closure) COXI_REQUIRES(resources->lock)
{
    struct coxi_kept *found = NULL;
    for (struct coxi_kept *kept = resources->first; kept != NULL; kept = kept->next) {
        if (is_visible(kept, name, closure) &&
            (found == NULL || kept->position <= closure)) {
            found = kept;
        }
    }
    return found;
}

int coxi_resources_use(struct coxi_resources *resources, const char *name,
                       uint64_t closure, struct coxi_kept **ret)
{
    coxi_lock(&resources->lock);
    struct coxi_kept *kept = find(resources, name, closure);
    bool settled = kept != NULL &&
                   (kept->state == COXI_KEPT_MADE || kept->state == COXI_KEPT_FAILED);
    if (settled) {
        kept->users++;
    }
    coxi_unlock(&resources->lock);
    if (!settled) {
        return coxi_error(COX_ENOENT,
                          kept == NULL ? "no resource is called '%s'"
                                       : "resource '%s' is still being made: schedule "
                                         "what uses it after it has been created",
                          name);
    }
    *ret = kept;
    return 0;
}

void coxi_resources_unuse(struct coxi_resources *resources, struct coxi_kept *kept)
{
    coxi_lock(&resources->lock);
    kept->users--;
    struct coxi_kept *unneeded =
        kept->dropped && kept->users == 0 ? take_unneeded(resources, false) : NULL;
    coxi_unlock(&resources->lock);
    free_all(unneeded);
}
