/* See fuzz.h. */
#include "tests/fuzz/fuzz.h"

#include <fcntl.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file.h"
#include "ps/applied.h"

uint64_t fuzz_number(struct fuzz_input *input, size_t bytes)
{
    uint64_t n = 0;
    size_t len = bytes < input->left ? bytes : input->left;
    if (len > 0) {
        memcpy(&n, input->at, len);
    }
    input->at += len;
    input->left -= len;
    return n;
}

uint64_t fuzz_below(struct fuzz_input *input, uint64_t n)
{
    return fuzz_number(input, 1) % n;
}

const uint8_t *fuzz_bytes(struct fuzz_input *input, size_t *len)
{
    const uint8_t *at = input->at;
    *len = *len < input->left ? *len : input->left;
    input->at += *len;
    input->left -= *len;
    return at;
}

uint64_t fuzz_any(struct fuzz_input *input)
{
    static const uint64_t edges[] = {
        UINT64_MAX, UINT64_MAX - 1,    UINT64_C(1) << 63, UINT64_C(1) << 61,
        UINT32_MAX, UINT64_C(1) << 32, COXI_CLOSURE_MAX,  4096};
    uint64_t n = fuzz_number(input, 1);
    return n < 0xe0 ? n % 32 : n < 0xe8 ? edges[n - 0xe0] : fuzz_number(input, 8);
}

uint64_t fuzz_rows(struct fuzz_input *input)
{
    uint64_t n = fuzz_number(input, 1);
    return n < 0xf0 ? n : n < 0xf8 ? fuzz_number(input, 2) : fuzz_any(input);
}

float fuzz_weight(uint64_t n)
{
    static const float some[] = {1.0F, 2.0F, 0.5F, 0.0F, NAN, -1.0F, INFINITY, FLT_MAX};
    return some[n % (sizeof(some) / sizeof(*some))];
}

static char directory[64];

static void remove_directory(void)
{
    coxi_directory_remove(directory);
}

const char *fuzz_dir(void)
{
    if (*directory == '\0') {
        (void)snprintf(directory, sizeof(directory), "/dev/shm/cox-fuzz-XXXXXX");
        if (mkdtemp(directory) == NULL) {
            fuzz_fail("no directory in /dev/shm");
        }
        (void)atexit(remove_directory);
    }
    return directory;
}

const char *fuzz_file(const char *name, const void *bytes, size_t len)
{
    static char paths[4][128];
    static size_t next;
    char *path = paths[next++ % 4];
    (void)snprintf(path, sizeof(paths[0]), "%s/%s", fuzz_dir(), name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || coxi_fd_write(fd, bytes, len) != 0) {
        fuzz_fail("a file cannot be written");
    }
    (void)close(fd);
    return path;
}

void fuzz_fail(const char *what)
{
    (void)fprintf(stderr, "fuzz: %s\n", what);
    abort();
}
