/* See resume.h: claims the directory, chooses the checkpoint, and sets the ps and this
 * client back to it. Runs on the thread that opens the coordinator. */
#include "coordinator/checkpoints/resume.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoints.h"
#include "checkpoint/generation.h"
#include "checkpoint/latest.h"
#include "common/error.h"
#include "common/file.h"
#include "common/structs.h"
#include "common/sync.h"
#include "coordinator/base/event.h"
#include "coordinator/closures/closure.h"
#include "coordinator/datasets/saved.h"
#include "coordinator/recovery/recovery.h"
#include "coordinator/variables/partition.h"
#include "coordinator/variables/registry.h"
#include "coordinator/workers/workers.h"
#include "net/ps_client.h"

enum { CHOICES_MAX = 8 };

/* ---- claiming the directory */

static bool is_used(const char *dir)
{
    struct coxi_listed *all = NULL;
    size_t n = 0;
    uint64_t number;
    bool used = coxi_latest_read(dir, &number) != COX_ENOENT ||
                coxi_checkpoints_list(dir, &all, &n) != 0;
    for (size_t i = 0; i < n; i++) {
        used = used || !all[i].unfinished;
    }
    free(all);
    return used;
}

int coxi_resume_claim(struct cox_coordinator *c)
{
    if (c->options.resume == -1 && is_used(c->saving.dir)) {
        return coxi_error(COX_EEXIST,
                          "checkpoint directory: %s holds checkpoints of another run: "
                          "choose another directory, or set resume to 0",
                          c->saving.dir);
    }
    int r = coxi_generation_claim(c->saving.dir, &c->session);
    return r == 0 ? 0 : coxi_error(r, "checkpoint directory: %s", coxi_error_text());
}

/* ---- the checkpoint */

/* *ret_number: the checkpoint to resume from, or 0; *ret_highest: the highest number in
 * use. */
static int choose(const struct cox_coordinator *c, uint64_t *ret_number,
                  uint64_t *ret_highest)
{
    struct coxi_listed *all = NULL;
    size_t n = 0;
    uint64_t wanted = c->options.resume_from;
    int r = coxi_checkpoints_list(c->saving.dir, &all, &n);
    if (r != 0) {
        return r;
    }
    *ret_highest = n > 0 ? all[n - 1].number : 0;
    while (n > 0 &&
           (all[n - 1].unfinished || (wanted != 0 && all[n - 1].number != wanted))) {
        n--;
    }
    *ret_number = n > 0 ? all[n - 1].number : 0;
    free(all);
    return wanted == 0 || *ret_number == wanted
               ? 0
               : coxi_error(COX_ENOENT, "there is no checkpoint %" PRIu64 " in %s",
                            wanted, c->saving.dir);
}

static int check_checkpoint(const struct cox_coordinator *c,
                            const struct coxi_checkpoint *checkpoint)
{
    const struct coxi_manifest *m = checkpoint->manifest;
    if (m->session.run != c->session.run) {
        return coxi_error(COX_EFORMAT,
                          "%s is of run %016" PRIx64 ", the directory of %016" PRIx64,
                          checkpoint->path, m->session.run, c->session.run);
    }
    return m->n_shards == c->ps.n
               ? 0
               : coxi_error(COX_ECONFLICT,
                            "%s is of %" PRIu32 " ps, and this cluster has %" PRIu32
                            ": a run keeps its number of ps; load the checkpoint into "
                            "a new run with another directory",
                            checkpoint->path, m->n_shards, c->ps.n);
}

/* ---- variables */

static int add_entry(struct cox_coordinator *c, struct coxi_variable *description,
                     bool made)
{
    struct coxi_entry *entry = calloc(1, sizeof(*entry));
    int r = entry == NULL || description == NULL ? coxi_error_memory("variables") : 0;
    if (r == 0) {
        *entry = (struct coxi_entry){.c = c, .description = description, .found = made};
        r = coxi_registry_add(c, entry);
    }
    if (r != 0) {
        free(entry);
        coxi_variable_free(description);
        return r;
    }
    if (made) {
        coxi_registry_announce(c, entry);
    }
    return 0;
}

/* Takes over the variables of the checkpoint, under their old ids. */
static int take_variables(struct cox_coordinator *c, struct coxi_manifest *m)
{
    int r = 0;
    coxi_lock(&c->lock);
    for (uint32_t i = 0; r == 0 && i < m->n_variables; i++) {
        struct coxi_variable *v = m->variables[i];
        /* an id whose variable could not be created */
        while (r == 0 && c->registry->n_entries < v->id) {
            struct coxi_variable *nothing = calloc(1, sizeof(*nothing));
            if (nothing != NULL) {
                nothing->name = "";
            }
            r = add_entry(c, nothing, false);
        }
        if (r == 0) {
            m->variables[i] = NULL;
            r = add_entry(c, v, true);
        }
    }
    c->workers->layout_due = true;
    coxi_unlock(&c->lock);
    return r;
}

/* ---- resuming */

/* The highest watermark that a ps had in the checkpoint. */
static uint64_t highest_watermark(const struct coxi_manifest *m)
{
    uint64_t highest = 0;
    for (uint32_t p = 0; p < m->n_shards; p++) {
        uint64_t watermark = m->shards[p].applied.watermark;
        highest = watermark > highest ? watermark : highest;
    }
    return highest;
}

static int go_on_from(struct cox_coordinator *c, struct coxi_checkpoint *checkpoint)
{
    struct coxi_manifest *m = checkpoint->manifest;
    uint64_t watermark = highest_watermark(m);
    c->saving.started.checkpoint = m->number;
    c->saving.started.closure = m->progress.closure;
    c->saving.started.cursor = m->progress.cursor;
    c->closures->progress = m->progress;
    c->closures->progress.cursor_of = m->progress.cursor != 0 ? m->progress.closure : 0;
    atomic_store(&c->ids.first_closure, m->first_closure);
    atomic_store(&c->ids.steps_before, m->steps_before);
    int r = take_variables(c, m);
    if (r == 0) {
        r = coxi_datasets_load(c, m);
    }
    coxi_call_why(c, "the ps are set back to checkpoint %" PRIu64, m->number);
    if (r == 0) {
        r = coxi_recovery_set_back(c, checkpoint);
    }
    if (r == 0) {
        r = coxi_resume_backlog(c, checkpoint, watermark);
    }
    if (r == 0) {
        coxi_event(c, COX_EVENT_RESUMED, COXI_OF(.checkpoint = m->number),
                   "generation %" PRIu64 " goes on from checkpoint %" PRIu64
                   ": the program's cursor is %" PRIu64 ", and %" PRIu64
                   " calls before it run again",
                   c->session.generation, m->number, c->saving.started.cursor,
                   c->saving.started.rerun);
    }
    return r;
}

/* Names an older checkpoint in the error of one that cannot be used; 0 `number`: of none. */
static int offer_older(const struct cox_coordinator *c, int code, uint64_t number)
{
    bool is_bad = code == COX_ECHECKSUM || code == COX_EFORMAT || code == COX_EIO;
    return is_bad && number != 0
               ? coxi_checkpoints_offer(code,
                                        coxi_checkpoints_whole(c->saving.dir, number))
               : code;
}

/* Opens the checkpoint to resume from; *ret_number: 0: there is none. */
static int open_chosen(struct cox_coordinator *c, uint64_t *ret_number,
                       struct coxi_checkpoint **ret)
{
    char path[PATH_MAX];
    uint64_t highest = 0;
    int r = choose(c, ret_number, &highest);
    /* their numbers are not used again */
    c->saving.number = highest > c->saving.number ? highest : c->saving.number;
    coxi_checkpoints_remove_unfinished(c->saving.dir, &c->session);
    if (r != 0 || *ret_number == 0) {
        return r;
    }
    r = coxi_path(path, "%s/ckpt-%" PRIu64, c->saving.dir, *ret_number);
    return r == 0 ? coxi_checkpoint_open(path, COXI_CHECKPOINT_LISTED, ret) : r;
}

int coxi_resume(struct cox_coordinator *c)
{
    uint64_t number = 0;
    struct coxi_checkpoint *checkpoint = NULL;
    int r = COX_ENOENT;
    /* The client before may take back a checkpoint that it could not publish to the end:
     * then another one is chosen. */
    for (int i = 0; r == COX_ENOENT && i < CHOICES_MAX; i++) {
        r = open_chosen(c, &number, &checkpoint);
    }
    if (r != 0 || number == 0) {
        return offer_older(c, r, number);
    }
    r = check_checkpoint(c, checkpoint);
    if (r == 0) {
        r = go_on_from(c, checkpoint);
    }
    coxi_checkpoint_close(checkpoint);
    return offer_older(c, r, number);
}

int cox_progress(const struct cox_coordinator *c, struct cox_progress *ret)
{
    if (c == NULL || ret == NULL) {
        return coxi_error(COX_EINVAL, "cox_progress needs a coordinator");
    }
    struct cox_progress progress = c->saving.started;
    progress.generation = c->session.generation;
    return coxi_struct_return(ret, COXI_STRUCT_PROGRESS, &progress);
}
