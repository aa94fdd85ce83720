/* See recordio_sample.h. */
#include "tests/data/recordio_sample.h"

#include "common/rand.h"
#include "data/codec.h"
#include "data/recordio_write.h"
#include "tests/test.h"

void sample_recordio(const char *path, uint32_t codec, size_t chunk_bytes,
                     const struct sample_record *records, size_t n)
{
    struct coxi_recordio_writer *writer;
    assert_code(0, coxi_recordio_create(path, codec, chunk_bytes, &writer));
    for (size_t i = 0; i < n; i++) {
        assert_code(0, coxi_recordio_add(writer, records[i].data, records[i].len));
    }
    assert_code(0, coxi_recordio_finish(writer));
}

/* A small RecordIO file, as a record: PaddlePaddle's golden bytes. */
static const uint8_t nested_file[] = {
    0x04, 0x03, 0x02, 0x01, 0x83, 0x7e, 0x47, 0x59, 0x00, 0x00, 0x00, 0x00, 0x13,
    0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x05, 0x00, 0x00, 0x00, 0x48, 0x65,
    0x6c, 0x6c, 0x6f, 0x06, 0x00, 0x00, 0x00, 0x57, 0x6f, 0x72, 0x6c, 0x64, 0x21};

void sample_recordio_random(const char *path, uint64_t *rng, size_t n, int nested)
{
    uint8_t bytes[2048];
    struct coxi_recordio_writer *writer;
    uint32_t codec = (uint32_t)(nested ? 0 : coxi_rand(rng) % 3);
    assert_code(0,
                coxi_recordio_create(path, codec, 1 + coxi_rand(rng) % 1000, &writer));
    for (size_t i = 0; i < n; i++) {
        size_t len = coxi_rand(rng) % (coxi_rand(rng) % 8 == 0 ? sizeof(bytes) : 40);
        for (size_t j = 0; j < len; j++) {
            bytes[j] = (uint8_t)coxi_rand(rng);
        }
        if (nested && coxi_rand(rng) % 3 == 0) {
            len = sizeof(nested_file);
            memcpy(bytes, nested_file, len);
        }
        assert_code(0, coxi_recordio_add(writer, bytes, len));
    }
    assert_code(0, coxi_recordio_finish(writer));
}
