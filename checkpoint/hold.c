/*
 * See hold.h.
 *
 * Threads: a hold in a store has one, which writes its mark again. Cost in a store: three
 * requests to take, one to release, and one every COXI_HOLD_AGAIN_S.
 */
#include "checkpoint/hold.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/manifest.h"
#include "checkpoint/place.h"
#include "checkpoint/stored.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/file.h"
#include "common/rand.h"
#include "common/sync.h"

struct coxi_hold {
    int fd; /* in a directory; -1: in a store */
    struct coxi_s3 *s3;
    char key[128]; /* of the mark, beneath `s3` */
    pthread_t thread;
    bool started;
    struct coxi_mutex lock; /* leaf */
    pthread_cond_t changed;
    bool end COXI_GUARDED_BY(lock);
};

/* ---- in a directory */

/* `type`: F_RDLCK or F_WRLCK, on the whole file. */
static struct flock whole_file(short type)
{
    return (struct flock){.l_type = type, .l_whence = SEEK_SET};
}

static int lock_manifest(const char *path, int *ret)
{
    char file[PATH_MAX];
    struct stat st;
    int r = coxi_path(file, "%s/manifest.json", path);
    if (r != 0) {
        return r;
    }
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return coxi_error_errno(errno == ENOENT ? COX_ENOENT : COX_EIO,
                                "cannot read %s", file);
    }
    struct flock lock = whole_file(F_RDLCK);
    if (fcntl(fd, F_OFD_SETLK, &lock) != 0) {
        r = errno == EAGAIN || errno == EACCES
                ? coxi_error(COX_ENOENT, "%s is being deleted", path)
                : coxi_error_errno(COX_EIO, "cannot lock %s", file);
    } else if (fstat(fd, &st) != 0 || st.st_nlink == 0) {
        r = coxi_error(COX_ENOENT, "%s has been deleted", path);
    }
    if (r != 0) {
        (void)close(fd);
        return r;
    }
    *ret = fd;
    return 0;
}

static bool is_locked(const char *path)
{
    char file[PATH_MAX];
    if (coxi_path(file, "%s/manifest.json", path) != 0) {
        return false;
    }
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    struct flock lock = whole_file(F_WRLCK);
    bool is = fd >= 0 && fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_RDLCK;
    if (fd >= 0) {
        (void)close(fd);
    }
    return is;
}

/* ---- in a store */

/* COX_EDENIED: the credentials may only read. */
static int write_mark(struct coxi_hold *hold)
{
    static const char says[] =
        "A process reads this checkpoint. It writes this again and again.\n";
    return coxi_s3_put(hold->s3, hold->key, says, sizeof(says) - 1, COXI_S3_ALWAYS,
                       NULL, NULL);
}

static void *keep(void *arg)
{
    struct coxi_hold *hold = arg;
    coxi_lock(&hold->lock);
    while (!hold->end) {
        uint64_t again_ms = coxi_now_ms() + (uint64_t)COXI_HOLD_AGAIN_S * 1000;
        while (!hold->end && coxi_now_ms() < again_ms) {
            struct timespec until = coxi_deadline((int)(again_ms - coxi_now_ms()));
            (void)coxi_wait_until(&hold->changed, &hold->lock, &until);
        }
        if (!hold->end) {
            coxi_unlock(&hold->lock);
            (void)write_mark(hold); /* a mark counts longer than several tries */
            coxi_lock(&hold->lock);
        }
    }
    coxi_unlock(&hold->lock);
    return NULL;
}

/* Splits ".../ckpt-3" into the directory and the name. */
static int split(const char *path, char ret_dir[PATH_MAX], const char **ret_name)
{
    const char *slash = strrchr(path, '/');
    *ret_name = slash + 1;
    return coxi_path(ret_dir, "%.*s", (int)(slash - path), path);
}

/* `must`: a hold without a mark is none. */
static int hold_in_store(const char *path, bool must, struct coxi_hold *hold)
{
    static const struct coxi_s3_limits limits = {.connect_ms = 5000,
                                                 .stall_s = 10,
                                                 .call_ms = COXI_HOLD_AGAIN_S * 1000,
                                                 .pause_ms = 200};
    char dir[PATH_MAX];
    char real[PATH_MAX];
    const char *name;
    int r = coxi_place_real(path, real);
    r = r == 0 ? split(real, dir, &name) : r;
    if (r == 0) {
        r = coxi_stored_code(coxi_s3_open(dir, &hold->s3));
    }
    if (r != 0) {
        return r;
    }
    coxi_s3_limit(hold->s3, &limits);
    (void)snprintf(hold->key, sizeof(hold->key), "readers/%.40s-%016" PRIx64, name,
                   coxi_random_id());
    r = write_mark(hold);
    if (r == COX_EDENIED && !must) {
        coxi_s3_close(hold->s3);
        hold->s3 = NULL;
        r = 0;
    }
    r = coxi_stored_code(r);
    if (r == 0) { /* only now: see hold.h */
        r = coxi_manifest_find(real);
    }
    if (r == 0 && hold->s3 != NULL) {
        r = coxi_thread_start(&hold->thread, "cox:hold", keep, hold);
        hold->started = r == 0;
    }
    return r;
}

/* The mark is removed, or counts until it is old. */
static void leave_store(struct coxi_hold *hold)
{
    static const struct coxi_s3_limits hurried = {
        .connect_ms = 500, .stall_s = 1, .call_ms = 1000, .tries = 1, .pause_ms = 100};
    char dir[PATH_MAX];
    struct coxi_s3 *s3;
    int r = coxi_path(dir, "%s", coxi_s3_url(hold->s3));
    coxi_lock(&hold->lock);
    hold->end = true;
    (void)pthread_cond_signal(&hold->changed);
    coxi_unlock(&hold->lock);
    coxi_s3_cancel(hold->s3);
    if (hold->started) {
        (void)pthread_join(hold->thread, NULL);
    }
    coxi_s3_close(hold->s3);
    if (r == 0 && coxi_s3_open(dir, &s3) == 0) {
        coxi_s3_limit(s3, &hurried);
        (void)coxi_s3_remove(s3, hold->key);
        coxi_s3_close(s3);
    }
}

/* ---- marks */

struct marks {
    struct coxi_s3 *s3; /* NULL: they are only counted */
    size_t alive;
};

/* A store that does not tell an object's age keeps the marks of the dead. */
static int count_mark(void *arg, const struct coxi_s3_object *object)
{
    struct marks *marks = arg;
    bool dead = object->age_s > COXI_HOLD_S;
    marks->alive += !dead;
    if (dead && marks->s3 != NULL) {
        (void)coxi_s3_remove(marks->s3, object->key);
    }
    return 0;
}

/* A store that cannot be asked may have marks. */
static bool is_marked(const char *path)
{
    char dir[PATH_MAX];
    char real[PATH_MAX];
    char prefix[PATH_MAX];
    const char *name;
    struct marks marks = {0};
    return coxi_place_real(path, real) != 0 || split(real, dir, &name) != 0 ||
           coxi_path(prefix, "readers/%s-", name) != 0 ||
           coxi_stored_list(dir, prefix, count_mark, &marks) != 0 || marks.alive > 0;
}

void coxi_hold_forget_dead(const char *dir)
{
    char real[PATH_MAX];
    struct marks marks = {0};
    if (coxi_place_in_store(dir) && coxi_place_real(dir, real) == 0 &&
        coxi_s3_open(real, &marks.s3) == 0) {
        (void)coxi_s3_list(marks.s3, "readers/", count_mark, &marks);
        coxi_s3_close(marks.s3);
    }
}

/* ---- the interface */

static int take(const char *path, bool must, struct coxi_hold **ret)
{
    struct coxi_hold *hold = calloc(1, sizeof(*hold));
    if (hold == NULL) {
        return coxi_error_memory("reading a checkpoint");
    }
    hold->fd = -1;
    coxi_mutex_init(&hold->lock);
    coxi_cond_init(&hold->changed);
    int r = coxi_place_in_store(path) ? hold_in_store(path, must, hold)
                                      : lock_manifest(path, &hold->fd);
    if (r != 0) {
        char text[COXI_ERROR_TEXT_MAX];
        (void)snprintf(text, sizeof(text), "%s", coxi_error_text());
        coxi_hold_release(hold);
        return coxi_error(r, "%s", text);
    }
    *ret = hold;
    return 0;
}

int coxi_hold_take(const char *path, struct coxi_hold **ret)
{
    return take(path, true, ret);
}

int coxi_hold_try(const char *path, struct coxi_hold **ret)
{
    return take(path, false, ret);
}

bool coxi_hold_protects(const struct coxi_hold *hold)
{
    return hold->fd >= 0 || hold->s3 != NULL;
}

void coxi_hold_release(struct coxi_hold *hold)
{
    if (hold == NULL) {
        return;
    }
    if (hold->fd >= 0) {
        (void)close(hold->fd);
    }
    if (hold->s3 != NULL) {
        leave_store(hold);
    }
    (void)pthread_cond_destroy(&hold->changed);
    coxi_mutex_fini(&hold->lock);
    free(hold);
}

bool coxi_hold_is_taken(const char *path)
{
    return coxi_place_in_store(path) ? is_marked(path) : is_locked(path);
}
