/* CSV files, with and without a header. Where newlines are within quotes, a cut may be
 * refused. */
#include "tests/fuzz/data.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct cox_column columns[] = {
        {.name = "0", .kind = COX_COLUMN_LABEL, .missing = -1},
        {.name = "1", .kind = COX_COLUMN_DENSE, .log = 1},
        {.name = "2", .kind = COX_COLUMN_KEY, .integers = 1},
        {.name = "1", .kind = COX_COLUMN_KEY, .buckets = 1000},
        {.name = "3", .kind = COX_COLUMN_BYTES},
    };
    const struct coxi_decoding decoding = {.format = COX_CSV,
                                           .columns = columns,
                                           .n_columns =
                                               sizeof(columns) / sizeof(*columns),
                                           .header = size > 0 ? data[0] % 2 : 0,
                                           .separator = ','};
    return fuzz_data_input(&decoding, false, data, size);
}
