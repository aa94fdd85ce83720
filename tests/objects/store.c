/* See store.h. */
#include "tests/objects/store.h"

#include <stdio.h>
#include <unistd.h>

#include "common/clock.h"
#include "tests/test.h"

void store_open(struct store *store)
{
    static const struct coxi_s3_limits quick = {
        .connect_ms = 5000, .stall_s = 20, .call_ms = 50000, .tries = 5, .pause_ms = 2};
    char url[128];
    *store = (struct store){0};
    if (getenv("COX_TEST_S3") == NULL) { /* NOLINT(concurrency-mt-unsafe) */
        store->fake = fake_s3_open();
    }
    (void)snprintf(store->prefix, sizeof(store->prefix), "run %d/%llx", (int)getpid(),
                   (unsigned long long)coxi_now_ns());
    (void)snprintf(url, sizeof(url), "s3://bucket/%s/", store->prefix);
    assert_code(0, coxi_s3_open(url, &store->s3));
    coxi_s3_limit(store->s3, &quick);
}

void store_close(struct store *store)
{
    coxi_s3_close(store->s3);
    if (store->fake != NULL) {
        assert_int_equal(0, fake_s3_refused(store->fake));
        fake_s3_close(store->fake);
    }
}

uint8_t *store_bytes(size_t len)
{
    uint8_t *bytes = malloc(len + 1);
    assert_non_null(bytes);
    for (size_t i = 0; i < len; i++) {
        bytes[i] = (uint8_t)((i * 2654435761u) >> 11);
    }
    return bytes;
}
