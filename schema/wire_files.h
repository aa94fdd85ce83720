/* Messages about files of the client's data sets: see FileRead and FileBytes in
 * wire.fbs. Include wire.h instead. */
#ifndef COXI_SCHEMA_WIRE_FILES_H
#define COXI_SCHEMA_WIRE_FILES_H

#include <stdint.h>

struct coxi_file_read {
    const char *dataset;
    const char *file;
    uint64_t place;
    uint64_t offset;
    uint32_t len;
};

struct coxi_file_bytes {
    int32_t code;
    const char *message;
    uint64_t bytes;
    uint64_t changed_ns;
};

#endif
