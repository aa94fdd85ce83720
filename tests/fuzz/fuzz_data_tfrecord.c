/* TFRecord files, of bytes and of tf.Example. Their checksums may be put right first,
 * because no fuzzer guesses one. */
#include <stdlib.h>
#include <string.h>

#include "common/crc32c.h"
#include "tests/fuzz/data.h"
#include "tests/fuzz/fuzz.h"

enum { LENGTH = 8, HEAD = 12, AROUND = 16, LENGTH_MAX = 4096 };

/* Makes records of the bytes, as far as their lengths allow. */
static void repair(uint8_t *data, size_t len)
{
    while (len >= AROUND) {
        uint64_t n;
        memcpy(&n, data, sizeof(n));
        n = n % LENGTH_MAX < len - AROUND ? n % LENGTH_MAX : len - AROUND;
        memcpy(data, &n, sizeof(n));
        uint32_t sum = coxi_crc32c_masked(coxi_crc32c(0, data, LENGTH));
        memcpy(data + LENGTH, &sum, sizeof(sum));
        sum = coxi_crc32c_masked(coxi_crc32c(0, data + HEAD, n));
        memcpy(data + HEAD + n, &sum, sizeof(sum));
        data += n + AROUND;
        len -= n + AROUND;
    }
}

static const struct cox_column columns[] = {
    {.name = "i", .kind = COX_COLUMN_KEY, .integers = 1},
    {.name = "t", .kind = COX_COLUMN_KEY, .buckets = 1000},
    {.name = "f", .kind = COX_COLUMN_DENSE, .width = 2, .log = 1},
    {.name = "y", .kind = COX_COLUMN_LABEL},
    {.name = "b", .kind = COX_COLUMN_BYTES},
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct coxi_decoding decoding = {.format = COX_TFRECORD};
    struct fuzz_data_head head;
    if (size < sizeof(head)) {
        return 0;
    }
    memcpy(&head, data, sizeof(head));
    size_t len = size - sizeof(head);
    uint8_t *file = malloc(len + 1);
    if (file == NULL) {
        fuzz_fail("no memory");
    }
    memcpy(file, data + sizeof(head), len);
    if ((head.options & FUZZ_REPAIR) != 0) {
        repair(file, len);
    }
    if (head.format % 2 != 0) {
        decoding.content = COX_EXAMPLE;
        decoding.columns = columns;
        decoding.n_columns = sizeof(columns) / sizeof(*columns);
    }
    fuzz_data_read(&head, &decoding, false, file, len);
    free(file);
    return 0;
}
