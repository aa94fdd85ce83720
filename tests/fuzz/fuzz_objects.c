/*
 * Answers of S3: pages of lists, codes of errors, single texts. Checks: a page that is
 * taken has keys, and a way to the next page if it says that there is one; a code is a
 * plain word; a page that is written anew from what was read is read as the same.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buffer.h"
#include "objects/s3_answer.h"
#include "tests/fuzz/fuzz.h"

static void append_escaped(struct coxi_buffer *to, const char *text)
{
    for (; *text != '\0'; text++) {
        if (coxi_buffer_printf(to, "%%%02x", (unsigned)(unsigned char)*text) != 0) {
            fuzz_fail("no memory");
        }
    }
}

static void append(struct coxi_buffer *to, const char *text)
{
    if (coxi_buffer_printf(to, "%s", text) != 0) {
        fuzz_fail("no memory");
    }
}

static void write_anew(const struct coxi_s3_page *page, struct coxi_buffer *to)
{
    append(to, "<ListBucketResult><EncodingType>url</EncodingType>");
    for (size_t i = 0; i < page->n; i++) {
        append(to, "<Contents><Key>");
        append_escaped(to, page->entries[i].key);
        (void)coxi_buffer_printf(to, "</Key><Size>%llu</Size></Contents>",
                                 (unsigned long long)page->entries[i].bytes);
    }
    append(to, "</ListBucketResult>");
}

static bool fits(const struct coxi_s3_page *page)
{
    for (size_t i = 0; i < page->n; i++) {
        if (3 * strlen(page->entries[i].key) >= COXI_S3_TEXT_MAX) {
            return false;
        }
    }
    return true;
}

static void compare(const struct coxi_s3_page *page)
{
    struct coxi_buffer xml = {0};
    struct coxi_s3_page again = {0};
    write_anew(page, &xml);
    if (coxi_s3_page_read(xml.data, xml.len, &again) != 0 || again.n != page->n) {
        fuzz_fail("a page is not read again");
    }
    for (size_t i = 0; i < page->n; i++) {
        if (strcmp(page->entries[i].key, again.entries[i].key) != 0 ||
            page->entries[i].bytes != again.entries[i].bytes) {
            fuzz_fail("a page is read again otherwise");
        }
    }
    coxi_s3_page_fini(&again);
    coxi_buffer_fini(&xml);
}

static void look_at_page(const uint8_t *data, size_t size)
{
    struct coxi_s3_page page = {0};
    if (coxi_s3_page_read(data, size, &page) != 0) {
        if (page.n != 0 || page.entries != NULL) {
            fuzz_fail("an output on failure");
        }
        return;
    }
    for (size_t i = 0; i < page.n; i++) {
        if (page.entries[i].key == NULL) {
            fuzz_fail("an entry without a key");
        }
    }
    const char *next = page.token != NULL ? page.token : page.key_marker;
    if (page.truncated && (next == NULL || next[0] == '\0')) {
        fuzz_fail("no way to the next page");
    }
    if (fits(&page)) {
        compare(&page);
    }
    coxi_s3_page_fini(&page);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char code[COXI_S3_CODE_MAX];
    char *text = NULL;
    look_at_page(data, size);
    coxi_s3_error_code(data, size, code);
    for (const char *at = code; *at != '\0'; at++) {
        if (*at <= ' ' || *at > '~' || *at == '<') {
            fuzz_fail("a code that is no word");
        }
    }
    if (coxi_s3_text_at(data, size, "InitiateMultipartUploadResult/UploadId", &text) ==
            0 &&
        strlen(text) >= COXI_S3_TEXT_MAX) {
        fuzz_fail("a text without measure");
    }
    free(text);
    return 0;
}
