/*
 * Writing objects at once (s3.h).
 *
 * An answer to a conditional put may be lost, and the put then sent again: it finds the
 * object of the first try, and would call the race lost. So each writer gives its object a
 * mark of its own, and asks whose the object is. It does so also if the put was sent once as
 * far as we know, because libcurl sends a request again by itself if a connection that it
 * has used before ends without an answer.
 *
 * Some stores ignore conditions. After the first conditional put of each kind to a bucket
 * that succeeds in this process, the same bytes are put once more with a condition that cannot hold: it
 * must fail.
 */
#include <stdio.h>
#include <string.h>

#include "common/error.h"
#include "objects/s3_internal.h"

enum { URL_MAX = 1024 };

/* A put under way. */
struct put {
    struct coxi_s3 *s3;
    struct coxi_s3_request request;
    char mark[COXI_S3_MARK_MAX];
    char etag[COXI_S3_ETAG_MAX]; /* of what was written */
};

static int tell_lost(const struct put *put)
{
    return coxi_error(COX_ECONFLICT, "%s/%s: another has written it", put->s3->url,
                      put->request.key);
}

/* Whose object it is, after a put that may have been carried out though it was called
 * lost. */
static int find_out(struct put *put)
{
    struct coxi_s3_answer answer = {0};
    int r = coxi_s3_look(put->s3, put->request.key, &answer);
    if (r == COX_ENOENT || (r == 0 && strcmp(answer.mark, put->mark) != 0)) {
        return tell_lost(put);
    }
    memcpy(put->etag, answer.etag, sizeof(put->etag));
    return r;
}

static int put_once(struct put *put)
{
    bool conditional = put->request.if_absent || put->request.match != NULL;
    struct coxi_s3_answer answer = {0};
    int r = coxi_s3_ask(put->s3, &put->request, &answer);
    coxi_buffer_fini(&answer.body);
    if (r == 0) {
        memcpy(put->etag, answer.etag, sizeof(put->etag));
        return 0;
    }
    if (conditional &&
        (answer.status == 412 ||
         (answer.status == 404 && put->request.match != NULL && r == COX_ENOENT))) {
        return put->mark[0] != '\0' ? find_out(put) : tell_lost(put);
    }
    return r;
}

/* The buckets that have shown last that they know If-None-Match, and If-Match. */
static struct {
    struct coxi_mutex lock; /* guards urls; leaf */
    char urls[2][URL_MAX];
} known = {.lock = COXI_MUTEX_INIT};

static bool is_known(const struct put *put)
{
    coxi_lock(&known.lock);
    bool is = strcmp(known.urls[put->request.if_absent], put->s3->base) == 0;
    coxi_unlock(&known.lock);
    return is;
}

static void note_known(const struct put *put)
{
    if (strlen(put->s3->base) < URL_MAX) {
        coxi_lock(&known.lock);
        (void)snprintf(known.urls[put->request.if_absent], URL_MAX, "%s",
                       put->s3->base);
        coxi_unlock(&known.lock);
    }
}

/* Makes sure that the store knows the condition of a put that has succeeded. */
static int check_condition(struct put *put)
{
    struct coxi_s3 *s3 = put->s3;
    struct put again = *put;
    if (is_known(put)) {
        return 0;
    }
    again.mark[0] = '\0'; /* nobody's */
    if (put->request.match != NULL) {
        again.request.match = "\"00000000000000000000000000000000\"";
    }
    int r = put_once(&again);
    if (r == COX_ECONFLICT) {
        note_known(put);
        return 0;
    }
    return r != 0 ? r
                  : coxi_error(COX_EREFUSED,
                               "%s: the store ignores %s, without which two writers "
                               "could take each other's place",
                               s3->url,
                               put->request.if_absent ? "If-None-Match" : "If-Match");
}

int coxi_s3_put(struct coxi_s3 *s3, const char *key, const void *data, size_t len,
                enum coxi_s3_when when, const char *etag,
                char ret_etag[COXI_S3_ETAG_MAX])
{
    struct put put = {.s3 = s3,
                      .request = {.doing = "write",
                                  .method = "PUT",
                                  .key = key,
                                  .body = len > 0 ? data : "",
                                  .len = len,
                                  .match = when == COXI_S3_IF_MATCH ? etag : NULL,
                                  .if_absent = when == COXI_S3_IF_ABSENT,
                                  .max = COXI_S3_ANSWER_MAX}};
    int r = coxi_s3_check_key(s3, key);
    if (r == 0 && when != COXI_S3_ALWAYS) {
        r = coxi_s3_mark(put.mark);
        put.request.mark = put.mark;
    }
    r = r == 0 ? put_once(&put) : r;
    if (r == 0 && when != COXI_S3_ALWAYS) {
        r = check_condition(&put);
    }
    if (r == 0 && ret_etag != NULL) {
        memcpy(ret_etag, put.etag, sizeof(put.etag));
    }
    return r;
}
