/* Sources of web servers and of S3, against a server with faults (web.py). */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

#include "common/sync.h"
#include "data/cut.h"
#include "data/source_http.h"
#include "data/sources.h"
#include "tests/program.h"
#include "tests/test.h"

enum { FILE_BYTES = 300000 };

static const struct coxi_http_limits quick = {2000, 1, 3, 10};

struct fixture {
    struct program web;
    int port;
    uint8_t content[FILE_BYTES];
    char url[256];
};

static void set(const char *name, const char *value)
{
    assert_int_equal(0, setenv(name, value, 1)); // NOLINT(concurrency-mt-unsafe)
}

static void fixture_open(struct fixture *f)
{
    const char *dir = coxi_test_path("www");
    const char *argv[] = {"/usr/bin/env", "python3", COXI_WEB_PY, dir, NULL};
    assert_int_equal(0, mkdir(dir, 0700));
    for (size_t i = 0; i < FILE_BYTES; i++) {
        f->content[i] = (uint8_t)(i * 2654435761u >> 13);
    }
    coxi_test_write(coxi_test_path("www/file"), f->content, FILE_BYTES);
    coxi_source_http_limits(&quick);
    set("no_proxy", "127.0.0.1");
    program_start(&f->web, argv);
    program_wait_printed(&f->web, ".\n");
    char *output = program_output(&f->web);
    f->port = atoi(output + strlen("port ")); // NOLINT(cert-err34-c)
    free(output);
}

static void fixture_close(struct fixture *f)
{
    program_kill(&f->web, SIGKILL);
    (void)program_wait(&f->web);
}

static struct coxi_source open_fault(struct fixture *f, const char *fault)
{
    struct coxi_source source;
    (void)snprintf(f->url, sizeof(f->url), "http://127.0.0.1:%d/%s/file", f->port,
                   fault);
    assert_code(0, coxi_source_open(f->url, &source));
    return source;
}

/* Reads at an offset behind the head; returns the code, and compares the bytes. */
static int read_middle(struct fixture *f, const struct coxi_source *source)
{
    static uint8_t to[200000];
    size_t len = 0;
    int r = coxi_source_read(source, 10000, to, sizeof(to), &len);
    if (r == 0) {
        assert_int_equal(sizeof(to), len);
        assert_memory_equal(f->content + 10000, to, len);
    }
    return r;
}

/* The file of a server with a fault is read all the same. */
static void expect_read(const char *fault)
{
    struct fixture f;
    fixture_open(&f);
    struct coxi_source source = open_fault(&f, fault);
    assert_code(0, read_middle(&f, &source));
    coxi_source_close(&source);
    fixture_close(&f);
}

/* It cannot be read; the text names the file and `part`. */
static void expect_error(const char *fault, int code, const char *part)
{
    struct fixture f;
    struct coxi_file_mark mark;
    fixture_open(&f);
    struct coxi_source source = open_fault(&f, fault);
    int r = coxi_source_mark(&source, &mark);
    r = r == 0 ? read_middle(&f, &source) : r;
    assert_int_equal(code, r);
    assert_error_names(f.url);
    assert_error_names(part);
    coxi_source_close(&source);
    fixture_close(&f);
}

TEST(a_web_file_is_read_in_pieces)
{
    struct fixture f;
    struct coxi_file_mark mark;
    fixture_open(&f);
    struct coxi_source source = open_fault(&f, "plain");
    assert_code(0, coxi_source_mark(&source, &mark));
    assert_int_equal(FILE_BYTES, mark.bytes);
    assert_int_not_equal(0, mark.changed_ns);
    assert_code(0, read_middle(&f, &source));
    assert_code(0, coxi_source_check(&source, &mark));
    mark.changed_ns++;
    assert_code(COX_ECONFLICT, coxi_source_check(&source, &mark));
    coxi_source_close(&source);
    fixture_close(&f);
}

TEST(a_web_file_ends_where_it_ends)
{
    struct fixture f;
    uint8_t to[64];
    size_t len = 77;
    fixture_open(&f);
    struct coxi_source source =
        open_fault(&f, "plain"); /* whose first read is behind the end */
    assert_code(0, coxi_source_read(&source, FILE_BYTES, to, sizeof(to), &len));
    assert_int_equal(0, len);
    assert_code(0, coxi_source_read(&source, FILE_BYTES - 5, to, sizeof(to), &len));
    assert_int_equal(5, len);
    assert_memory_equal(f.content + FILE_BYTES - 5, to, 5);
    assert_code(0, coxi_source_read(&source, FILE_BYTES + 5, to, sizeof(to), &len));
    assert_int_equal(0, len);
    coxi_source_close(&source);
    fixture_close(&f);
}

TEST(a_web_file_without_etag_has_a_time)
{
    struct fixture f;
    struct coxi_file_mark mark;
    fixture_open(&f);
    struct coxi_source source = open_fault(&f, "dated");
    assert_code(0, coxi_source_mark(&source, &mark));
    assert_true(mark.changed_ns == 1445412480u * 1000000000ull);
    coxi_source_close(&source);
    fixture_close(&f);
}

TEST(a_cut_connection_is_gone_on_with)
{
    expect_read("cut");
}

TEST(short_parts_are_put_together)
{
    expect_read("short");
}

TEST(a_server_that_fails_twice_is_asked_again)
{
    expect_read("flaky");
}

TEST(a_redirect_is_followed)
{
    expect_read("moved");
}

TEST(a_server_that_keeps_failing_is_an_error)
{
    expect_error("down", COX_EIO, "HTTP status 503, in 3 tries");
}

TEST(signatures_are_not_in_errors)
{
    static const char *const faults[] = {"down", "wrong", "whole"};
    struct fixture f;
    struct coxi_file_mark mark;
    fixture_open(&f);
    for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++) {
        char shown[128];
        char url[256];
        struct coxi_source source;
        (void)snprintf(shown, sizeof(shown), "http://127.0.0.1:%d/%s/file", f.port,
                       faults[i]);
        (void)snprintf(url, sizeof(url), "%s?X-Amz-Signature=secret", shown);
        assert_code(0, coxi_source_open(url, &source));
        assert_string_equal(shown, source.name);
        assert_code(COX_EIO, coxi_source_mark(&source, &mark));
        assert_error_names(shown);
        assert_null(strstr(coxi_test_error(), "secret"));
        coxi_source_close(&source);
    }
    fixture_close(&f);
}

TEST(a_stalled_server_is_an_error)
{
    expect_error("stall", COX_EIO, "in 3 tries");
}

TEST(another_range_than_was_asked_for_is_an_error)
{
    expect_error("wrong", COX_EIO, "and answers with 'bytes 1-4096/300000'");
}

TEST(a_server_without_ranges_is_an_error)
{
    expect_error("whole", COX_EIO, "it must know byte ranges");
}

TEST(a_web_file_that_is_replaced_is_a_conflict)
{
    expect_error("swap", COX_ECONFLICT, "changed while it was read");
}

TEST(a_web_file_that_grows_is_a_conflict)
{
    expect_error("grow", COX_ECONFLICT, "it has 300004 bytes, and had 300000");
}

TEST(a_web_file_whose_version_is_no_longer_told_is_a_conflict)
{
    expect_error("untagged", COX_ECONFLICT, "its ETag or Last-Modified differs");
}

TEST(an_error_whose_body_does_not_end_is_given_up)
{
    expect_error("chatty", COX_EIO, "an answer without an end");
}

TEST(a_redirect_whose_body_does_not_end_is_given_up)
{
    expect_error("chatty_redirect", COX_EIO, "an answer without an end");
}

TEST(control_characters_of_a_server_are_not_in_errors)
{
    expect_error("colours", COX_EIO, "HTTP status 403 (?[31mred?event=x?)");
}

TEST(endless_redirects_are_an_error)
{
    expect_error("loop", COX_EIO, "redirects");
}

TEST(a_redirect_to_a_local_file_is_an_error)
{
    expect_error("astray", COX_EIO, "rotocol");
}

TEST(a_missing_web_file_is_told)
{
    expect_error("plain/no", COX_ENOENT, "404");
}

TEST(a_server_that_is_not_there_is_an_error)
{
    struct fixture f;
    struct coxi_file_mark mark;
    fixture_open(&f);
    struct coxi_source source = open_fault(&f, "plain");
    fixture_close(&f);
    assert_code(COX_EIO, coxi_source_mark(&source, &mark));
    assert_error_names("in 3 tries");
    coxi_source_close(&source);
}

static void *read_stalled(void *arg)
{
    char to[8192];
    size_t len;
    assert_code(COX_ECANCELLED, coxi_source_read(arg, 5000, to, sizeof(to), &len));
    return NULL;
}

TEST(a_read_that_waits_can_be_cancelled)
{
    static const struct coxi_http_limits patient = {2000, 1000, 3, 10};
    struct fixture f;
    pthread_t thread;
    fixture_open(&f);
    coxi_source_http_limits(&patient);
    struct coxi_source source = open_fault(&f, "stall");
    assert_code(0, coxi_thread_start(&thread, "read", read_stalled, &source));
    program_wait_printed(&f.web, "stalled");
    coxi_source_cancel(&source);
    assert_int_equal(0, pthread_join(thread, NULL));
    coxi_source_close(&source);
    fixture_close(&f);
}

TEST(web_addresses_are_no_patterns)
{
    static const char *const patterns[] = {"http://host/part-*"};
    const struct coxi_cut cut = {.task_bytes = 1000, .splits = true};
    struct coxi_files files;
    assert_code(COX_EINVAL, coxi_files_find(patterns, 1, &cut, &files));
    assert_error_names("http://host/part-*");
}

TEST(sizes_that_no_files_have_together_are_refused)
{
    struct fixture f;
    struct coxi_files files;
    const struct coxi_cut cut = {.task_bytes = 1, .splits = true};
    char other[sizeof(f.url) + 8];
    fixture_open(&f);
    struct coxi_source source = open_fault(&f, "boast");
    coxi_source_close(&source);
    (void)snprintf(other, sizeof(other), "%s?2", f.url);
    const char *const names[] = {f.url, other};
    assert_code(0, coxi_files_find(names, 1, &cut, &files));
    assert_true(files.n_tasks == 1ULL << 62);
    coxi_files_fini(&files);
    assert_code(COX_ELIMIT, coxi_files_find(names, 2, &cut, &files));
    assert_error_names("has 4611686018427387904 bytes");
    fixture_close(&f);
}

static void expect_no_name(const char *name, const char *part)
{
    struct coxi_source source;
    assert_code(COX_EINVAL, coxi_source_open(name, &source));
    assert_error_names(part);
}

TEST(names_that_cannot_be_read_are_refused)
{
    expect_no_name("http://me:secret@host/file", "password");
    expect_no_name("https:///file", "no host");
    expect_no_name("s3://bucket", "s3://BUCKET/KEY");
    expect_no_name("s3://buck?et/key", "s3://BUCKET/KEY");
}

/* ---- S3 */

static void s3_open(struct fixture *f)
{
    char endpoint[64];
    fixture_open(f);
    (void)snprintf(endpoint, sizeof(endpoint), "http://127.0.0.1:%d/s3/", f->port);
    set("AWS_ENDPOINT_URL", endpoint);
    set("AWS_ACCESS_KEY_ID", "ID");
    set("AWS_SECRET_ACCESS_KEY", "SECRET");
    set("AWS_SESSION_TOKEN", "");
    set("AWS_REGION", "eu-west-7");
    assert_int_equal(0, mkdir(coxi_test_path("www/bucket"), 0700));
    assert_int_equal(0, mkdir(coxi_test_path("www/bucket/a"), 0700));
    static const char *const names[] = {"1.txt",          "1.txt.coxi", "2.txt",
                                        "3 & 'four'.txt", "5.bin",      "5.txt"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        char path[128];
        (void)snprintf(path, sizeof(path), "www/bucket/a/%s", names[i]);
        coxi_test_write(coxi_test_path(path), f->content, FILE_BYTES);
    }
}

static int read_key(struct fixture *f, const char *name)
{
    struct coxi_source source;
    assert_code(0, coxi_source_open(name, &source));
    int r = read_middle(f, &source);
    coxi_source_close(&source);
    return r;
}

TEST(s3_requests_are_signed)
{
    struct fixture f;
    s3_open(&f);
    assert_code(0, read_key(&f, "s3://bucket/a/1.txt"));
    assert_code(0, read_key(&f, "s3://bucket/a/3 & 'four'.txt"));
    assert_code(COX_ENOENT, read_key(&f, "s3://bucket/a/no"));
    set("AWS_SESSION_TOKEN", "TOKEN");
    assert_code(0, read_key(&f, "s3://bucket/a/1.txt"));
    fixture_close(&f);
}

TEST(s3_refuses_another_secret)
{
    struct fixture f;
    s3_open(&f);
    set("AWS_SECRET_ACCESS_KEY", "other");
    assert_code(COX_EIO, read_key(&f, "s3://bucket/a/1.txt"));
    assert_error_names("s3://bucket/a/1.txt: HTTP status 403 (SignatureDoesNotMatch)");
    fixture_close(&f);
}

TEST(s3_patterns_list_their_bucket)
{
    static const char *const patterns[] = {"s3://bucket/a/*.txt"};
    static const char *const first[] = {"s3://bucket/a/1*"}; /* and an index */
    static const char *const nothing[] = {"s3://bucket/b/*.txt"};
    static const char *const deeper[] = {"s3://bucket/*.txt"};
    const struct coxi_cut cut = {.task_bytes = 100000, .splits = true};
    struct fixture f;
    struct coxi_files files;
    s3_open(&f);
    assert_code(0, coxi_files_find(patterns, 1, &cut, &files));
    assert_int_equal(4, files.n);
    assert_string_equal("s3://bucket/a/1.txt", files.all[0].name);
    assert_string_equal("s3://bucket/a/3 & 'four'.txt", files.all[2].name);
    assert_string_equal("s3://bucket/a/5.txt", files.all[3].name);
    assert_int_equal(FILE_BYTES, files.all[3].mark.bytes);
    assert_int_equal(12, files.n_tasks);
    coxi_files_fini(&files);
    assert_code(0, coxi_files_find(first, 1, &cut, &files));
    assert_int_equal(1, files.n);
    coxi_files_fini(&files);
    assert_code(COX_ENOENT, coxi_files_find(nothing, 1, &cut, &files));
    assert_error_names("s3://bucket/b/*.txt");
    assert_code(COX_ENOENT, coxi_files_find(deeper, 1, &cut, &files));
    fixture_close(&f);
}
