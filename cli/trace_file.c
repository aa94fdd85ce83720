/* See trace_file.h. A trace is an array of JSON objects. ",\n" stands between two of them and
 * nowhere else, so a trace that breaks off is made whole by cutting it there. */
#include "cli/trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/watcher.h"
#include "common/error.h"
#include "common/file.h"

static const char end_text[] = "\n]\n";

static int failed(const struct coxi_trace_file *file)
{
    return coxi_error_errno(COX_EIO, "cannot write %s", file->path);
}

int coxi_trace_file_open(struct coxi_trace_file *file, const char *path)
{
    struct stat old;
    *file = (struct coxi_trace_file){.path = path};
    if (stat(path, &old) == 0 && !S_ISREG(old.st_mode)) {
        return coxi_error(COX_EINVAL, "%s is no regular file", path);
    }
    int r = coxi_path(file->temporary, "%s.part-%d", path, (int)getpid());
    if (r != 0) {
        return r;
    }
    int fd = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    file->file = fd >= 0 ? fdopen(fd, "w") : NULL;
    return file->file != NULL ? 0 : failed(file);
}

/* Keeps the last bytes of what there is. */
static void keep_tail(struct coxi_trace_file *file, const char *bytes, size_t len)
{
    size_t taken = len < COXI_TRACE_TAIL ? len : COXI_TRACE_TAIL;
    size_t room = COXI_TRACE_TAIL - taken;
    size_t kept = file->tail_len < room ? file->tail_len : room;
    memmove(file->tail, file->tail + file->tail_len - kept, kept);
    memcpy(file->tail + kept, bytes + len - taken, taken);
    file->tail_len = kept + taken;
    file->tail[file->tail_len] = '\0';
}

int coxi_trace_file_add(struct coxi_trace_file *file, const void *bytes, size_t len)
{
    const char *text = bytes;
    int before = file->tail_len > 0 ? file->tail[file->tail_len - 1] : '\0';
    const char *at = text;
    while ((at = memchr(at, '\n', len - (size_t)(at - text))) != NULL) {
        if ((at > text ? at[-1] : before) == ',') {
            file->cut = file->bytes + (uint64_t)(at - text) - 1;
            file->n_entries++;
        }
        at++;
    }
    if (fwrite(bytes, 1, len, file->file) != len) {
        return failed(file);
    }
    file->bytes += len;
    keep_tail(file, text, len);
    return 0;
}

/* Looks at the trace's last entry, which says whether all went well. */
static int judge(struct coxi_trace_file *file, bool *ret_is_whole)
{
    char *begin = NULL;
    char *end = strstr(file->tail, end_text);
    for (char *at = file->tail; (at = strstr(at, "\n{")) != NULL; at++) {
        begin = at + 1;
    }
    json_t *entry = begin != NULL && end != NULL && end > begin && end[3] == '\0'
                        ? json_loadb(begin, (size_t)(end - begin), 0, NULL)
                        : NULL;
    const char *name = json_string_value(json_object_get(entry, "name"));
    const json_t *args = json_object_get(entry, "args");
    const char *error = json_string_value(json_object_get(args, "error"));
    int r = 0;
    *ret_is_whole = name != NULL && strcmp(name, "coxswain") == 0;
    if (*ret_is_whole && error != NULL) {
        char text[512];
        (void)snprintf(text, sizeof(text), "%s", error);
        coxi_watcher_plain(text);
        r = coxi_error(COX_EIO, "the client took no trace: %s", text);
    }
    file->n_lost = (uint64_t)json_integer_value(json_object_get(args, "lost"));
    json_decref(entry);
    return r;
}

/* Ends the array after the last whole entry. */
static int cut(struct coxi_trace_file *file)
{
    if (file->cut == 0) {
        return coxi_error(COX_ENOENT, "nothing was traced");
    }
    if (fflush(file->file) != 0 ||
        ftruncate(fileno(file->file), (off_t)file->cut) != 0 ||
        fseeko(file->file, 0, SEEK_END) != 0 || fputs(end_text, file->file) == EOF) {
        return failed(file);
    }
    file->bytes = file->cut + sizeof(end_text) - 1;
    return 0;
}

int coxi_trace_file_end(struct coxi_trace_file *file, bool is_cut)
{
    bool is_whole = false;
    int r = is_cut ? 0 : judge(file, &is_whole);
    if (r == 0 && !is_whole) {
        r = cut(file);
    }
    if (r == 0) {
        FILE *closes = file->file;
        file->file = NULL;
        r = fclose(closes) != 0 || rename(file->temporary, file->path) != 0
                ? failed(file)
                : 0;
        if (r != 0) {
            (void)unlink(file->temporary);
        }
    }
    coxi_trace_file_drop(file);
    return r;
}

void coxi_trace_file_drop(struct coxi_trace_file *file)
{
    if (file->file != NULL) {
        (void)fclose(file->file);
        (void)unlink(file->temporary);
        file->file = NULL;
    }
}
