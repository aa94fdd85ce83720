/* See s3.h: the client's life, reading and removing. */
#include "objects/s3.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "objects/s3_internal.h"

static const struct coxi_s3_limits usual_limits = {
    .connect_ms = 10000, .stall_s = 30, .call_ms = 180000, .pause_ms = 200};

static atomic_int usual_tries;

static const char scheme[] = "s3://";

/* ---- life */

bool coxi_s3_is_url(const char *url)
{
    return strncmp(url, scheme, strlen(scheme)) == 0;
}

/* Makes a text of a buffer, which it takes. */
static int take_text(struct coxi_buffer *from, int r, char **ret)
{
    r = r == 0 ? coxi_buffer_append_raw(from, "", 1) : r;
    if (r != 0) {
        coxi_buffer_fini(from);
        return r;
    }
    *ret = (char *)from->data;
    return 0;
}

/* True: all names between slashes can stand in a URL, so none is empty, "." or "..". */
static bool is_path(const char *path)
{
    for (const char *at = path;; at++) {
        size_t len = strcspn(at, "/");
        if (len == 0 || (len == 1 && at[0] == '.') ||
            (len == 2 && at[0] == '.' && at[1] == '.')) {
            return false;
        }
        at += len;
        if (*at == '\0') {
            return true;
        }
    }
}

static int set_prefix(struct coxi_s3 *s3, const char *prefix)
{
    struct coxi_buffer text = {0};
    size_t len = strlen(prefix);
    while (len > 0 && prefix[len - 1] == '/') {
        len--;
    }
    int r = take_text(
        &text,
        coxi_buffer_printf(&text, "%.*s%s", (int)len, prefix, len > 0 ? "/" : ""),
        &s3->prefix);
    if (r != 0 || len == 0) {
        return r;
    }
    s3->prefix[len] = '\0';
    bool good = len < COXI_S3_KEY_MAX && is_path(s3->prefix);
    s3->prefix[len] = '/';
    return good ? 0
                : coxi_error(COX_EINVAL, "the prefix is too long, or has an empty "
                                         "name, '.' or '..' in it");
}

/* Takes the URL apart. */
static int set_place(struct coxi_s3 *s3)
{
    struct coxi_buffer base = {0};
    struct coxi_buffer signs = {0};
    const char *bucket = s3->url + strlen(scheme);
    size_t len = strcspn(bucket, "/");
    int r = take_text(&base, coxi_aws_append_bucket(&base, bucket, len), &s3->base);
    r = r == 0 ? set_prefix(s3, bucket[len] == '/' ? bucket + len + 1 : "") : r;
    if (r == 0) {
        s3->sealed = strncmp(s3->base, "https:", 6) == 0;
        r = take_text(&signs,
                      coxi_buffer_printf(&signs, "aws:amz:%s:s3", coxi_aws_region()),
                      &s3->signs);
    }
    return r;
}

static int set_all(struct coxi_s3 *s3, const char *url)
{
    size_t len = strlen(url);
    if (!coxi_s3_is_url(url)) {
        return coxi_error(COX_EINVAL, "such names are s3://BUCKET/PREFIX");
    }
    while (len > strlen(scheme) && url[len - 1] == '/') {
        len--;
    }
    s3->url = strndup(url, len);
    const char *ca_file = coxi_aws_ca_file();
    s3->ca_file = ca_file != NULL ? strdup(ca_file) : NULL;
    int r = s3->url == NULL || (s3->ca_file == NULL) != (ca_file == NULL)
                ? coxi_error_memory("a store of objects")
                : set_place(s3);
    r = r == 0 ? coxi_aws_credentials_open(&s3->credentials) : r;
    if (r == COX_ENOENT) {
        r = COX_EINVAL;
    }
    return r;
}

int coxi_s3_open(const char *url, struct coxi_s3 **ret)
{
    char text[COXI_ERROR_TEXT_MAX];
    struct coxi_s3 *s3 = calloc(1, sizeof(*s3));
    if (s3 == NULL) {
        return coxi_error_memory("a store of objects");
    }
    s3->limits = usual_limits;
    s3->limits.tries = atomic_load(&usual_tries);
    coxi_mutex_init(&s3->lock);
    coxi_cond_init(&s3->cancel);
    int r = set_all(s3, url);
    if (r != 0) {
        coxi_s3_close(s3);
        (void)snprintf(text, sizeof(text), "%s", coxi_error_text());
        return coxi_error(r, "%.200s: %s", url, text);
    }
    *ret = s3;
    return 0;
}

void coxi_s3_close(struct coxi_s3 *s3)
{
    if (s3 == NULL) {
        return;
    }
    coxi_aws_credentials_close(s3->credentials);
    coxi_mutex_fini(&s3->lock);
    (void)pthread_cond_destroy(&s3->cancel);
    free(s3->url);
    free(s3->base);
    free(s3->prefix);
    free(s3->signs);
    free(s3->ca_file);
    free(s3);
}

void coxi_s3_limit(struct coxi_s3 *s3, const struct coxi_s3_limits *limits)
{
    s3->limits = *limits;
}

void coxi_s3_limit_tries(int tries)
{
    atomic_store(&usual_tries, tries);
}

void coxi_s3_cancel(struct coxi_s3 *s3)
{
    coxi_lock(&s3->lock);
    atomic_store(&s3->cancelled, true);
    (void)pthread_cond_broadcast(&s3->cancel);
    coxi_unlock(&s3->lock);
}

const char *coxi_s3_url(const struct coxi_s3 *s3)
{
    return s3->url;
}

int coxi_s3_check_key(const struct coxi_s3 *s3, const char *key)
{
    return is_path(key) && strlen(s3->prefix) + strlen(key) <= COXI_S3_KEY_MAX
               ? 0
               : coxi_error(COX_EINVAL,
                            "%s/%.200s: the key is too long, or has an empty name, '.' "
                            "or '..' in it",
                            s3->url, key);
}

/* ---- reading and removing */

int coxi_s3_read(struct coxi_s3 *s3, const char *key, size_t max, uint8_t **ret,
                 size_t *ret_len, char ret_etag[COXI_S3_ETAG_MAX])
{
    const struct coxi_s3_request request = {
        .doing = "read", .method = "GET", .key = key, .max = max};
    struct coxi_s3_answer answer = {0};
    int r = coxi_s3_check_key(s3, key);
    r = r == 0 ? coxi_s3_ask(s3, &request, &answer) : r;
    size_t len = answer.body.len;
    r = r == 0 ? coxi_buffer_append_raw(&answer.body, "", 1) : r;
    if (r != 0) {
        coxi_buffer_fini(&answer.body);
        return r;
    }
    if (ret_etag != NULL) {
        memcpy(ret_etag, answer.etag, sizeof(answer.etag));
    }
    *ret = answer.body.data;
    *ret_len = len;
    return 0;
}

int coxi_s3_look(struct coxi_s3 *s3, const char *key, struct coxi_s3_answer *answer)
{
    const struct coxi_s3_request request = {
        .doing = "look at", .method = "HEAD", .key = key};
    int r = coxi_s3_check_key(s3, key);
    r = r == 0 ? coxi_s3_ask(s3, &request, answer) : r;
    coxi_buffer_fini(&answer->body);
    return r;
}

int coxi_s3_head(struct coxi_s3 *s3, const char *key, uint64_t *ret_bytes,
                 char ret_etag[COXI_S3_ETAG_MAX])
{
    struct coxi_s3_answer answer = {0};
    int r = coxi_s3_look(s3, key, &answer);
    if (r != 0) {
        return r;
    }
    if (ret_etag != NULL) {
        memcpy(ret_etag, answer.etag, sizeof(answer.etag));
    }
    *ret_bytes = answer.bytes;
    return 0;
}

int coxi_s3_get(struct coxi_s3 *s3, const char *key, const char *etag, uint64_t at,
                void *to, size_t len)
{
    const struct coxi_s3_request request = {.doing = "read",
                                            .method = "GET",
                                            .key = key,
                                            .match = etag,
                                            .to = to,
                                            .at = at,
                                            .to_len = len};
    struct coxi_s3_answer answer = {0};
    int r = coxi_s3_check_key(s3, key);
    if (r != 0 || len == 0) {
        return r;
    }
    if (at > INT64_MAX - len) {
        return coxi_error(COX_EINVAL, "%s/%s has no such bytes", s3->url, key);
    }
    r = coxi_s3_ask(s3, &request, &answer);
    coxi_buffer_fini(&answer.body);
    return r;
}

int coxi_s3_remove(struct coxi_s3 *s3, const char *key)
{
    const struct coxi_s3_request request = {
        .doing = "remove", .method = "DELETE", .key = key};
    struct coxi_s3_answer answer = {0};
    int r = coxi_s3_check_key(s3, key);
    r = r == 0 ? coxi_s3_ask(s3, &request, &answer) : r;
    coxi_buffer_fini(&answer.body);
    return r == COX_ENOENT ? 0 : r;
}

/* ---- sources */

struct source {
    struct coxi_s3 *s3;
    char *key;
    char etag[COXI_S3_ETAG_MAX];
};

static int source_read(void *arg, uint64_t at, void *to, size_t len)
{
    const struct source *source = arg;
    const char *etag = source->etag[0] != '\0' ? source->etag : NULL;
    return coxi_s3_get(source->s3, source->key, etag, at, to, len);
}

static void source_free(struct source *source)
{
    free(source->key);
    free(source);
}

int coxi_s3_source(struct coxi_s3 *s3, const char *key, uint64_t bytes,
                   struct coxi_file_source *ret)
{
    uint64_t has = 0;
    struct source *source = calloc(1, sizeof(*source));
    if (source == NULL) {
        return coxi_error_memory("an object");
    }
    source->s3 = s3;
    source->key = strdup(key);
    int r = source->key == NULL ? coxi_error_memory("an object")
                                : coxi_s3_head(s3, key, &has, source->etag);
    if (r == 0 && has != bytes) {
        r = coxi_error(COX_EFORMAT, "%s/%s has %llu bytes where %llu belong", s3->url,
                       key, (unsigned long long)has, (unsigned long long)bytes);
    }
    if (r != 0) {
        source_free(source);
        return r;
    }
    *ret = (struct coxi_file_source){source_read, source};
    return 0;
}

void coxi_s3_source_close(struct coxi_file_source *source)
{
    if (source->arg != NULL) {
        source_free(source->arg);
        source->arg = NULL;
    }
}
