/* See event_file.h. */
#include "coordinator/monitor/event_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/buffer.h"
#include "common/crc32c.h"
#include "common/error.h"
#include "common/file.h"
#include "common/json_text.h"

enum {
    WAITING_MAX = 1 << 20, /* bytes that wait for a flush */
    TAG_MAX = 512,         /* a longer tag is cut */
    EVENT_MAX = TAG_MAX + 64,
    SECOND_DIGITS = 10, /* of a file's name; a larger number is nobody's time */
};

struct coxi_event_file {
    char dir[PATH_MAX];
    char path[PATH_MAX]; /* once it is made */
    int fd;              /* -1: it is not made yet */
    uint64_t len;        /* bytes of whole records in the file */
    bool is_cut; /* a part of a record follows them, which could not be cut off */
    struct coxi_buffer waiting;
};

/* ---- protocol buffers: `*at` moves on */

/* Types of fields on the wire. */
enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

static void put_varint(uint8_t **at, uint64_t value)
{
    while (value >= 0x80) {
        *(*at)++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *(*at)++ = (uint8_t)value;
}

static void put_key(uint8_t **at, unsigned field, unsigned type)
{
    put_varint(at, field << 3 | type);
}

static void put_bytes(uint8_t **at, unsigned field, const void *bytes, size_t len)
{
    put_key(at, field, BYTES);
    put_varint(at, len);
    memcpy(*at, bytes, len);
    *at += len;
}

static void put_double(uint8_t **at, unsigned field, double value)
{
    put_key(at, field, FIXED64);
    memcpy(*at, &value, sizeof(value)); /* hosts are little-endian */
    *at += sizeof(value);
}

static void put_float(uint8_t **at, unsigned field, float value)
{
    put_key(at, field, FIXED32);
    memcpy(*at, &value, sizeof(value));
    *at += sizeof(value);
}

/* What all events begin with. */
static void put_head(uint8_t **at, double t, uint64_t step)
{
    put_double(at, 1, t);
    if (step != 0) {
        put_key(at, 2, VARINT);
        put_varint(at, step);
    }
}

/* ---- records */

static int add_record(struct coxi_event_file *file, const uint8_t *event,
                      const uint8_t *end)
{
    uint8_t head[12];
    uint64_t len = (uint64_t)(end - event);
    uint32_t head_sum;
    uint32_t sum = coxi_crc32c_masked(coxi_crc32c(0, event, len));
    memcpy(head, &len, sizeof(len));
    head_sum = coxi_crc32c_masked(coxi_crc32c(0, &len, sizeof(len)));
    memcpy(head + sizeof(len), &head_sum, sizeof(head_sum));
    if (file->waiting.len + sizeof(head) + len + sizeof(sum) > WAITING_MAX) {
        return coxi_error(COX_EIO, "a file in %s cannot be written", file->dir);
    }
    int r = coxi_buffer_reserve(&file->waiting, sizeof(head) + len + sizeof(sum));
    if (r == 0) { /* there is memory for all three */
        (void)coxi_buffer_append_raw(&file->waiting, head, sizeof(head));
        (void)coxi_buffer_append_raw(&file->waiting, event, len);
        (void)coxi_buffer_append_raw(&file->waiting, &sum, sizeof(sum));
    }
    return r;
}

/* Copies a tag; returns its length. Tags are UTF-8: readers refuse a file with other bytes,
 * so these become U+FFFD. */
static size_t copy_tag(const char *tag, char ret[TAG_MAX])
{
    size_t n = 0;
    size_t len = strlen(tag);
    for (size_t read = 0; read < len;) {
        size_t character = coxi_utf8_length(tag + read, len - read);
        const char *from = character > 0 ? tag + read : "\xef\xbf\xbd";
        size_t more = character > 0 ? character : 3;
        if (n + more > TAG_MAX) {
            break;
        }
        memcpy(ret + n, from, more);
        n += more;
        read += character > 0 ? character : 1;
    }
    return n;
}

int coxi_event_file_scalar(struct coxi_event_file *file, const char *tag, uint64_t step,
                           double t, double value)
{
    char text[TAG_MAX];
    uint8_t summary[TAG_MAX + 32];
    uint8_t point[TAG_MAX + 32];
    uint8_t event[EVENT_MAX + 64];
    uint8_t *at = point;
    put_bytes(&at, 1, text, copy_tag(tag, text));
    put_float(&at, 2, (float)value);
    uint8_t *summary_at = summary;
    put_bytes(&summary_at, 1, point, (size_t)(at - point));
    at = event;
    put_head(&at, t, step);
    put_bytes(&at, 5, summary, (size_t)(summary_at - summary));
    return add_record(file, event, at);
}

static double now_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The file's version, which says that restarts are told, and the restart. */
static int add_start(struct coxi_event_file *file, uint64_t first_step)
{
    static const char version[] = "brain.Event:2";
    static const uint8_t started[] = {1 << 3 | VARINT, 1};
    uint8_t event[EVENT_MAX];
    uint8_t *at = event;
    put_head(&at, now_s(), 0);
    put_bytes(&at, 3, version, sizeof(version) - 1);
    int r = add_record(file, event, at);
    at = event;
    put_head(&at, now_s(), first_step);
    put_bytes(&at, 7, started, sizeof(started));
    return r == 0 ? add_record(file, event, at) : r;
}

/* ---- files */

/* The second in the name of the newest file of events in the directory. */
static long long newest_second(const char *dir)
{
    long long newest = 0;
    DIR *all = opendir(dir);
    const struct dirent *entry;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): `all` is this thread's own */
    while (all != NULL && (entry = readdir(all)) != NULL) {
        static const char begin[] = "events.out.tfevents.";
        const char *digits = strncmp(entry->d_name, begin, sizeof(begin) - 1) == 0
                                 ? entry->d_name + sizeof(begin) - 1
                                 : "";
        size_t n = strspn(digits, "0123456789");
        long long second =
            n <= SECOND_DIGITS && digits[n] == '.' ? strtoll(digits, NULL, 10) : 0;
        if (second > newest) {
            newest = second;
        }
    }
    if (all != NULL) {
        (void)closedir(all);
    }
    return newest;
}

static int make_file(struct coxi_event_file *file)
{
    const char *dir = file->dir;
    char host[128] = "";
    long long second = (long long)now_s();
    int r = coxi_directory_make(dir);
    long long newest = r == 0 ? newest_second(dir) : 0;
    (void)gethostname(host, sizeof(host) - 1);
    if (r == 0) {
        r = coxi_path(file->path, "%s/events.out.tfevents.%010lld.%s.%d", dir,
                      second > newest ? second : newest + 1, host, (int)getpid());
    }
    if (r == 0) {
        file->fd = open(file->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        r = file->fd < 0 ? coxi_error_errno(COX_EIO, "cannot make %s", file->path) : 0;
    }
    return r;
}

int coxi_event_file_new(const char *dir, uint64_t first_step,
                        struct coxi_event_file **ret)
{
    struct coxi_event_file *file = calloc(1, sizeof(*file));
    if (file == NULL) {
        return coxi_error_memory("a file for TensorBoard");
    }
    file->fd = -1;
    int r = coxi_path(file->dir, "%s", dir);
    if (r == 0) {
        r = add_start(file, first_step);
    }
    if (r != 0) {
        coxi_event_file_free(file);
        return r;
    }
    *ret = file;
    return 0;
}

void coxi_event_file_free(struct coxi_event_file *file)
{
    if (file == NULL) {
        return;
    }
    if (file->fd >= 0) {
        (void)close(file->fd);
    }
    coxi_buffer_fini(&file->waiting);
    free(file);
}

/* Cuts a part of a record off: it would hide all later ones. -1: with errno. */
static int cut_off(struct coxi_event_file *file)
{
    bool is_off = ftruncate(file->fd, (off_t)file->len) == 0 &&
                  lseek(file->fd, (off_t)file->len, SEEK_SET) >= 0;
    file->is_cut = !is_off;
    return is_off ? 0 : -1;
}

int coxi_event_file_flush(struct coxi_event_file *file)
{
    size_t len = file->waiting.len;
    if (len == 0) {
        return 0;
    }
    int r = file->fd < 0 ? make_file(file) : 0;
    if (r != 0) {
        return r;
    }
    if ((file->is_cut && cut_off(file) != 0) ||
        coxi_fd_write(file->fd, file->waiting.data, len) != 0) {
        r = coxi_error_errno(COX_EIO, "cannot write %s", file->path);
        (void)cut_off(file);
        return r;
    }
    file->len += len;
    file->waiting.len = 0;
    return 0;
}
