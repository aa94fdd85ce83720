/*
 * Indexes: FILE.coxi beside FILE tells where records begin, so that a file whose records
 * contain such files themselves can be cut, and so that damage shows in any format. An
 * index is
 *
 *     head:   u8[8] "COXINDX1" | u32 format | u32 every | u64 bytes | u64 changed_ns |
 *             u32 head_crc | u32 0 | u64 records | u64 entries | u32 0 | u32 crc
 *     entries, each: u64 offset | u64 record | u32 sum | u32 crc
 *
 * little-endian. The first entry is for offset 0; each further one is for the first
 * record (in RecordIO: the first chunk) with which `every` records or more have passed
 * since the entry before. `record` is the number of its first record, `sum` the crc32 of
 * the file's bytes from there to the next entry or the file's end; `crc` is the crc32 of
 * the head or entry before it. bytes, changed_ns and head_crc are the file's mark
 * (source.h): an index of another mark does not belong to the file.
 *
 * Threads: one at a time.
 */
#ifndef COXI_DATA_INDEX_H
#define COXI_DATA_INDEX_H

#include <stdbool.h>

#include "common/buffer.h"
#include "data/source.h"

#define COXI_INDEX_END         ".coxi"
#define COXI_INDEX_MAGIC_BYTES {'C', 'O', 'X', 'I', 'N', 'D', 'X', '1'}

struct coxi_file_index_head {
    uint8_t magic[8];
    uint32_t format; /* enum cox_format */
    uint32_t every;
    uint64_t bytes;
    uint64_t changed_ns;
    uint32_t head_crc;
    uint32_t zero;
    uint64_t records;
    uint64_t entries;
    uint32_t zero_too;
    uint32_t crc;
};
_Static_assert(sizeof(struct coxi_file_index_head) == 64, "as in files");

struct coxi_file_index_entry {
    uint64_t offset;
    uint64_t record;
    uint32_t sum;
    uint32_t crc;
};
_Static_assert(sizeof(struct coxi_file_index_entry) == 24, "as in files");

struct coxi_file_index;

/* Opens the index beside a file. *ret is NULL if there is none, or it does not belong to
 * the file; *ret_stale (or NULL): the latter. COX_EFORMAT: it is damaged; COX_EIO,
 * COX_ENOMEM. */
int coxi_file_index_open(const struct coxi_source *file, struct coxi_file_index **ret,
                         bool *ret_stale);
void coxi_file_index_close(struct coxi_file_index *index); /* takes NULL */

const struct coxi_file_index_head *
coxi_file_index_head_of(const struct coxi_file_index *index);

/* The i-th entry. COX_EFORMAT: it is damaged. */
int coxi_file_index_entry_at(const struct coxi_file_index *index, uint64_t i,
                             struct coxi_file_index_entry *ret);

/* *ret: the offset of the last entry at or before `at`; *ret_next: that of the entry
 * behind it, or the file's length. Reads O(log entries) entries. */
int coxi_file_index_find(const struct coxi_file_index *index, uint64_t at,
                         uint64_t *ret, uint64_t *ret_next);

/* Sets the checksums of head and entries (struct coxi_file_index_entry), and appends both to
 * `to`. COX_ENOMEM. */
int coxi_file_index_pack(struct coxi_file_index_head *head,
                         struct coxi_file_index_entry *entries, struct coxi_buffer *to);

#endif
