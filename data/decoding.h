/*
 * How the bytes of a file become records: the part of a data set's spec that readers
 * need. It travels in every task (data/task.h).
 *
 * Threads: any.
 */
#ifndef COXI_DATA_DECODING_H
#define COXI_DATA_DECODING_H

#include "coxswain/batch.h"
#include "data/differences.h"
#include "data/packed.h"

enum {
    COXI_COLUMNS_MAX = 1024,
    COXI_COLUMN_NAME_MAX = 255,
    COXI_DENSE_MAX = 1 << 20, /* numbers of a record in dense columns */
};

struct coxi_decoding {
    uint32_t format;  /* enum cox_format */
    uint32_t content; /* enum cox_content */
    const struct cox_column *columns;
    uint32_t n_columns;
    uint64_t buckets;
    uint32_t header;        /* 1: files begin with a line that is no record */
    char separator;         /* of CSV; never 0 there */
    uint32_t on_bad_record; /* enum cox_bad_record */
};

/* COX_EINVAL: the text names the field that is wrong. */
int coxi_decoding_check(const struct coxi_decoding *decoding);

void coxi_decoding_pack(const struct coxi_decoding *decoding,
                        struct coxi_packer *packer);

/* Unpacks and checks. The names of columns stay in the bytes; release the rest with
 * coxi_decoding_fini. COX_EFORMAT, COX_ENOMEM. */
int coxi_decoding_unpack(struct coxi_unpacker *unpacker, struct coxi_decoding *ret);

/* Takes a decoding that was unpacked, or is zeroed. */
void coxi_decoding_fini(struct coxi_decoding *decoding);

/* Adds the fields in which `a` differs from `b`. Both have been checked. */
void coxi_decoding_differ(const struct coxi_decoding *a, const struct coxi_decoding *b,
                          const struct coxi_differences *list);

/* "libsvm"; "unknown" if there is no such format. */
const char *coxi_format_name(uint32_t format);

#endif
