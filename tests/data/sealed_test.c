/* Files of data sets in S3 over https. */
#include <limits.h>
#include <stdio.h>

#include "data/http.h"
#include "data/s3.h"
#include "tests/objects/fake_s3.h"
#include "tests/test.h"

static int read_object(char ret[4])
{
    struct coxi_http_address address = {0};
    struct coxi_http *http = NULL;
    size_t len = 0;
    assert_code(0, coxi_name_s3_address("s3://bucket/rows.csv", &address));
    assert_code(0, coxi_http_new("s3://bucket/rows.csv", &address, NULL, &http));
    int r = coxi_http_read(http, 0, ret, 4, &len);
    coxi_http_free(http);
    return r;
}

TEST(certificates_to_trust_come_from_a_file)
{
    char path[PATH_MAX];
    char text[4];
    (void)snprintf(path, sizeof(path), "%s", coxi_test_path("ca.pem"));
    struct fake_s3 *fake = fake_s3_open_sealed(path);
    if (fake == NULL) {
        skip();
    }
    fake_s3_put(fake, "rows.csv", "1,2\n", 4);
    assert_int_equal(0, setenv("AWS_CA_BUNDLE", "", 1)); /* NOLINT */
    assert_code(COX_EIO, read_object(text));
    assert_error_names(": AWS_CA_BUNDLE may name a file of certificates to trust");
    assert_int_equal(0, setenv("AWS_CA_BUNDLE", path, 1)); /* NOLINT */
    assert_code(0, read_object(text));
    assert_memory_equal("1,2\n", text, 4);
    fake_s3_close_clean(fake);
}
