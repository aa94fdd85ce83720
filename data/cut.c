/* See cut.h. */
#include "data/cut.h"

#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/buffer.h"
#include "common/error.h"
#include "common/hash.h"
#include "data/name.h"
#include "data/sources.h"
#include "data/task.h"

/* ---- names */

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Appends a name with its NUL. */
static int add_name(struct coxi_buffer *names, const char *name, size_t *n)
{
    (*n)++;
    return strlen(name) <= COXI_FILE_NAME_MAX
               ? coxi_buffer_append_raw(names, name, strlen(name) + 1)
               : coxi_error(COX_EINVAL, "a file's name has more than %d bytes: %.200s",
                            COXI_FILE_NAME_MAX, coxi_name_shown(name).text);
}

/* Appends text to `to`, with a backslash before characters that patterns treat as
 * special. */
static void quote(const char *text, char to[PATH_MAX])
{
    size_t len = 0;
    for (; *text != '\0' && len + 3 < PATH_MAX; text++) {
        if (strchr("*?[\\", *text) != NULL) {
            to[len++] = '\\';
        }
        to[len++] = *text;
    }
    to[len] = '\0';
}

/* Removes each "/." and all but one of slashes in a row, so that a file has one name. */
static void simplify(char *path)
{
    char *to = path;
    for (const char *at = path; *at != '\0';) {
        if (at[0] == '/' && at[1] == '/') {
            at++;
        } else if (at[0] == '/' && at[1] == '.' && at[2] == '/') {
            at += 2;
        } else {
            *to++ = *at++;
        }
    }
    *to = '\0';
}

/* Makes a pattern absolute, because workers may have other directories. */
static int make_absolute(const char *pattern, char ret[PATH_MAX])
{
    char here[PATH_MAX] = "";
    char quoted[PATH_MAX] = "";
    if (pattern[0] != '/') {
        if (getcwd(here, sizeof(here)) == NULL) {
            return coxi_error_errno(COX_EIO, "cannot tell the working directory");
        }
        quote(here, quoted);
    }
    int len = snprintf(ret, PATH_MAX, "%s%s%s", quoted, pattern[0] != '/' ? "/" : "",
                       pattern);
    if (len < 0 || len >= PATH_MAX) {
        return coxi_error(COX_EINVAL, "a path is too long: %.200s", pattern);
    }
    simplify(ret);
    return 0;
}

/* Adds all but those that are indexes and the like. */
static int add_names(const char *pattern, char *const *found, size_t n_found,
                     struct coxi_buffer *names, size_t *n)
{
    size_t before = *n;
    int r = 0;
    for (size_t i = 0; r == 0 && i < n_found; i++) {
        r = coxi_name_is_aside(pattern, found[i]) ? 0 : add_name(names, found[i], n);
    }
    return r == 0 && *n == before
               ? coxi_error(COX_ENOENT, "no file matches %s", pattern)
               : r;
}

/* Adds the files that match, in the order of their bytes, whatever the locale. */
static int add_matches(const char *pattern, struct coxi_buffer *names, size_t *n)
{
    char path[PATH_MAX];
    glob_t found = {0};
    int r = make_absolute(pattern, path);
    if (r != 0) {
        return r;
    }
    errno = 0;
    int code = glob(path, GLOB_NOSORT | GLOB_ERR, NULL, &found);
    if (code == GLOB_NOSPACE) {
        r = coxi_error_memory("the names of files");
    } else if (code == GLOB_ABORTED) {
        r = coxi_error_errno(COX_EIO, "cannot look for %s", pattern);
    } else if (code != 0) {
        r = coxi_error(COX_ENOENT, "no file matches %s", pattern);
    } else {
        qsort(found.gl_pathv, found.gl_pathc, sizeof(*found.gl_pathv), by_bytes);
    }
    r = r == 0 ? add_names(pattern, found.gl_pathv, found.gl_pathc, names, n) : r;
    globfree(&found);
    return r;
}

/* Adds the files that a name with a scheme stands for. */
static int add_found(const char *pattern, struct coxi_buffer *names, size_t *n)
{
    struct coxi_found found = {0};
    int r = coxi_source_find(pattern, &found);
    for (size_t i = 0; r == 0 && i < found.n; i++) {
        r = add_name(names, found.names[i], n);
    }
    coxi_found_fini(&found);
    return r;
}

/* Fails if a name occurs twice: its records would be read twice an epoch. */
static int check_twice(const struct coxi_files *files)
{
    const char **sorted = calloc(files->n + 1, sizeof(*sorted));
    if (sorted == NULL) {
        return coxi_error_memory("the names of files");
    }
    for (size_t i = 0; i < files->n; i++) {
        sorted[i] = files->all[i].name;
    }
    qsort(sorted, files->n, sizeof(*sorted), by_bytes);
    int r = 0;
    for (size_t i = 1; r == 0 && i < files->n; i++) {
        if (strcmp(sorted[i - 1], sorted[i]) == 0) {
            r = coxi_error(COX_EINVAL, "%s is listed twice",
                           coxi_name_shown(sorted[i]).text);
        }
    }
    free(sorted);
    return r;
}

static int find_names(const char *const *patterns, size_t n, struct coxi_files *files)
{
    struct coxi_buffer names = {0};
    int r =
        n > 0 && patterns != NULL ? 0 : coxi_error(COX_EINVAL, "no files are named");
    for (size_t i = 0; r == 0 && i < n; i++) {
        if (patterns[i] == NULL || patterns[i][0] == '\0') {
            r = coxi_error(COX_EINVAL, "the name of files[%zu] is empty", i);
        } else if (coxi_name_has_scheme(patterns[i])) {
            r = add_found(patterns[i], &names, &files->n);
        } else {
            r = add_matches(patterns[i], &names, &files->n);
        }
    }
    files->names = (char *)names.data;
    files->all = calloc(files->n + 1, sizeof(*files->all));
    if (r == 0 && files->all == NULL) {
        r = coxi_error_memory("the files of a data set");
    }
    const char *name = files->names;
    for (size_t i = 0; r == 0 && i < files->n; i++) {
        files->all[i].name = name;
        name += strlen(name) + 1;
    }
    return r == 0 ? check_twice(files) : r;
}

/* ---- cutting */

static uint64_t count_tasks(const struct coxi_cut_file *file,
                            const struct coxi_cut *cut)
{
    uint64_t bytes = file->mark.bytes;
    bool whole = !cut->splits || coxi_name_inflates(file->name);
    return bytes == 0 ? 0 : whole ? 1 : (bytes - 1) / cut->task_bytes + 1;
}

static int look_at(struct coxi_cut_file *file)
{
    struct coxi_source source = {0};
    int r = coxi_source_open(file->name, &source);
    if (r == 0) {
        r = coxi_source_mark(&source, &file->mark);
        coxi_source_close(&source);
    }
    return r;
}

int coxi_files_find(const char *const *patterns, size_t n, const struct coxi_cut *cut,
                    struct coxi_files *ret)
{
    struct coxi_files files = {0};
    int r = find_names(patterns, n, &files);
    for (size_t i = 0; r == 0 && i < files.n; i++) {
        struct coxi_cut_file *file = &files.all[i];
        r = look_at(file);
        /* a server may tell any size; sums and tasks must not wrap */
        if (r == 0 && file->mark.bytes > INT64_MAX - files.bytes) {
            r = coxi_error(COX_ELIMIT,
                           "%s has %" PRIu64 " bytes: the files have too many",
                           coxi_name_shown(file->name).text, file->mark.bytes);
            break;
        }
        file->first = files.n_tasks;
        file->n_tasks = count_tasks(file, cut);
        files.n_tasks += file->n_tasks;
        files.bytes += file->mark.bytes;
    }
    if (r != 0) {
        coxi_files_fini(&files);
        return r;
    }
    *ret = files;
    return 0;
}

void coxi_files_fini(struct coxi_files *files)
{
    free(files->names);
    free(files->all);
    *files = (struct coxi_files){0};
}

/* Where task k of a file's n begins; the lengths differ by one byte at most. */
static uint64_t begin_of(const struct coxi_cut_file *file, uint64_t k)
{
    uint64_t each = file->mark.bytes / file->n_tasks;
    uint64_t longer = file->mark.bytes % file->n_tasks;
    return k * each + (k < longer ? k : longer);
}

struct coxi_cut_task coxi_files_task(const struct coxi_files *files, uint64_t place)
{
    /* the last file whose first task is at or before the place; files without tasks
     * share their place with the next one */
    size_t from = 0;
    size_t to = files->n;
    while (to - from > 1) {
        size_t middle = from + (to - from) / 2;
        if (files->all[middle].first <= place) {
            from = middle;
        } else {
            to = middle;
        }
    }
    const struct coxi_cut_file *file = &files->all[from];
    uint64_t k = place - file->first;
    uint64_t begin = begin_of(file, k);
    uint64_t next = begin_of(file, k + 1);
    return (struct coxi_cut_task){
        file, begin, k + 1 < file->n_tasks ? next : UINT64_MAX, next - begin};
}

/* ---- the order of an epoch */

/* With few tasks some orders would come far more often than others after 12 rounds. */
enum { ROUNDS = 16 };

/* A key of the permutation, and of seeds. */
static uint64_t mix(uint64_t a, uint64_t b)
{
    return coxi_hash_key(coxi_hash_key(a) + 0x9e3779b97f4a7c15u * (b + 1));
}

static uint64_t round_of(uint64_t key, unsigned round, uint64_t half)
{
    return coxi_hash_key(half + 0x9e3779b97f4a7c15u * (round + 1) + key);
}

static uint64_t permute(uint64_t a, uint64_t b, uint64_t key, uint64_t i)
{
    uint64_t left = i / b;
    uint64_t right = i % b;
    for (unsigned round = 0; round < ROUNDS; round += 2) {
        left = (left + round_of(key, round, right) % a) % a;
        right = (right + round_of(key, round + 1, left) % b) % b;
    }
    return left * b + right;
}

/* The least a with a * a >= n. */
static uint64_t root_of(uint64_t n)
{
    uint64_t low = 1;
    uint64_t high = (uint64_t)1 << 32;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (middle * middle >= n) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

uint64_t coxi_order(uint64_t n, uint64_t seed, uint64_t epoch, uint64_t i)
{
    uint64_t a = root_of(n);
    uint64_t b = (n - 1) / a + 1;
    uint64_t key = mix(seed, epoch);
    do {
        i = permute(a, b, key, i);
    } while (i >= n);
    return i;
}

uint64_t coxi_task_seed(uint64_t seed, uint64_t epoch, uint64_t place)
{
    return mix(mix(seed, epoch), place);
}
