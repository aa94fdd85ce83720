/*
 * The XML in answers of S3. The bytes come from a peer: texts, depth and numbers are
 * bounded, document types (and so entities of their own) are refused.
 *
 * Errors: COX_EFORMAT, COX_ENOMEM; the text says what is wrong.
 *
 * Threads: any.
 */
#ifndef COXI_OBJECTS_S3_ANSWER_H
#define COXI_OBJECTS_S3_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { COXI_S3_TEXT_MAX = 8192 }; /* of one element, with the NUL */

/* Calls `end` at the end of each element, with the names of the elements around it and
 * its own ("ListBucketResult/Contents/Key"), and its text without white space at the
 * ends. Another result than 0 ends it, and is returned. */
int coxi_s3_parse(const void *bytes, size_t len,
                  int (*end)(void *arg, const char *path, const char *text), void *arg);

/* The text of the element at that path; "" if there is none. *ret is for free(). */
int coxi_s3_text_at(const void *bytes, size_t len, const char *path, char **ret);

/* <Error><Code>; "" if it is no such document. */
enum { COXI_S3_CODE_MAX = 64 };
void coxi_s3_error_code(const void *bytes, size_t len, char ret[COXI_S3_CODE_MAX]);

/* An object, or an upload, of a page of a list. */
struct coxi_s3_entry {
    char *key; /* the whole key */
    char *etag;
    char *upload; /* of lists of uploads */
    uint64_t bytes;
    int64_t modified_s; /* by the server's clock, since 1970; 0: not told */
};

struct coxi_s3_page {
    struct coxi_s3_entry *entries;
    size_t n;
    size_t room;
    bool truncated;
    /* where the next page begins, of lists of objects; or of lists of uploads */
    char *token;
    char *key_marker;
    char *upload_marker;
};

/* Reads a page of ListObjectsV2 or of ListMultipartUploads. A page that is truncated has
 * a token, or markers. */
int coxi_s3_page_read(const void *bytes, size_t len, struct coxi_s3_page *ret);
void coxi_s3_page_fini(struct coxi_s3_page *page); /* takes zeros */

#endif
