/* Shared by the files of checkpoint/place only: long files on disk (place_file.c) and in a
 * store (place_store.c). */
#ifndef COXI_CHECKPOINT_PLACE_INTERNAL_H
#define COXI_CHECKPOINT_PLACE_INTERNAL_H

#include "checkpoint/place.h"

int coxi_place_file_create(const char *root, const char *path,
                           struct coxi_file_sink *ret);
int coxi_place_file_open(const char *root, const char *path, uint64_t bytes,
                         struct coxi_file_source *ret);
/* Takes the descriptor, also on failure. */
int coxi_place_file_adopt(int fd, const char *path, struct coxi_file_source *ret);
void coxi_place_file_expect(const struct coxi_file_source *source, uint64_t at,
                            uint64_t len);
void coxi_place_file_close(struct coxi_file_source *source);
/* True: the source was opened by coxi_place_file_open. */
bool coxi_place_is_file(const struct coxi_file_source *source);

int coxi_place_store_create(const char *root, const char *path, uint64_t bytes,
                            struct coxi_file_sink *ret);
int coxi_place_store_open(const char *root, const char *path, uint64_t bytes,
                          struct coxi_file_source *ret);
void coxi_place_store_close(struct coxi_file_source *source);

#endif
