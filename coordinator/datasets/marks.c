/* See marks.h. */
#include "coordinator/datasets/marks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/hash.h"
#include "data/name.h"

/* How many files a mark is of. */
static size_t files_of_mark(size_t n_files)
{
    return n_files > 0 ? (n_files - 1) / COXI_MARKS_MAX + 1 : 1;
}

/* Adds a file to the mark of a group; the first one is taken as it is. */
static void add(struct coxi_manifest_mark *group, const struct coxi_cut_file *file,
                bool first)
{
    uint64_t name = coxi_hash_bytes(file->name, strlen(file->name)).low;
    group->bytes += file->mark.bytes;
    if (first) {
        group->names = name;
        group->changed_ns = file->mark.changed_ns;
        group->head_crc = file->mark.head_crc;
        return;
    }
    group->names = coxi_hash_key(group->names + name);
    group->changed_ns = coxi_hash_key(group->changed_ns + file->mark.changed_ns);
    group->head_crc = (uint32_t)coxi_hash_key(((uint64_t)group->head_crc << 32) +
                                              file->mark.head_crc);
}

static struct coxi_manifest_mark mark_of(const struct coxi_files *files, size_t begin,
                                         size_t end)
{
    struct coxi_manifest_mark mark = {0};
    for (size_t i = begin; i < end; i++) {
        add(&mark, &files->all[i], i == begin);
    }
    return mark;
}

int coxi_marks_make(const struct coxi_files *files, struct coxi_manifest_mark **ret,
                    size_t *ret_n)
{
    size_t each = files_of_mark(files->n);
    size_t n = (files->n + each - 1) / each;
    struct coxi_manifest_mark *marks = calloc(n + 1, sizeof(*marks));
    if (marks == NULL) {
        return coxi_error_memory("the files of a data set");
    }
    for (size_t i = 0; i < n; i++) {
        size_t end = (i + 1) * each < files->n ? (i + 1) * each : files->n;
        marks[i] = mark_of(files, i * each, end);
    }
    *ret = marks;
    *ret_n = n;
    return 0;
}

/* "FILE", or "one of FILE to FILE". */
static void tell_files(const struct coxi_files *files, size_t begin, size_t end,
                       char *ret, size_t len)
{
    if (end - begin == 1) {
        (void)snprintf(ret, len, "%.400s",
                       coxi_name_shown(files->all[begin].name).text);
    } else {
        (void)snprintf(ret, len, "one of the %zu files from %.200s to %.200s",
                       end - begin, coxi_name_shown(files->all[begin].name).text,
                       coxi_name_shown(files->all[end - 1].name).text);
    }
}

static int check_group(const struct coxi_files *files, size_t begin, size_t end,
                       const struct coxi_manifest_mark *was)
{
    char name[512];
    const struct coxi_manifest_mark is = mark_of(files, begin, end);
    tell_files(files, begin, end, name, sizeof(name));
    if (is.names != was->names) {
        return coxi_error(COX_ECONFLICT, "it had another file in place of %s", name);
    }
    if (is.bytes != was->bytes) {
        return coxi_error(COX_ECONFLICT,
                          "%s has changed: %" PRIu64 " bytes, not %" PRIu64, name,
                          is.bytes, was->bytes);
    }
    if (is.head_crc != was->head_crc) {
        return coxi_error(COX_ECONFLICT, "%s has changed: it begins differently", name);
    }
    bool known = is.changed_ns != 0 && was->changed_ns != 0;
    return !known || is.changed_ns == was->changed_ns
               ? 0
               : coxi_error(COX_ECONFLICT,
                            "%s has changed: it was written at another time", name);
}

int coxi_marks_check(const struct coxi_files *files,
                     const struct coxi_manifest_mark *marks, size_t n, uint64_t n_files)
{
    size_t each = files_of_mark(files->n);
    int r = 0;
    for (size_t i = 0; r == 0 && i < n && i * each < files->n && n_files == files->n;
         i++) {
        size_t end = (i + 1) * each < files->n ? (i + 1) * each : files->n;
        r = check_group(files, i * each, end, &marks[i]);
    }
    return r == 0 && n_files != files->n
               ? coxi_error(COX_ECONFLICT, "it had %" PRIu64 " files, and now %zu",
                            n_files, files->n)
               : r;
}
