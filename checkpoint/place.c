/* See place.h: chooses between files and objects; short files, and directories. */
#include "checkpoint/place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/place_internal.h"
#include "checkpoint/stored.h"
#include "common/buffer.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/file.h"
#include "common/rand.h"

enum {
    APPENDS_MAX = 64,              /* tries */
    APPENDED_BYTES_MAX = 64 << 20, /* of a file in a store */
    TEST_S = 3600,                 /* no client tests a store for so long */
};

bool coxi_place_in_store(const char *path)
{
    return coxi_s3_is_url(path);
}

/* True: "WORD:/...", which was hardly meant as the name of a directory. */
static bool has_scheme(const char *name)
{
    static const char word[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                               "0123456789+.-";
    size_t len = strspn(name, word);
    return len > 0 && strncmp(name + len, ":/", 2) == 0;
}

int coxi_place_take(const char *given, char ret[PATH_MAX])
{
    char name[PATH_MAX];
    int r = coxi_path(name, "%s", given);
    if (r == 0 && !coxi_place_in_store(given)) {
        if (has_scheme(given)) {
            return coxi_error(
                COX_EINVAL,
                "%.200s is neither a directory nor s3://BUCKET/PREFIX (if "
                "a directory is called so: ./%.200s)",
                given, given);
        }
        for (size_t len = strlen(name); len > 1 && name[len - 1] == '/'; len--) {
            name[len - 1] = '\0';
        }
    } else if (r == 0) {
        const char *bucket = given + strlen("s3://");
        if (*bucket == '\0' || *bucket == '/') {
            return coxi_error(COX_EINVAL,
                              "%.200s names no bucket: say s3://BUCKET/PREFIX", given);
        }
        r = coxi_stored_plain(given, name);
    }
    return r == 0 ? coxi_path(ret, "%s", name) : r;
}

int coxi_place_real(const char *path, char ret[PATH_MAX])
{
    if (!coxi_place_in_store(path)) {
        return realpath(path, ret) != NULL
                   ? 0
                   : coxi_error_errno(errno == ENOENT ? COX_ENOENT : COX_EIO,
                                      "cannot find %s", path);
    }
    return coxi_stored_plain(path, ret);
}

/* ---- long files */

int coxi_place_create(const char *root, const char *path, uint64_t bytes,
                      struct coxi_file_sink *ret)
{
    return coxi_place_in_store(path) ? coxi_place_store_create(root, path, bytes, ret)
                                     : coxi_place_file_create(root, path, ret);
}

int coxi_place_open(const char *root, const char *path, uint64_t bytes,
                    struct coxi_file_source *ret)
{
    return coxi_place_in_store(path) ? coxi_place_store_open(root, path, bytes, ret)
                                     : coxi_place_file_open(root, path, bytes, ret);
}

void coxi_place_close(struct coxi_file_source *source)
{
    if (source->arg == NULL) {
        return;
    }
    if (coxi_place_is_file(source)) {
        coxi_place_file_close(source);
    } else {
        coxi_place_store_close(source);
    }
    source->arg = NULL;
}

void coxi_place_expect(const struct coxi_file_source *source, uint64_t at, uint64_t len)
{
    if (coxi_place_is_file(source)) {
        coxi_place_file_expect(source, at, len);
    }
}

/* ---- short files */

/* Splits a path at its last slash; *ret_name points into `path`. */
static int split(const char *path, char ret_dir[PATH_MAX], const char **ret_name)
{
    const char *slash = strrchr(path, '/');
    *ret_name = slash != NULL ? slash + 1 : path;
    if (slash == NULL) {
        return coxi_path(ret_dir, ".");
    }
    size_t len = slash > path ? (size_t)(slash - path) : 1;
    return coxi_path(ret_dir, "%.*s", (int)len, path);
}

int coxi_place_read(const char *path, size_t max, uint8_t **ret, size_t *ret_len)
{
    return coxi_place_in_store(path) ? coxi_stored_read(path, max, ret, ret_len, NULL)
                                     : coxi_file_read(path, max, ret, ret_len);
}

int coxi_place_write(const char *path, const void *bytes, size_t len)
{
    char dir[PATH_MAX];
    const char *name;
    if (coxi_place_in_store(path)) {
        return coxi_stored_write(path, bytes, len);
    }
    int r = split(path, dir, &name);
    r = r == 0 ? coxi_file_write(path, bytes, len) : r;
    return r == 0 ? coxi_directory_sync(dir) : r;
}

/* A file gets its name when it is complete (link), so no reader sees a part of it. */
static int write_new_file(const char *path, const void *bytes, size_t len,
                          uint64_t token)
{
    char dir[PATH_MAX];
    char temporary[PATH_MAX];
    const char *name;
    int r = split(path, dir, &name);
    r = r == 0 ? coxi_path(temporary, "%s/.%s%016" PRIx64, dir, name, token) : r;
    r = r == 0 ? coxi_file_write(temporary, bytes, len) : r;
    if (r != 0) {
        return r;
    }
    if (link(temporary, path) != 0) {
        r = coxi_error_errno(errno == EEXIST ? COX_EEXIST : COX_EIO, "cannot make %s",
                             path);
    }
    (void)unlink(temporary);
    return r == 0 ? coxi_directory_sync(dir) : r;
}

int coxi_place_write_new(const char *path, const void *bytes, size_t len,
                         uint64_t token)
{
    return coxi_place_in_store(path) ? coxi_stored_write_new(path, bytes, len, NULL)
                                     : write_new_file(path, bytes, len, token);
}

/* True if the file ends within a line, which its writer could not finish. */
static bool ends_amidst(int fd)
{
    char last = '\n';
    off_t len = lseek(fd, 0, SEEK_END);
    return len > 0 && pread(fd, &last, 1, len - 1) == 1 && last != '\n';
}

static int append_to_file(const char *path, const char *line)
{
    int r = 0;
    int fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) {
        return coxi_error_errno(COX_EIO, "cannot write %s", path);
    }
    size_t len = strlen(line);
    bool written = !ends_amidst(fd) || write(fd, "\n", 1) == 1;
    written = written && write(fd, line, len) == (ssize_t)len;
    if (!written) {
        r = coxi_error_errno(COX_EIO, "cannot write %s", path);
    }
    if (close(fd) != 0 && r == 0) {
        r = coxi_error_errno(COX_EIO, "cannot write %s", path);
    }
    return r;
}

/* A line that is being appended to an object. */
struct appending {
    const char *url;
    const char *line;
    bool is_unique;
    bool was_tried;
    size_t at; /* where it was put by the last try */
};

/* True: an earlier try has appended the line, though it was called lost, because another
 * process has appended behind it since. */
static bool is_appended(const struct appending *a, const uint8_t *bytes, size_t len)
{
    size_t more = strlen(a->line);
    return a->is_unique && a->was_tried && len >= more && a->at <= len - more &&
           memcmp(bytes + a->at, a->line, more) == 0;
}

/* Appends, unless another process has written the object meanwhile (COX_ECONFLICT). */
static int append_once(struct appending *a)
{
    struct coxi_stored_version old;
    uint8_t *bytes = NULL;
    size_t len = 0;
    size_t more = strlen(a->line);
    int r = coxi_stored_read(a->url, APPENDED_BYTES_MAX, &bytes, &len, &old);
    if (r == COX_ENOENT) {
        r = coxi_stored_write_new(a->url, a->line, more, NULL);
        a->was_tried = true;
        a->at = 0;
        return r == COX_EEXIST ? COX_ECONFLICT : r;
    }
    if (r == 0 && is_appended(a, bytes, len)) {
        free(bytes);
        return 0;
    }
    struct coxi_buffer text = {0};
    bool is_cut = r == 0 && len > 0 && bytes[len - 1] != '\n';
    r = r == 0 ? coxi_buffer_append_raw(&text, bytes, len) : r;
    r = r == 0 && is_cut ? coxi_buffer_append_raw(&text, "\n", 1) : r;
    size_t at = text.len;
    r = r == 0 ? coxi_buffer_append_raw(&text, a->line, more) : r;
    if (r == 0) {
        r = coxi_stored_replace(a->url, text.data, text.len, &old, NULL);
        a->was_tried = true;
        a->at = at;
    }
    coxi_buffer_fini(&text);
    free(bytes);
    return r;
}

int coxi_place_append(const char *path, const char *line, bool is_unique)
{
    struct appending appending = {path, line, is_unique, false, 0};
    if (!coxi_place_in_store(path)) {
        return append_to_file(path, line);
    }
    int r = COX_ECONFLICT;
    for (int i = 0; i < APPENDS_MAX && r == COX_ECONFLICT; i++) {
        r = append_once(&appending);
    }
    return coxi_stored_code(r);
}

int coxi_place_remove(const char *path)
{
    struct coxi_s3 *s3;
    const char *key;
    if (!coxi_place_in_store(path)) {
        return unlink(path) == 0 || errno == ENOENT
                   ? 0
                   : coxi_error_errno(COX_EIO, "cannot remove %s", path);
    }
    int r = coxi_stored_open(path, &s3, &key);
    if (r == 0) {
        r = coxi_s3_remove(s3, key);
        coxi_s3_close(s3);
    }
    return coxi_stored_code(r);
}

/* ---- directories */

struct finder {
    int (*found)(void *arg, const char *name);
    void *arg;
};

static int tell_object(void *arg, const struct coxi_s3_object *object)
{
    const struct finder *finder = arg;
    return finder->found(finder->arg, object->key);
}

int coxi_place_names(const char *dir, const char *prefix,
                     int (*found)(void *arg, const char *name), void *arg)
{
    int r = 0;
    if (coxi_place_in_store(dir)) {
        struct finder finder = {found, arg};
        return coxi_stored_list(dir, prefix, tell_object, &finder);
    }
    DIR *stream = opendir(dir);
    if (stream == NULL) {
        return coxi_error_errno(errno == ENOENT ? COX_ENOENT : COX_EIO,
                                "cannot read the directory %s", dir);
    }
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): a stream of our own */
    for (struct dirent *entry; r == 0 && (entry = readdir(stream)) != NULL;) {
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0) {
            r = found(arg, entry->d_name);
        }
    }
    (void)closedir(stream);
    return r;
}

/* In a store: writes with the conditions on which checkpoints depend, and what else they
 * need: reads, lists of uploads, of which the object has none, and aborts of them. */
static int try_store(const char *url)
{
    static const char text[] = "a test\n";
    struct coxi_stored_version version;
    uint8_t *found = NULL;
    size_t len = 0;
    int r = coxi_stored_write_new(url, text, strlen(text), &version);
    if (r == 0) {
        r = coxi_stored_replace(url, text, strlen(text) - 1, &version, NULL);
    }
    r = r == 0 ? coxi_stored_read(url, sizeof(text), &found, &len, NULL) : r;
    free(found);
    r = r == 0 ? coxi_stored_drop_uploads(url) : r;
    r = r == 0 ? coxi_stored_may_abort(url) : r;
    char reason[COXI_ERROR_TEXT_MAX];
    (void)snprintf(reason, sizeof(reason), "%s", coxi_error_text());
    int removed = coxi_place_remove(url); /* after a failure, too: it may be there */
    return r == 0 ? removed : coxi_error(coxi_stored_code(r), "%s", reason);
}

static int remove_old_test(void *arg, const struct coxi_s3_object *object)
{
    static const char *const prefixes[] = {".coxswain-write-test-", ".coxswain-probe-"};
    bool is_test = false;
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++) {
        is_test =
            is_test || strncmp(object->key, prefixes[i], strlen(prefixes[i])) == 0;
    }
    if (is_test && object->age_s > TEST_S) {
        (void)coxi_s3_remove(arg, object->key);
    }
    return 0;
}

/* Removes objects of earlier tests, whose client was killed or gave up the store. Those
 * that cannot be removed are left to the next client. */
static void sweep_tests(const char *dir)
{
    char plain[PATH_MAX];
    struct coxi_s3 *s3;
    if (coxi_stored_plain(dir, plain) == 0 && coxi_s3_open(plain, &s3) == 0) {
        (void)coxi_s3_list(s3, ".coxswain-", remove_old_test, s3);
        coxi_s3_close(s3);
    }
}

int coxi_place_try(const char *dir)
{
    char path[PATH_MAX];
    if (coxi_place_in_store(dir)) {
        int r = coxi_path(path, "%s/.coxswain-write-test-%016" PRIx64, dir,
                          coxi_random_id());
        r = r == 0 ? try_store(path) : r;
        if (r == 0) {
            sweep_tests(dir);
        }
        return r;
    }
    int r = coxi_directory_make(dir);
    r = r == 0 ? coxi_path(path, "%s/.coxswain-write-test", dir) : r;
    r = r == 0 ? coxi_file_write(path, "", 0) : r;
    return r == 0 ? coxi_place_remove(path) : r;
}
