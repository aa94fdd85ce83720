/*
 * A client of a store of objects, for tests: of the fake one, or, where COX_TEST_S3 is set
 * (to anything), of the one that the environment describes, whose bucket must be there
 * (tests/objects/servers.sh).
 */
#ifndef COXI_TESTS_OBJECTS_STORE_H
#define COXI_TESTS_OBJECTS_STORE_H

#include "objects/s3.h"
#include "tests/objects/fake_s3.h"

struct store {
    struct fake_s3 *fake; /* NULL: another one */
    struct coxi_s3 *s3;   /* s3://bucket/PREFIX, a new prefix */
    char prefix[64];
};

/* With short pauses between tries. */
void store_open(struct store *store);
/* Fails if the fake store saw a wrong signature. */
void store_close(struct store *store);

/* `len` bytes that depend on their place, for free(). */
uint8_t *store_bytes(size_t len);

#endif
