/* See history_file.h. Cost: reading is O(file), about 300 MB/s of long lines and a million
 * scalars a second. */
#include "checkpoint/history_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/error.h"
#include "common/file.h"

enum {
    CHUNK = 256 << 10,
    LINE_MAX_BYTES = COXI_RECORD_MAX + 4096, /* a longer line is no record */
    LOAD_MAX = 64 << 20,
};

static int path_of(const char *dir, char ret[PATH_MAX])
{
    return coxi_path(ret, "%s/metrics.jsonl", dir);
}

/* ---- reading */

struct reading {
    unsigned kinds;    /* that are wanted; 0: all */
    uint64_t seq_min;  /* the least number that is wanted, */
    uint64_t step_min; /* ... and of scalars, the least step */
    void (*each)(void *arg, const struct coxi_record *record);
    void *arg;
    struct coxi_record_read read;
    struct coxi_buffer text; /* what was read and not passed yet */
    uint64_t at;             /* the place of its first byte in the file */
    bool amidst;             /* it begins within a line, which is skipped */
};

/* False: neither the line's number nor its step can be wanted. Names have no quote that is not
 * escaped, so the first member that is called "step" is the scalar's. */
static bool may_be_wanted(const struct reading *reading, const char *line, size_t len)
{
    static const char seq[] = "{\"seq\":";
    static const char step[] = ",\"step\":";
    if (reading->kinds == 0) {
        return true;
    }
    if (reading->seq_min > 0 && strncmp(line, seq, sizeof(seq) - 1) == 0 &&
        strtoull(line + sizeof(seq) - 1, NULL, 10) < reading->seq_min) {
        return false;
    }
    const char *at =
        reading->step_min > 0 ? memmem(line, len, step, sizeof(step) - 1) : NULL;
    return (at == NULL ||
            strtoull(at + sizeof(step) - 1, NULL, 10) >= reading->step_min) &&
           coxi_record_may_be(line, reading->kinds);
}

static void pass_line(struct reading *reading, const char *line, size_t len)
{
    if (reading->amidst) {
        reading->amidst = false;
        return;
    }
    while (len > 0 && *line == '\0') {
        line++; /* a host that lost its power may leave NULs before a line */
        len--;
    }
    if (len == 0 || !may_be_wanted(reading, line, len)) {
        return;
    }
    if (coxi_record_read(line, len, &reading->read) &&
        (reading->kinds == 0 ||
         (reading->kinds & COXI_RECORDS_OF(reading->read.record.kind)) != 0)) {
        reading->each(reading->arg, &reading->read.record);
    }
}

/* Passes the complete lines of the text. */
static void pass_lines(struct reading *reading)
{
    struct coxi_buffer *text = &reading->text;
    size_t done = 0;
    const char *end;
    while (done < text->len &&
           (end = memchr(text->data + done, '\n', text->len - done)) != NULL) {
        const char *line = (const char *)text->data + done;
        pass_line(reading, line, (size_t)(end - line));
        done += (size_t)(end - line) + 1;
    }
    if (done == 0 && text->len > LINE_MAX_BYTES) {
        reading->amidst = true;
        done = text->len;
    }
    if (done > 0) {
        memmove(text->data, text->data + done, text->len - done);
        text->len -= done;
        reading->at += done;
    }
}

static int read_all(int fd, const char *path, struct reading *reading)
{
    int r = 0;
    ssize_t n = 1;
    uint64_t at = reading->at;
    while (r == 0 && n > 0) {
        r = coxi_buffer_reserve(&reading->text, CHUNK);
        n = r == 0
                ? coxi_fd_read_at(fd, at, reading->text.data + reading->text.len, CHUNK)
                : 0;
        if (n < 0) {
            r = coxi_error_errno(COX_EIO, "cannot read %s", path);
        } else if (n > 0) {
            reading->text.len += (size_t)n;
            at += (uint64_t)n;
            pass_lines(reading);
        }
    }
    return r;
}

static int open_to_read(const char *dir, char path[PATH_MAX], int *ret_fd,
                        struct stat *ret_stat)
{
    int r = path_of(dir, path);
    /* of a pipe in its place, open would wait for a writer */
    int fd = r == 0 ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    if (r != 0) {
        return r;
    }
    if (fd < 0 || fstat(fd, ret_stat) != 0) {
        r = fd < 0 && errno == ENOENT
                ? coxi_error(COX_ENOENT, "there is no %s", path)
                : coxi_error_errno(COX_EIO, "cannot read %s", path);
    } else if (!S_ISREG(ret_stat->st_mode)) {
        r = coxi_error(COX_EIO, "%s is no regular file", path);
    }
    if (r != 0) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return r;
    }
    *ret_fd = fd;
    return 0;
}

static int each_of(int fd, const char *path, struct reading *reading, uint64_t *ret_end)
{
    int r = read_all(fd, path, reading);
    coxi_buffer_fini(&reading->text);
    coxi_buffer_fini(&reading->read.texts);
    (void)close(fd);
    if (r == 0) {
        *ret_end = reading->at;
    }
    return r;
}

static int each_wanted(const char *dir, struct reading *reading)
{
    char path[PATH_MAX];
    struct stat stat;
    uint64_t end;
    int fd = -1;
    int r = open_to_read(dir, path, &fd, &stat);
    return r == 0 ? each_of(fd, path, reading, &end) : r;
}

int coxi_history_each(const char *dir, unsigned kinds,
                      void (*each)(void *arg, const struct coxi_record *record),
                      void *arg)
{
    return each_wanted(dir,
                       &(struct reading){.kinds = kinds, .each = each, .arg = arg});
}

int coxi_history_scalars(const char *dir, uint64_t seq_min, uint64_t step_min,
                         void (*each)(void *arg, const struct coxi_record *record),
                         void *arg)
{
    return each_wanted(dir,
                       &(struct reading){.kinds = COXI_RECORDS_OF(COXI_RECORD_SCALAR),
                                         .seq_min = seq_min,
                                         .step_min = step_min,
                                         .each = each,
                                         .arg = arg});
}

/* ---- into memory */

static void add(void *arg, const struct coxi_record *record)
{
    struct coxi_records *records = arg;
    struct coxi_repeated repeated;
    struct coxi_record copy = *record;
    if (coxi_record_repeats(record, &repeated)) {
        coxi_records_forget(records, &repeated);
    }
    if (record->seq <= coxi_records_last(records)) {
        return; /* somebody else has written the file, too */
    }
    (void)coxi_records_add(records, &copy, false, NULL);
}

static int load(const char *dir, struct coxi_records *records, uint64_t from,
                struct stat *ret_stat, uint64_t *ret_end)
{
    char path[PATH_MAX];
    int fd = -1;
    int r = open_to_read(dir, path, &fd, ret_stat);
    if (r != 0) {
        return r;
    }
    uint64_t len = (uint64_t)ret_stat->st_size;
    uint64_t skipped = len > LOAD_MAX ? len - LOAD_MAX : 0;
    struct reading reading = {.each = add,
                              .arg = records,
                              .at = from > skipped ? from : skipped,
                              .amidst = from < skipped};
    return each_of(fd, path, &reading, ret_end);
}

int coxi_history_load(const char *dir, struct coxi_records *records)
{
    struct stat stat;
    uint64_t end;
    return load(dir, records, 0, &stat, &end);
}

struct coxi_history {
    char dir[PATH_MAX];
    struct coxi_records *records;
    uint64_t end; /* all before it was read */
    ino_t inode;
};

int coxi_history_open(const char *dir, struct coxi_history **ret)
{
    struct stat stat;
    struct coxi_history *history = calloc(1, sizeof(*history));
    if (history == NULL) {
        return coxi_error_memory("a run's history");
    }
    int r = coxi_path(history->dir, "%s", dir);
    r = r == 0 ? coxi_records_new(false, &history->records) : r;
    r = r == 0 ? load(dir, history->records, 0, &stat, &history->end) : r;
    if (r == 0 && history->end > 0 && coxi_records_last(history->records) == 0) {
        r = coxi_error(COX_EFORMAT,
                       "%s/metrics.jsonl is no history of a run: none of its lines is "
                       "a record",
                       dir);
    }
    if (r != 0) {
        coxi_history_close(history);
        return r;
    }
    history->inode = stat.st_ino;
    *ret = history;
    return 0;
}

int coxi_history_update(struct coxi_history *history)
{
    char path[PATH_MAX];
    struct stat now;
    int r = path_of(history->dir, path);
    if (r == 0 && stat(path, &now) == 0 &&
        (now.st_ino != history->inode || (uint64_t)now.st_size < history->end)) {
        /* another run has begun the file, perhaps with lower numbers */
        coxi_records_clear(history->records, UINT64_MAX);
        history->end = 0;
    }
    r = r == 0 ? load(history->dir, history->records, history->end, &now, &history->end)
               : r;
    if (r == 0) {
        history->inode = now.st_ino;
    }
    return r;
}

struct coxi_records *coxi_history_records(struct coxi_history *history)
{
    return history->records;
}

void coxi_history_close(struct coxi_history *history)
{
    if (history != NULL) {
        coxi_records_free(history->records);
        free(history);
    }
}

/* ---- writing */

/* The place behind the last newline. -1 with errno. */
static off_t end_of_lines(int fd)
{
    char bytes[4096];
    off_t end = lseek(fd, 0, SEEK_END);
    while (end > 0) {
        size_t n = end < (off_t)sizeof(bytes) ? (size_t)end : sizeof(bytes);
        if (coxi_fd_read_at(fd, (uint64_t)end - n, bytes, n) != (ssize_t)n) {
            return -1;
        }
        const char *newline = memrchr(bytes, '\n', n);
        if (newline != NULL) {
            return end - (off_t)n + (newline - bytes) + 1;
        }
        end -= (off_t)n;
    }
    return end;
}

int coxi_history_file_open(const char *dir, struct coxi_history_file *ret)
{
    char path[PATH_MAX];
    int r = path_of(dir, path);
    if (r != 0) {
        return r;
    }
    int fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    off_t len = fd >= 0 ? end_of_lines(fd) : -1;
    if (len < 0 || ftruncate(fd, len) != 0) {
        r = coxi_error_errno(COX_EIO, "cannot write %s", path);
        if (fd >= 0) {
            (void)close(fd);
        }
        return r;
    }
    *ret = (struct coxi_history_file){.fd = fd, .len = (uint64_t)len};
    return 0;
}

int coxi_history_file_retire(const char *dir)
{
    char path[PATH_MAX];
    char old[PATH_MAX];
    int r = path_of(dir, path);
    r = r == 0 ? coxi_path(old, "%s/metrics.jsonl.old", dir) : r;
    /* rename tells of a disk that is read-only also if there is no file */
    if (r != 0 || rename(path, old) == 0 || errno == ENOENT) {
        return r;
    }
    r = coxi_error_errno(COX_EIO, "cannot rename %s", path);
    return access(path, F_OK) == 0 || errno != ENOENT ? r : 0;
}

int coxi_history_file_append(struct coxi_history_file *file, const void *lines,
                             size_t len)
{
    if ((file->is_cut && coxi_fd_write(file->fd, "\n", 1) != 0) ||
        coxi_fd_write(file->fd, lines, len) != 0) {
        int r = coxi_error_errno(COX_EIO, "cannot write metrics.jsonl");
        file->is_cut = ftruncate(file->fd, (off_t)file->len) != 0;
        return r;
    }
    file->len += len + file->is_cut;
    file->is_cut = false;
    return 0;
}

void coxi_history_file_close(struct coxi_history_file *file)
{
    if (file->fd >= 0) {
        (void)close(file->fd);
    }
    file->fd = -1;
}
