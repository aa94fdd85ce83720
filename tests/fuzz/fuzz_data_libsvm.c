/* libsvm and libffm files. */
#include <string.h>

#include "coxswain/batch.h"
#include "tests/fuzz/data.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_data_head head;
    if (size >= sizeof(head)) {
        memcpy(&head, data, sizeof(head));
        fuzz_data_read(&head, head.format % 2 == 0 ? COX_LIBSVM : COX_LIBFFM, true,
                       data + sizeof(head), size - sizeof(head));
    }
    return 0;
}
