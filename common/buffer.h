/*
 * A growable array of bytes, 64-aligned. Zeroed is valid and empty. Not thread-safe.
 */
#ifndef COXI_COMMON_BUFFER_H
#define COXI_COMMON_BUFFER_H

#include <stddef.h>
#include <stdint.h>

struct coxi_buffer {
    uint8_t *data;
    size_t len;
    size_t capacity;
};

/* `n` rounded up to a multiple of `to`. The result wraps near SIZE_MAX, so compare a
 * number from a peer or a file with a bound first. */
static inline size_t coxi_align(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/* Memory of at least `bytes` bytes (rounded up to 64), 64-aligned, for free(). NULL:
 * there is none, or no size_t holds the rounded number. */
void *coxi_aligned_new(size_t bytes);

/* Makes room for `more` bytes after the buffer's `len` bytes. COX_ENOMEM: the buffer is
 * unchanged. */
int coxi_buffer_reserve(struct coxi_buffer *buffer, size_t more);

/* The capacity that the buffer has after coxi_buffer_reserve(buffer, more). */
size_t coxi_buffer_need(const struct coxi_buffer *buffer, size_t more);

/* Appends `len` bytes (`bytes` NULL: zeros) and pads with zeros to a multiple of 8. */
int coxi_buffer_append(struct coxi_buffer *buffer, const void *bytes, size_t len);

/* Like coxi_buffer_append, but without padding. */
int coxi_buffer_append_raw(struct coxi_buffer *buffer, const void *bytes, size_t len);

/* Appends formatted text without its NUL. */
int coxi_buffer_printf(struct coxi_buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void coxi_buffer_fini(struct coxi_buffer *buffer);

#endif
