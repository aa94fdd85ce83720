/*
 * Names of S3: s3://BUCKET/KEY. From the environment come the credentials
 * (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN; without them requests
 * are not signed), AWS_REGION or AWS_DEFAULT_REGION (us-east-1), and AWS_ENDPOINT_URL,
 * if the service is not Amazon's.
 *
 * Threads: any.
 */
#ifndef COXI_DATA_S3_H
#define COXI_DATA_S3_H

#include "data/http.h"
#include "data/sources.h"

/* The address of a name's object. COX_EINVAL: the name has no bucket or no key, or the
 * environment is wrong. COX_ENOMEM. */
int coxi_s3_address(const char *name, struct coxi_http_address *ret);

/* Finds the keys that match a pattern: lists those of its bucket that begin with the
 * text before the first * ? or [. COX_EFORMAT: the answers are malformed, and the errors
 * of coxi_s3_address and coxi_http_read_all. */
int coxi_s3_find(const char *pattern, struct coxi_found *ret);

/* Adds the keys of a page of such a list. `text`, which is changed, is the server's.
 * *ret_token: where the next page begins, in `text`; NULL: this is the last. COX_EFORMAT,
 * COX_ENOMEM. */
int coxi_s3_read_page(const char *pattern, char *text, struct coxi_found *found,
                      char **ret_token);

#endif
