/*
 * See aws.h. Amazon's buckets have a host name of their own, unless their name has a dot,
 * for which no certificate stands; elsewhere the bucket comes first in the path.
 *
 * The file of credentials is read by code of ours: inih, Debian's library for such files,
 * cuts lines at 200 bytes, and tokens of sessions are longer.
 */
#include "objects/aws.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/error.h"
#include "common/file.h"
#include "common/sync.h"

enum { BUCKET_MAX = 63, FILE_MAX = 1 << 20 };

struct coxi_aws_credentials {
    char path[PATH_MAX]; /* of the file; "": the environment has the keys */
    char profile[256];
    struct coxi_mutex lock; /* guards what follows; leaf */
    struct coxi_aws_keys keys COXI_GUARDED_BY(lock);
    struct stat seen COXI_GUARDED_BY(lock); /* the file, before it was read */
};

static const char *environment(const char *name)
{
    const char *text = getenv(name); /* NOLINT(concurrency-mt-unsafe) */
    return text != NULL && text[0] != '\0' ? text : NULL;
}

static const char *first_of(const char *a, const char *b, const char *otherwise)
{
    const char *text = environment(a);
    text = text != NULL ? text : environment(b);
    return text != NULL ? text : otherwise;
}

/* ---- addresses */

const char *coxi_aws_region(void)
{
    return first_of("AWS_REGION", "AWS_DEFAULT_REGION", "us-east-1");
}

int coxi_aws_append_escaped(struct coxi_buffer *to, const char *text, const char *also)
{
    int r = 0;
    for (; r == 0 && *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                     (c >= '0' && c <= '9') || strchr("-._~", c) != NULL ||
                     strchr(also, c) != NULL;
        r = plain ? coxi_buffer_append_raw(to, &c, 1)
                  : coxi_buffer_printf(to, "%%%02X", c);
    }
    return r;
}

static int append_endpoint(struct coxi_buffer *to, const char *endpoint,
                           const char *bucket, int len)
{
    size_t end = strlen(endpoint);
    while (end > 0 && endpoint[end - 1] == '/') {
        end--;
    }
    return strncmp(endpoint, "http://", 7) == 0 || strncmp(endpoint, "https://", 8) == 0
               ? coxi_buffer_printf(to, "%.*s/%.*s", (int)end, endpoint, len, bucket)
               : coxi_error(COX_EINVAL,
                            "AWS_ENDPOINT_URL must begin with http:// or https://");
}

const char coxi_aws_ca_hint[] =
    ": AWS_CA_BUNDLE may name a file of certificates to trust";

const char *coxi_aws_ca_file(void)
{
    return environment("AWS_CA_BUNDLE");
}

int coxi_aws_append_bucket(struct coxi_buffer *to, const char *bucket, size_t len)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789.-_";
    const char *endpoint = first_of("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", NULL);
    const char *region = coxi_aws_region();
    if (len == 0 || len > BUCKET_MAX || strspn(bucket, letters) < len) {
        return coxi_error(COX_EINVAL, "'%.*s' is no name of a bucket",
                          len < 200 ? (int)len : 200, bucket);
    }
    if (strspn(region, letters) < strlen(region)) {
        return coxi_error(COX_EINVAL, "AWS_REGION is no name of a region");
    }
    if (endpoint != NULL) {
        return append_endpoint(to, endpoint, bucket, (int)len);
    }
    return memchr(bucket, '.', len) == NULL
               ? coxi_buffer_printf(to, "https://%.*s.s3.%s.amazonaws.com", (int)len,
                                    bucket, region)
               : coxi_buffer_printf(to, "https://s3.%s.amazonaws.com/%.*s", region,
                                    (int)len, bucket);
}

/* ---- keys */

static void wipe(char *text)
{
    if (text != NULL) {
        explicit_bzero(text, strlen(text));
    }
    free(text);
}

void coxi_aws_keys_fini(struct coxi_aws_keys *keys)
{
    wipe(keys->id);
    wipe(keys->secret);
    wipe(keys->token);
    *keys = (struct coxi_aws_keys){0};
}

/* `token` may be NULL. */
static int keys_copy(const char *id, const char *secret, const char *token,
                     struct coxi_aws_keys *ret)
{
    struct coxi_aws_keys keys = {
        .id = strdup(id),
        .secret = strdup(secret),
        .token = token != NULL ? strdup(token) : NULL,
    };
    if (keys.id == NULL || keys.secret == NULL ||
        (keys.token == NULL) != (token == NULL)) {
        coxi_aws_keys_fini(&keys);
        return coxi_error_memory("credentials");
    }
    *ret = keys;
    return 0;
}

/* ---- the file */

/* Cuts off the blanks at both ends. */
static char *trim(char *text)
{
    text += strspn(text, " \t");
    size_t len = strlen(text);
    while (len > 0 && strchr(" \t\r", text[len - 1]) != NULL) {
        len--;
    }
    text[len] = '\0';
    return text;
}

/* What the lines of a section have said, in the file's own memory. */
struct section {
    const char *id;
    const char *secret;
    const char *token;
};

static void take_pair(struct section *section, char *line)
{
    char *equals = strchr(line, '=');
    if (equals == NULL) {
        return;
    }
    *equals = '\0';
    const char *name = trim(line);
    const char *value = trim(equals + 1);
    if (value[0] == '\0') {
        return;
    }
    if (strcmp(name, "aws_access_key_id") == 0) {
        section->id = value;
    } else if (strcmp(name, "aws_secret_access_key") == 0) {
        section->secret = value;
    } else if (strcmp(name, "aws_session_token") == 0) {
        section->token = value;
    }
}

/* Reads the lines of "[PROFILE]". Changes the text. */
static struct section read_section(char *text, const char *profile)
{
    struct section section = {0};
    bool within = false;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        line = trim(line);
        size_t len = strlen(line);
        if (line[0] == '[' && line[len - 1] == ']') {
            line[len - 1] = '\0';
            within = strcmp(trim(line + 1), profile) == 0;
        } else if (within && line[0] != '#' && line[0] != ';') {
            take_pair(&section, line);
        }
    }
    return section;
}

/* COX_ENOENT: there is no such file, or no such profile in it. */
static int read_file(const struct coxi_aws_credentials *from, struct coxi_aws_keys *ret)
{
    uint8_t *bytes;
    size_t len;
    int r = coxi_file_read(from->path, FILE_MAX, &bytes, &len);
    if (r != 0) {
        return r;
    }
    const struct section section = read_section((char *)bytes, from->profile);
    if (section.id == NULL && section.secret == NULL) {
        r = COX_ENOENT;
    } else if (section.id == NULL || section.secret == NULL) {
        r = coxi_error(COX_EINVAL,
                       "%s: [%s] lacks aws_access_key_id or aws_secret_access_key",
                       from->path, from->profile);
    } else {
        r = keys_copy(section.id, section.secret, section.token, ret);
    }
    explicit_bzero(bytes, len);
    free(bytes);
    return r;
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev &&
           a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Reads the file if it is another than was seen. */
static int look(struct coxi_aws_credentials *from) COXI_REQUIRES(from->lock)
{
    struct stat now = {0};
    struct coxi_aws_keys keys = {0};
    if (stat(from->path, &now) == 0 && is_same_file(&now, &from->seen)) {
        return 0;
    }
    int r = read_file(from, &keys);
    if (r == 0) {
        coxi_aws_keys_fini(&from->keys);
        from->keys = keys;
        from->seen = now;
    }
    return r;
}

/* ---- credentials */

static int explain_none(const struct coxi_aws_credentials *from)
{
    return coxi_error(COX_ENOENT,
                      "there are no credentials: set AWS_ACCESS_KEY_ID and "
                      "AWS_SECRET_ACCESS_KEY, or have them in the section [%s] "
                      "(AWS_PROFILE) of %s (AWS_SHARED_CREDENTIALS_FILE)",
                      from->profile, from->path);
}

static int open_file(struct coxi_aws_credentials *from)
{
    const char *path = environment("AWS_SHARED_CREDENTIALS_FILE");
    const char *home = environment("HOME");
    (void)snprintf(from->profile, sizeof(from->profile), "%s",
                   first_of("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "default"));
    int r = path != NULL ? coxi_path(from->path, "%s", path)
                         : coxi_path(from->path, "%s/.aws/credentials",
                                     home != NULL ? home : "~");
    coxi_unshared(&from->lock);
    r = r == 0 ? look(from) : r;
    return r == COX_ENOENT ? explain_none(from) : r;
}

static int open_any(struct coxi_aws_credentials *from)
{
    const char *id = environment("AWS_ACCESS_KEY_ID");
    const char *secret = environment("AWS_SECRET_ACCESS_KEY");
    if (id == NULL && secret == NULL) {
        return open_file(from);
    }
    if (id == NULL || secret == NULL) {
        return coxi_error(COX_EINVAL,
                          "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY must "
                          "both be set, or neither");
    }
    coxi_unshared(&from->lock);
    return keys_copy(id, secret, environment("AWS_SESSION_TOKEN"), &from->keys);
}

int coxi_aws_credentials_open(struct coxi_aws_credentials **ret)
{
    struct coxi_aws_credentials *from = calloc(1, sizeof(*from));
    if (from == NULL) {
        return coxi_error_memory("credentials");
    }
    coxi_mutex_init(&from->lock);
    int r = open_any(from);
    if (r != 0) {
        coxi_aws_credentials_close(from);
        return r;
    }
    *ret = from;
    return 0;
}

int coxi_aws_credentials_get(struct coxi_aws_credentials *from,
                             struct coxi_aws_keys *ret)
{
    coxi_lock(&from->lock);
    if (from->path[0] != '\0') {
        (void)look(from);
    }
    int r = keys_copy(from->keys.id, from->keys.secret, from->keys.token, ret);
    coxi_unlock(&from->lock);
    return r;
}

void coxi_aws_credentials_close(struct coxi_aws_credentials *from)
{
    if (from == NULL) {
        return;
    }
    coxi_unshared(&from->lock);
    coxi_aws_keys_fini(&from->keys);
    coxi_mutex_fini(&from->lock);
    free(from);
}
