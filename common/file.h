/* Files and paths. All functions block (see common/disk.h for the disk). Any thread.
 * Texts of errors name the path. */
#ifndef COXI_COMMON_FILE_H
#define COXI_COMMON_FILE_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Formats a path into ret[PATH_MAX]. COX_EINVAL: it is longer than that. */
int coxi_path(char ret[PATH_MAX], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The path from the root, of one that may begin at the working directory. COX_EINVAL: it is
 * too long; COX_EIO: nobody knows the working directory. */
int coxi_path_absolute(const char *path, char ret[PATH_MAX]);

/* Reads a whole regular file of at most `max` bytes, and adds a NUL. *ret is for
 * free(). COX_ENOENT: there is no such file; COX_EIO; COX_ELIMIT. */
int coxi_file_read(const char *path, size_t max, uint8_t **ret, size_t *ret_len);

/* Writes a file so that it appears under its name either whole or not at all. When this
 * returns, the file's bytes are on disk; its name is on disk after coxi_directory_sync.
 * One thread at a time for a path. COX_EIO. */
int coxi_file_write(const char *path, const void *bytes, size_t len);

/* Reads until `room` bytes are there or the file ends. Returns their number, or -1 with
 * errno. */
ssize_t coxi_fd_read(int fd, void *to, size_t room);

/* The same from the offset `at` on; the descriptor's own position does not matter. */
ssize_t coxi_fd_read_at(int fd, uint64_t at, void *to, size_t room);

/* Writes all bytes. 0, or -1 with errno. */
int coxi_fd_write(int fd, const void *bytes, size_t len);

/* The last line of a text file, without its newline, cut to `len` - 1 bytes; "" if
 * there is no line. */
void coxi_file_last_line(const char *path, char *ret, size_t len);

/* Makes a directory and all missing directories above it. COX_EIO. */
int coxi_directory_make(const char *path);

/* Like coxi_directory_make, for a directory whose files are trusted because no other
 * user can have put them there: it gets mode 0700. COX_EIO, also if the directory
 * belongs to another user, or others may write in it. */
int coxi_directory_own(const char *path);

/* Makes a new directory in $TMPDIR or /tmp, which only this user can use. COX_EIO. */
int coxi_directory_temporary(char ret[64]);

/*
 * Like coxi_directory_temporary, for a process that may be killed before it can remove
 * the directory. The directory is ours while the descriptor *ret_lock is open; close it
 * after the removal. First removes directories left by killed processes of this user.
 */
int coxi_directory_held(char ret[64], int *ret_lock);

/* Waits until the names in a directory (new files, renames) are on disk. COX_EIO. */
int coxi_directory_sync(const char *path);

/* Removes a directory and everything in it, as far as possible. */
void coxi_directory_remove(const char *path);

/* The directory of this process's program. COX_EIO. */
int coxi_program_directory(char ret[PATH_MAX]);

#endif
