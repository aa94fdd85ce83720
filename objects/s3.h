/*
 * Objects in a store that speaks S3 (Amazon's, MinIO, Ceph, R2, ...), beneath one prefix
 * of a bucket. Keys are relative to that prefix.
 *
 * From the environment:
 * - credentials: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, with AWS_SESSION_TOKEN if
 *   they are of a session; otherwise the section AWS_PROFILE ("default") of the file
 *   AWS_SHARED_CREDENTIALS_FILE (~/.aws/credentials), which is read again when it changes;
 * - AWS_REGION or AWS_DEFAULT_REGION ("us-east-1");
 * - AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL: a service that is not Amazon's;
 * - AWS_CA_BUNDLE: a file of certificates to trust instead of the system's (PEM).
 *
 * Requests that fail in passing (5xx, 408, 429, connections that break or are refused) are
 * sent again, after pauses that grow to 4 s, until the call's time is over (struct
 * coxi_s3_limits), or the thread's (common/disk.h). TLS is verified, redirects are not
 * followed, and no text has a secret in it.
 *
 * Errors of all calls, besides their own: COX_EIO, COX_EDENIED (credentials or
 * permissions), COX_EINVAL (no such bucket, a wrong key), COX_EFORMAT (a malformed answer),
 * COX_ETIMEDOUT, COX_ECANCELLED (coxi_s3_cancel; the thread gives up), COX_ENOMEM. The
 * text names the object. If no request was answered, it also names the endpoint and the
 * last cause.
 *
 * Threads: any, several calls at a time.
 */
#ifndef COXI_OBJECTS_S3_H
#define COXI_OBJECTS_S3_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/sink.h"

struct coxi_s3;

enum {
    COXI_S3_KEY_MAX = 1024, /* bytes of prefix and key together */
    COXI_S3_ETAG_MAX = 136, /* with quotes and NUL */
};

struct coxi_s3_limits {
    int connect_ms;
    int stall_s;  /* with less than 1 KiB/s for so long, a try has failed */
    int call_ms;  /* a whole call, with its tries; and 1 s for each MiB of a body */
    int tries;    /* 0: as many as there is time for */
    int pause_ms; /* before the second try; it doubles from try to try, up to 4 s */
};

/* Any thread. True: "s3://...". */
bool coxi_s3_is_url(const char *url);

/* `url`: s3://BUCKET or s3://BUCKET/PREFIX. Asks nobody. COX_EINVAL: the URL or the
 * environment is wrong, or there are no credentials; the text says what to set. */
int coxi_s3_open(const char *url, struct coxi_s3 **ret);
void coxi_s3_close(struct coxi_s3 *s3); /* takes NULL */

/* Before the first call. Otherwise the usual limits hold. */
void coxi_s3_limit(struct coxi_s3 *s3, const struct coxi_s3_limits *limits);

/* Clients that are opened later make so many tries (0: as the limits say): in programs whose
 * user waits, and would rather hear that nothing answers. */
void coxi_s3_limit_tries(int tries);

/* Calls that are under way, and later ones, fail soon with COX_ECANCELLED. */
void coxi_s3_cancel(struct coxi_s3 *s3);

/* The URL, for messages. */
const char *coxi_s3_url(const struct coxi_s3 *s3);

/* ---- whole objects */

/* Reads an object of at most `max` bytes, and adds a NUL. *ret is for free(). `ret_etag`
 * may be NULL. COX_ENOENT, COX_ELIMIT. */
int coxi_s3_read(struct coxi_s3 *s3, const char *key, size_t max, uint8_t **ret,
                 size_t *ret_len, char ret_etag[COXI_S3_ETAG_MAX]);

/* The length of an object, and its etag (may be NULL). COX_ENOENT. */
int coxi_s3_head(struct coxi_s3 *s3, const char *key, uint64_t *ret_bytes,
                 char ret_etag[COXI_S3_ETAG_MAX]);

enum coxi_s3_when {
    COXI_S3_ALWAYS,
    COXI_S3_IF_ABSENT,
    COXI_S3_IF_MATCH, /* if the object has `etag` */
};

/*
 * Writes an object at once. `etag` is for COXI_S3_IF_MATCH; `ret_etag` may be NULL. When
 * this returns 0, all later reads and lists see the object.
 *
 * COX_ECONFLICT: the race is lost: there is an object (IF_ABSENT), or it has another etag or
 * is gone (IF_MATCH). If an answer was lost on its way, this finds out by reading the
 * object whether it is the one that was written; so give the bytes something that no
 * other writer gives them. COX_EREFUSED: the store does not know conditions.
 */
int coxi_s3_put(struct coxi_s3 *s3, const char *key, const void *data, size_t len,
                enum coxi_s3_when when, const char *etag,
                char ret_etag[COXI_S3_ETAG_MAX]);

/* Success also if there is no such object. */
int coxi_s3_remove(struct coxi_s3 *s3, const char *key);

/* ---- parts of objects */

/* Reads `len` bytes at `at`. `etag` NULL: of whatever object is there. COX_ENOENT;
 * COX_ECONFLICT: the object has another etag; COX_EFORMAT: it is shorter. */
int coxi_s3_get(struct coxi_s3 *s3, const char *key, const char *etag, uint64_t at,
                void *to, size_t len);

/* A source of an object that must have `bytes` bytes; it reads that version of the
 * object only (COX_ECONFLICT). COX_ENOENT; COX_EFORMAT: it has another length. `s3` must
 * live longer. Release the source with coxi_s3_source_close. */
int coxi_s3_source(struct coxi_s3 *s3, const char *key, uint64_t bytes,
                   struct coxi_file_source *ret);
void coxi_s3_source_close(struct coxi_file_source *source);

/*
 * A sink of a new object, which takes the place of an older one when `finish` returns 0.
 * `bytes`: its length; 0: not known, which holds more memory for long objects. `s3` must
 * live longer. A process that is killed leaves an upload that is not complete, which
 * nobody sees; coxi_s3_drop_uploads removes it.
 *
 * Bytes may come in any order. Memory: 8 MiB (or bytes / 10,000) for each part that has
 * some of its bytes, at most COXI_S3_OPEN_PARTS parts; COX_ELIMIT: the writer has begun
 * more.
 */
enum { COXI_S3_OPEN_PARTS = 32 };
int coxi_s3_upload(struct coxi_s3 *s3, const char *key, uint64_t bytes,
                   struct coxi_file_sink *ret);

/* Removes what uploads of killed processes have left beneath `prefix`, and uploads that
 * are under way, which will fail. */
int coxi_s3_drop_uploads(struct coxi_s3 *s3, const char *prefix);

/* Finds out whether uploads may be aborted, by aborting one of `key` that does not exist.
 * COX_EDENIED: they may not; all other failures are success, because stores answer
 * differently here. */
int coxi_s3_may_abort(struct coxi_s3 *s3, const char *key);

/* ---- lists */

struct coxi_s3_object {
    const char *key; /* relative to the URL's prefix */
    uint64_t bytes;
    const char *etag;
    /* how long ago it was written, by the store's own clock, in whole seconds; -1: the
     * store does not tell */
    int64_t age_s;
};

/* Calls `found` with all objects whose key begins with `prefix` ("": all), sorted by key.
 * Another result than 0 ends the list, and is returned. */
int coxi_s3_list(struct coxi_s3 *s3, const char *prefix,
                 int (*found)(void *arg, const struct coxi_s3_object *object),
                 void *arg);

#endif
