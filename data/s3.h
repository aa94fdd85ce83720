/*
 * Names of S3: s3://BUCKET/KEY. Where the service is and the credentials come from the
 * environment (objects/s3.h); without credentials requests are not signed.
 *
 * Threads: any.
 */
#ifndef COXI_DATA_S3_H
#define COXI_DATA_S3_H

#include "data/http.h"
#include "data/sources.h"

/* The address of a name's object. COX_EINVAL: the name has no bucket or no key, or the
 * environment is wrong. COX_ENOMEM. */
int coxi_name_s3_address(const char *name, struct coxi_http_address *ret);

/* Finds the keys that match a pattern: lists those of its bucket that begin with the
 * text before the first * ? or [. COX_EFORMAT: the answers are malformed, and the errors
 * of coxi_name_s3_address and coxi_http_read_all. */
int coxi_name_s3_find(const char *pattern, struct coxi_found *ret);

/* Adds the keys of a page of such a list. *ret_token: where the next page begins, for
 * free(); NULL: this is the last. COX_EFORMAT, COX_ENOMEM. */
int coxi_name_s3_read_page(const char *pattern, const void *bytes, size_t len,
                           struct coxi_found *found, char **ret_token);

#endif
