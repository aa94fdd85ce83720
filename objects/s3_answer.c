/* See s3_answer.h. libexpat reads the XML. Cost: one copy of each text. */
#include "objects/s3_answer.h"

#include <expat.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/error.h"

enum { DEPTH_MAX = 16, PATH_LEN_MAX = 256, ENTRIES_MAX = 10000 };

/* ---- elements */

struct walk {
    XML_Parser parser;
    int (*end)(void *arg, const char *path, const char *text);
    void *arg;
    char path[PATH_LEN_MAX];
    size_t path_len;
    size_t depth;
    char text[COXI_S3_TEXT_MAX];
    size_t text_len;
    int code; /* not 0: it was stopped */
};

static void stop(struct walk *walk, int code)
{
    if (walk->code == 0) {
        walk->code = code;
        (void)XML_StopParser(walk->parser, XML_FALSE);
    }
}

static void refuse(struct walk *walk, const char *what)
{
    if (walk->code == 0) {
        stop(walk, coxi_error(COX_EFORMAT, "the server's XML has %s", what));
    }
}

static void on_begin(void *arg, const XML_Char *name, const XML_Char **attributes)
{
    (void)attributes;
    struct walk *walk = arg;
    const char *colon = strrchr(name, ':');
    name = colon != NULL ? colon + 1 : name;
    size_t len = strlen(name);
    if (walk->depth == DEPTH_MAX || walk->path_len + len + 2 > sizeof(walk->path)) {
        refuse(walk, "elements that lie too deep");
        return;
    }
    if (walk->depth++ > 0) {
        walk->path[walk->path_len++] = '/';
    }
    memcpy(walk->path + walk->path_len, name, len + 1);
    walk->path_len += len;
    walk->text_len = 0;
}

/* Ends the text with a NUL; returns it without white space at the ends. */
static const char *trimmed(struct walk *walk)
{
    static const char blanks[] = " \t\r\n";
    while (walk->text_len > 0 &&
           strchr(blanks, walk->text[walk->text_len - 1]) != NULL) {
        walk->text_len--;
    }
    walk->text[walk->text_len] = '\0';
    return walk->text + strspn(walk->text, blanks);
}

static void on_end(void *arg, const XML_Char *name)
{
    (void)name;
    struct walk *walk = arg;
    if (walk->code != 0) {
        return;
    }
    int r = walk->end(walk->arg, walk->path, trimmed(walk));
    const char *slash = strrchr(walk->path, '/');
    walk->path_len = slash != NULL ? (size_t)(slash - walk->path) : 0;
    walk->path[walk->path_len] = '\0';
    walk->depth--;
    walk->text_len = 0;
    if (r != 0) {
        stop(walk, r);
    }
}

static void on_text(void *arg, const XML_Char *text, int len)
{
    struct walk *walk = arg;
    if (walk->code != 0 || len <= 0) {
        return;
    }
    if ((size_t)len >= sizeof(walk->text) - walk->text_len) {
        refuse(walk, "a text that is too long");
        return;
    }
    memcpy(walk->text + walk->text_len, text, (size_t)len);
    walk->text_len += (size_t)len;
}

static void on_doctype(void *arg, const XML_Char *name, const XML_Char *system_id,
                       const XML_Char *public_id, int has_subset)
{
    (void)name, (void)system_id, (void)public_id, (void)has_subset;
    refuse(arg, "a document type");
}

int coxi_s3_parse(const void *bytes, size_t len,
                  int (*end)(void *arg, const char *path, const char *text), void *arg)
{
    struct walk *walk = calloc(1, sizeof(*walk));
    XML_Parser parser = XML_ParserCreate("UTF-8");
    int r = 0;
    if (walk == NULL || parser == NULL || len > INT_MAX) {
        r = coxi_error_memory("an answer of the server");
    } else {
        *walk = (struct walk){.parser = parser, .end = end, .arg = arg};
        XML_SetUserData(parser, walk);
        XML_SetElementHandler(parser, on_begin, on_end);
        XML_SetCharacterDataHandler(parser, on_text);
        XML_SetStartDoctypeDeclHandler(parser, on_doctype);
        enum XML_Status status = XML_Parse(parser, bytes, (int)len, XML_TRUE);
        r = walk->code != 0 ? walk->code
            : status == XML_STATUS_OK
                ? 0
                : coxi_error(COX_EFORMAT, "the server's XML: %s",
                             XML_ErrorString(XML_GetErrorCode(parser)));
    }
    if (parser != NULL) {
        XML_ParserFree(parser);
    }
    free(walk);
    return r;
}

/* ---- single texts */

struct wanted {
    const char *path;
    char *text;
};

static int take_wanted(void *arg, const char *path, const char *text)
{
    struct wanted *wanted = arg;
    if (wanted->text != NULL || strcmp(path, wanted->path) != 0) {
        return 0;
    }
    wanted->text = strdup(text);
    return wanted->text != NULL ? 0 : coxi_error_memory("an answer of the server");
}

int coxi_s3_text_at(const void *bytes, size_t len, const char *path, char **ret)
{
    struct wanted wanted = {.path = path};
    int r = coxi_s3_parse(bytes, len, take_wanted, &wanted);
    if (r == 0 && wanted.text == NULL) {
        wanted.text = strdup("");
        r = wanted.text != NULL ? 0 : coxi_error_memory("an answer of the server");
    }
    if (r != 0) {
        free(wanted.text);
        return r;
    }
    *ret = wanted.text;
    return 0;
}

void coxi_s3_error_code(const void *bytes, size_t len, char ret[COXI_S3_CODE_MAX])
{
    char *code = NULL;
    ret[0] = '\0';
    if (len > 0 && coxi_s3_text_at(bytes, len, "Error/Code", &code) == 0) {
        size_t n = strspn(code, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789.-_");
        n = n < COXI_S3_CODE_MAX ? n : COXI_S3_CODE_MAX - 1;
        memcpy(ret, code, n);
        ret[n] = '\0';
        free(code);
    }
}

/* ---- pages */

struct reading {
    struct coxi_s3_page page;
    struct coxi_s3_entry entry; /* the one that is being read */
    bool escaped;               /* the keys are, as URLs */
};

static void entry_fini(struct coxi_s3_entry *entry)
{
    free(entry->key);
    free(entry->etag);
    free(entry->upload);
    *entry = (struct coxi_s3_entry){0};
}

void coxi_s3_page_fini(struct coxi_s3_page *page)
{
    for (size_t i = 0; i < page->n; i++) {
        entry_fini(&page->entries[i]);
    }
    free(page->entries);
    free(page->token);
    free(page->key_marker);
    free(page->upload_marker);
    *page = (struct coxi_s3_page){0};
}

static int keep(char **to, const char *text)
{
    free(*to);
    *to = strdup(text);
    return *to != NULL ? 0 : coxi_error_memory("an answer of the server");
}

static int take_number(const char *text, uint64_t *ret)
{
    char *end = NULL;
    unsigned long long n = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || n > INT64_MAX) {
        return coxi_error(COX_EFORMAT, "the server's XML has a size that is none");
    }
    *ret = n;
    return 0;
}

/* "2026-01-31T23:59:59.000Z"; what has another form is not known, and told as 0. */
static int64_t time_of(const char *text)
{
    struct tm tm = {0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    return rest != NULL && (*rest == '.' || *rest == 'Z') ? (int64_t)timegm(&tm) : 0;
}

static int push_entry(struct reading *reading)
{
    struct coxi_s3_page *page = &reading->page;
    if (reading->entry.key == NULL || page->n == ENTRIES_MAX) {
        return coxi_error(COX_EFORMAT, "the server's list has %s",
                          reading->entry.key == NULL ? "an entry without a key"
                                                     : "too many entries on a page");
    }
    if (page->n == page->room) {
        size_t room = page->room == 0 ? 64 : page->room * 2;
        struct coxi_s3_entry *longer =
            realloc(page->entries, room * sizeof(*page->entries));
        if (longer == NULL) {
            return coxi_error_memory("an answer of the server");
        }
        page->entries = longer;
        page->room = room;
    }
    page->entries[page->n++] = reading->entry;
    reading->entry = (struct coxi_s3_entry){0};
    return 0;
}

/* An element of an entry. */
static int take_part(struct reading *reading, const char *name, const char *text)
{
    struct coxi_s3_entry *entry = &reading->entry;
    if (strcmp(name, "LastModified") == 0) {
        entry->modified_s = time_of(text);
        return 0;
    }
    return strcmp(name, "Key") == 0        ? keep(&entry->key, text)
           : strcmp(name, "ETag") == 0     ? keep(&entry->etag, text)
           : strcmp(name, "UploadId") == 0 ? keep(&entry->upload, text)
           : strcmp(name, "Size") == 0     ? take_number(text, &entry->bytes)
                                           : 0;
}

/* An element of the page itself. */
static int take_field(struct reading *reading, const char *name, const char *text)
{
    struct coxi_s3_page *page = &reading->page;
    if (strcmp(name, "IsTruncated") == 0) {
        page->truncated = strcmp(text, "true") == 0;
    } else if (strcmp(name, "EncodingType") == 0) {
        reading->escaped = strcmp(text, "url") == 0;
    }
    return strcmp(name, "Contents") == 0 || strcmp(name, "Upload") == 0
               ? push_entry(reading)
           : strcmp(name, "NextContinuationToken") == 0 ? keep(&page->token, text)
           : strcmp(name, "NextKeyMarker") == 0         ? keep(&page->key_marker, text)
           : strcmp(name, "NextUploadIdMarker") == 0 ? keep(&page->upload_marker, text)
                                                     : 0;
}

static int take_element(void *arg, const char *path, const char *text)
{
    static const char *const lists[] = {"ListBucketResult",
                                        "ListMultipartUploadsResult"};
    struct reading *reading = arg;
    for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++) {
        size_t len = strlen(lists[i]);
        if (strncmp(path, lists[i], len) == 0 && path[len] == '\0') {
            return 0;
        }
        if (strncmp(path, lists[i], len) == 0 && path[len] == '/') {
            const char *name = path + len + 1;
            const char *part = strchr(name, '/');
            if (part == NULL) {
                return take_field(reading, name, text);
            }
            return strncmp(name, "Contents/", 9) == 0 ||
                           strncmp(name, "Upload/", 7) == 0
                       ? take_part(reading, part + 1, text)
                       : 0;
        }
    }
    return strchr(path, '/') != NULL
               ? 0
               : coxi_error(COX_EFORMAT, "the server sends no list");
}

static int hex_of(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Undoes the escapes of a URL in place; "+" is a blank. False: they are malformed. */
static bool unescape(char *text)
{
    char *to = text;
    if (text == NULL) {
        return true;
    }
    for (; *text != '\0'; text++) {
        char c = *text;
        if (c == '+') {
            c = ' ';
        } else if (c == '%') {
            int high = hex_of(text[1]);
            int low = high >= 0 ? hex_of(text[2]) : -1;
            if (low < 0 || (high == 0 && low == 0)) {
                return false;
            }
            c = (char)(high * 16 + low);
            text += 2;
        }
        *to++ = c;
    }
    *to = '\0';
    return true;
}

/* What can be said only of the whole page. */
static int check_page(struct reading *reading)
{
    struct coxi_s3_page *page = &reading->page;
    bool good = !reading->escaped || unescape(page->key_marker);
    for (size_t i = 0; reading->escaped && i < page->n; i++) {
        good = good && unescape(page->entries[i].key);
    }
    const char *next = page->token != NULL ? page->token : page->key_marker;
    if (page->truncated && (next == NULL || next[0] == '\0')) {
        return coxi_error(COX_EFORMAT,
                          "the server's list ends without a token of the next page");
    }
    return good ? 0 : coxi_error(COX_EFORMAT, "the server's list has a malformed key");
}

int coxi_s3_page_read(const void *bytes, size_t len, struct coxi_s3_page *ret)
{
    struct reading reading = {0};
    int r = coxi_s3_parse(bytes, len, take_element, &reading);
    r = r == 0 ? check_page(&reading) : r;
    entry_fini(&reading.entry);
    if (r != 0) {
        coxi_s3_page_fini(&reading.page);
        return r;
    }
    *ret = reading.page;
    return 0;
}
