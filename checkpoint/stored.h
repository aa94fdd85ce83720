/*
 * Objects of a store, by their whole URL (checkpoint/place.h). Each call opens and closes a
 * client (objects/s3.h), which costs no request.
 *
 * Errors: COX_ENOENT, COX_EEXIST, COX_ECONFLICT where a call says so, COX_EFORMAT, COX_ELIMIT,
 * COX_ENOMEM, COX_ECANCELLED; everything else is COX_EIO, whatever the store said (that is in
 * the text), because callers know only files.
 */
#ifndef COXI_CHECKPOINT_STORED_H
#define COXI_CHECKPOINT_STORED_H

#include <limits.h>

#include "objects/s3.h"

/* A version of an object. */
struct coxi_stored_version {
    char etag[COXI_S3_ETAG_MAX];
};

/* Copies a URL without empty names: slashes at its end, and several in a row. COX_EINVAL: it
 * is too long. */
int coxi_stored_plain(const char *url, char ret[PATH_MAX]);

/* The code that callers get for one of objects/s3.h. */
int coxi_stored_code(int code);

/* Takes a URL apart: opens a client of everything up to its last slash; *ret_key points
 * to the rest of `url`. URLs may have empty names, here and below. */
int coxi_stored_open(const char *url, struct coxi_s3 **ret, const char **ret_key);

/* `ret_version` may be NULL, here and below. COX_ENOENT. */
int coxi_stored_read(const char *url, size_t max, uint8_t **ret, size_t *ret_len,
                     struct coxi_stored_version *ret_version);

/* The length and version of an object. COX_ENOENT. */
int coxi_stored_look(const char *url, uint64_t *ret_bytes,
                     struct coxi_stored_version *ret_version);

/* Whatever there is now takes the new object's place. */
int coxi_stored_write(const char *url, const void *bytes, size_t len);
/* COX_EEXIST. */
int coxi_stored_write_new(const char *url, const void *bytes, size_t len,
                          struct coxi_stored_version *ret_version);
/* Only in the place of that version. COX_ECONFLICT: there is another one, or none. */
int coxi_stored_replace(const char *url, const void *bytes, size_t len,
                        const struct coxi_stored_version *old,
                        struct coxi_stored_version *ret_version);

/* Calls `found` with all objects whose URL begins with `dir`/`prefix`; their keys are
 * relative to `dir`. */
int coxi_stored_list(const char *dir, const char *prefix,
                     int (*found)(void *arg, const struct coxi_s3_object *object),
                     void *arg);

/* Removes uploads of that object which were not completed. */
int coxi_stored_drop_uploads(const char *url);

/* Finds out a missing permission to abort uploads of that object; asks once. */
int coxi_stored_may_abort(const char *url);

/* Removes the objects beneath `dir` but `spared` (a key relative to it; NULL: none), and
 * uploads under way. Goes on after a failure, unless the store is away; returns the
 * first. */
int coxi_stored_clear(const char *dir, const char *spared);

#endif
