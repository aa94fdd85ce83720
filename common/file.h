/* Files and paths. All functions block (see common/disk.h for the disk). Any thread.
 * Texts of errors name the path. */
#ifndef COXI_COMMON_FILE_H
#define COXI_COMMON_FILE_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

/* Formats a path into ret[PATH_MAX]. COX_EINVAL: it is longer than that. */
int coxi_path(char ret[PATH_MAX], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Reads a whole regular file of at most `max` bytes, and adds a NUL. *ret is for
 * free(). COX_ENOENT: there is no such file; COX_EIO; COX_ELIMIT. */
int coxi_file_read(const char *path, size_t max, uint8_t **ret, size_t *ret_len);

/*
 * Writes a file that appears under its name whole or not at all. Its bytes are on disk
 * when this returns (for its name see coxi_directory_sync). One thread at a time for a
 * path. COX_EIO.
 */
int coxi_file_write(const char *path, const void *bytes, size_t len);

/* The last line of a text file, without its newline, cut to `len` - 1 bytes; "" if
 * there is no line. */
void coxi_file_last_line(const char *path, char *ret, size_t len);

/* Makes a directory and all missing directories above it. COX_EIO. */
int coxi_directory_make(const char *path);

/* The same, for files that are trusted because nobody else can have put them there: the
 * directory gets mode 0700. COX_EIO, also if it is another user's, or others may write
 * in it. */
int coxi_directory_own(const char *path);

/* Makes a new directory in $TMPDIR or /tmp, which only this user can use. COX_EIO. */
int coxi_directory_temporary(char ret[64]);

/*
 * The same for a process that may be killed before it can remove the directory. It is
 * ours while *ret_lock is open; close that after the removal. Directories that killed
 * processes of this user have left are removed first.
 */
int coxi_directory_held(char ret[64], int *ret_lock);

/* Waits until the names in a directory (new files, renames) are on disk. COX_EIO. */
int coxi_directory_sync(const char *path);

/* Removes a directory and everything in it, as far as possible. */
void coxi_directory_remove(const char *path);

/* The directory of this process's program. COX_EIO. */
int coxi_program_directory(char ret[PATH_MAX]);

#endif
