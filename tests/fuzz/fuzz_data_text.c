/* Texts. */
#include "tests/fuzz/data.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct coxi_decoding decoding = {.format = COX_TEXT};
    return fuzz_data_input(&decoding, true, data, size);
}
