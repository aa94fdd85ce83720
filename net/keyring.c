/* See keyring.h. */
#include "net/keyring.h"

#include <dirent.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/buffer.h"
#include "common/error.h"
#include "common/sync.h"

enum { ROLES = COXI_ROLE_TOOL + 1 };

static const char suffix[] = ".key";

struct entry {
    char name[COXI_KEYRING_NAME_MAX + 1];
    struct coxi_key key;
    uint64_t ids[ROLES]; /* by role */
    bool is_removed;     /* the key was wiped */
};

struct coxi_keyring {
    struct coxi_mutex lock; /* leaf */
    /* in the order of their names, and then in that in which they came */
    struct entry *entries[COXI_KEYRING_MAX] COXI_GUARDED_BY(lock);
    uint32_t n COXI_GUARDED_BY(lock);
};

/* The length of the run's name in a file's name; 0: this is no file of a key. */
static size_t name_len(const char *file)
{
    size_t len = strlen(file);
    size_t end = sizeof(suffix) - 1;
    return len > end && strcmp(file + len - end, suffix) == 0 && *file != '.'
               ? len - end
               : 0;
}

static int check_name(const char *file, size_t len)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789._-";
    return len <= COXI_KEYRING_NAME_MAX && strspn(file, allowed) >= len
               ? 0
               : coxi_error(COX_EINVAL,
                            "%s names a run by more than %d characters, or by others "
                            "than letters, digits, '.', '_' and '-'",
                            file, COXI_KEYRING_NAME_MAX);
}

static int derive_ids(struct entry *entry)
{
    uint8_t key[COXI_KEY_BYTES];
    bool done = true;
    for (int role = COXI_ROLE_CLIENT; role < ROLES && done; role++) {
        done = coxi_key_of_role(&entry->key, (enum coxi_role)role, key) &&
               coxi_key_id(key, &entry->ids[role]);
    }
    OPENSSL_cleanse(key, sizeof(key));
    return done ? 0 : coxi_error_memory("a key");
}

static int entry_read(const char *path, const char *file, size_t len,
                      struct entry *entry)
{
    int r = check_name(file, len);
    if (r == 0) {
        memcpy(entry->name, file, len);
        entry->name[len] = '\0';
        r = coxi_key_read(path, &entry->key);
    }
    if (r == 0 && entry->key.kind != COXI_KEY_RUN) {
        r = coxi_error(COX_EINVAL, "%s is the key of readers; a daemon needs the run's",
                       path);
    }
    return r == 0 ? derive_ids(entry) : r;
}

static void entry_free(struct entry *entry)
{
    OPENSSL_cleanse(entry, sizeof(*entry));
    free(entry);
}

static int full(void)
{
    return coxi_error(COX_ELIMIT,
                      "there are more than %d keys, with those that were removed since "
                      "the start: start again",
                      COXI_KEYRING_MAX);
}

/* Adds the key in the file of that name, if it is one. */
static int add(struct coxi_keyring *ring, const char *directory, const char *file)
    COXI_REQUIRES(ring->lock)
{
    struct coxi_buffer path = {0};
    size_t len = name_len(file);
    if (len == 0) {
        return 0;
    }
    if (ring->n == COXI_KEYRING_MAX) {
        return full();
    }
    struct entry *entry = calloc(1, sizeof(*entry));
    int r = entry == NULL ? coxi_error_memory("keys")
                          : coxi_buffer_printf(&path, "%s/%s", directory, file);
    if (r == 0) {
        r = entry_read((const char *)path.data, file, len, entry);
    }
    if (r == 0) {
        ring->entries[ring->n++] = entry;
    } else if (entry != NULL) {
        entry_free(entry);
    }
    coxi_buffer_fini(&path);
    return r;
}

static int read_all(struct coxi_keyring *ring, const char *directory)
    COXI_REQUIRES(ring->lock)
{
    DIR *dir = opendir(directory);
    int fd = dir != NULL ? dirfd(dir) : -1;
    struct stat is;
    int r = 0;
    if (fd < 0 || fstat(fd, &is) != 0) {
        r = coxi_error_errno(COX_EIO, "cannot read the directory of keys %s",
                             directory);
    } else if ((is.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        r = coxi_error(COX_EINVAL,
                       "others may change the directory of keys %s (mode %03o): run "
                       "chmod go-w on it",
                       directory, (unsigned)is.st_mode & 0777U);
    }
    const struct dirent *file = NULL;
    /* each call has its own directory: NOLINTNEXTLINE(concurrency-mt-unsafe) */
    while (r == 0 && (file = readdir(dir)) != NULL) {
        r = add(ring, directory, file->d_name);
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    return r;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const struct entry *const *)a)->name,
                  (*(const struct entry *const *)b)->name);
}

static bool is_same_key(const struct entry *a, const struct entry *b)
{
    return a->ids[COXI_ROLE_CLIENT] == b->ids[COXI_ROLE_CLIENT];
}

/* Checks that no two runs have the same key, because only the key tells them apart. */
static int check_distinct(const struct coxi_keyring *ring) COXI_REQUIRES(ring->lock)
{
    for (uint32_t i = 1; i < ring->n; i++) {
        for (uint32_t j = 0; j < i; j++) {
            if (is_same_key(ring->entries[i], ring->entries[j])) {
                return coxi_error(COX_EINVAL,
                                  "the runs %s and %s have the same key: make one for "
                                  "each (coxswain key new)",
                                  ring->entries[j]->name, ring->entries[i]->name);
            }
        }
    }
    return 0;
}

int coxi_keyring_open(const char *directory, struct coxi_keyring **ret)
{
    struct coxi_keyring *ring = calloc(1, sizeof(*ring));
    if (ring == NULL) {
        return coxi_error_memory("keys");
    }
    coxi_mutex_init(&ring->lock);
    coxi_lock(&ring->lock);
    int r = read_all(ring, directory);
    if (r == 0 && ring->n == 0) {
        r = coxi_error(COX_EINVAL,
                       "%s has no file NAME.key: make one for each run (coxswain key "
                       "new %s/NAME.key)",
                       directory, directory);
    }
    if (r == 0) {
        qsort((void *)ring->entries, ring->n, sizeof(struct entry *), by_name);
        r = check_distinct(ring);
    }
    coxi_unlock(&ring->lock);
    if (r != 0) {
        coxi_keyring_free(ring);
        return r;
    }
    *ret = ring;
    return 0;
}

void coxi_keyring_free(struct coxi_keyring *ring)
{
    if (ring != NULL) {
        coxi_unshared(&ring->lock);
        for (uint32_t i = 0; i < ring->n; i++) {
            entry_free(ring->entries[i]);
        }
        coxi_mutex_fini(&ring->lock);
        free(ring);
    }
}

/* ---- again */

/* The entry with the same name and key; NULL: there is none. */
static struct entry *same_entry(const struct coxi_keyring *ring,
                                const struct entry *entry) COXI_REQUIRES(ring->lock)
{
    for (uint32_t i = 0; i < ring->n; i++) {
        if (is_same_key(ring->entries[i], entry) &&
            strcmp(ring->entries[i]->name, entry->name) == 0) {
            return ring->entries[i];
        }
    }
    return NULL;
}

static int append_name(struct coxi_buffer *names, const struct entry *entry)
{
    return coxi_buffer_printf(names, "%s%s", names->len > 0 ? "," : "", entry->name);
}

/* What changes if the ring becomes like `fresh`; changes nothing. */
static int compare(const struct coxi_keyring *ring, const struct coxi_keyring *fresh,
                   struct coxi_buffer *ret_added, struct coxi_buffer *ret_removed)
    COXI_REQUIRES(ring->lock) COXI_REQUIRES(fresh->lock)
{
    uint32_t n = ring->n;
    int r = 0;
    for (uint32_t i = 0; i < fresh->n && r == 0; i++) {
        const struct entry *known = same_entry(ring, fresh->entries[i]);
        n += known == NULL;
        r = known == NULL || known->is_removed
                ? append_name(ret_added, fresh->entries[i])
                : 0;
    }
    for (uint32_t i = 0; i < ring->n && r == 0; i++) {
        r = !ring->entries[i]->is_removed && same_entry(fresh, ring->entries[i]) == NULL
                ? append_name(ret_removed, ring->entries[i])
                : 0;
    }
    return r == 0 && n > COXI_KEYRING_MAX ? full() : r;
}

/* Makes the ring like `fresh`, whose entries it takes. */
static void merge(struct coxi_keyring *ring, struct coxi_keyring *fresh)
    COXI_REQUIRES(ring->lock) COXI_REQUIRES(fresh->lock)
{
    for (uint32_t i = 0; i < ring->n; i++) {
        if (same_entry(fresh, ring->entries[i]) == NULL) {
            ring->entries[i]->is_removed = true;
            OPENSSL_cleanse(&ring->entries[i]->key, sizeof(ring->entries[i]->key));
        }
    }
    for (uint32_t i = 0; i < fresh->n; i++) {
        struct entry *known = same_entry(ring, fresh->entries[i]);
        if (known == NULL) {
            ring->entries[ring->n++] = fresh->entries[i];
        } else {
            known->key = fresh->entries[i]->key;
            known->is_removed = false;
            entry_free(fresh->entries[i]);
        }
    }
    fresh->n = 0;
}

int coxi_keyring_reload(struct coxi_keyring *ring, const char *directory,
                        struct coxi_buffer *ret_added, struct coxi_buffer *ret_removed)
{
    struct coxi_keyring *fresh;
    int r = coxi_keyring_open(directory, &fresh);
    if (r != 0) {
        return r;
    }
    coxi_lock(&ring->lock);
    coxi_unshared(&fresh->lock);
    r = compare(ring, fresh, ret_added, ret_removed);
    if (r == 0) {
        merge(ring, fresh);
    }
    coxi_unlock(&ring->lock);
    coxi_keyring_free(fresh);
    return r;
}

/* ---- looking at it */

uint32_t coxi_keyring_count(struct coxi_keyring *ring)
{
    coxi_lock(&ring->lock);
    uint32_t n = ring->n;
    coxi_unlock(&ring->lock);
    return n;
}

bool coxi_keyring_has(struct coxi_keyring *ring, uint32_t run)
{
    coxi_lock(&ring->lock);
    bool has = run < ring->n && !ring->entries[run]->is_removed;
    coxi_unlock(&ring->lock);
    return has;
}

const char *coxi_keyring_name(struct coxi_keyring *ring, uint32_t run)
{
    coxi_lock(&ring->lock);
    const char *name = ring->entries[run]->name;
    coxi_unlock(&ring->lock);
    return name;
}

bool coxi_keyring_find(struct coxi_keyring *ring, enum coxi_role role, uint64_t id,
                       struct coxi_key *ret, uint32_t *ret_run)
{
    bool is_role = role >= COXI_ROLE_CLIENT && role <= COXI_ROLE_TOOL;
    bool found = false;
    coxi_lock(&ring->lock);
    for (uint32_t i = 0; i < ring->n && is_role && !found; i++) {
        const struct entry *entry = ring->entries[i];
        if (!entry->is_removed && entry->ids[role] == id) {
            *ret = entry->key;
            *ret_run = i;
            found = true;
        }
    }
    coxi_unlock(&ring->lock);
    return found;
}
