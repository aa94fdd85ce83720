/* See recovery_internal.h: gives ps what a checkpoint has for them. They read its files
 * themselves, or the client brings the bytes (base/carrier.h). */
#include <stdio.h>
#include <stdlib.h>

#include "checkpoint/chain.h"
#include "common/buffer.h"
#include "common/error.h"
#include "common/sync.h"
#include "coordinator/base/carrier.h"
#include "coordinator/recovery/recovery_internal.h"
#include "coordinator/variables/registry.h"
#include "net/ps_round.h"

/* True if ps p holds a part of the variable. */
bool coxi_recovery_is_part(const struct coxi_variable *variable, uint32_t p)
{
    return variable->kind == COXI_KIND_TABLE ||
           coxi_variable_shard(variable, p) != NULL;
}

static struct coxi_message create_message(const struct coxi_recovery *rec,
                                          struct coxi_psc *psc,
                                          const struct coxi_variable *variable,
                                          struct coxi_closure_id id)
{
    struct coxi_message message = {.kind = COXI_CREATE};
    message.create = (struct coxi_create){.session = rec->c->session,
                                          .closure = id.n,
                                          .variable = *variable,
                                          .incarnation = coxi_psc_incarnation(psc)};
    return message;
}

int coxi_recovery_create(struct coxi_recovery *rec, struct coxi_psc *psc,
                         const struct coxi_variable *variable,
                         struct coxi_closure_id id)
{
    struct coxi_message message = create_message(rec, psc, variable, id);
    struct coxi_psc_request request = {0};
    return coxi_psc_call(psc, &message, &request, COXI_STATUS, NULL, NULL);
}

/*
 * The requests to several ps; each ps gets its requests in this order. A ps has
 * ps_recovery_ms for all of them, even if none was lost and the client is only opening.
 */
struct filling {
    struct coxi_recovery *rec;
    struct coxi_chain chain;
    uint32_t n_entries;
    uint64_t number; /* of this restore */
    struct coxi_ps_round round;
    struct coxi_ps_round_call *calls;
    size_t n;
    struct coxi_carrier *
        *carriers; /* bring the shards, if they go through the client */
    size_t n_carriers;
    /* of the first ps that could not be asked; 0: all could */
    int unasked;
    char text[COXI_ERROR_TEXT_MAX];
};

static void ask(struct filling *filling, struct coxi_recovery_target *target,
                const struct coxi_message *message)
{
    struct coxi_ps_round_call *call = &filling->calls[filling->n++];
    call->expect = COXI_STATUS;
    call->arg = target;
    call->request.timeout_ms = filling->rec->c->options.ps_recovery_ms;
    coxi_ps_round_add(&filling->round, target->psc, message, call);
}

/* Variable `i` if the checkpoint has a part of it for ps `ps`; otherwise NULL. Lives
 * until close. */
static const struct coxi_variable *covered(struct coxi_recovery *rec, uint32_t i,
                                           uint32_t ps)
{
    struct cox_coordinator *c = rec->c;
    const struct coxi_applied_list *list = &rec->base.shards[ps].applied;
    coxi_lock(&c->lock);
    const struct coxi_entry *entry = c->registry->entries[i];
    bool is =
        entry->made && coxi_recovery_is_part(entry->description, ps) &&
        (entry->created.n == 0 || coxi_applied_list_has(list, entry->created.n, 0));
    const struct coxi_variable *variable = is ? entry->description : NULL;
    coxi_unlock(&c->lock);
    return variable;
}

static void ask_to_create(struct filling *filling, struct coxi_recovery_target *target)
{
    for (uint32_t i = 0; i < filling->n_entries; i++) {
        const struct coxi_variable *variable = covered(filling->rec, i, target->ps);
        if (variable != NULL) {
            /* Nothing is recorded, because the applied set that is restored says what
             * was done. */
            const struct coxi_message message =
                create_message(filling->rec, target->psc, variable, coxi_closure_id(0));
            ask(filling, target, &message);
        }
    }
}

/* The path of file `at` of the n of a chain, the whole one first; for free(). NULL: no
 * memory. */
static char *path_of(const struct coxi_chain *chain, size_t n, size_t at, uint32_t ps)
{
    const struct coxi_link_of_chain *link = &chain->links[n - 1 - at];
    struct coxi_buffer path = {0};
    if (coxi_buffer_printf(&path, "%s/%s", link->path,
                           link->manifest->shards[ps].file) != 0) {
        coxi_buffer_fini(&path);
        return NULL;
    }
    return (char *)path.data;
}

/* Starts to bring all n files to the ps. *ret_first: the carry of the first file; the
 * others follow. */
static int bring(struct filling *filling, const struct coxi_recovery_target *target,
                 size_t n, char *const *paths, uint64_t *ret_first)
{
    struct cox_coordinator *c = filling->rec->c;
    struct coxi_carrying carrying = {.psc = target->psc,
                                     .session = c->session,
                                     .incarnation = coxi_psc_incarnation(target->psc),
                                     .timeout_ms = c->options.ps_recovery_ms};
    struct coxi_carrier_file *files = calloc(n, sizeof(*files));
    if (files == NULL) {
        return coxi_error_memory("restoring ps");
    }
    uint64_t first = 1 + atomic_fetch_add(&c->saving.n_carries, n);
    for (size_t at = 0; at < n; at++) {
        const struct coxi_link_of_chain *link = &filling->chain.links[n - 1 - at];
        files[at] = (struct coxi_carrier_file){
            paths[at], link->manifest->shards[target->ps].bytes, first + at};
    }
    int r = coxi_carrier_start_bring(&carrying, files, n,
                                     &filling->carriers[filling->n_carriers]);
    free(files);
    if (r == 0) {
        filling->n_carriers++;
        *ret_first = first;
    }
    return r;
}

/* Asks the ps to load file `at` of the chain. */
static void ask_to_load(struct filling *filling, struct coxi_recovery_target *target,
                        size_t n, size_t at, const char *path, uint64_t carry)
{
    const struct coxi_link_of_chain *link = &filling->chain.links[n - 1 - at];
    const struct coxi_manifest_shard *shard = &link->manifest->shards[target->ps];
    const struct coxi_applied_list *list = &shard->applied;
    struct coxi_message message = {.kind = COXI_RESTORE};
    message.restore = (struct coxi_restore){
        .session = filling->rec->c->session,
        .round = filling->number,
        .path = path,
        .bytes = shard->bytes,
        .crc32 = shard->crc32,
        .watermark = list->watermark,
        .applied = list->intervals,
        .n_applied = list->n_intervals,
        .touched = list->touched,
        .n_touched = list->n_touched,
        .at = at,
        .incarnation = coxi_psc_incarnation(target->psc),
        .more = at + 1 < n,
        .carry = carry,
    };
    ask(filling, target, &message);
}

/* Asks the ps to load its whole shard, then the shards that build on it. */
static int ask_to_restore(struct filling *filling, struct coxi_recovery_target *target)
{
    size_t n = coxi_chain_length(&filling->chain, target->ps);
    uint64_t first = 0;
    char **paths = calloc(n, sizeof(*paths));
    int r = paths == NULL ? coxi_error_memory("restoring ps") : 0;
    for (size_t at = 0; r == 0 && at < n; at++) {
        paths[at] = path_of(&filling->chain, n, at, target->ps);
        r = paths[at] == NULL ? coxi_error_memory("restoring ps") : 0;
    }
    if (r == 0 && filling->rec->c->saving.via_client) {
        r = bring(filling, target, n, paths, &first);
    }
    for (size_t at = 0; r == 0 && at < n; at++) {
        ask_to_load(filling, target, n, at, paths[at], first != 0 ? first + at : 0);
    }
    for (size_t at = 0; paths != NULL && at < n; at++) {
        free(paths[at]);
    }
    free(paths);
    return r;
}

/* Waits for the carriers; the ps have answered with their errors. */
static void filling_fini(struct filling *filling)
{
    for (size_t i = 0; filling->carriers != NULL && i < filling->n_carriers; i++) {
        (void)coxi_carrier_end(filling->carriers[i], NULL);
    }
    free(filling->carriers);
    free(filling->calls);
    coxi_chain_fini(&filling->chain);
}

/* Does everything that can fail before any request is sent. */
static int filling_init(struct filling *filling, struct coxi_recovery *rec,
                        size_t n_targets)
{
    struct cox_coordinator *c = rec->c;
    *filling = (struct filling){.rec = rec, .number = 1 + coxi_ps_losses(rec->c)};
    coxi_lock(&c->lock);
    filling->n_entries = c->registry->n_entries;
    coxi_unlock(&c->lock);
    int r = coxi_chain_read(rec->base.path, &filling->chain);
    if (r != 0) {
        return r;
    }
    filling->calls = calloc(n_targets * (filling->n_entries + filling->chain.n),
                            sizeof(*filling->calls));
    filling->carriers = calloc(n_targets, sizeof(*filling->carriers));
    if (filling->calls == NULL || filling->carriers == NULL) {
        filling_fini(filling);
        return coxi_error_memory("restoring ps");
    }
    return 0;
}

/* Asks every ps for all that it has to do. Notes the first error of a ps that could not
 * be asked; the round ends in any case. */
static void ask_all(struct filling *filling, struct coxi_recovery_target *targets,
                    size_t n)
{
    for (size_t i = 0; i < n; i++) {
        ask_to_create(filling, &targets[i]);
        targets[i].code = ask_to_restore(filling, &targets[i]);
        if (targets[i].code != 0 && filling->unasked == 0) {
            filling->unasked = targets[i].code;
            (void)snprintf(filling->text, sizeof(filling->text), "%s",
                           coxi_error_text());
        }
    }
}

static void note_filled(struct coxi_recovery *rec,
                        const struct coxi_recovery_target *targets, size_t n)
{
    coxi_lock(&rec->set->lock);
    for (size_t i = 0; i < n; i++) {
        if (targets[i].code == 0) {
            rec->servers[targets[i].ps].filled = coxi_psc_incarnation(targets[i].psc);
        }
    }
    coxi_unlock(&rec->set->lock);
}

int coxi_recovery_fill(struct coxi_recovery *rec, struct coxi_recovery_target *targets,
                       size_t n)
{
    struct filling filling;
    int r = filling_init(&filling, rec, n);
    for (size_t i = 0; i < n; i++) {
        targets[i].code = r;
    }
    if (r != 0) {
        return r;
    }
    coxi_ps_round_begin(&filling.round);
    ask_all(&filling, targets, n);
    r = coxi_ps_round_end(&filling.round);
    if (r != 0) {
        (void)snprintf(filling.text, sizeof(filling.text), "%s", coxi_error_text());
    }
    for (size_t i = 0; i < filling.n; i++) {
        struct coxi_recovery_target *target = filling.calls[i].arg;
        target->code = target->code == 0 ? filling.calls[i].code : target->code;
    }
    note_filled(rec, targets, n);
    filling_fini(&filling);
    r = r == 0 ? filling.unasked : r;
    return r == 0 ? 0 : coxi_error(r, "%s", filling.text);
}
