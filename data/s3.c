/* See s3.h. */
#include "data/s3.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "data/name.h"
#include "objects/aws.h"
#include "objects/s3_answer.h"

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

/* ---- addresses */

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

/* Without credentials requests are not signed: some buckets are for everybody. */
static int set_credentials(struct coxi_http_address *address)
{
    struct coxi_buffer signs = {0};
    struct coxi_aws_credentials *credentials = NULL;
    int r = coxi_aws_credentials_open(&credentials);
    if (r == COX_ENOENT) {
        return 0;
    }
    r = r == 0 ? coxi_aws_credentials_get(credentials, &address->keys) : r;
    coxi_aws_credentials_close(credentials);
    return r == 0 ? take_text(
                        &signs,
                        coxi_buffer_printf(&signs, "aws:amz:%s:s3", coxi_aws_region()),
                        &address->signs)
                  : r;
}

/* Makes an address of a URL, which it takes; `r` is whether that could be made. */
static int finish(const char *name, struct coxi_buffer *url, int r,
                  struct coxi_http_address *ret)
{
    char text[COXI_ERROR_TEXT_MAX];
    struct coxi_http_address address = {.is_s3 = true};
    r = take_text(url, r, &address.url);
    r = r == 0 ? set_credentials(&address) : r;
    if (r != 0) {
        coxi_http_address_fini(&address);
        (void)snprintf(text, sizeof(text), "%s", coxi_error_text());
        return coxi_error(r, "%s: %s", name, text);
    }
    *ret = address;
    return 0;
}

int coxi_name_s3_address(const char *name, struct coxi_http_address *ret)
{
    struct place place;
    struct coxi_buffer url = {0};
    int r = parse(name, &place);
    if (r != 0) {
        return r;
    }
    r = coxi_aws_append_bucket(&url, place.bucket, place.bucket_len);
    r = r == 0 ? coxi_buffer_append_raw(&url, "/", 1) : r;
    r = r == 0 ? coxi_aws_append_escaped(&url, place.key, "/") : r;
    return finish(name, &url, r, ret);
}

/* ---- lists */

/* The address of a page of the keys with a prefix. Parameters are sorted by their names
 * because the signature wants them so. */
static int page_address(const char *pattern, const struct place *place,
                        const char *prefix, const char *token,
                        struct coxi_http_address *ret)
{
    struct coxi_buffer url = {0};
    int r = coxi_aws_append_bucket(&url, place->bucket, place->bucket_len);
    r = r == 0 ? coxi_buffer_printf(&url, "/?") : r;
    if (r == 0 && token != NULL) {
        r = coxi_buffer_printf(&url, "continuation-token=");
        r = r == 0 ? coxi_aws_append_escaped(&url, token, "") : r;
        r = r == 0 ? coxi_buffer_printf(&url, "&") : r;
    }
    r = r == 0 ? coxi_buffer_printf(&url, "encoding-type=url&list-type=2&prefix=") : r;
    r = r == 0 ? coxi_aws_append_escaped(&url, prefix, "") : r;
    return finish(pattern, &url, r, ret);
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

int coxi_name_s3_read_page(const char *pattern, const void *bytes, size_t len,
                           struct coxi_found *found, char **ret_token)
{
    struct place place;
    struct coxi_s3_page page = {0};
    int r = parse(pattern, &place);
    if (r != 0) {
        return r;
    }
    r = coxi_s3_page_read(bytes, len, &page);
    if (r != 0 || (page.truncated && page.token == NULL)) {
        coxi_s3_page_fini(&page);
        return r == COX_ENOMEM ? r : malformed(pattern);
    }
    for (size_t i = 0; r == 0 && i < page.n; i++) {
        r = add_key(pattern, &place, page.entries[i].key, found);
    }
    if (r == 0) {
        *ret_token = page.truncated ? page.token : NULL;
        page.token = page.truncated ? NULL : page.token;
    }
    coxi_s3_page_fini(&page);
    return r;
}

/* Reads a page. */
static int get_page(const char *pattern, const struct place *place, const char *prefix,
                    const char *token, struct coxi_buffer *page)
{
    struct coxi_http_address address = {0};
    struct coxi_http *http = NULL;
    int r = page_address(pattern, place, prefix, token, &address);
    r = r == 0 ? coxi_http_new(pattern, &address, NULL, &http) : r;
    r = r == 0 ? coxi_http_read_all(http, LIST_MAX, page) : r;
    coxi_http_free(http);
    return r;
}

static int find_all(const char *pattern, const struct place *place, const char *prefix,
                    struct coxi_found *found)
{
    struct coxi_buffer page = {0};
    char *token = NULL; /* of the next page */
    int r = 0;
    for (unsigned i = 0; r == 0 && (i == 0 || token != NULL); i++) {
        char *next = NULL;
        page.len = 0;
        r = get_page(pattern, place, prefix, token, &page);
        r = r == 0 ? coxi_name_s3_read_page(pattern, page.data, page.len, found, &next)
                   : r;
        if (r == 0 && next != NULL &&
            (i == PAGES_MAX || (token != NULL && strcmp(token, next) == 0))) {
            r = malformed(pattern); /* it would never end */
        }
        free(token);
        token = next;
    }
    free(token);
    coxi_buffer_fini(&page);
    return r;
}

int coxi_name_s3_find(const char *pattern, struct coxi_found *ret)
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
