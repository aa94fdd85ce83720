/*
 * tf.Example: a protobuf message, which this decodes by hand.
 *
 *     Example   { Features features = 1; }
 *     Features  { map<string, Feature> feature = 1; }
 *     Feature   { oneof { BytesList = 1; FloatList = 2; Int64List = 3; } }
 *     each list { repeated value = 1; }, of numbers packed or not
 *
 * Columns name features. Features and fields of messages that are not named are left out.
 * Groups, and a feature with two lists, are malformed.
 *
 * Threads: one at a time.
 */
#ifndef COXI_DATA_CONTENT_EXAMPLE_H
#define COXI_DATA_CONTENT_EXAMPLE_H

#include "data/format.h"

struct coxi_example;

/* Borrows the decoding. COX_ENOMEM. */
int coxi_example_new(const struct coxi_decoding *decoding, struct coxi_example **ret);
void coxi_example_free(struct coxi_example *example); /* takes NULL */

/* As coxi_content_add. */
int coxi_example_add(struct coxi_example *example, struct coxi_parser *parser,
                     struct coxi_rows *rows, uint64_t offset,
                     const struct cox_bytes *record, struct coxi_block *block);

#endif
