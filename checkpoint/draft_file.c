/* See draft_internal.h: drafts in directories. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/draft_internal.h"
#include "checkpoint/generation.h"
#include "checkpoint/hold.h"
#include "checkpoint/latest.h"
#include "common/error.h"
#include "common/file.h"

int coxi_draft_file_begin(const struct coxi_draft *draft)
{
    int r = coxi_directory_make(draft->dir);
    if (r == 0 && mkdir(draft->path, 0777) != 0) {
        r = coxi_error_errno(errno == EEXIST ? COX_EEXIST : COX_EIO,
                             "cannot make the directory %s", draft->path);
    }
    return r;
}

/*
 * Takes the final name back, because a checkpoint that may not be durable must not be
 * removed under a name that says it is whole. While it had that name another client may
 * have resumed from it: then the checkpoint belongs to that client, and stays.
 */
static void withdraw(const struct coxi_draft *draft, const struct coxi_session *session,
                     const char *path)
{
    char text[COXI_ERROR_TEXT_MAX];
    (void)snprintf(text, sizeof(text), "%s", coxi_error_text());
    if (coxi_generation_check(draft->dir, session) == 0 && !coxi_hold_is_taken(path)) {
        (void)rename(path, draft->path);
    }
    (void)coxi_error(0, "%s", text); /* restores the caller's text */
}

int coxi_draft_file_publish(const struct coxi_draft *draft,
                            const struct coxi_manifest *manifest)
{
    char path[PATH_MAX];
    const struct coxi_session *session = &manifest->session;
    int r = coxi_path(path, "%s/ckpt-%" PRIu64, draft->dir, draft->number);
    r = r == 0 ? coxi_manifest_write(manifest, draft->path) : r;
    r = r == 0 ? coxi_generation_check(draft->dir, session) : r;
    if (r == 0 && rename(draft->path, path) != 0) {
        r = coxi_error_errno(COX_EIO, "cannot rename %s to %s", draft->path, path);
    }
    if (r != 0) {
        return r;
    }
    r = coxi_directory_sync(draft->dir);
    r = r == 0 ? coxi_generation_check(draft->dir, session) : r;
    r = r == 0 ? coxi_latest_write(draft->dir, draft->number) : r;
    if (r != 0 && !coxi_draft_counts(draft)) {
        withdraw(draft, session, path);
    }
    return r;
}

/* Its name gets ".tmp" first, so that nobody takes the remaining files for a checkpoint. */
int coxi_draft_file_delete(const char *path)
{
    char file[PATH_MAX];
    char temporary[PATH_MAX];
    int r = coxi_path(file, "%s/manifest.json", path);
    r = r == 0 ? coxi_path(temporary, "%s.tmp", path) : r;
    if (r != 0) {
        return r;
    }
    /* If there is no manifest, no reader can have the checkpoint open. */
    int fd = open(file, O_RDWR | O_CLOEXEC);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fd < 0 && errno != ENOENT) {
        return coxi_error_errno(COX_EIO, "cannot delete %s: cannot lock %s", path,
                                file);
    }
    if (fd >= 0 && fcntl(fd, F_OFD_SETLK, &lock) != 0) {
        r = coxi_error_errno(COX_EBUSY, "cannot delete %s: it is being read", path);
    } else if (rename(path, temporary) != 0) {
        r = coxi_error_errno(COX_EIO, "cannot delete %s", path);
    } else {
        coxi_directory_remove(temporary);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return r;
}
