/* Criteo's click logs. */
#include "tests/fuzz/data.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct coxi_decoding decoding = {
        .format = COX_CRITEO, .buckets = 1000, .header = size > 0 ? data[0] % 2 : 0};
    return fuzz_data_input(&decoding, true, data, size);
}
