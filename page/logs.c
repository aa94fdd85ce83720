/*
 * See logs.h. Only regular files whose names end with ".log" directly in the directory are
 * read, without following links: the names come from the directory, and not from
 * whoever asks.
 */
#include "page/logs.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/error.h"
#include "common/file.h"
#include "common/json_text.h"

enum { LOGS_MAX = 32, TAIL_BYTES = 16 << 10, FILES_MAX = 4096 };

struct log {
    char name[NAME_MAX + 1];
    struct timespec written;
};

static int newest_first(const void *a, const void *b)
{
    const struct timespec *x = &((const struct log *)a)->written;
    const struct timespec *y = &((const struct log *)b)->written;
    if (x->tv_sec != y->tv_sec) {
        return x->tv_sec < y->tv_sec ? 1 : -1;
    }
    return (x->tv_nsec < y->tv_nsec) - (x->tv_nsec > y->tv_nsec);
}

/* By length first, so that ps-10 comes after ps-9. */
static int by_name(const void *a, const void *b)
{
    const char *x = ((const struct log *)a)->name;
    const char *y = ((const struct log *)b)->name;
    int first = strncmp(x, y, 2);
    size_t n_x = strlen(x);
    size_t n_y = strlen(y);
    if (first != 0 || n_x == n_y) {
        return first != 0 ? first : strcmp(x, y);
    }
    return n_x < n_y ? -1 : 1;
}

/* Finds at most `most` logs in the directory; returns their number. */
static size_t list(DIR *directory, int fd, struct log *logs, size_t most)
{
    size_t n = 0;
    const struct dirent *entry;
    while (n < most && fd >= 0 && (entry = readdir(directory)) != NULL) {
        struct stat file;
        size_t len = strlen(entry->d_name);
        if (len > 4 && strcmp(entry->d_name + len - 4, ".log") == 0 &&
            fstatat(fd, entry->d_name, &file, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(file.st_mode)) {
            (void)strcpy(logs[n].name, entry->d_name);
            logs[n++].written = file.st_mtim;
        }
    }
    return n;
}

/* Reads the end of a file, from the beginning of a line on; "" if it cannot be read. */
static void read_tail(int directory, const char *name, char ret[TAIL_BYTES + 1])
{
    struct stat file;
    ssize_t n = 0;
    int fd = directory >= 0 ? openat(directory, name,
                                     O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
                            : -1;
    if (fd >= 0 && fstat(fd, &file) == 0 && S_ISREG(file.st_mode)) {
        off_t from = file.st_size > TAIL_BYTES ? file.st_size - TAIL_BYTES : 0;
        n = coxi_fd_read_at(fd, (uint64_t)from, ret, TAIL_BYTES);
        n = n > 0 ? n : 0;
        const char *line = from > 0 ? memchr(ret, '\n', (size_t)n) : NULL;
        if (line != NULL) {
            n -= line + 1 - ret;
            memmove(ret, line + 1, (size_t)n);
        }
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    ret[n] = '\0';
    for (ssize_t i = 0; i < n; i++) {
        ret[i] = (char)(ret[i] == '\0' ? ' ' : ret[i]);
    }
}

static int append(int directory, const struct log *log, bool first,
                  struct coxi_buffer *out)
{
    char text[TAIL_BYTES + 1];
    char name[NAME_MAX + 1];
    (void)strcpy(name, log->name);
    name[strlen(name) - 4] = '\0';
    read_tail(directory, log->name, text);
    int r = coxi_buffer_printf(out, "%s{\"name\":", first ? "" : ",");
    r = r != 0 ? r : coxi_json_text(out, name);
    r = r != 0 ? r : coxi_buffer_printf(out, ",\"text\":");
    r = r != 0 ? r : coxi_json_text(out, text);
    return r != 0 ? r : coxi_buffer_printf(out, "}");
}

int coxi_logs_json(const char *dir, struct coxi_buffer *out)
{
    DIR *directory = dir != NULL ? opendir(dir) : NULL;
    struct log *logs = calloc(FILES_MAX, sizeof(*logs));
    int r = logs == NULL ? coxi_error_memory("the names of logs")
                         : coxi_buffer_printf(out, "{\"logs\":[");
    if (r == 0 && directory != NULL) {
        int fd = dirfd(directory);
        size_t n = list(directory, fd, logs, FILES_MAX);
        qsort(logs, n, sizeof(*logs), newest_first);
        n = n < LOGS_MAX ? n : LOGS_MAX;
        qsort(logs, n, sizeof(*logs), by_name);
        for (size_t i = 0; r == 0 && i < n; i++) {
            r = append(fd, &logs[i], i == 0, out);
        }
    }
    r = r != 0 ? r : coxi_buffer_printf(out, "]}\n");
    if (directory != NULL) {
        (void)closedir(directory);
    }
    free(logs);
    return r;
}
