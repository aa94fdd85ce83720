/*
 * Sources of web servers (http://, https://) and of S3 (s3://), read by byte ranges. A
 * file's ETag, or else its time, tells its versions apart; if it changes while a source
 * reads it, that is COX_ECONFLICT.
 */
#ifndef COXI_DATA_SOURCE_HTTP_H
#define COXI_DATA_SOURCE_HTTP_H

#include "data/http.h"
#include "data/source.h"

/* Opens a URL; asks for nothing yet. COX_EINVAL: it has a user or password, which would
 * be shown with it. COX_ENOMEM. */
int coxi_source_open_http(const char *url, struct coxi_source *ret);

/* The same, for s3://BUCKET/KEY. Also errors of coxi_name_s3_address. */
int coxi_source_open_s3(const char *name, struct coxi_source *ret);

/* The bounds of sources that are opened from now on; NULL: the usual ones. For tests. */
void coxi_source_http_limits(const struct coxi_http_limits *limits);

#endif
