/* Checks signatures (AWS4-HMAC-SHA256) as Amazon's documents describe them, and digests of
 * bodies: code that shares nothing with what is tested. */
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/objects/fake_s3_internal.h"
#include "tests/test.h"

enum { NAMES_MAX = 32, SKEW_S = 15 * 60 };

void fake_md5(const void *data, size_t len, unsigned char ret[16])
{
    assert_int_equal(1, EVP_Digest(data, len, ret, NULL, EVP_md5(), NULL));
}

static void to_hex(const unsigned char *bytes, size_t len, char *ret)
{
    for (size_t i = 0; i < len; i++) {
        (void)snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
    }
}

static void sha256_hex(const void *data, size_t len, char ret[65])
{
    unsigned char sum[32];
    assert_int_equal(1, EVP_Digest(data, len, sum, NULL, EVP_sha256(), NULL));
    to_hex(sum, sizeof(sum), ret);
}

static void hmac(const void *key, size_t key_len, const char *text,
                 unsigned char ret[32])
{
    unsigned len = 32;
    assert_non_null(HMAC(EVP_sha256(), key, (int)key_len, (const unsigned char *)text,
                         strlen(text), ret, &len));
}

void fake_escape(struct coxi_buffer *to, const char *text, const char *also)
{
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
            (c >= 'a' && c <= 'z') || strchr("-_.~", c) != NULL ||
            strchr(also, c) != NULL) {
            (void)coxi_buffer_append_raw(to, &c, 1);
        } else {
            (void)coxi_buffer_printf(to, "%%%02X", c);
        }
    }
}

/* What stands in the header Authorization. */
struct given {
    char id[64];
    char scope[128]; /* DATE/REGION/s3/aws4_request */
    char names[512]; /* of signed headers, with ; between them */
    char signature[65];
};

static bool parse(const char *text, struct given *ret)
{
    return text != NULL &&
           sscanf(
               text,
               "AWS4-HMAC-SHA256 Credential=%63[^/]/%127[^,], SignedHeaders=%511[^,], "
               "Signature=%64[0-9a-f]",
               ret->id, ret->scope, ret->names, ret->signature) == 4;
}

static int compare_lines(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* NAME=VALUE of all parameters, escaped, sorted. */
static void append_query(const struct request *request, struct coxi_buffer *to)
{
    char *lines[PARAMETERS_MAX];
    for (size_t i = 0; i < request->n_parameters; i++) {
        struct coxi_buffer line = {0};
        fake_escape(&line, request->parameters[i].name, "");
        (void)coxi_buffer_printf(&line, "=");
        fake_escape(&line, request->parameters[i].value, "");
        (void)coxi_buffer_append_raw(&line, "", 1);
        lines[i] = (char *)line.data;
    }
    qsort(lines, request->n_parameters, sizeof(*lines), compare_lines);
    for (size_t i = 0; i < request->n_parameters; i++) {
        (void)coxi_buffer_printf(to, "%s%s", i > 0 ? "&" : "", lines[i]);
        free(lines[i]);
    }
}

/* A header's line. False: it was signed, but is not there, or names are not sorted. */
static bool append_headers(const struct request *request, const char *names,
                           struct coxi_buffer *to)
{
    char copy[512];
    char *rest = NULL;
    const char *last = "";
    (void)snprintf(copy, sizeof(copy), "%s", names);
    for (const char *name = strtok_r(copy, ";", &rest); name != NULL;
         name = strtok_r(NULL, ";", &rest)) {
        const char *value = fake_header(request, name);
        if (value == NULL || strcmp(last, name) >= 0) {
            return false;
        }
        value += strspn(value, " ");
        size_t len = strlen(value);
        while (len > 0 && value[len - 1] == ' ') {
            len--;
        }
        (void)coxi_buffer_printf(to, "%s:%.*s\n", name, (int)len, value);
        last = name;
    }
    return true;
}

static bool is_in(const char *name, const char *names)
{
    size_t len = strlen(name);
    for (const char *at = names; (at = strstr(at, name)) != NULL; at += len) {
        if ((at == names || at[-1] == ';') && (at[len] == ';' || at[len] == '\0')) {
            return true;
        }
    }
    return false;
}

struct looking {
    const char *names;
    bool good;
};

static enum MHD_Result look_at_header(void *arg, enum MHD_ValueKind kind,
                                      const char *name, const char *value)
{
    struct looking *looking = arg;
    char low[128];
    (void)kind, (void)value;
    size_t len = 0;
    for (; name[len] != '\0' && len + 1 < sizeof(low); len++) {
        low[len] =
            (char)(name[len] >= 'A' && name[len] <= 'Z' ? name[len] + 32 : name[len]);
    }
    low[len] = '\0';
    if ((strncmp(low, "x-amz-", 6) == 0 || strcmp(low, "content-md5") == 0 ||
         strcmp(low, "host") == 0) &&
        !is_in(low, looking->names)) {
        looking->good = false;
    }
    return MHD_YES;
}

/* True: all headers are signed that have to be. */
static bool has_needed(const struct request *request, const char *names)
{
    struct looking looking = {names, true};
    (void)MHD_get_connection_values(request->connection, MHD_HEADER_KIND,
                                    look_at_header, &looking);
    return looking.good && is_in("x-amz-date", names) &&
           is_in("x-amz-content-sha256", names);
}

static bool is_now(const char *stamp)
{
    struct tm tm = {0};
    const char *end = stamp != NULL ? strptime(stamp, "%Y%m%dT%H%M%SZ", &tm) : NULL;
    time_t then = end != NULL && *end == '\0' ? timegm(&tm) : 0;
    time_t now = time(NULL);
    return then > now - SKEW_S && then < now + SKEW_S;
}

static void sign(const struct fake_s3 *f, const struct given *given, const char *stamp,
                 const struct coxi_buffer *canonical, char ret[65])
{
    unsigned char key[32];
    unsigned char next[32];
    char sum[65];
    char text[512];
    char scope[128];
    char *rest = NULL;
    sha256_hex(canonical->data, canonical->len, sum);
    (void)snprintf(text, sizeof(text), "AWS4-HMAC-SHA256\n%s\n%s\n%s", stamp,
                   given->scope, sum);
    char first[80];
    (void)snprintf(first, sizeof(first), "AWS4%s", f->secret);
    (void)snprintf(scope, sizeof(scope), "%s", given->scope);
    const char *word = strtok_r(scope, "/", &rest);
    hmac(first, strlen(first), word != NULL ? word : "", key);
    while ((word = strtok_r(NULL, "/", &rest)) != NULL) {
        hmac(key, sizeof(key), word, next);
        memcpy(key, next, sizeof(key));
    }
    hmac(key, sizeof(key), text, next);
    to_hex(next, sizeof(next), ret);
}

/* NULL, or the code of an error. */
static const char *check_body(const struct request *request, const char *digest)
{
    const char *md5 = fake_header(request, "content-md5");
    char hex[65];
    unsigned char sum[16];
    char text[32];
    sha256_hex(request->body.data, request->body.len, hex);
    if (strcmp(digest, "UNSIGNED-PAYLOAD") != 0 && strcmp(digest, hex) != 0) {
        return "XAmzContentSHA256Mismatch";
    }
    fake_md5(request->body.data, request->body.len, sum);
    (void)EVP_EncodeBlock((unsigned char *)text, sum, sizeof(sum));
    if (md5 != NULL && strcmp(md5, text) != 0) {
        return "BadDigest";
    }
    return request->body.len > 0 && md5 == NULL ? "MissingDigest" : NULL;
}

const char *fake_check_signature(const struct fake_s3 *f, const struct request *request)
{
    struct given given;
    struct coxi_buffer canonical = {0};
    char signature[65];
    const char *stamp = fake_header(request, "x-amz-date");
    const char *digest = fake_header(request, "x-amz-content-sha256");
    const char *token = fake_header(request, "x-amz-security-token");
    if (!parse(fake_header(request, "authorization"), &given)) {
        return "AccessDenied";
    }
    if (strcmp(given.id, f->id) != 0) {
        return "InvalidAccessKeyId";
    }
    if (strcmp(token != NULL ? token : "", f->token) != 0) {
        return "InvalidToken";
    }
    if (!is_now(stamp)) {
        return "RequestTimeTooSkewed";
    }
    if (digest == NULL || !has_needed(request, given.names)) {
        return "AccessDenied";
    }
    (void)coxi_buffer_printf(&canonical, "%s\n/", request->method);
    fake_escape(&canonical, request->path, "/");
    (void)coxi_buffer_printf(&canonical, "\n");
    append_query(request, &canonical);
    (void)coxi_buffer_printf(&canonical, "\n");
    bool good = append_headers(request, given.names, &canonical);
    (void)coxi_buffer_printf(&canonical, "\n%s\n%s", given.names, digest);
    sign(f, &given, stamp, &canonical, signature);
    coxi_buffer_fini(&canonical);
    return good && strcmp(signature, given.signature) == 0 ? check_body(request, digest)
                                                           : "SignatureDoesNotMatch";
}
