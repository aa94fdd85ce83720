/*
 * A store that speaks S3, for tests, in this process (libmicrohttpd, a port of its own):
 * objects in memory, signatures checked by code of its own, and faults. It has one bucket,
 * named "bucket". Any thread.
 */
#ifndef COXI_TESTS_OBJECTS_FAKE_S3_H
#define COXI_TESTS_OBJECTS_FAKE_S3_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fake_s3;

/* Opens one, and sets AWS_ENDPOINT_URL_S3, AWS_REGION and credentials of this process, and
 * so of those that it starts. */
struct fake_s3 *fake_s3_open(void);
/* The same with https. Its certificate, for 127.0.0.1, is written to `path`, and nobody
 * trusts it otherwise. NULL: libmicrohttpd has no TLS. */
struct fake_s3 *fake_s3_open_sealed(const char *path);
void fake_s3_close(struct fake_s3 *f);

/* Closes it; fails if it refused a request, or an upload was left. */
void fake_s3_close_clean(struct fake_s3 *f);

/* What is asked. */
enum fake_op {
    FAKE_GET,
    FAKE_HEAD,
    FAKE_PUT,
    FAKE_DELETE,
    FAKE_LIST,
    FAKE_BEGIN, /* an upload in parts */
    FAKE_PART,
    FAKE_END,
    FAKE_ABORT,
    FAKE_UPLOADS, /* a list of them */
    FAKE_OPS,     /* in fake_s3_fault: any */
};

enum fake_fault {
    FAKE_500,
    FAKE_SLOW_DOWN, /* 503 */
    FAKE_429,
    FAKE_CUT,        /* nothing is done, no answer */
    FAKE_LOSE,       /* done, no answer */
    FAKE_HALF,       /* done, half of the answer's body */
    FAKE_LATE_ERROR, /* status 200 with an error, nothing is done */
    FAKE_LATE_LIE,   /* status 200 with an error, but done */
    FAKE_GARBAGE,    /* done; status 200 with bytes that are no XML */
    FAKE_DENY,       /* 403 AccessDenied */
    FAKE_NO_USER,    /* 404 XAdminUserNotFound */
    FAKE_EXPIRED,    /* 400 ExpiredToken */
    FAKE_MOVED,      /* 307 to another host */
    FAKE_HOLD,       /* waits for fake_s3_release, then is done as usual */
    FAKE_CONFLICT,   /* 409 ConditionalRequestConflict */
    FAKE_UNKNOWN,    /* 501 NotImplemented */
};

/* The next `n` (-1: all) requests of that kind meet a fault. */
void fake_s3_fault(struct fake_s3 *f, enum fake_op op, int n, enum fake_fault fault);
void fake_s3_heal(struct fake_s3 *f); /* no faults any more */

/* Waits until a request is held; lets all go on. */
void fake_s3_await_held(struct fake_s3 *f);
void fake_s3_release(struct fake_s3 *f);

/* How often that was asked; and how many requests had a wrong signature, or a body with
 * another digest. */
int fake_s3_count(struct fake_s3 *f, enum fake_op op);
int fake_s3_refused(struct fake_s3 *f);

/* What it does otherwise than Amazon's. */
void fake_s3_page(struct fake_s3 *f, size_t keys); /* on each page of a list */
void fake_s3_ignore_conditions(struct fake_s3 *f, bool ignores);
void fake_s3_repeat_pages(struct fake_s3 *f); /* each page of a list is the first */
void fake_s3_accept(struct fake_s3 *f, const char *id, const char *secret,
                    const char *token); /* these credentials; `token` may be NULL */

/* Objects, by their whole key. */
void fake_s3_put(struct fake_s3 *f, const char *key, const void *data, size_t len);
/* All objects beneath `prefix` were written that long ago. */
void fake_s3_age(struct fake_s3 *f, const char *prefix, int seconds);
void fake_s3_remove(struct fake_s3 *f, const char *key);
/* The content, for free(); NULL: there is no such object. */
uint8_t *fake_s3_content(struct fake_s3 *f, const char *key, size_t *ret_len);
size_t fake_s3_objects(struct fake_s3 *f); /* how many */
size_t fake_s3_uploads(struct fake_s3 *f); /* that are not complete */

#endif
