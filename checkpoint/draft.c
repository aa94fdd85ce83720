/* See draft.h: chooses between directories (draft_file.c) and stores (draft_store.c). */
#include "checkpoint/draft_internal.h"

#include <inttypes.h>
#include <stdio.h>

#include "checkpoint/latest.h"
#include "checkpoint/place.h"
#include "common/error.h"
#include "common/file.h"

int coxi_draft_begin(const char *dir, uint64_t number, struct coxi_draft *ret)
{
    struct coxi_draft draft = {.number = number};
    bool in_store = coxi_place_in_store(dir);
    int r = coxi_path(draft.dir, "%s", dir);
    if (r == 0) {
        r = coxi_path(draft.path, "%s/ckpt-%" PRIu64 "%s", dir, number,
                      in_store ? "" : ".tmp");
    }
    if (r == 0) {
        r = in_store ? coxi_draft_store_begin(&draft) : coxi_draft_file_begin(&draft);
    }
    if (r == 0) {
        *ret = draft;
    }
    return r;
}

bool coxi_draft_counts(const struct coxi_draft *draft)
{
    uint64_t latest = 0;
    char text[COXI_ERROR_TEXT_MAX];
    (void)snprintf(text, sizeof(text), "%s", coxi_error_text());
    int r = coxi_latest_read(draft->dir, &latest);
    bool is_known = r == 0 || r == COX_ENOENT || r == COX_EFORMAT;
    (void)coxi_error(0, "%s", text); /* restores the caller's text */
    return !is_known || (r == 0 && latest == draft->number);
}

int coxi_draft_publish(struct coxi_draft *draft, const struct coxi_manifest *manifest)
{
    return coxi_place_in_store(draft->dir) ? coxi_draft_store_publish(draft, manifest)
                                           : coxi_draft_file_publish(draft, manifest);
}

void coxi_draft_drop(struct coxi_draft *draft)
{
    char text[COXI_ERROR_TEXT_MAX];
    (void)snprintf(text, sizeof(text), "%s", coxi_error_text());
    if (coxi_place_in_store(draft->dir)) {
        coxi_draft_store_drop(draft);
    } else {
        coxi_directory_remove(draft->path);
    }
    (void)coxi_error(0, "%s", text); /* restores the caller's text */
}

int coxi_draft_delete(const char *dir, uint64_t number)
{
    char path[PATH_MAX];
    int r = coxi_path(path, "%s/ckpt-%" PRIu64, dir, number);
    if (r != 0) {
        return r;
    }
    return coxi_place_in_store(dir) ? coxi_draft_store_delete(path)
                                    : coxi_draft_file_delete(path);
}

void coxi_draft_sweep(const char *dir, uint64_t number)
{
    char path[PATH_MAX];
    bool in_store = coxi_place_in_store(dir);
    if (coxi_path(path, "%s/ckpt-%" PRIu64 "%s", dir, number, in_store ? "" : ".tmp") !=
        0) {
        return;
    }
    if (in_store) {
        coxi_draft_store_sweep(path);
    } else {
        coxi_directory_remove(path);
    }
}
