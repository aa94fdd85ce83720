/* What a client of S3 takes from its environment. */
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "common/buffer.h"
#include "objects/aws.h"
#include "tests/objects/store.h"
#include "tests/test.h"

static void set(const char *name, const char *value)
{
    assert_int_equal(0, setenv(name, value, 1)); /* NOLINT(concurrency-mt-unsafe) */
}

static const char *write_file(const char *text)
{
    const char *path = coxi_test_path("credentials");
    coxi_test_write(path, text, strlen(text));
    return path;
}

/* Credentials come from this file only. */
static void use_file(const char *text)
{
    set("AWS_ACCESS_KEY_ID", "");
    set("AWS_SECRET_ACCESS_KEY", "");
    set("AWS_SESSION_TOKEN", "");
    set("AWS_SHARED_CREDENTIALS_FILE", write_file(text));
}

static int put(struct coxi_s3 *s3)
{
    return coxi_s3_put(s3, "a", "1", 1, COXI_S3_ALWAYS, NULL, NULL);
}

TEST(without_credentials_the_error_says_what_to_set)
{
    struct coxi_s3 *s3 = NULL;
    use_file("");
    set("AWS_PROFILE", "");
    assert_code(COX_EINVAL, coxi_s3_open("s3://bucket/a", &s3));
    assert_error_names(
        "s3://bucket/a: there are no credentials: set AWS_ACCESS_KEY_ID");
    assert_error_names("[default]");
    set("AWS_SHARED_CREDENTIALS_FILE", coxi_test_path("nothing"));
    assert_code(COX_EINVAL, coxi_s3_open("s3://bucket/a", &s3));
    assert_error_names("nothing");
    set("AWS_ACCESS_KEY_ID", "ID");
    assert_code(COX_EINVAL, coxi_s3_open("s3://bucket/a", &s3));
    assert_error_names("both");
    use_file("[default]\naws_secret_access_key=hidden\n");
    assert_code(COX_EINVAL, coxi_s3_open("s3://bucket/a", &s3));
    assert_error_names("lacks");
    assert_null(strstr(coxi_test_error(), "hidden"));
}

TEST(credentials_come_from_a_profile_of_the_file)
{
    struct store store;
    struct coxi_s3 *s3 = NULL;
    store_open(&store);
    fake_s3_accept(store.fake, "FILEID", "file/sec ret+", "token==");
    use_file("# a comment\n"
             "[default]\n"
             "aws_access_key_id = WRONG\n"
             "aws_secret_access_key = wrong\n"
             "\n"
             "[ work ]\r\n"
             "aws_access_key_id = FILEID\r\n"
             "aws_secret_access_key=file/sec ret+ \n"
             ";aws_session_token = other\n"
             "\taws_session_token\t=\ttoken==\n"
             "region = nowhere\n"
             "nonsense\n"
             "[other]\n"
             "aws_access_key_id = OTHER\n");
    set("AWS_PROFILE", "work");
    assert_code(0, coxi_s3_open("s3://bucket/a", &s3));
    assert_code(0, put(s3));
    coxi_s3_close(s3);
    set("AWS_PROFILE", "default");
    assert_code(0, coxi_s3_open("s3://bucket/a", &s3));
    assert_code(COX_EDENIED, put(s3));
    assert_error_names("InvalidAccessKeyId");
    coxi_s3_close(s3);
    set("AWS_PROFILE", "missing");
    assert_code(COX_EINVAL, coxi_s3_open("s3://bucket/a", &s3));
    assert_error_names("[missing]");
    assert_int_equal(1, fake_s3_refused(store.fake));
    coxi_s3_close(store.s3);
    fake_s3_close(store.fake);
}

TEST(a_file_of_credentials_that_changes_is_read_again)
{
    static const char first[] =
        "[default]\naws_access_key_id=A\naws_secret_access_key=1\n";
    static const char second[] =
        "[default]\naws_access_key_id=B\naws_secret_access_key=22\n";
    struct store store;
    struct coxi_s3 *s3 = NULL;
    store_open(&store);
    set("AWS_PROFILE", "");
    use_file(first);
    assert_code(0, coxi_s3_open("s3://bucket/a", &s3));
    fake_s3_accept(store.fake, "A", "1", NULL);
    assert_code(0, put(s3));
    fake_s3_accept(store.fake, "B", "22", NULL);
    assert_code(COX_EDENIED, put(s3));
    (void)write_file(second);
    assert_code(0, put(s3));
    (void)write_file("[default]\n"); /* as if it were being written */
    assert_code(0, put(s3));
    coxi_s3_close(s3);
    coxi_s3_close(store.s3);
    fake_s3_close(store.fake);
}

TEST(no_text_has_a_secret_in_it)
{
    struct store store;
    struct coxi_s3 *s3 = NULL;
    store_open(&store);
    set("AWS_SECRET_ACCESS_KEY", "very-secret");
    set("AWS_SESSION_TOKEN", "very-token");
    assert_code(0, coxi_s3_open("s3://bucket/a", &s3));
    assert_code(COX_EDENIED, put(s3));
    assert_null(strstr(coxi_test_error(), "very-"));
    coxi_s3_close(s3);
    coxi_s3_close(store.s3);
    fake_s3_close(store.fake);
}

static void expect_url(const char *bucket, const char *url)
{
    struct coxi_buffer to = {0};
    assert_code(0, coxi_aws_append_bucket(&to, bucket, strlen(bucket)));
    assert_code(0, coxi_buffer_append_raw(&to, "", 1));
    assert_string_equal(url, (const char *)to.data);
    coxi_buffer_fini(&to);
}

TEST(buckets_have_the_addresses_that_the_environment_says)
{
    set("AWS_ENDPOINT_URL_S3", "");
    set("AWS_ENDPOINT_URL", "");
    set("AWS_REGION", "");
    set("AWS_DEFAULT_REGION", "");
    expect_url("b", "https://b.s3.us-east-1.amazonaws.com");
    set("AWS_DEFAULT_REGION", "eu-west-1");
    expect_url("b", "https://b.s3.eu-west-1.amazonaws.com");
    set("AWS_REGION", "eu-west-2");
    expect_url("b", "https://b.s3.eu-west-2.amazonaws.com");
    expect_url("b.c", "https://s3.eu-west-2.amazonaws.com/b.c");
    set("AWS_ENDPOINT_URL", "http://host:1/path//");
    expect_url("b", "http://host:1/path/b");
    set("AWS_ENDPOINT_URL_S3", "https://other");
    expect_url("b", "https://other/b");
}

static void expect_refused(const char *url, const char *part)
{
    struct coxi_s3 *s3 = NULL;
    assert_code(COX_EINVAL, coxi_s3_open(url, &s3));
    assert_error_names(part);
    assert_null(s3);
}

TEST(urls_that_name_no_place_are_refused)
{
    set("AWS_ACCESS_KEY_ID", "A");
    set("AWS_SECRET_ACCESS_KEY", "1");
    set("AWS_ENDPOINT_URL_S3", "");
    set("AWS_ENDPOINT_URL", "");
    expect_refused("/tmp/dir", "s3://BUCKET/PREFIX");
    expect_refused("s3://", "no name of a bucket");
    expect_refused("s3:///a", "no name of a bucket");
    expect_refused("s3://b@evil/a", "no name of a bucket");
    expect_refused("s3://b/a/../c", "'..'");
    expect_refused("s3://b/a//c", "prefix");
    set("AWS_ENDPOINT_URL", "host:1");
    expect_refused("s3://b/a", "AWS_ENDPOINT_URL");
    set("AWS_ENDPOINT_URL", "");
    set("AWS_REGION", "x/evil.example");
    expect_refused("s3://b/a", "AWS_REGION");
}

/* A put while AWS_CA_BUNDLE is `path`. */
static int put_with(const char *path)
{
    struct coxi_s3 *s3 = NULL;
    set("AWS_CA_BUNDLE", path);
    assert_code(0, coxi_s3_open("s3://bucket/a", &s3));
    int r = put(s3);
    coxi_s3_close(s3);
    return r;
}

TEST(certificates_to_trust_come_from_a_file)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof(path), "%s", coxi_test_path("ca.pem"));
    struct fake_s3 *fake = fake_s3_open_sealed(path);
    if (fake == NULL) {
        skip();
    }
    assert_code(COX_EIO, put_with(""));
    assert_error_names("(https://127.0.0.1:");
    assert_error_names("): AWS_CA_BUNDLE may name a file of certificates to trust");
    assert_code(0, put_with(path));
    assert_code(COX_EIO, put_with(coxi_test_path("nothing")));
    assert_error_names("AWS_CA_BUNDLE");
    fake_s3_close_clean(fake);
}

TEST(a_prefix_may_be_none)
{
    struct store store;
    struct coxi_s3 *s3 = NULL;
    size_t len = 0;
    store_open(&store);
    assert_code(0, coxi_s3_open("s3://bucket/", &s3));
    assert_string_equal("s3://bucket", coxi_s3_url(s3));
    assert_code(0, put(s3));
    uint8_t *bytes = fake_s3_content(store.fake, "a", &len);
    assert_non_null(bytes);
    free(bytes);
    coxi_s3_close(s3);
    store_close(&store);
}
