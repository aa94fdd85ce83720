/*
 * The requests of an upload in parts (s3_internal.h).
 *
 * The answer to the last request may be lost, or be an error with status 200, though the
 * object was made. So what counts is the object: it has this upload's mark, and the right
 * length.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "objects/s3_internal.h"

int coxi_s3_multipart_begin(struct coxi_s3_multipart *upload)
{
    const struct coxi_s3_request request = {.doing = "begin an upload of",
                                            .method = "POST",
                                            .key = upload->key,
                                            .query = "uploads=",
                                            .mark = upload->mark,
                                            .body = "",
                                            .max = COXI_S3_ANSWER_MAX};
    struct coxi_s3_answer answer = {0};
    char *id = NULL;
    int r = coxi_s3_mark(upload->mark);
    r = r == 0 ? coxi_s3_ask(upload->s3, &request, &answer) : r;
    if (r == 0 &&
        (coxi_s3_text_at(answer.body.data, answer.body.len,
                         "InitiateMultipartUploadResult/UploadId", &id) != 0 ||
         id[0] == '\0')) {
        r = coxi_error(COX_EFORMAT,
                       "cannot begin an upload of %s/%s: the answer has no id",
                       upload->s3->url, upload->key);
    }
    coxi_buffer_fini(&answer.body);
    if (r != 0) {
        free(id);
        return r;
    }
    upload->id = id;
    return 0;
}

/* Appends "uploadId=ID", and a NUL. */
static int append_id(const struct coxi_s3_multipart *upload, struct coxi_buffer *to)
{
    int r = coxi_buffer_printf(to, "uploadId=");
    r = r == 0 ? coxi_aws_append_escaped(to, upload->id, "") : r;
    return r == 0 ? coxi_buffer_append_raw(to, "", 1) : r;
}

int coxi_s3_multipart_send(const struct coxi_s3_multipart *upload, size_t number,
                           const void *data, size_t len, char **ret_etag)
{
    struct coxi_s3_request request = {.doing = "upload a part of",
                                      .method = "PUT",
                                      .key = upload->key,
                                      .body = data,
                                      .len = len,
                                      .max = COXI_S3_ANSWER_MAX};
    struct coxi_s3_answer answer = {0};
    struct coxi_buffer query = {0};
    int r = coxi_buffer_printf(&query, "partNumber=%zu&", number);
    r = r == 0 ? append_id(upload, &query) : r;
    request.query = (const char *)query.data;
    r = r == 0 ? coxi_s3_ask(upload->s3, &request, &answer) : r;
    if (r == 0 && answer.etag[0] == '\0') {
        r = coxi_error(COX_EFORMAT, "cannot upload a part of %s/%s: it got no etag",
                       upload->s3->url, upload->key);
    }
    char *etag = r == 0 ? strdup(answer.etag) : NULL;
    coxi_buffer_fini(&query);
    coxi_buffer_fini(&answer.body);
    if (r != 0 || etag == NULL) {
        return r != 0 ? r : coxi_error_memory("an upload");
    }
    *ret_etag = etag;
    return 0;
}

/* Appends an etag as text of XML. */
static int append_text(struct coxi_buffer *to, const char *text)
{
    int r = 0;
    for (; r == 0 && *text != '\0'; text++) {
        r = *text == '"'   ? coxi_buffer_printf(to, "&quot;")
            : *text == '&' ? coxi_buffer_printf(to, "&amp;")
            : *text == '<' ? coxi_buffer_printf(to, "&lt;")
            : *text == '>' ? coxi_buffer_printf(to, "&gt;")
                           : coxi_buffer_append_raw(to, text, 1);
    }
    return r;
}

static int make_body(char *const *etags, size_t n, struct coxi_buffer *to)
{
    int r =
        coxi_buffer_printf(to, "<CompleteMultipartUpload "
                               "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
    for (size_t i = 0; r == 0 && i < n; i++) {
        r = coxi_buffer_printf(to, "<Part><ETag>");
        r = r == 0 ? append_text(to, etags[i]) : r;
        r = r == 0 ? coxi_buffer_printf(
                         to, "</ETag><PartNumber>%zu</PartNumber></Part>", i + 1)
                   : r;
    }
    return r == 0 ? coxi_buffer_printf(to, "</CompleteMultipartUpload>") : r;
}

/* Finds out whether there is the object of this upload; `r` is what is known so far. */
static int verify(const struct coxi_s3_multipart *upload, uint64_t bytes, int r)
{
    char text[COXI_ERROR_TEXT_MAX];
    struct coxi_s3_answer answer = {0};
    (void)snprintf(text, sizeof(text), "%s", coxi_error_text());
    int seen = coxi_s3_look(upload->s3, upload->key, &answer);
    if (seen == 0 && strcmp(answer.mark, upload->mark) == 0) {
        return answer.bytes == bytes
                   ? 0
                   : coxi_error(COX_EIO, "%s/%s has %llu bytes after an upload of %llu",
                                upload->s3->url, upload->key,
                                (unsigned long long)answer.bytes,
                                (unsigned long long)bytes);
    }
    if (r != 0) {
        return coxi_error(r, "%s", text);
    }
    return seen != 0 && seen != COX_ENOENT
               ? seen
               : coxi_error(COX_EIO, "%s/%s is another object than was uploaded",
                            upload->s3->url, upload->key);
}

int coxi_s3_multipart_end(const struct coxi_s3_multipart *upload, char *const *etags,
                          size_t n, uint64_t bytes)
{
    struct coxi_s3_request request = {.doing = "complete an upload of",
                                      .method = "POST",
                                      .key = upload->key,
                                      .is_silent = true,
                                      .max = COXI_S3_ANSWER_MAX};
    struct coxi_s3_answer answer = {0};
    struct coxi_buffer query = {0};
    struct coxi_buffer body = {0};
    int r = append_id(upload, &query);
    r = r == 0 ? make_body(etags, n, &body) : r;
    if (r == 0) {
        request.query = (const char *)query.data;
        request.body = body.data;
        request.len = body.len;
        r = coxi_s3_ask(upload->s3, &request, &answer);
    }
    coxi_buffer_fini(&query);
    coxi_buffer_fini(&body);
    coxi_buffer_fini(&answer.body);
    return verify(upload, bytes, r);
}
