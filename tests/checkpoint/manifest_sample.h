/* A manifest with some of everything. */
#ifndef COXI_TESTS_CHECKPOINT_MANIFEST_SAMPLE_H
#define COXI_TESTS_CHECKPOINT_MANIFEST_SAMPLE_H

#include "checkpoint/manifest.h"

/* Its variables: a dense one; NULL, because creating it failed; and a table. */
extern const struct coxi_manifest manifest_sample;

/* Writes it into the test's directory; returns the file's path. */
const char *manifest_sample_write(void);

#endif
