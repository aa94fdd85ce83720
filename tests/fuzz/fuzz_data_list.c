/* Lists of keys, as servers of S3 send them. Checks: names are of the bucket, and a next
 * page's token is not empty. */
#include <stdlib.h>
#include <string.h>

#include "data/s3.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const patterns[] = {"s3://bucket/*", "s3://bucket/a/part-?",
                                           "s3://bucket/[a-c]*.tsv", "s3://bucket/a"};
    struct coxi_found found = {0};
    char *token = NULL;
    if (size == 0) {
        return 0;
    }
    const char *pattern = patterns[data[0] % 4];
    if (coxi_name_s3_read_page(pattern, data + 1, size - 1, &found, &token) == 0 &&
        token != NULL && token[0] == '\0') {
        fuzz_fail("an empty token");
    }
    for (size_t i = 0; i < found.n; i++) {
        if (strncmp(found.names[i], "s3://bucket/", 12) != 0) {
            fuzz_fail("a name of another bucket");
        }
    }
    coxi_found_fini(&found);
    free(token);
    return 0;
}
