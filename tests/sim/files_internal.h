/* What files.c (names) and descriptors.c (open files) share. */
#ifndef COXI_SIM_FILES_INTERNAL_H
#define COXI_SIM_FILES_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sim_proc;
struct stat;

struct inode {
    uint64_t number;
    bool is_dir;
    uint32_t n_links;
    uint32_t n_readers; /* that hold a lock of the whole file */
    uint32_t n_writers;
    uint8_t *bytes;
    size_t len;
    size_t room;
};

struct entry {
    char *path;
    uint64_t hash;
    struct inode *inode;
};

/* The entry of a path; NULL: there is none. Adding another one moves it. */
struct entry *sim_files_find(const char *path);
void sim_files_add(const char *path, struct inode *inode);
struct inode *sim_files_inode_new(bool is_dir);

/* The directory that the path is in exists. */
bool sim_files_has_parent(const char *path);

void sim_files_describe(const struct inode *inode, struct stat *ret);

/* Call it before something on the disk is changed. -1: the change fails. */
int sim_files_disturb(const char *what, const char *path);

/* Makes the file at least `len` bytes long, with zeros. */
void sim_files_make_room(struct inode *inode, size_t len);

/* Sets errno; -1. */
int sim_files_error(int error);

/* No file is open; the files that a process has open are closed. */
void sim_descriptors_begin(void);
void sim_descriptors_drop(const struct sim_proc *proc);

#endif
