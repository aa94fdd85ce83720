/* See data.h. */
#include "tests/fuzz/data.h"

#include <stdlib.h>
#include <string.h>

#include "common/crc.h"
#include "coxswain/dataset.h"
#include "data/reader.h"
#include "tests/data/memory.h"
#include "tests/fuzz/fuzz.h"

/* ---- what was read */

struct seen {
    uint64_t n;
    uint32_t crc; /* of the records, in their order */
    int code;
};

static void see_array(struct seen *seen, const void *array, size_t bytes)
{
    if (array != NULL && bytes > 0) {
        seen->crc = coxi_crc32(seen->crc, array, bytes);
    }
}

static void see(struct seen *seen, const struct cox_batch *b, size_t r)
{
    size_t first = b->begin != NULL ? b->begin[r] : 0;
    size_t n = b->begin != NULL ? b->begin[r + 1] - first : 0;
    seen->n++;
    see_array(seen, b->labels != NULL ? b->labels + r : NULL, sizeof(*b->labels));
    see_array(seen, b->weights != NULL ? b->weights + r : NULL, sizeof(*b->weights));
    see_array(seen, b->dense != NULL ? b->dense + r * b->n_dense : NULL,
              b->n_dense * sizeof(*b->dense));
    see_array(seen, b->keys != NULL ? b->keys + first : NULL, n * sizeof(*b->keys));
    see_array(seen, b->values != NULL ? b->values + first : NULL,
              n * sizeof(*b->values));
    see_array(seen, b->fields != NULL ? b->fields + first : NULL,
              n * sizeof(*b->fields));
    if (b->bytes != NULL) {
        see_array(seen, &b->bytes[r].len, sizeof(b->bytes[r].len));
        see_array(seen, b->bytes[r].data, b->bytes[r].len);
    }
}

static void read_task(const struct coxi_task *task, struct memory_file *memory,
                      struct seen *seen)
{
    struct coxi_source source;
    struct coxi_reader *reader = NULL;
    struct cox_batch batch = COX_BATCH_INIT;
    seen->code = memory_source(memory, task->file, &source);
    if (seen->code == 0) {
        seen->code = coxi_reader_open(task, &source, &reader);
    }
    while (seen->code == 0 && (seen->code = coxi_reader_next(reader, &batch)) == 0) {
        if (batch.n == 0 || batch.n > task->batch_size) {
            fuzz_fail("a batch has a wrong number of records");
        }
        for (size_t r = 0; r < batch.n; r++) {
            see(seen, &batch, r);
        }
    }
    coxi_reader_close(reader);
}

static void compare_cut(struct coxi_task *task, struct memory_file *memory,
                        const struct seen *whole, uint64_t cut, bool splits)
{
    struct seen parts = {0};
    task->end = cut;
    read_task(task, memory, &parts);
    if (parts.code == COX_EEOF) {
        task->begin = cut;
        task->end = UINT64_MAX;
        read_task(task, memory, &parts);
    }
    if (splits && parts.code != COX_EEOF) {
        fuzz_fail("a task of a file that is well-formed is an error");
    }
    if (parts.code == COX_EEOF && (parts.n != whole->n || parts.crc != whole->crc)) {
        fuzz_fail("the tasks of a file have other records than the file");
    }
}

void fuzz_data_read(const struct fuzz_data_head *head,
                    const struct coxi_decoding *decoding, bool splits,
                    const uint8_t *data, size_t len)
{
    struct memory_file memory = {.data = data, .len = len};
    struct seen whole = {0};
    bool gzip = (head->options & FUZZ_GZIP) != 0;
    bool skip = (head->options & FUZZ_SKIP) != 0;
    bool mix = (head->options & FUZZ_MIX) != 0;
    struct coxi_task task = {.file = gzip ? "memory.gz" : "memory",
                             .end = UINT64_MAX,
                             .batch_size = 7,
                             .shuffle_window = mix ? 5 : 0,
                             .decoding = *decoding};
    task.decoding.on_bad_record = skip ? COX_BAD_SKIP_RECORD : COX_BAD_FAIL;
    read_task(&task, &memory, &whole);
    if (whole.code == COX_EEOF && !gzip && !mix && !skip && head->cut > 0) {
        compare_cut(&task, &memory, &whole, head->cut, splits);
    }
}

int fuzz_data_input(const struct coxi_decoding *decoding, bool splits,
                    const uint8_t *data, size_t size)
{
    struct fuzz_data_head head;
    if (size >= sizeof(head)) {
        memcpy(&head, data, sizeof(head));
        fuzz_data_read(&head, decoding, splits, data + sizeof(head),
                       size - sizeof(head));
    }
    return 0;
}
