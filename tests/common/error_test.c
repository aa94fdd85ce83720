#include "common/error.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "tests/test.h"

/* Numbers are fixed for ever: lines may be added here, never changed. */
static const struct {
    int code;
    const char *name;
} known[] = {
    {-1, "COX_EINVAL"},     {-2, "COX_ENOMEM"},     {-3, "COX_EIO"},
    {-4, "COX_EAGAIN"},     {-5, "COX_ETIMEDOUT"},  {-6, "COX_ECANCELLED"},
    {-7, "COX_ECLOSED"},    {-8, "COX_EREFUSED"},   {-9, "COX_EPROTO"},
    {-10, "COX_EVERSION"},  {-11, "COX_EEXIST"},    {-12, "COX_ENOENT"},
    {-13, "COX_ECONFLICT"}, {-14, "COX_EBUSY"},     {-15, "COX_ELIMIT"},
    {-16, "COX_EMODULE"},   {-17, "COX_ESTEP"},     {-18, "COX_ELOST"},
    {-19, "COX_EPSLOST"},   {-20, "COX_ENOWORKER"}, {-21, "COX_EFENCED"},
    {-22, "COX_EFORMAT"},   {-23, "COX_ECHECKSUM"}, {-24, "COX_EEOF"},
    {-25, "COX_EADDRESS"},  {-26, "COX_ENOTREADY"}, {-27, "COX_EDEADLK"},
    {-28, "COX_ECRASHED"},  {-29, "COX_EPARTIAL"},  {-30, "COX_EDIVERGED"},
    {-31, "COX_EOVERRUN"},  {-32, "COX_ERESOURCE"}, {-33, "COX_ENONFINITE"},
    {-34, "COX_EREPLAY"},   {-35, "COX_EDENIED"},   {-36, "COX_ELATE"},
};

enum { N_KNOWN = sizeof(known) / sizeof(*known) };

TEST(every_code_keeps_its_number_and_name)
{
    for (size_t i = 0; i < N_KNOWN; i++) {
        assert_string_equal(known[i].name, coxi_error_name(known[i].code));
    }
}

TEST(this_test_knows_every_code)
{
    int n = 0;
#define COUNT(number, name, text)                                                      \
    assert_int_equal(-(n + 1), (number));                                              \
    n++;
    COX_ERRORS(COUNT)
#undef COUNT
    assert_int_equal(N_KNOWN, n);
}

TEST(every_code_has_a_text_of_its_own)
{
    for (size_t i = 0; i < N_KNOWN; i++) {
        assert_true(strlen(coxi_strerror(known[i].code)) > 3);
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(coxi_strerror(known[j].code),
                                    coxi_strerror(known[i].code));
        }
    }
    assert_string_equal("success", coxi_strerror(0));
    assert_string_equal("OK", coxi_error_name(0));
}

TEST(a_number_that_is_no_code_has_a_text_too)
{
    static const int none[] = {1, -1000, -N_KNOWN - 1};
    for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++) {
        assert_string_equal("unknown error", coxi_strerror(none[i]));
        assert_string_equal("COX_?", coxi_error_name(none[i]));
    }
}

TEST(an_error_returns_its_code_and_keeps_its_text)
{
    assert_int_equal(COX_EIO, coxi_error(COX_EIO, "no %s in line %d", "name", 3));
    assert_string_equal("no name in line 3", coxi_error_text());
    assert_int_equal(COX_ENOMEM, coxi_error_memory("a boat"));
    assert_error_names("a boat");
}

TEST(an_error_may_quote_the_one_before)
{
    (void)coxi_error(COX_EIO, "inner");
    for (int i = 0; i < 3; i++) {
        (void)coxi_error(COX_EIO, "outer: %s", coxi_error_text());
    }
    assert_string_equal("outer: outer: outer: inner", coxi_error_text());
}

TEST(an_errno_is_told_behind_the_text)
{
    errno = ENOSPC;
    assert_int_equal(COX_EIO, coxi_error_errno(COX_EIO, "cannot write %s", "x"));
    assert_string_equal("cannot write x: No space left on device", coxi_error_text());
}

TEST(long_text_is_cut)
{
    char text[COXI_ERROR_TEXT_MAX + 100];
    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    assert_int_equal(COX_EIO, coxi_error(COX_EIO, "%s", text));
    assert_int_equal(COXI_ERROR_TEXT_MAX - 1, strlen(coxi_error_text()));
    errno = ENOSPC;
    assert_int_equal(COX_EIO, coxi_error_errno(COX_EIO, "%s", text));
    assert_int_equal(COXI_ERROR_TEXT_MAX - 1, strlen(coxi_error_text()));
    text[COXI_ERROR_TEXT_MAX - 4] = '\0';
    errno = ENOSPC;
    assert_int_equal(COX_EIO, coxi_error_errno(COX_EIO, "%s", text));
    assert_string_equal("x: N", coxi_error_text() + COXI_ERROR_TEXT_MAX - 5);
}

struct speaker {
    char before[64];
    char after[64];
    int number;
    pthread_barrier_t *barrier;
};

static void *speak(void *arg)
{
    struct speaker *speaker = arg;
    (void)snprintf(speaker->before, sizeof(speaker->before), "%s", coxi_error_text());
    (void)coxi_error(COX_EIO, "thread %d", speaker->number);
    (void)pthread_barrier_wait(speaker->barrier);
    (void)snprintf(speaker->after, sizeof(speaker->after), "%s", coxi_error_text());
    return NULL;
}

TEST(each_thread_has_its_own_text)
{
    struct speaker speakers[4] = {0};
    pthread_t threads[4];
    pthread_barrier_t barrier;
    assert_int_equal(0, pthread_barrier_init(&barrier, NULL, 4));
    (void)coxi_error(COX_EINVAL, "main");
    for (int i = 0; i < 4; i++) {
        speakers[i].number = i;
        speakers[i].barrier = &barrier;
        assert_int_equal(0, pthread_create(&threads[i], NULL, speak, &speakers[i]));
    }
    for (int i = 0; i < 4; i++) {
        char expected[64];
        assert_int_equal(0, pthread_join(threads[i], NULL));
        (void)snprintf(expected, sizeof(expected), "thread %d", i);
        assert_string_equal("", speakers[i].before);
        assert_string_equal(expected, speakers[i].after);
    }
    assert_string_equal("main", coxi_error_text());
    (void)pthread_barrier_destroy(&barrier);
}
