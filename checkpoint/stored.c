/* See stored.h. */
#include "checkpoint/stored.h"

#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/file.h"

int coxi_stored_code(int code)
{
    switch (code) {
    case 0:
    case COX_ENOENT:
    case COX_EEXIST:
    case COX_EFORMAT:
    case COX_ELIMIT:
    case COX_ENOMEM:
    case COX_ECANCELLED:
        return code;
    default:
        return COX_EIO;
    }
}

int coxi_stored_plain(const char *url, char ret[PATH_MAX])
{
    size_t begin = strlen("s3://");
    int r = coxi_path(ret, "%s", url);
    size_t len = begin;
    for (const char *at = url + begin; r == 0 && *at != '\0'; at++) {
        if (*at != '/' || ret[len - 1] != '/') {
            ret[len++] = *at;
        }
    }
    if (r == 0) {
        ret[len > begin && ret[len - 1] == '/' ? len - 1 : len] = '\0';
    }
    return r;
}

/* Opens a client of everything beneath `dir`. */
static int open_beneath(const char *dir, struct coxi_s3 **ret)
{
    char plain[PATH_MAX];
    int r = coxi_stored_plain(dir, plain);
    return r == 0 ? coxi_stored_code(coxi_s3_open(plain, ret)) : r;
}

int coxi_stored_open(const char *url, struct coxi_s3 **ret, const char **ret_key)
{
    const char *slash = strrchr(url, '/');
    char *above = strndup(url, (size_t)(slash - url));
    if (above == NULL) {
        return coxi_error_memory("the name of an object");
    }
    int r = open_beneath(above, ret);
    free(above);
    *ret_key = slash + 1;
    return r;
}

int coxi_stored_read(const char *url, size_t max, uint8_t **ret, size_t *ret_len,
                     struct coxi_stored_version *ret_version)
{
    struct coxi_s3 *s3;
    const char *key;
    int r = coxi_stored_open(url, &s3, &key);
    if (r != 0) {
        return r;
    }
    r = coxi_s3_read(s3, key, max, ret, ret_len,
                     ret_version != NULL ? ret_version->etag : NULL);
    coxi_s3_close(s3);
    return coxi_stored_code(r);
}

int coxi_stored_look(const char *url, uint64_t *ret_bytes,
                     struct coxi_stored_version *ret_version)
{
    struct coxi_s3 *s3;
    const char *key;
    int r = coxi_stored_open(url, &s3, &key);
    if (r != 0) {
        return r;
    }
    r = coxi_s3_head(s3, key, ret_bytes, ret_version->etag);
    coxi_s3_close(s3);
    return coxi_stored_code(r);
}

/* ECONFLICT is the caller's to name. */
static int put(const char *url, const void *bytes, size_t len, enum coxi_s3_when when,
               const struct coxi_stored_version *old,
               struct coxi_stored_version *ret_version)
{
    struct coxi_s3 *s3;
    const char *key;
    int r = coxi_stored_open(url, &s3, &key);
    if (r != 0) {
        return r;
    }
    r = coxi_s3_put(s3, key, bytes, len, when, old != NULL ? old->etag : NULL,
                    ret_version != NULL ? ret_version->etag : NULL);
    coxi_s3_close(s3);
    return r == COX_ECONFLICT ? r : coxi_stored_code(r);
}

int coxi_stored_write(const char *url, const void *bytes, size_t len)
{
    return coxi_stored_code(put(url, bytes, len, COXI_S3_ALWAYS, NULL, NULL));
}

int coxi_stored_write_new(const char *url, const void *bytes, size_t len,
                          struct coxi_stored_version *ret_version)
{
    int r = put(url, bytes, len, COXI_S3_IF_ABSENT, NULL, ret_version);
    return r == COX_ECONFLICT ? coxi_error(COX_EEXIST, "%s exists", url) : r;
}

int coxi_stored_replace(const char *url, const void *bytes, size_t len,
                        const struct coxi_stored_version *old,
                        struct coxi_stored_version *ret_version)
{
    return put(url, bytes, len, COXI_S3_IF_MATCH, old, ret_version);
}

/* ---- many */

int coxi_stored_list(const char *dir, const char *prefix,
                     int (*found)(void *arg, const struct coxi_s3_object *object),
                     void *arg)
{
    struct coxi_s3 *s3;
    int r = open_beneath(dir, &s3);
    if (r != 0) {
        return r;
    }
    r = coxi_s3_list(s3, prefix, found, arg);
    coxi_s3_close(s3);
    return coxi_stored_code(r);
}

int coxi_stored_drop_uploads(const char *url)
{
    struct coxi_s3 *s3;
    const char *key;
    int r = coxi_stored_open(url, &s3, &key);
    if (r != 0) {
        return r;
    }
    r = coxi_s3_drop_uploads(s3, key);
    coxi_s3_close(s3);
    return coxi_stored_code(r);
}

int coxi_stored_may_abort(const char *url)
{
    static const struct coxi_s3_limits once = {.connect_ms = 5000,
                                               .stall_s = 10,
                                               .call_ms = 10000,
                                               .tries = 1,
                                               .pause_ms = 200};
    struct coxi_s3 *s3;
    const char *key;
    int r = coxi_stored_open(url, &s3, &key);
    if (r != 0) {
        return r;
    }
    coxi_s3_limit(s3, &once);
    r = coxi_s3_may_abort(s3, key);
    coxi_s3_close(s3);
    return coxi_stored_code(r);
}

struct clearing {
    struct coxi_s3 *s3;
    const char *spared;
    int code; /* of the first failure */
};

static int clear_one(void *arg, const struct coxi_s3_object *object)
{
    struct clearing *clearing = arg;
    if (clearing->spared == NULL || strcmp(object->key, clearing->spared) != 0) {
        int r = coxi_s3_remove(clearing->s3, object->key);
        clearing->code = clearing->code != 0 ? clearing->code : r;
        return r == COX_ETIMEDOUT ? r : 0; /* the store is away */
    }
    return 0;
}

int coxi_stored_clear(const char *dir, const char *spared)
{
    struct clearing clearing = {.spared = spared};
    int r = open_beneath(dir, &clearing.s3);
    if (r != 0) {
        return r;
    }
    /* Uploads first: one that ends meanwhile is found in the list. */
    int dropped = coxi_s3_drop_uploads(clearing.s3, "");
    if (dropped != COX_ETIMEDOUT) { /* otherwise the store is away */
        r = coxi_s3_list(clearing.s3, "", clear_one, &clearing);
        r = r == 0 ? clearing.code : r;
    }
    coxi_s3_close(clearing.s3);
    return coxi_stored_code(r == 0 ? dropped : r);
}
