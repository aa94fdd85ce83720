/*
 * What the files of the client for S3 share: its state, and requests.
 */
#ifndef COXI_OBJECTS_S3_INTERNAL_H
#define COXI_OBJECTS_S3_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"
#include "common/sync.h"
#include "objects/aws.h"
#include "objects/s3.h"
#include "objects/s3_answer.h"

enum {
    COXI_S3_MARK_MAX = 40, /* of a writer, with the NUL */
    COXI_S3_ANSWER_MAX =
        16 << 20, /* a page of a list: 1000 keys of at most 1024 bytes */
};

/* The header that tells a writer its own object again when an answer was lost. */
#define COXI_S3_MARK_HEADER "x-amz-meta-coxswain-writer"

/* Constant after coxi_s3_open and coxi_s3_limit, but for what is atomic. */
struct coxi_s3 {
    char *url;
    char *base;    /* the bucket's URL */
    char *prefix;  /* "", or with a slash at its end */
    char *signs;   /* for CURLOPT_AWS_SIGV4 */
    char *ca_file; /* of certificates to trust; NULL: the system's */
    bool sealed;   /* https */
    struct coxi_s3_limits limits;
    struct coxi_aws_credentials *credentials;
    atomic_bool cancelled;
    struct coxi_mutex lock; /* leaf; for the condition only */
    pthread_cond_t cancel;
};

/* What is asked. Zeros where nothing is said. */
struct coxi_s3_request {
    const char *doing;  /* for messages: "read", "write", ... */
    const char *method; /* GET, HEAD, PUT, POST, DELETE */
    const char *key;    /* NULL: the bucket is asked */
    const char *query;  /* sorted by names and escaped, each with "=" */
    const char *match;  /* an etag for If-Match */
    bool if_absent;     /* If-None-Match: * */
    const char *mark;   /* of the writer */
    const void *body;   /* of PUT and POST */
    size_t len;
    /* a part of an object; NULL: the answer goes to coxi_s3_answer.body as a whole */
    uint8_t *to;
    uint64_t at;
    size_t to_len;
    size_t max;     /* most bytes of a whole answer */
    int most_ms;    /* less than the limits' call_ms; 0: that */
    bool is_silent; /* the server may work for long before it answers */
};

struct coxi_s3_answer {
    long status;                 /* 0: none */
    char code[COXI_S3_CODE_MAX]; /* S3's own, of an error; or "" */
    char etag[COXI_S3_ETAG_MAX]; /* "": none */
    char mark[COXI_S3_MARK_MAX]; /* "": none */
    uint64_t bytes;              /* of Content-Length, or of the whole object */
    int64_t date_s;              /* the server's clock, since 1970; 0: not told */
    struct coxi_buffer body;     /* for coxi_buffer_fini */
};

/*
 * Asks, again and again if need be. COX_ENOENT: 404, because there is no such object or
 * upload; COX_ECONFLICT: 412; COX_EFORMAT: the
 * object has no such part; COX_ELIMIT: the answer is longer than `max`; COX_EREFUSED:
 * 501; other errors as objects/s3.h has them. `answer` must be zeros, and is set also on
 * failure. Any thread.
 */
int coxi_s3_ask(struct coxi_s3 *s3, const struct coxi_s3_request *request,
                struct coxi_s3_answer *answer);

/* COX_EINVAL: the URL's prefix has no such key. */
int coxi_s3_check_key(const struct coxi_s3 *s3, const char *key);

/* Asks for an object's length, etag and mark. COX_ENOENT. */
int coxi_s3_look(struct coxi_s3 *s3, const char *key, struct coxi_s3_answer *answer);

/* True: the call is to end. */
bool coxi_s3_is_cancelled(const struct coxi_s3 *s3);

/* Drops an upload; success also if there is none. */
int coxi_s3_abort_upload(struct coxi_s3 *s3, const char *key, const char *id);

/* ---- errors */

/* "cannot read s3://...": the beginning of all messages. */
void coxi_s3_name_object(const struct coxi_s3 *s3,
                         const struct coxi_s3_request *request, char *ret, size_t room);

/* What an answer means whose status is no success. */
int coxi_s3_code_of(const struct coxi_s3_request *request,
                    const struct coxi_s3_answer *answer);

/* ---- uploads in parts */

/* An upload as the server knows it. Any thread; several parts at a time. */
struct coxi_s3_multipart {
    struct coxi_s3 *s3;
    const char *key;
    char *id; /* NULL: not begun */
    char mark[COXI_S3_MARK_MAX];
};

int coxi_s3_multipart_begin(struct coxi_s3_multipart *upload);

/* Sends part `number` (from 1). *ret_etag is for free(). */
int coxi_s3_multipart_send(const struct coxi_s3_multipart *upload, size_t number,
                           const void *data, size_t len, char **ret_etag);

/* Makes the object of `n` parts, which has `bytes` bytes. */
int coxi_s3_multipart_end(const struct coxi_s3_multipart *upload, char *const *etags,
                          size_t n, uint64_t bytes);

/* ---- tries */

/* A try: sends a request once. */
struct coxi_s3_try {
    struct coxi_s3 *s3;
    const struct coxi_s3_request *request;
    struct coxi_s3_answer *answer;
    const struct coxi_aws_keys *keys;
    char digest[72]; /* x-amz-content-sha256 */
    char md5[32];    /* Content-MD5; "": none */
    int timeout_ms;
    size_t got; /* bytes of a part that have come, in earlier tries, too */
    char first_etag[COXI_S3_ETAG_MAX]; /* of the first answer with a part */
    /* results */
    int curl; /* CURLcode */
    int code; /* not 0: failed for good, with the thread's error */
    char text[256];
};
void coxi_s3_try(struct coxi_s3_try *try);

/* Says why a try has failed: what was answered, and what the user can do; or what broke,
 * and the endpoint. */
void coxi_s3_tell_cause(const struct coxi_s3_try *try, char *ret, size_t room);

/* Computes what tells the server that the body is whole. */
int coxi_s3_digest(struct coxi_s3_try *try);

/* A new mark. COX_EIO: there is no randomness. */
int coxi_s3_mark(char ret[COXI_S3_MARK_MAX]);

#endif
