/*
 * See s3.h. Amazon's buckets have a host name of their own, unless their name has a dot,
 * for which no certificate stands; elsewhere the bucket comes first in the path.
 */
#include "data/s3.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "data/name.h"

enum {
    BUCKET_MAX = 63,
    LIST_MAX = 16 << 20, /* an answer has 1000 keys of at most 1024 bytes */
    PAGES_MAX = 1000000,
};

/* ---- names */

struct place {
    const char *bucket;
    size_t bucket_len;
    const char *key;
};

static int parse(const char *name, struct place *ret)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789.-_";
    const char *bucket = name + strlen("s3://");
    size_t len = strcspn(bucket, "/");
    if (len == 0 || len > BUCKET_MAX || strspn(bucket, letters) < len ||
        bucket[len] == '\0' || bucket[len + 1] == '\0') {
        return coxi_error(COX_EINVAL, "%s: such names are s3://BUCKET/KEY", name);
    }
    *ret = (struct place){bucket, len, bucket + len + 1};
    return 0;
}

static const char *environment(const char *name)
{
    const char *text = getenv(name); /* NOLINT(concurrency-mt-unsafe) */
    return text != NULL && text[0] != '\0' ? text : NULL;
}

static const char *first_of(const char *a, const char *b, const char *otherwise)
{
    const char *text = environment(a);
    text = text != NULL ? text : environment(b);
    return text != NULL ? text : otherwise;
}

/* ---- addresses */

/* Appends text in which all bytes but unreserved ones, and those of `also`, are escaped
 * (RFC 3986); signatures need exactly this. */
static int append_escaped(struct coxi_buffer *to, const char *text, const char *also)
{
    int r = 0;
    for (; r == 0 && *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                     (c >= '0' && c <= '9') || strchr("-._~", c) != NULL ||
                     strchr(also, c) != NULL;
        r = plain ? coxi_buffer_append_raw(to, &c, 1)
                  : coxi_buffer_printf(to, "%%%02X", c);
    }
    return r;
}

/* Appends the URL of a bucket, without a slash at its end. */
static int append_bucket(struct coxi_buffer *to, const char *name,
                         const struct place *place, const char *region)
{
    int len = (int)place->bucket_len;
    const char *endpoint = first_of("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", NULL);
    if (endpoint == NULL) {
        return memchr(place->bucket, '.', place->bucket_len) == NULL
                   ? coxi_buffer_printf(to, "https://%.*s.s3.%s.amazonaws.com", len,
                                        place->bucket, region)
                   : coxi_buffer_printf(to, "https://s3.%s.amazonaws.com/%.*s", region,
                                        len, place->bucket);
    }
    size_t end = strlen(endpoint);
    while (end > 0 && endpoint[end - 1] == '/') {
        end--;
    }
    return strncmp(endpoint, "http://", 7) == 0 || strncmp(endpoint, "https://", 8) == 0
               ? coxi_buffer_printf(to, "%.*s/%.*s", (int)end, endpoint, len,
                                    place->bucket)
               : coxi_error(COX_EINVAL,
                            "%s: AWS_ENDPOINT_URL must begin with http:// or https://",
                            name);
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

static int set_credentials(const char *name, const char *region,
                           struct coxi_http_address *address)
{
    const char *id = environment("AWS_ACCESS_KEY_ID");
    const char *secret = environment("AWS_SECRET_ACCESS_KEY");
    const char *token = environment("AWS_SESSION_TOKEN");
    struct coxi_buffer signs = {0};
    struct coxi_buffer user = {0};
    if (id == NULL && secret == NULL) {
        return 0;
    }
    if (id == NULL || secret == NULL || strchr(id, ':') != NULL) {
        return coxi_error(
            COX_EINVAL,
            "%s: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY must both be "
            "set, or neither",
            name);
    }
    int r = take_text(&signs, coxi_buffer_printf(&signs, "aws:amz:%s:s3", region),
                      &address->signs);
    if (r == 0) {
        r = take_text(&user, coxi_buffer_printf(&user, "%s:%s", id, secret),
                      &address->user);
    }
    if (r == 0 && token != NULL) {
        address->token = strdup(token);
        r = address->token != NULL ? 0 : coxi_error_memory(name);
    }
    return r;
}

/* Makes an address of a URL, which it takes; `r` is whether that could be made. */
static int finish(const char *name, struct coxi_buffer *url, int r, const char *region,
                  struct coxi_http_address *ret)
{
    struct coxi_http_address address = {0};
    r = take_text(url, r, &address.url);
    r = r == 0 ? set_credentials(name, region, &address) : r;
    if (r != 0) {
        coxi_http_address_fini(&address);
        return r;
    }
    *ret = address;
    return 0;
}

static const char *region_of(void)
{
    return first_of("AWS_REGION", "AWS_DEFAULT_REGION", "us-east-1");
}

int coxi_s3_address(const char *name, struct coxi_http_address *ret)
{
    struct place place;
    struct coxi_buffer url = {0};
    const char *region = region_of();
    int r = parse(name, &place);
    r = r == 0 ? append_bucket(&url, name, &place, region) : r;
    r = r == 0 ? coxi_buffer_append_raw(&url, "/", 1) : r;
    r = r == 0 ? append_escaped(&url, place.key, "/") : r;
    return finish(name, &url, r, region, ret);
}

/* ---- lists */

/* The address of a page of the keys with a prefix. Parameters are sorted by their names
 * because the signature wants them so. */
static int page_address(const char *pattern, const struct place *place,
                        const char *prefix, const char *token,
                        struct coxi_http_address *ret)
{
    struct coxi_buffer url = {0};
    const char *region = region_of();
    int r = append_bucket(&url, pattern, place, region);
    r = r == 0 ? coxi_buffer_printf(&url, "/?") : r;
    if (r == 0 && token != NULL) {
        r = coxi_buffer_printf(&url, "continuation-token=");
        r = r == 0 ? append_escaped(&url, token, "") : r;
        r = r == 0 ? coxi_buffer_printf(&url, "&") : r;
    }
    r = r == 0 ? coxi_buffer_printf(&url, "list-type=2&prefix=") : r;
    r = r == 0 ? append_escaped(&url, prefix, "") : r;
    return finish(pattern, &url, r, region, ret);
}

/* The text between a tag that is behind `at` and its end; NULL: there is none. `end`:
 * set behind the end tag. */
static char *element(char *at, const char *name, char **end, size_t *len)
{
    char open[40] = "<";
    char close[40] = "</";
    strncat(strncat(open, name, 32), ">", 2);
    strncat(strncat(close, name, 32), ">", 2);
    char *begin = strstr(at, open);
    char *stop = begin != NULL ? strstr(begin, close) : NULL;
    if (stop == NULL) {
        return NULL;
    }
    begin += strlen(open);
    *end = stop + strlen(close);
    *len = (size_t)(stop - begin);
    return begin;
}

/* The byte that a reference stands for, or 0: names of keys have no others. */
static char entity(const char *text, size_t len)
{
    static const struct {
        const char *name;
        char byte;
    } known[] = {{"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
        if (strlen(known[i].name) == len && memcmp(known[i].name, text, len) == 0) {
            return known[i].byte;
        }
    }
    if (len < 2 || text[0] != '#') {
        return 0;
    }
    char *end;
    bool hex = text[1] == 'x';
    long n = strtol(text + 1 + hex, &end, hex ? 16 : 10);
    if (end != text + len || n <= 0 || n >= 128) {
        return 0;
    }
    return (char)n;
}

/* Resolves references in place and ends the text with a NUL. False: it has others. */
static bool resolve(char *text, size_t len)
{
    char *to = text;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (c == '&') {
            const char *end = memchr(text + i, ';', len - i);
            size_t n = end != NULL ? (size_t)(end - text) - i - 1 : 0;
            c = entity(text + i + 1, n);
            i += n + 1;
        }
        if (c == '\0') {
            return false;
        }
        *to++ = c;
    }
    *to = '\0';
    return true;
}

static int malformed(const char *pattern)
{
    return coxi_error(COX_EFORMAT, "%s: the server's list of keys is malformed",
                      pattern);
}

/* Adds a key's name if it matches. A key that ends in a slash stands for a directory. */
static int add_key(const char *pattern, const struct place *place, const char *key,
                   struct coxi_found *found)
{
    size_t len = strlen(key);
    if (len == 0 || key[len - 1] == '/' || coxi_name_is_aside(pattern, key) ||
        fnmatch(place->key, key, FNM_PATHNAME | FNM_PERIOD) != 0) {
        return 0;
    }
    struct coxi_buffer name = {0};
    char *text = NULL;
    int r = take_text(
        &name,
        coxi_buffer_printf(&name, "%.*s%s", (int)(place->key - pattern), pattern, key),
        &text);
    return r == 0 ? coxi_found_take(found, text) : r;
}

int coxi_s3_read_page(const char *pattern, char *text, struct coxi_found *found,
                      char **ret_token)
{
    struct place place;
    size_t len;
    char *at = text;
    char *end;
    int r = parse(pattern, &place);
    if (r != 0) {
        return r;
    }
    if (strstr(text, "</ListBucketResult>") == NULL) {
        return malformed(pattern);
    }
    /* what is beside the keys comes first, because keys are changed as they are read */
    const char *more = element(text, "IsTruncated", &end, &len);
    bool truncated = more != NULL && len == 4 && memcmp(more, "true", 4) == 0;
    char *token = element(text, "NextContinuationToken", &end, &len);
    size_t token_len = token != NULL ? len : 0;
    if (truncated && (token == NULL || token_len == 0)) {
        return malformed(pattern);
    }
    char *contents;
    while (r == 0 && (contents = element(at, "Contents", &end, &len)) != NULL) {
        at = end;
        contents[len] = '\0';
        char *key = element(contents, "Key", &end, &len);
        r = key != NULL && resolve(key, len) ? add_key(pattern, &place, key, found)
                                             : malformed(pattern);
    }
    if (r == 0 && truncated && !resolve(token, token_len)) {
        r = malformed(pattern);
    }
    *ret_token = truncated ? token : NULL;
    return r;
}

/* Reads a page into `page`, as a text. */
static int get_page(const char *pattern, const struct place *place, const char *prefix,
                    const char *token, struct coxi_buffer *page)
{
    struct coxi_http_address address = {0};
    struct coxi_http *http = NULL;
    int r = page_address(pattern, place, prefix, token, &address);
    r = r == 0 ? coxi_http_new(pattern, &address, NULL, &http) : r;
    r = r == 0 ? coxi_http_read_all(http, LIST_MAX, page) : r;
    r = r == 0 ? coxi_buffer_append_raw(page, "", 1) : r;
    coxi_http_free(http);
    return r;
}

static int find_all(const char *pattern, const struct place *place, const char *prefix,
                    struct coxi_found *found)
{
    struct coxi_buffer pages[2] = {{0}};
    char *token = NULL; /* in the page before */
    int r = 0;
    for (unsigned i = 0; r == 0 && (i == 0 || token != NULL); i++) {
        struct coxi_buffer *page = &pages[i % 2];
        const char *last = token;
        page->len = 0;
        r = get_page(pattern, place, prefix, token, page);
        r = r == 0 ? coxi_s3_read_page(pattern, (char *)page->data, found, &token) : r;
        if (r == 0 && token != NULL &&
            (i == PAGES_MAX || (last != NULL && strcmp(token, last) == 0))) {
            r = malformed(pattern); /* it would never end */
        }
    }
    coxi_buffer_fini(&pages[0]);
    coxi_buffer_fini(&pages[1]);
    return r;
}

int coxi_s3_find(const char *pattern, struct coxi_found *ret)
{
    struct place place;
    struct coxi_found found = {0};
    int r = parse(pattern, &place);
    if (r != 0) {
        return r;
    }
    char *prefix = strndup(place.key, strcspn(place.key, "*?[\\"));
    r = prefix != NULL ? find_all(pattern, &place, prefix, &found)
                       : coxi_error_memory(pattern);
    free(prefix);
    if (r != 0) {
        coxi_found_fini(&found);
        return r;
    }
    *ret = found;
    return 0;
}
