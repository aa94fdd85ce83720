/* The XML in answers of S3, also of servers that mean harm. */
#include "objects/s3_answer.h"

#include <stdio.h>

#include "common/buffer.h"
#include "tests/test.h"

static int read_page(const char *xml, struct coxi_s3_page *ret)
{
    return coxi_s3_page_read(xml, strlen(xml), ret);
}

TEST(a_page_of_objects_is_read)
{
    struct coxi_s3_page page = {0};
    assert_code(
        0, read_page("<?xml version=\"1.0\"?>\n<s3:ListBucketResult xmlns:s3=\"x\">"
                     "<s3:IsTruncated>true</s3:IsTruncated>"
                     "<s3:NextContinuationToken> a&amp;b </s3:NextContinuationToken>\n"
                     "<s3:Contents><s3:Key>x&lt;y z</s3:Key><s3:Size>12</s3:Size>"
                     "<s3:Owner><s3:Key>no</s3:Key></s3:Owner></s3:Contents>"
                     "<s3:Contents><s3:Key>+%41</s3:Key></s3:Contents>"
                     "</s3:ListBucketResult>",
                     &page));
    assert_int_equal(2, page.n);
    assert_string_equal("x<y z", page.entries[0].key);
    assert_int_equal(12, page.entries[0].bytes);
    assert_string_equal("+%41", page.entries[1].key);
    assert_true(page.truncated);
    assert_string_equal("a&b", page.token);
    coxi_s3_page_fini(&page);
}

TEST(keys_may_be_escaped_as_urls)
{
    struct coxi_s3_page page = {0};
    assert_code(0, read_page("<ListBucketResult><Contents><Key>a%2Fb+c%01</Key>"
                             "</Contents><EncodingType>url</EncodingType>"
                             "</ListBucketResult>",
                             &page));
    assert_string_equal("a/b c\x01", page.entries[0].key);
    coxi_s3_page_fini(&page);
}

static void expect_bad_page(const char *xml)
{
    struct coxi_s3_page page = {0};
    assert_code(COX_EFORMAT, read_page(xml, &page));
    assert_int_equal(0, page.n);
}

TEST(pages_that_are_malformed_are_refused)
{
    expect_bad_page("");
    expect_bad_page("no XML");
    expect_bad_page("<ListBucketResult>");
    expect_bad_page("<Other/>");
    expect_bad_page("<ListBucketResult/><ListBucketResult/>");
    expect_bad_page("<ListBucketResult><Contents/></ListBucketResult>");
    expect_bad_page("<ListBucketResult><IsTruncated>true</IsTruncated>"
                    "</ListBucketResult>");
    expect_bad_page("<ListBucketResult><IsTruncated>true</IsTruncated>"
                    "<NextContinuationToken/></ListBucketResult>");
    expect_bad_page("<ListBucketResult><Contents><Key>a</Key><Size>-1</Size></Contents>"
                    "</ListBucketResult>");
    expect_bad_page("<ListBucketResult><Contents><Key>a</Key>"
                    "<Size>99999999999999999999</Size></Contents></ListBucketResult>");
    expect_bad_page("<ListBucketResult><EncodingType>url</EncodingType><Contents>"
                    "<Key>a%4</Key></Contents></ListBucketResult>");
    expect_bad_page("<ListBucketResult><EncodingType>url</EncodingType><Contents>"
                    "<Key>a%00</Key></Contents></ListBucketResult>");
    expect_bad_page("<!DOCTYPE a [<!ENTITY b \"c\">]><ListBucketResult>&b;"
                    "</ListBucketResult>");
    expect_bad_page("<ListBucketResult>\xff</ListBucketResult>");
}

/* `n` times `text` between a beginning and an end. */
static int read_many(const char *begin, const char *text, size_t n, const char *end)
{
    struct coxi_buffer xml = {0};
    struct coxi_s3_page page = {0};
    assert_code(0, coxi_buffer_printf(&xml, "%s", begin));
    for (size_t i = 0; i < n; i++) {
        assert_code(0, coxi_buffer_printf(&xml, "%s", text));
    }
    assert_code(0, coxi_buffer_printf(&xml, "%s", end));
    int r = coxi_s3_page_read(xml.data, xml.len, &page);
    coxi_s3_page_fini(&page);
    coxi_buffer_fini(&xml);
    return r;
}

TEST(answers_without_measure_are_refused)
{
    assert_code(COX_EFORMAT,
                read_many("<ListBucketResult><Contents><Key>", "a", COXI_S3_TEXT_MAX,
                          "</Key></Contents>"
                          "</ListBucketResult>"));
    assert_code(COX_EFORMAT, read_many("<ListBucketResult>", "<a>", 100, ""));
    assert_code(COX_EFORMAT, read_many("<ListBucketResult>", "<a>", 1000000, ""));
    assert_code(COX_EFORMAT,
                read_many("<ListBucketResult><", "a", 1000, "/></ListBucketResult>"));
    assert_code(COX_EFORMAT,
                read_many("<ListBucketResult>", "<Contents><Key>a</Key></Contents>",
                          10001, "</ListBucketResult>"));
    assert_code(0, read_many("<ListBucketResult>", "<Contents><Key>a</Key></Contents>",
                             10000, "</ListBucketResult>"));
}

static void expect_error_code(const char *code, const char *xml)
{
    char text[COXI_S3_CODE_MAX];
    coxi_s3_error_code(xml, strlen(xml), text);
    assert_string_equal(code, text);
}

TEST(codes_of_errors_are_plain_words)
{
    expect_error_code("SlowDown", "<Error><Code>SlowDown</Code></Error>");
    expect_error_code("", "<Other><Code>SlowDown</Code></Other>");
    expect_error_code("", "<html>Bad gateway");
    expect_error_code("", "");
    expect_error_code("", "<Error><Code>\xe2\x80\xae</Code></Error>");
    expect_error_code("red", "<Error><Code>red m\n</Code></Error>");
}

TEST(single_texts_are_found)
{
    static const char xml[] = "<A><B> one </B><C><B>two</B></C></A>";
    char *text = NULL;
    assert_code(0, coxi_s3_text_at(xml, strlen(xml), "A/B", &text));
    assert_string_equal("one", text);
    free(text);
    assert_code(0, coxi_s3_text_at(xml, strlen(xml), "A/C/B", &text));
    assert_string_equal("two", text);
    free(text);
    assert_code(0, coxi_s3_text_at(xml, strlen(xml), "A/D", &text));
    assert_string_equal("", text);
    free(text);
}
