/*
 * What S3 takes from the environment: the service's address, the region, and
 * credentials (objects/s3.h lists the variables). Secrets are in no text of an error, and
 * their memory is wiped before it is freed.
 *
 * Threads: any.
 */
#ifndef COXI_OBJECTS_AWS_H
#define COXI_OBJECTS_AWS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/buffer.h"

const char *coxi_aws_region(void);

/* A file of certificates to trust instead of the system's (AWS_CA_BUNDLE); NULL: those. */
const char *coxi_aws_ca_file(void);

/* What to do about a server whose certificate is not trusted; for the end of a text. */
extern const char coxi_aws_ca_hint[];

/* Appends the URL of a bucket, without a slash at its end. COX_EINVAL: the bucket's name or
 * the address in the environment is wrong; COX_ENOMEM. */
int coxi_aws_append_bucket(struct coxi_buffer *to, const char *bucket, size_t len);

/* Appends text in which all bytes but unreserved ones, and those of `also`, are escaped
 * (RFC 3986); signatures need exactly this. */
int coxi_aws_append_escaped(struct coxi_buffer *to, const char *text, const char *also);

struct coxi_aws_keys {
    char *id;
    char *secret;
    char *token; /* of a session; or NULL */
};

void coxi_aws_keys_fini(struct coxi_aws_keys *keys); /* takes zeros */

struct coxi_aws_credentials;

/* COX_ENOENT: there are none, and the text says what to set. COX_EINVAL: one of the
 * variables lacks the other, or the file is malformed. COX_ENOMEM. */
int coxi_aws_credentials_open(struct coxi_aws_credentials **ret);
void coxi_aws_credentials_close(struct coxi_aws_credentials *from); /* takes NULL */

/* Copies what holds now; reads the file again if it has changed, and keeps to what was
 * read before if that fails. COX_ENOMEM. */
int coxi_aws_credentials_get(struct coxi_aws_credentials *from,
                             struct coxi_aws_keys *ret);

#endif
