/* Directories of the simulated disk: replaces the C library's functions for
 * directories. See files.h. */
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/sim/files.h"

struct sim_dir {
    struct dirent entry;
    char **paths;
    size_t n;
    size_t at;
    size_t path_len; /* of the directory itself */
    int fd;
};

DIR *__wrap_opendir(const char *path)
{
    int fd = sim_files_open_directory(path);
    if (fd < 0) {
        return NULL;
    }
    struct sim_dir *dir = calloc(1, sizeof(*dir));
    dir->fd = fd;
    dir->path_len = strlen(path);
    dir->n = sim_files_list(path, &dir->paths);
    return (DIR *)dir;
}

struct dirent *__wrap_readdir(DIR *stream)
{
    struct sim_dir *dir = (struct sim_dir *)stream;
    while (dir->at < dir->n) {
        const char *path = dir->paths[dir->at++];
        const char *name = path + dir->path_len + 1;
        if (strlen(path) > dir->path_len && strchr(name, '/') == NULL) {
            (void)snprintf(dir->entry.d_name, sizeof(dir->entry.d_name), "%s", name);
            return &dir->entry;
        }
    }
    return NULL;
}

int __wrap_dirfd(DIR *stream)
{
    return ((struct sim_dir *)stream)->fd;
}

int __wrap_closedir(DIR *stream)
{
    struct sim_dir *dir = (struct sim_dir *)stream;
    (void)close(dir->fd);
    for (size_t i = 0; i < dir->n; i++) {
        free(dir->paths[i]);
    }
    free(dir->paths);
    free(dir);
    return 0;
}

int __wrap_unlinkat(int fd, const char *name, int flags)
{
    char path[PATH_MAX];
    const char *dir = sim_files_path(fd);
    (void)flags;
    if (dir == NULL) {
        errno = EBADF;
        return -1;
    }
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    return unlink(path);
}

/* Depth first; lists everything before it calls the function. */
int __wrap_nftw(const char *path,
                int (*visit)(const char *path, const struct stat *st, int type,
                             struct FTW *ftw),
                int n, int flags)
{
    char **below;
    size_t n_below = sim_files_list(path, &below);
    (void)n;
    (void)flags;
    /* Longer paths first, so that a directory's content comes before the directory. */
    for (size_t i = 1; i < n_below; i++) {
        for (size_t j = i; j > 0 && strlen(below[j]) > strlen(below[j - 1]); j--) {
            char *other = below[j];
            below[j] = below[j - 1];
            below[j - 1] = other;
        }
    }
    for (size_t i = 0; i < n_below; i++) {
        (void)visit(below[i], NULL, 0, NULL);
        free(below[i]);
    }
    free(below);
    return 0;
}
