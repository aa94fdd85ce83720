/* Messages: what decodes is walked through, encoded again, and decodes to the same. */
#include <stdlib.h>
#include <string.h>

#include "schema/wire.h"
#include "tests/fuzz/fuzz.h"
#include "tests/schema/samples.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct coxi_message message;
    struct coxi_message copy;
    const void *bytes;
    size_t len;
    uint64_t sum = 0;
    void *aligned = aligned_alloc(64, (size + 64) / 64 * 64);
    if (aligned == NULL) {
        return 0;
    }
    memcpy(aligned, data, size);
    if (coxi_message_decode(aligned, size, &message) &&
        walk_message(&message, &copy, &sum) &&
        coxi_message_encode(&copy, &bytes, &len)) {
        void *again = aligned_alloc(64, (len + 64) / 64 * 64);
        if (again != NULL) {
            memcpy(again, bytes, len);
            if (!coxi_message_decode(again, len, &message)) {
                fuzz_fail("a message that was encoded cannot be decoded");
            }
        }
        free(again);
    }
    free(aligned);
    return 0;
}
