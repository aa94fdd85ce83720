/* See keyring.h. */
#include "net/keyring.h"

#include <dirent.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/buffer.h"
#include "common/error.h"

enum { ROLES = COXI_ROLE_TOOL + 1 };

static const char suffix[] = ".key";

struct entry {
    char name[COXI_KEYRING_NAME_MAX + 1];
    struct coxi_key key;
    uint64_t ids[ROLES]; /* by role */
};

struct coxi_keyring {
    struct entry *entries; /* in the order of their names */
    uint32_t n;
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

/* Adds the key in the file of that name, if it is one. */
static int add(struct coxi_keyring *ring, const char *directory, const char *file)
{
    struct coxi_buffer path = {0};
    size_t len = name_len(file);
    if (len == 0) {
        return 0;
    }
    struct entry *entries = calloc(ring->n + 1, sizeof(*entries));
    int r = entries == NULL ? coxi_error_memory("keys")
                            : coxi_buffer_printf(&path, "%s/%s", directory, file);
    if (r == 0) {
        r = entry_read((const char *)path.data, file, len, &entries[ring->n]);
    }
    if (r == 0) {
        struct entry *old = ring->entries;
        if (ring->n > 0) {
            memcpy(entries, old, ring->n * sizeof(*old));
            OPENSSL_cleanse(old, ring->n * sizeof(*old));
        }
        ring->entries = entries;
        ring->n++;
        entries = old;
    }
    free(entries);
    coxi_buffer_fini(&path);
    return r;
}

static int read_all(struct coxi_keyring *ring, const char *directory)
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
    return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

/* Checks that no two runs have the same key, because only the key tells them apart. */
static int check_distinct(const struct coxi_keyring *ring)
{
    for (uint32_t i = 1; i < ring->n; i++) {
        for (uint32_t j = 0; j < i; j++) {
            if (ring->entries[i].ids[COXI_ROLE_CLIENT] ==
                ring->entries[j].ids[COXI_ROLE_CLIENT]) {
                return coxi_error(COX_EINVAL,
                                  "the runs %s and %s have the same key: make one for "
                                  "each (coxswain key new)",
                                  ring->entries[j].name, ring->entries[i].name);
            }
        }
    }
    return 0;
}

int coxi_keyring_open(const char *directory, struct coxi_keyring **ret)
{
    struct coxi_keyring *ring = calloc(1, sizeof(*ring));
    int r = ring == NULL ? coxi_error_memory("keys") : read_all(ring, directory);
    if (r == 0 && ring->n == 0) {
        r = coxi_error(COX_EINVAL,
                       "%s has no file NAME.key: make one for each run (coxswain key "
                       "new %s/NAME.key)",
                       directory, directory);
    }
    if (r == 0) {
        qsort(ring->entries, ring->n, sizeof(*ring->entries), by_name);
        r = check_distinct(ring);
    }
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
        if (ring->entries != NULL) {
            OPENSSL_cleanse(ring->entries, ring->n * sizeof(*ring->entries));
        }
        free(ring->entries);
        free(ring);
    }
}

uint32_t coxi_keyring_count(const struct coxi_keyring *ring)
{
    return ring->n;
}

const char *coxi_keyring_name(const struct coxi_keyring *ring, uint32_t run)
{
    return ring->entries[run].name;
}

const struct coxi_key *coxi_keyring_find(const struct coxi_keyring *ring,
                                         enum coxi_role role, uint64_t id,
                                         uint32_t *ret_run)
{
    bool is_role = role >= COXI_ROLE_CLIENT && role <= COXI_ROLE_TOOL;
    for (uint32_t i = 0; i < ring->n && is_role; i++) {
        if (ring->entries[i].ids[role] == id) {
            *ret_run = i;
            return &ring->entries[i].key;
        }
    }
    return NULL;
}
