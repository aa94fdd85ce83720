/* See places.h. */
#include "ps/places.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/place.h"
#include "common/beneath.h"
#include "common/error.h"
#include "common/file.h"

static const char digits[] = "0123456789";

/* Moves *at past `text` if *at begins with it; otherwise returns false. */
static bool skip(const char **at, const char *text)
{
    size_t len = strlen(text);
    bool begins = strncmp(*at, text, len) == 0;
    *at += begins ? len : 0;
    return begins;
}

/* Moves *at past the digits of a number; false: there are no digits. */
static bool skip_number(const char **at)
{
    size_t len = strspn(*at, digits);
    *at += len;
    return len > 0;
}

/* The last `n` names of an absolute path, or of a URL; NULL: it has fewer. */
static const char *last_names(const char *path, int n)
{
    const char *at = path + strlen(path);
    while (n > 0 && at > path) {
        at--;
        n -= *at == '/';
    }
    return n == 0 && (*path == '/' || coxi_place_in_store(path)) ? at + 1 : NULL;
}

int coxi_places_check_shard(const char *path, uint32_t ps_index, bool unfinished)
{
    char own[32];
    const char *at = last_names(path, 2);
    bool marked = unfinished && !coxi_place_in_store(path);
    (void)snprintf(own, sizeof(own), "/ps-%u-of-", ps_index);
    bool fits = at != NULL && skip(&at, "ckpt-") && skip_number(&at) &&
                (!marked || skip(&at, ".tmp")) && skip(&at, own) && skip_number(&at) &&
                strcmp(at, ".safetensors") == 0;
    return fits ? 0
                : coxi_error(COX_EINVAL, "%s is no file of ps %u in a checkpoint", path,
                             ps_index);
}

static bool is_probe(const char *path)
{
    enum { ID_DIGITS = 16 };
    const char *at = last_names(path, 1);
    return at != NULL && skip(&at, ".coxswain-probe-") &&
           strspn(at, "0123456789abcdef") == ID_DIGITS && at[ID_DIGITS] == '\0';
}

/* Looks for the probe in a store, and writes this ps's own object beside it. */
static int probe_store(const char *root, uint32_t ps_index,
                       const struct coxi_probe *request)
{
    char its[PATH_MAX];
    struct coxi_file_source probe = {0};
    struct coxi_file_sink sink;
    int r = coxi_place_open(root, request->path, 0, &probe);
    coxi_place_close(&probe);
    if (r != 0 || !request->writes) {
        return r;
    }
    r = coxi_path(its, "%s.ps-%u", request->path, ps_index);
    r = r == 0 ? coxi_place_create(root, its, 0, &sink) : r;
    return r == 0 ? sink.finish(sink.arg) : r;
}

/* Creates this ps's own file beside the probe. First removes the file that an earlier
 * attempt at the same request may have left. */
static int make_beside(const char *root, uint32_t ps_index, const char *path)
{
    char its[PATH_MAX];
    int fd = -1;
    int r = coxi_path(its, "%s.ps-%u", path, ps_index);
    if (r == 0) {
        coxi_beneath_remove(root, its);
        r = coxi_beneath_create(root, its, &fd);
    }
    if (r == 0) {
        (void)close(fd);
    }
    return r;
}

int coxi_places_probe(const char *root, uint32_t ps_index,
                      const struct coxi_probe *request)
{
    int fd = -1;
    int r = is_probe(request->path)
                ? 0
                : coxi_error(COX_EINVAL, "%s is no probe of a client", request->path);
    if (r == 0 && coxi_place_in_store(request->path)) {
        return probe_store(root, ps_index, request);
    }
    if (r == 0) {
        r = coxi_beneath_open(root, request->path, &fd);
    }
    if (r == 0) {
        (void)close(fd);
        r = request->writes ? make_beside(root, ps_index, request->path) : 0;
    }
    return r;
}
