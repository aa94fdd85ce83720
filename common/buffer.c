/* See buffer.h. Growth doubles, so n appends cost O(n). */
#include "common/buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"

void *coxi_aligned_new(size_t bytes)
{
    return bytes > SIZE_MAX - 63 ? NULL : aligned_alloc(64, coxi_align(bytes, 64));
}

size_t coxi_buffer_need(const struct coxi_buffer *buffer, size_t more)
{
    size_t capacity = buffer->capacity;
    if (more <= capacity - buffer->len) {
        return capacity;
    }
    if (more > SIZE_MAX / 4) {
        return SIZE_MAX;
    }
    capacity = capacity < 256 ? 256 : capacity;
    while (capacity - buffer->len < more) {
        capacity *= 2;
    }
    return capacity;
}

int coxi_buffer_reserve(struct coxi_buffer *buffer, size_t more)
{
    size_t capacity = coxi_buffer_need(buffer, more);
    if (capacity == buffer->capacity) {
        return 0;
    }
    uint8_t *data = coxi_aligned_new(capacity);
    if (data == NULL) {
        return coxi_error_memory("a buffer");
    }
    if (buffer->len > 0) {
        memcpy(data, buffer->data, buffer->len);
    }
    free(buffer->data);
    buffer->data = data;
    buffer->capacity = capacity;
    return 0;
}

static void put(struct coxi_buffer *buffer, const void *bytes, size_t len)
{
    if (len == 0) {
        return;
    }
    if (bytes != NULL) {
        memcpy(buffer->data + buffer->len, bytes, len);
    } else {
        memset(buffer->data + buffer->len, 0, len);
    }
    buffer->len += len;
}

int coxi_buffer_append_raw(struct coxi_buffer *buffer, const void *bytes, size_t len)
{
    int r = coxi_buffer_reserve(buffer, len);
    if (r == 0) {
        put(buffer, bytes, len);
    }
    return r;
}

int coxi_buffer_append(struct coxi_buffer *buffer, const void *bytes, size_t len)
{
    if (len > SIZE_MAX / 4) {
        /* the length with its padding might wrap, and then seem small */
        return coxi_error_memory("a buffer");
    }
    size_t padded = coxi_align(buffer->len + len, 8) - buffer->len;
    int r = coxi_buffer_reserve(buffer, padded);
    if (r == 0) {
        put(buffer, bytes, len);
        put(buffer, NULL, padded - len);
    }
    return r;
}

int coxi_buffer_printf(struct coxi_buffer *buffer, const char *format, ...)
{
    va_list args;
    size_t room = buffer->capacity - buffer->len;
    va_start(args, format);
    int len = vsnprintf(room > 0 ? (char *)buffer->data + buffer->len : NULL, room,
                        format, args);
    va_end(args);
    if ((size_t)len >= room) { /* its end, or its NUL, had no room */
        int r = coxi_buffer_reserve(buffer, (size_t)len + 1);
        if (r != 0) {
            return r;
        }
        va_start(args, format);
        (void)vsnprintf((char *)buffer->data + buffer->len, (size_t)len + 1, format,
                        args);
        va_end(args);
    }
    buffer->len += (size_t)len;
    return 0;
}

void coxi_buffer_fini(struct coxi_buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct coxi_buffer){0};
}
