/* Files of a checkpoint: read in every way, alone and as a chain of up to three. */
#include <stdbool.h>
#include <stdlib.h>

#include "checkpoint/overlay.h"
#include "checkpoint/safetensors.h"
#include "tests/fuzz/fuzz.h"

static int take(void *arg, const void *data, size_t len)
{
    const uint8_t *bytes = data;
    uint64_t *sum = arg;
    for (size_t i = 0; i < len; i++) {
        *sum += bytes[i];
    }
    return (uintptr_t)data % 8 != 0 ? -1 : 0;
}

static void read_all(const struct coxi_st_file *file)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < coxi_st_count(file); i++) {
        const struct coxi_st_tensor *tensor = coxi_st_at(file, i);
        void *all = NULL;
        if (coxi_st_find(file, tensor->name) == NULL) {
            fuzz_fail("a tensor is not found by its name");
        }
        if (coxi_st_stream(file, tensor, take, &sum) != 0) {
            fuzz_fail("a tensor cannot be read");
        }
        if ((tensor->file != NULL || tensor->data != NULL) &&
            coxi_st_read_all(tensor, &all) == 0) {
            (void)take(&sum, all, tensor->bytes);
        }
        free(all);
    }
    (void)coxi_st_metadata(file, "run");
}

static void sum_all(struct coxi_st_file *file)
{
    struct coxi_st_sum *sum;
    uint8_t some[64];
    uint32_t crc;
    if (coxi_st_sum_new(file, &sum) == 0) {
        for (size_t i = 0; i < coxi_st_count(file); i += 2) {
            const struct coxi_st_tensor *t = coxi_st_at(file, i);
            size_t len = t->bytes < sizeof(some) ? t->bytes : sizeof(some);
            (void)coxi_st_sum_read(sum, t, t->bytes - len, some, len);
        }
        (void)coxi_st_sum_end(sum, &crc);
        coxi_st_sum_free(sum);
    }
}

static struct coxi_st_file *open_next(struct fuzz_input *input, const char *name,
                                      bool last)
{
    size_t len = last ? input->left : fuzz_number(input, 2);
    const uint8_t *bytes = fuzz_bytes(input, &len);
    struct coxi_st_file *file = NULL;
    if (coxi_st_open(fuzz_file(name, bytes, len), len, NULL, &file) != 0) {
        return NULL;
    }
    read_all(file);
    sum_all(file);
    return file;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"a", "b", "c"};
    struct fuzz_input input = {data, size};
    struct coxi_st_file *files[3] = {NULL};
    size_t n = 1 + fuzz_below(&input, 3);
    enum coxi_overlay_rows rows = (enum coxi_overlay_rows)fuzz_below(&input, 3);
    size_t n_open = 0;
    struct coxi_st_file *overlay = NULL;
    for (size_t i = 0; i < n; i++) {
        struct coxi_st_file *file = open_next(&input, names[i], i + 1 == n);
        if (file != NULL) {
            files[n_open++] = file;
        }
    }
    if (n_open > 1 && coxi_overlay_open(files, n_open, rows, &overlay) == 0) {
        if (rows != COXI_OVERLAY_NEWEST) {
            read_all(overlay);
        }
        coxi_st_close(overlay);
    } else {
        for (size_t i = 0; i < n_open; i++) {
            coxi_st_close(files[i]);
        }
    }
    return 0;
}
