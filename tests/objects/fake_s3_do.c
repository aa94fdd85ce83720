/* What the fake store does: objects, lists, uploads in parts. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/objects/fake_s3_internal.h"
#include "tests/test.h"

enum { PART_LEAST = 5 << 20, KEY_MAX = 1024 };

void fake_error(struct answer *answer, unsigned status, const char *code)
{
    answer->status = status;
    answer->body.len = 0;
    (void)coxi_buffer_printf(&answer->body,
                             "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                             "<Error><Code>%s</Code><Message>of a test</Message>"
                             "<RequestId>1</RequestId></Error>",
                             code);
}

/* ---- objects */

struct object *fake_find(struct fake_s3 *f, const char *key)
{
    struct object *object = f->objects;
    while (object != NULL && strcmp(object->key, key) != 0) {
        object = object->next;
    }
    return object;
}

struct object *fake_make(struct fake_s3 *f, const char *key)
{
    struct object **at = &f->objects;
    while (*at != NULL && strcmp((*at)->key, key) < 0) {
        at = &(*at)->next;
    }
    if (*at == NULL || strcmp((*at)->key, key) != 0) {
        struct object *object = calloc(1, sizeof(*object));
        object->key = strdup(key);
        object->next = *at;
        *at = object;
    }
    (*at)->modified_s = time(NULL);
    return *at;
}

void fake_drop(struct fake_s3 *f, const char *key)
{
    struct object **at = &f->objects;
    while (*at != NULL && strcmp((*at)->key, key) != 0) {
        at = &(*at)->next;
    }
    struct object *object = *at;
    if (object != NULL) {
        *at = object->next;
        coxi_buffer_fini(&object->data);
        free(object->key);
        free(object);
    }
}

static void set_etag(const void *data, size_t len, const char *suffix,
                     char ret[ETAG_MAX])
{
    unsigned char sum[16];
    fake_md5(data, len, sum);
    ret[0] = '"';
    for (size_t i = 0; i < sizeof(sum); i++) {
        (void)snprintf(ret + 1 + 2 * i, 3, "%02x", sum[i]);
    }
    (void)snprintf(ret + 33, ETAG_MAX - 33, "%s\"", suffix);
}

static void copy_meta(const struct request *request, char ret[META_MAX])
{
    const char *meta = fake_header(request, "x-amz-meta-coxswain-writer");
    (void)snprintf(ret, META_MAX, "%s", meta != NULL ? meta : "");
}

/* True: the conditions of the request hold. */
static bool may_write(struct fake_s3 *f, const struct request *request, const char *key,
                      struct answer *answer)
{
    const struct object *object = fake_find(f, key);
    const char *match = fake_header(request, "if-match");
    const char *none = fake_header(request, "if-none-match");
    if (f->ignores_conditions) {
        return true;
    }
    if (match != NULL && object == NULL) {
        fake_error(answer, 404, "NoSuchKey");
        return false;
    }
    if ((none != NULL && object != NULL) ||
        (match != NULL && strcmp(match, object->etag) != 0)) {
        fake_error(answer, 412, "PreconditionFailed");
        return false;
    }
    return true;
}

static void do_put(struct fake_s3 *f, const struct request *request, const char *key,
                   struct answer *answer)
{
    if (!may_write(f, request, key, answer)) {
        return;
    }
    struct object *object = fake_make(f, key);
    object->data.len = 0;
    (void)coxi_buffer_append_raw(&object->data, request->body.data, request->body.len);
    set_etag(request->body.data, request->body.len, "", object->etag);
    copy_meta(request, object->meta);
    memcpy(answer->etag, object->etag, sizeof(answer->etag));
}

static void do_get(struct fake_s3 *f, const struct request *request, const char *key,
                   struct answer *answer)
{
    const struct object *object = fake_find(f, key);
    const char *match = fake_header(request, "if-match");
    const char *range = fake_header(request, "range");
    unsigned long long first = 0;
    unsigned long long last = 0;
    if (object == NULL) {
        fake_error(answer, 404, "NoSuchKey");
        return;
    }
    if (match != NULL && strcmp(match, object->etag) != 0) {
        fake_error(answer, 412, "PreconditionFailed");
        return;
    }
    size_t len = object->data.len;
    memcpy(answer->etag, object->etag, sizeof(answer->etag));
    memcpy(answer->meta, object->meta, sizeof(answer->meta));
    if (range == NULL) {
        (void)coxi_buffer_append_raw(&answer->body, object->data.data, len);
        return;
    }
    assert_int_equal(2, sscanf(range, "bytes=%llu-%llu", &first, &last));
    if (first >= len) {
        fake_error(answer, 416, "InvalidRange");
        (void)snprintf(answer->range, sizeof(answer->range), "bytes */%zu", len);
        return;
    }
    last = last < len ? last : len - 1;
    answer->status = 206;
    (void)snprintf(answer->range, sizeof(answer->range), "bytes %llu-%llu/%zu", first,
                   last, len);
    (void)coxi_buffer_append_raw(&answer->body, object->data.data + first,
                                 (size_t)(last - first + 1));
}

/* ---- lists */

static void do_list(struct fake_s3 *f, const struct request *request,
                    struct answer *answer)
{
    const char *prefix = fake_parameter(request, "prefix");
    const char *token = fake_parameter(request, "continuation-token");
    const struct object *last = NULL;
    size_t n = 0;
    bool more = false;
    struct coxi_buffer *to = &answer->body;
    prefix = prefix != NULL ? prefix : "";
    char *after =
        strdup(token != NULL && !f->repeats_pages ? token + 6 : ""); /* after/KEY */
    (void)MHD_http_unescape(after);
    (void)coxi_buffer_printf(to, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                                 "<ListBucketResult "
                                 "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
                                 "<Name>bucket</Name><EncodingType>url</EncodingType>");
    for (const struct object *object = f->objects; object != NULL && !more;
         object = object->next) {
        if (strncmp(object->key, prefix, strlen(prefix)) != 0 ||
            strcmp(object->key, after) <= 0) {
            continue;
        }
        if (n == f->page) {
            more = true;
            break;
        }
        (void)coxi_buffer_printf(to, "<Contents><Key>");
        fake_escape(to, object->key, "/");
        char modified[32];
        struct tm tm;
        (void)gmtime_r(&object->modified_s, &tm);
        (void)strftime(modified, sizeof(modified), "%Y-%m-%dT%H:%M:%S.000Z", &tm);
        (void)coxi_buffer_printf(to,
                                 "</Key><LastModified>%s</LastModified>"
                                 "<ETag>&quot;%.*s&quot;</ETag><Size>%zu</Size>"
                                 "<Owner><ID>1</ID></Owner></Contents>",
                                 modified, (int)strlen(object->etag) - 2,
                                 object->etag + 1, object->data.len);
        last = object;
        n++;
    }
    (void)coxi_buffer_printf(to, "<IsTruncated>%s</IsTruncated>",
                             more ? "true" : "false");
    if (more) {
        (void)coxi_buffer_printf(to, "<NextContinuationToken>after/");
        fake_escape(to, last->key, "");
        (void)coxi_buffer_printf(to, "</NextContinuationToken>");
    }
    (void)coxi_buffer_printf(to, "</ListBucketResult>");
    free(after);
}

/* ---- uploads in parts */

void fake_upload_free(struct upload *upload)
{
    while (upload->parts != NULL) {
        struct part *part = upload->parts;
        upload->parts = part->next;
        coxi_buffer_fini(&part->data);
        free(part);
    }
    free(upload->key);
    free(upload);
}

static void do_begin(struct fake_s3 *f, const struct request *request, const char *key,
                     struct answer *answer)
{
    struct upload *upload = calloc(1, sizeof(*upload));
    upload->id = ++f->last_upload;
    upload->key = strdup(key);
    copy_meta(request, upload->meta);
    upload->next = f->uploads;
    f->uploads = upload;
    (void)coxi_buffer_printf(
        &answer->body,
        "<InitiateMultipartUploadResult "
        "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Bucket>bucket</Bucket>"
        "<UploadId>id/%d=</UploadId></InitiateMultipartUploadResult>",
        upload->id);
}

static struct upload **find_upload(struct fake_s3 *f, const struct request *request,
                                   const char *key)
{
    const char *id = fake_parameter(request, "uploadId");
    int number = 0;
    if (id == NULL || sscanf(id, "id/%d=", &number) != 1) {
        return NULL;
    }
    for (struct upload **at = &f->uploads; *at != NULL; at = &(*at)->next) {
        if ((*at)->id == number && strcmp((*at)->key, key) == 0) {
            return at;
        }
    }
    return NULL;
}

static void drop_upload(struct upload **at)
{
    struct upload *upload = *at;
    *at = upload->next;
    fake_upload_free(upload);
}

static void do_part(struct upload *upload, const struct request *request,
                    struct answer *answer)
{
    long number = strtol(fake_parameter(request, "partNumber"), NULL, 10);
    struct part **at = &upload->parts;
    if (number < 1 || number > 10000) {
        fake_error(answer, 400, "InvalidArgument");
        return;
    }
    while (*at != NULL && (*at)->number < number) {
        at = &(*at)->next;
    }
    if (*at == NULL || (*at)->number != number) {
        struct part *part = calloc(1, sizeof(*part));
        part->number = number;
        part->next = *at;
        *at = part;
    }
    (*at)->data.len = 0;
    (void)coxi_buffer_append_raw(&(*at)->data, request->body.data, request->body.len);
    set_etag(request->body.data, request->body.len, "", (*at)->etag);
    memcpy(answer->etag, (*at)->etag, sizeof(answer->etag));
}

/* S3's code of what is wrong with the parts that the body names; NULL: nothing. */
static const char *check_parts(const struct upload *upload, struct coxi_buffer *body)
{
    const char *at = (const char *)body->data;
    long last = 0;
    for (const struct part *part = upload->parts; part != NULL; part = part->next) {
        char wanted[256];
        (void)snprintf(
            wanted, sizeof(wanted),
            "<Part><ETag>&quot;%.32s&quot;</ETag><PartNumber>%ld</PartNumber></Part>",
            part->etag + 1, part->number);
        at = strstr(at, wanted);
        if (at == NULL) {
            return "InvalidPart";
        }
        if (part->number != last + 1) {
            return "InvalidPartOrder";
        }
        if (part->next != NULL && part->data.len < PART_LEAST) {
            return "EntityTooSmall";
        }
        last = part->number;
    }
    return last == 0 ? "MalformedXML" : NULL;
}

static void do_end(struct fake_s3 *f, struct upload **at, struct request *request,
                   struct answer *answer)
{
    struct upload *upload = *at;
    char suffix[24];
    int n = 0;
    (void)coxi_buffer_append_raw(&request->body, "", 1);
    const char *wrong = check_parts(upload, &request->body);
    if (wrong != NULL) {
        fake_error(answer, 400, wrong);
        return;
    }
    struct object *object = fake_make(f, upload->key);
    object->data.len = 0;
    for (const struct part *part = upload->parts; part != NULL; part = part->next) {
        (void)coxi_buffer_append_raw(&object->data, part->data.data, part->data.len);
        n++;
    }
    (void)snprintf(suffix, sizeof(suffix), "-%d", n);
    set_etag(object->data.data, object->data.len, suffix, object->etag);
    memcpy(object->meta, upload->meta, sizeof(object->meta));
    (void)coxi_buffer_printf(&answer->body,
                             "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                             "<CompleteMultipartUploadResult "
                             "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
                             "<Bucket>bucket</Bucket><ETag>&quot;%.*s&quot;</ETag>"
                             "</CompleteMultipartUploadResult>",
                             (int)strlen(object->etag) - 2, object->etag + 1);
    drop_upload(at);
}

static void do_uploads(struct fake_s3 *f, const struct request *request,
                       struct answer *answer)
{
    const char *prefix = fake_parameter(request, "prefix");
    struct coxi_buffer *to = &answer->body;
    prefix = prefix != NULL ? prefix : "";
    (void)coxi_buffer_printf(to, "<ListMultipartUploadsResult>"
                                 "<IsTruncated>false</IsTruncated>");
    for (const struct upload *upload = f->uploads; upload != NULL;
         upload = upload->next) {
        if (strncmp(upload->key, prefix, strlen(prefix)) == 0) {
            (void)coxi_buffer_printf(
                to, "<Upload><Key>%s</Key><UploadId>id/%d=</UploadId></Upload>",
                upload->key, upload->id);
        }
    }
    (void)coxi_buffer_printf(to, "</ListMultipartUploadsResult>");
}

/* ---- all */

static void do_multipart(struct fake_s3 *f, struct request *request, const char *key,
                         struct answer *answer)
{
    struct upload **at = find_upload(f, request, key);
    if (at == NULL) {
        fake_error(answer, 404, "NoSuchUpload");
    } else if (request->op == FAKE_PART) {
        do_part(*at, request, answer);
    } else if (request->op == FAKE_END) {
        do_end(f, at, request, answer);
    } else {
        drop_upload(at);
        answer->status = 204;
    }
}

void fake_do(struct fake_s3 *f, struct request *request, struct answer *answer)
{
    const char *key = strchr(request->path, '/');
    size_t bucket = key != NULL ? (size_t)(key - request->path) : strlen(request->path);
    key = key != NULL ? key + 1 : "";
    if (bucket != 6 || strncmp(request->path, "bucket", 6) != 0) {
        fake_error(answer, 404, "NoSuchBucket");
        return;
    }
    if (strlen(key) > KEY_MAX) {
        fake_error(answer, 400, "KeyTooLongError");
        return;
    }
    switch (request->op) {
    case FAKE_GET:
    case FAKE_HEAD:
        do_get(f, request, key, answer);
        break;
    case FAKE_PUT:
        do_put(f, request, key, answer);
        break;
    case FAKE_DELETE:
        fake_drop(f, key);
        answer->status = 204;
        break;
    case FAKE_LIST:
        do_list(f, request, answer);
        break;
    case FAKE_UPLOADS:
        do_uploads(f, request, answer);
        break;
    case FAKE_BEGIN:
        do_begin(f, request, key, answer);
        break;
    case FAKE_PART:
    case FAKE_END:
    case FAKE_ABORT:
        do_multipart(f, request, key, answer);
        break;
    case FAKE_OPS:
        break;
    }
}
