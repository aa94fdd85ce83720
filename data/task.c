/* See task.h. */
#include "data/task.h"

#include <stdio.h>
#include <string.h>

#include "common/error.h"
#include "coxswain/dataset.h"

/* The first number of a packed task and of packed counts. Another list of fields needs
 * another version. */
enum { VERSION = 1 };

int coxi_task_pack(const struct coxi_task *task, struct coxi_buffer *to)
{
    struct coxi_packer packer = {.to = to};
    coxi_pack_number(&packer, VERSION);
    coxi_pack_text(&packer, task->dataset);
    coxi_pack_text(&packer, task->file);
    coxi_pack_number(&packer, task->epoch);
    coxi_pack_number(&packer, task->place);
    coxi_pack_number(&packer, task->position);
    coxi_pack_number(&packer, task->begin);
    /* a task has bytes, so 0 is free */
    coxi_pack_number(&packer, task->end == UINT64_MAX ? 0 : task->end - task->begin);
    coxi_pack_number(&packer, task->mark.bytes);
    coxi_pack_number(&packer, task->mark.changed_ns);
    coxi_pack_number(&packer, task->mark.head_crc);
    coxi_pack_number(&packer, task->source);
    coxi_pack_number(&packer, task->failures);
    coxi_pack_number(&packer, task->batch_size);
    coxi_pack_number(&packer, task->shuffle_window);
    coxi_pack_number(&packer, task->prefetch);
    coxi_pack_number(&packer, task->seed);
    coxi_decoding_pack(&task->decoding, &packer);
    return packer.code;
}

/* Takes a number that is written with 32 bits. */
static uint32_t unpack_u32(struct coxi_unpacker *unpacker)
{
    return (uint32_t)coxi_unpack_number(unpacker, UINT32_MAX);
}

int coxi_task_unpack(const void *bytes, size_t len, struct coxi_task *ret)
{
    struct coxi_unpacker unpacker = {bytes, (const uint8_t *)bytes + len, false};
    struct coxi_task task = {0};
    if (coxi_unpack_number(&unpacker, UINT64_MAX) != VERSION) {
        return coxi_error(COX_EFORMAT, "a task of a data set is of another version");
    }
    task.dataset = coxi_unpack_text(&unpacker, COXI_DATASET_NAME_MAX);
    task.file = coxi_unpack_text(&unpacker, COXI_FILE_NAME_MAX);
    task.epoch = coxi_unpack_number(&unpacker, UINT64_MAX);
    task.place = coxi_unpack_number(&unpacker, UINT64_MAX);
    task.position = coxi_unpack_number(&unpacker, UINT64_MAX);
    task.begin = coxi_unpack_number(&unpacker, UINT64_MAX);
    uint64_t length = coxi_unpack_number(&unpacker, UINT64_MAX);
    task.end = length > 0 ? task.begin + length : UINT64_MAX;
    task.mark.bytes = coxi_unpack_number(&unpacker, UINT64_MAX);
    task.mark.changed_ns = coxi_unpack_number(&unpacker, UINT64_MAX);
    task.mark.head_crc = unpack_u32(&unpacker);
    task.source = (uint32_t)coxi_unpack_number(&unpacker, COX_SOURCE_CLIENT);
    task.failures = unpack_u32(&unpacker);
    task.batch_size = unpack_u32(&unpacker);
    task.shuffle_window = unpack_u32(&unpacker);
    task.prefetch = unpack_u32(&unpacker);
    task.seed = coxi_unpack_number(&unpacker, UINT64_MAX);
    unpacker.bad = unpacker.bad || task.begin > task.end || task.batch_size == 0;
    int r = coxi_decoding_unpack(&unpacker, &task.decoding);
    if (r == 0 && unpacker.at != unpacker.end) {
        coxi_decoding_fini(&task.decoding);
        r = coxi_error(COX_EFORMAT, "it goes on behind its end");
    }
    if (r == 0) {
        *ret = task;
    }
    return r == COX_EFORMAT ? coxi_error(r, "a task of a data set is malformed: %s",
                                         coxi_error_text())
                            : r;
}

void coxi_task_fini(struct coxi_task *task)
{
    coxi_decoding_fini(&task->decoding);
}

int coxi_counts_pack(const struct coxi_reader_counts *counts, struct coxi_buffer *to)
{
    struct coxi_packer packer = {.to = to};
    coxi_pack_number(&packer, VERSION);
    coxi_pack_number(&packer, counts->records);
    coxi_pack_number(&packer, counts->bytes);
    coxi_pack_number(&packer, counts->bad);
    for (size_t i = 0; i < COXI_FIRST_BAD; i++) {
        coxi_pack_number(&packer, counts->first_bad[i]);
    }
    coxi_pack_text(&packer, counts->first_reason);
    return packer.code;
}

int coxi_counts_unpack(const void *bytes, size_t len, struct coxi_reader_counts *ret)
{
    struct coxi_unpacker unpacker = {bytes, (const uint8_t *)bytes + len, false};
    struct coxi_reader_counts counts = {0};
    bool known = coxi_unpack_number(&unpacker, UINT64_MAX) == VERSION;
    counts.records = coxi_unpack_number(&unpacker, UINT64_MAX);
    counts.bytes = coxi_unpack_number(&unpacker, UINT64_MAX);
    counts.bad = coxi_unpack_number(&unpacker, UINT64_MAX);
    for (size_t i = 0; i < COXI_FIRST_BAD; i++) {
        counts.first_bad[i] = coxi_unpack_number(&unpacker, UINT64_MAX);
    }
    (void)snprintf(counts.first_reason, sizeof(counts.first_reason), "%s",
                   coxi_unpack_text(&unpacker, COXI_REASON_MAX));
    if (!known || unpacker.bad || unpacker.at != unpacker.end) {
        return coxi_error(COX_EFORMAT, "a worker's counts of records are malformed");
    }
    *ret = counts;
    return 0;
}
