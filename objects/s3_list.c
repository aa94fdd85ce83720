/*
 * Lists of objects, and of uploads that were not completed (s3.h).
 *
 * A hostile server cannot keep a caller for ever: the keys of a list must grow, and the
 * number of pages is bounded. Cost: one page in memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "objects/s3_internal.h"

enum {
    PAGES_MAX = 100000,
    ABORT_MS = 20000, /* what is left is removed later */
};

/* A list under way. */
struct listing {
    struct coxi_s3 *s3;
    const char *prefix; /* relative */
    bool uploads;       /* it is a list of uploads */
    char *last;         /* the key that came last; or NULL */
    char *last_upload;  /* of uploads */
    int64_t date_s;     /* when the page was sent, by the server's clock; 0: not told */
    struct coxi_s3_page page;
};

static int malformed(const struct listing *listing, const char *what)
{
    return coxi_error(COX_EFORMAT, "cannot list %s: %s", listing->s3->url, what);
}

static int append_pair(struct coxi_buffer *to, const char *name, const char *value)
{
    int r = coxi_buffer_printf(to, "%s%s=", to->len > 0 ? "&" : "", name);
    return r == 0 ? coxi_aws_append_escaped(to, value, "") : r;
}

/* The parameters of the next page, sorted by their names. `before` is the page before;
 * zeros at first. */
static int make_query(const struct listing *listing, struct coxi_buffer *to)
{
    const struct coxi_s3_page *before = &listing->page;
    int r = 0;
    if (before->token != NULL && !listing->uploads) {
        r = append_pair(to, "continuation-token", before->token);
    }
    r = r == 0 ? append_pair(to, "encoding-type", "url") : r;
    if (r == 0 && before->key_marker != NULL && listing->uploads) {
        r = append_pair(to, "key-marker", before->key_marker);
    }
    if (r == 0 && !listing->uploads) {
        r = append_pair(to, "list-type", "2");
    }
    r = r == 0 ? coxi_buffer_printf(to, "&prefix=") : r;
    r = r == 0 ? coxi_aws_append_escaped(to, listing->s3->prefix, "") : r;
    r = r == 0 ? coxi_aws_append_escaped(to, listing->prefix, "") : r;
    if (r == 0 && before->upload_marker != NULL && listing->uploads) {
        r = append_pair(to, "upload-id-marker", before->upload_marker);
    }
    r = r == 0 && listing->uploads ? append_pair(to, "uploads", "") : r;
    return r == 0 ? coxi_buffer_append_raw(to, "", 1) : r;
}

static int replace(char **text, const char *by)
{
    char *copy = strdup(by);
    if (copy == NULL) {
        return coxi_error_memory("a list");
    }
    free(*text);
    *text = copy;
    return 0;
}

/* Keys grow, but several uploads may have one key. */
static bool follows(const struct listing *listing, const struct coxi_s3_entry *entry)
{
    int order = listing->last != NULL ? strcmp(entry->key, listing->last) : 1;
    return order > 0 || (order == 0 && listing->uploads && entry->upload != NULL &&
                         strcmp(entry->upload, listing->last_upload) != 0);
}

/* Checks that the page goes on after the last. */
static int check_page(struct listing *listing)
{
    const struct coxi_s3_page *page = &listing->page;
    const char *prefix = listing->s3->prefix;
    for (size_t i = 0; i < page->n; i++) {
        const struct coxi_s3_entry *entry = &page->entries[i];
        if (strncmp(entry->key, prefix, strlen(prefix)) != 0 ||
            strncmp(entry->key + strlen(prefix), listing->prefix,
                    strlen(listing->prefix)) != 0) {
            return malformed(listing, "the server sends keys that were not asked for");
        }
        if (!follows(listing, entry)) {
            return malformed(listing, "the server sends keys that are not sorted");
        }
        if (listing->uploads && entry->upload == NULL) {
            return malformed(listing, "the server sends uploads without ids");
        }
        int r = replace(&listing->last, entry->key);
        r = r == 0 && listing->uploads ? replace(&listing->last_upload, entry->upload)
                                       : r;
        if (r != 0) {
            return r;
        }
    }
    return page->truncated && page->n == 0
               ? malformed(listing, "the server sends pages without keys")
               : 0;
}

/* Asks for the next page. */
static int next_page(struct listing *listing)
{
    struct coxi_s3_request request = {
        .doing = "list", .method = "GET", .max = COXI_S3_ANSWER_MAX};
    struct coxi_s3_answer answer = {0};
    struct coxi_buffer query = {0};
    int r = make_query(listing, &query);
    coxi_s3_page_fini(&listing->page);
    request.query = (const char *)query.data;
    r = r == 0 ? coxi_s3_ask(listing->s3, &request, &answer) : r;
    listing->date_s = answer.date_s;
    if (r == 0) {
        r = coxi_s3_page_read(answer.body.data, answer.body.len, &listing->page);
        if (r != 0) {
            char text[256];
            (void)snprintf(text, sizeof(text), "%s", coxi_error_text());
            r = coxi_error(r, "cannot list %s: %s", listing->s3->url, text);
        }
    }
    coxi_buffer_fini(&query);
    coxi_buffer_fini(&answer.body);
    return r == 0 ? check_page(listing) : r;
}

/* Calls `found` with the entries of all pages. */
static int walk(struct listing *listing,
                int (*found)(struct listing *listing, const struct coxi_s3_entry *entry,
                             void *arg),
                void *arg)
{
    int r = 0;
    bool more = true;
    for (int pages = 0; r == 0 && more; pages++) {
        r = pages < PAGES_MAX
                ? next_page(listing)
                : coxi_error(COX_ELIMIT, "%s has too many objects", listing->s3->url);
        for (size_t i = 0; r == 0 && i < listing->page.n; i++) {
            r = found(listing, &listing->page.entries[i], arg);
        }
        more = listing->page.truncated;
    }
    coxi_s3_page_fini(&listing->page);
    free(listing->last);
    free(listing->last_upload);
    return r;
}

/* ---- objects */

struct finder {
    int (*found)(void *arg, const struct coxi_s3_object *object);
    void *arg;
};

static int tell_object(struct listing *listing, const struct coxi_s3_entry *entry,
                       void *arg)
{
    const struct finder *finder = arg;
    int64_t age_s = listing->date_s - entry->modified_s;
    bool is_known = listing->date_s > 0 && entry->modified_s > 0;
    const struct coxi_s3_object object = {
        .key = entry->key + strlen(listing->s3->prefix),
        .bytes = entry->bytes,
        .etag = entry->etag != NULL ? entry->etag : "",
        .age_s = !is_known   ? -1
                 : age_s > 0 ? age_s
                             : 0,
    };
    /* the key of the prefix itself stands for a folder */
    return object.key[0] != '\0' ? finder->found(finder->arg, &object) : 0;
}

int coxi_s3_list(struct coxi_s3 *s3, const char *prefix,
                 int (*found)(void *arg, const struct coxi_s3_object *object),
                 void *arg)
{
    struct listing listing = {.s3 = s3, .prefix = prefix};
    struct finder finder = {found, arg};
    return walk(&listing, tell_object, &finder);
}

/* ---- uploads */

/* An id that no store gives, in letters that all accept. */
static const char no_upload[] = "coxswain0test0of0permissions0000";

int coxi_s3_may_abort(struct coxi_s3 *s3, const char *key)
{
    return coxi_s3_abort_upload(s3, key, no_upload) == COX_EDENIED ? COX_EDENIED : 0;
}

int coxi_s3_abort_upload(struct coxi_s3 *s3, const char *key, const char *id)
{
    struct coxi_s3_request request = {.doing = "abort an upload of",
                                      .method = "DELETE",
                                      .key = key,
                                      .most_ms = ABORT_MS};
    struct coxi_s3_answer answer = {0};
    struct coxi_buffer query = {0};
    int r = append_pair(&query, "uploadId", id);
    r = r == 0 ? coxi_buffer_append_raw(&query, "", 1) : r;
    request.query = (const char *)query.data;
    r = r == 0 ? coxi_s3_ask(s3, &request, &answer) : r;
    coxi_buffer_fini(&query);
    coxi_buffer_fini(&answer.body);
    return r == COX_ENOENT ? 0 : r;
}

static int drop_upload(struct listing *listing, const struct coxi_s3_entry *entry,
                       void *arg)
{
    (void)arg;
    return coxi_s3_abort_upload(listing->s3, entry->key + strlen(listing->s3->prefix),
                                entry->upload);
}

int coxi_s3_drop_uploads(struct coxi_s3 *s3, const char *prefix)
{
    struct listing listing = {.s3 = s3, .prefix = prefix, .uploads = true};
    return walk(&listing, drop_upload, NULL);
}
