/* RecordIO files. Their checksums may be put right first, because no fuzzer guesses
 * one. */
#include <stdlib.h>
#include <string.h>

#include "common/crc.h"
#include "coxswain/batch.h"
#include "data/recordio.h"
#include "tests/fuzz/data.h"
#include "tests/fuzz/fuzz.h"

/* Makes chunks of the bytes, as far as their lengths allow. */
static void repair(uint8_t *data, size_t len)
{
    while (len >= COXI_RECORDIO_HEAD) {
        struct coxi_recordio_head head;
        memcpy(&head, data, sizeof(head));
        size_t most = len - sizeof(head);
        head.magic = COXI_RECORDIO_MAGIC;
        head.codec %= 4;
        head.bytes = head.bytes % 4096 < most ? head.bytes % 4096 : (uint32_t)most;
        head.crc = coxi_crc32(0, data + sizeof(head), head.bytes);
        memcpy(data, &head, sizeof(head));
        data += sizeof(head) + head.bytes;
        len -= sizeof(head) + head.bytes;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct coxi_decoding decoding = {.format = COX_RECORDIO};
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
    fuzz_data_read(&head, &decoding, false, file, len);
    free(file);
    return 0;
}
