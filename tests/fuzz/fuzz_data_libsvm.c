/* libsvm and libffm files. */
#include "tests/fuzz/data.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bool is_libsvm = size > 0 && data[0] % 2 == 0;
    const struct coxi_decoding decoding = {.format =
                                               is_libsvm ? COX_LIBSVM : COX_LIBFFM};
    return fuzz_data_input(&decoding, true, data, size);
}
