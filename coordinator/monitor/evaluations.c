/* See evaluations.h. A line that is not complete is taken when it is. */
#include "coordinator/monitor/evaluations.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/manifest.h"
#include "checkpoint/place.h"
#include "common/clock.h"
#include "common/disk.h"
#include "common/error.h"
#include "common/file.h"
#include "common/json_text.h"

enum {
    KNOWN = 4096,       /* checkpoints whose closure is known; a power of two */
    READ_MAX = 1 << 20, /* bytes that one call takes over, and of a line */
    STORE_MS = 10000,   /* between two looks into a store */
    STORE_WAIT_MS = 2000,
    STORE_BYTES_MAX = 64 << 20,
};

struct known {
    uint64_t number;
    uint64_t closure;
};

struct coxi_evaluations {
    char *dir; /* NULL: there is no checkpoint directory */
    struct coxi_records *records;
    uint64_t offset;           /* all before it was taken over */
    uint64_t again_ms;         /* not before: a store is not asked all the time */
    bool skips;                /* what is there at the next look was told before */
    struct known known[KNOWN]; /* by number, modulo */
};

int coxi_evaluations_new(const char *dir, struct coxi_records *records,
                         struct coxi_evaluations **ret)
{
    struct coxi_evaluations *evaluations = calloc(1, sizeof(*evaluations));
    if (evaluations != NULL && dir != NULL) {
        evaluations->dir = strdup(dir);
    }
    if (evaluations == NULL || (dir != NULL && evaluations->dir == NULL)) {
        coxi_evaluations_free(evaluations);
        return coxi_error_memory("evaluations");
    }
    evaluations->records = records;
    *ret = evaluations;
    return 0;
}

void coxi_evaluations_free(struct coxi_evaluations *evaluations)
{
    if (evaluations != NULL) {
        free(evaluations->dir);
        free(evaluations);
    }
}

void coxi_evaluations_note(struct coxi_evaluations *evaluations,
                           const struct coxi_record *record)
{
    if (record->kind == COXI_RECORD_CHECKPOINT) {
        uint64_t number = coxi_record_count(record, "number");
        evaluations->known[number % KNOWN] =
            (struct known){number, coxi_record_count(record, "closure")};
    }
}

void coxi_evaluations_load(struct coxi_evaluations *evaluations,
                           const struct coxi_record *record)
{
    coxi_evaluations_note(evaluations, record);
    if (record->kind == COXI_RECORD_EVAL) {
        evaluations->offset = coxi_record_count(record, "offset");
    }
}

static int path_of(const struct coxi_evaluations *evaluations, char ret[PATH_MAX])
{
    const char *dir = evaluations->dir;
    return dir != NULL ? coxi_path(ret, "%s/eval.jsonl", dir) : COX_ENOENT;
}

/* Reads the whole file; *ret is for free(), NULL: only the length is wanted. Gives up soon,
 * because the thread has more to do, and cox_close waits for it. */
static int read_store(const char *path, uint64_t *ret_bytes, uint8_t **ret)
{
    uint8_t *text = NULL;
    size_t len = 0;
    coxi_disk_give_up_at(coxi_now_ms() + STORE_WAIT_MS);
    int r = coxi_place_read(path, STORE_BYTES_MAX, &text, &len);
    coxi_disk_give_up_at(UINT64_MAX);
    if (r != 0) {
        return r;
    }
    *ret_bytes = len;
    if (ret == NULL) {
        free(text);
    } else {
        *ret = text;
    }
    return 0;
}

void coxi_evaluations_skip(struct coxi_evaluations *evaluations)
{
    char path[PATH_MAX];
    struct stat now;
    if (path_of(evaluations, path) != 0) {
        return;
    }
    if (coxi_place_in_store(path)) {
        int r = read_store(path, &evaluations->offset, NULL);
        evaluations->skips = r != 0 && r != COX_ENOENT;
    } else if (stat(path, &now) == 0) {
        evaluations->offset = (uint64_t)now.st_size;
    }
}

/* ---- lines */

static bool is_score(const char *name)
{
    return strcmp(name, "checkpoint") != 0 && strcmp(name, "time") != 0;
}

static int add_scores(json_t *line, struct coxi_buffer *to)
{
    const char *name;
    json_t *value;
    const char *before = "";
    int r = coxi_buffer_printf(to, ",\"metrics\":{");
    json_object_foreach(line, name, value)
    {
        if (r == 0 && is_score(name) && json_is_number(value)) {
            r = coxi_buffer_printf(to, "%s", before);
            r = r == 0 ? coxi_json_text(to, name) : r;
            r = r == 0 ? coxi_buffer_printf(to, ":") : r;
            r = r == 0 ? coxi_json_number(to, json_number_value(value)) : r;
            before = ",";
        }
    }
    return r == 0 ? coxi_buffer_printf(to, "}") : r;
}

/* The highest closure that a checkpoint has settled; 0: not known. A checkpoint is there a
 * moment before its record. */
static uint64_t closure_of(const struct coxi_evaluations *evaluations, uint64_t number)
{
    const struct known *known = &evaluations->known[number % KNOWN];
    char path[PATH_MAX];
    struct coxi_manifest *manifest = NULL;
    uint64_t closure = known->number == number ? known->closure : 0;
    if (closure == 0 && coxi_path(path, "%s/ckpt-%llu", evaluations->dir,
                                  (unsigned long long)number) == 0) {
        coxi_disk_give_up_at(coxi_now_ms() + STORE_WAIT_MS);
        if (coxi_manifest_read(path, &manifest) == 0) {
            closure = manifest->progress.closure;
            coxi_manifest_free(manifest);
        }
        coxi_disk_give_up_at(UINT64_MAX);
    }
    return closure;
}

static void add(struct coxi_evaluations *evaluations, struct coxi_record record)
{
    (void)coxi_records_add(evaluations->records, &record, true, NULL);
}

static void take_line(struct coxi_evaluations *evaluations, const char *text,
                      size_t len)
{
    const char *name;
    json_t *value;
    json_t *line = json_loadb(text, len, 0, NULL);
    const json_t *checkpoint = json_object_get(line, "checkpoint");
    struct coxi_buffer fields = {0};
    if (!json_is_integer(checkpoint) || json_integer_value(checkpoint) <= 0) {
        json_decref(line);
        return;
    }
    uint64_t number = (uint64_t)json_integer_value(checkpoint);
    uint64_t step = closure_of(evaluations, number);
    int r =
        coxi_buffer_printf(&fields, "\"checkpoint\":%llu,\"step\":%llu,\"offset\":%llu",
                           (unsigned long long)number, (unsigned long long)step,
                           (unsigned long long)evaluations->offset);
    r = r == 0 ? add_scores(line, &fields) : r;
    r = r == 0 ? coxi_buffer_append_raw(&fields, "", 1) : r;
    json_object_foreach(line, name, value)
    {
        if (r == 0 && is_score(name) && json_is_number(value) && step != 0) {
            add(evaluations,
                (struct coxi_record){
                    .kind = COXI_RECORD_SCALAR,
                    .scalar = {name, "eval", step, json_number_value(value)}});
        }
    }
    if (r == 0) {
        add(evaluations, (struct coxi_record){.kind = COXI_RECORD_EVAL,
                                              .fields = (const char *)fields.data});
    }
    coxi_buffer_fini(&fields);
    json_decref(line);
}

static void take_lines(struct coxi_evaluations *evaluations, const char *text,
                       size_t len)
{
    const char *end;
    const char *at = text;
    while ((end = memchr(at, '\n', len - (size_t)(at - text))) != NULL) {
        evaluations->offset += (uint64_t)(end + 1 - at);
        while (at < end && *at == '\0') {
            at++; /* left by a host that has lost its power */
        }
        take_line(evaluations, at, (size_t)(end - at));
        at = end + 1;
    }
    if (at == text && len == READ_MAX) {
        evaluations->offset += len; /* no line is that long */
    }
}

static void take_from_store(struct coxi_evaluations *evaluations, const char *path)
{
    uint8_t *text = NULL;
    uint64_t len = 0;
    if (coxi_now_ms() < evaluations->again_ms) {
        return;
    }
    evaluations->again_ms = coxi_now_ms() + STORE_MS;
    if (read_store(path, &len, &text) == 0) {
        if (evaluations->skips || evaluations->offset > len) {
            evaluations->offset = evaluations->skips ? len : 0;
        }
        evaluations->skips = false;
        take_lines(evaluations, (const char *)text + evaluations->offset,
                   (size_t)(len - evaluations->offset));
        free(text);
    }
}

void coxi_evaluations_hurry(struct coxi_evaluations *evaluations)
{
    evaluations->again_ms = 0;
}

void coxi_evaluations_take(struct coxi_evaluations *evaluations)
{
    char path[PATH_MAX];
    struct stat now = {0};
    if (path_of(evaluations, path) != 0) {
        return;
    }
    if (coxi_place_in_store(path)) {
        take_from_store(evaluations, path);
        return;
    }
    if (stat(path, &now) != 0 && errno != ENOENT) {
        return;
    }
    if ((uint64_t)now.st_size < evaluations->offset) {
        evaluations->offset = 0;
    }
    if ((uint64_t)now.st_size == evaluations->offset) {
        return;
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *text = fd >= 0 ? malloc(READ_MAX) : NULL;
    ssize_t n =
        text != NULL ? coxi_fd_read_at(fd, evaluations->offset, text, READ_MAX) : 0;
    if (n > 0) {
        take_lines(evaluations, text, (size_t)n);
    }
    free(text);
    if (fd >= 0) {
        (void)close(fd);
    }
}
