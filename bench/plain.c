/* See plain.h. */
#include "bench/plain.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bench/bench.h"
#include "common/hash.h"
#include "common/optimizer.h"

struct plain_row {
    float values[PLAIN_DIM];
    float state[PLAIN_DIM];
};

struct plain_entry {
    uint64_t key;
    uint64_t row; /* row number + 1; 0: none */
};

/* Memory in huge pages, like the table's. */
static void *large(size_t bytes)
{
    void *memory = aligned_alloc(2 << 20, (bytes + (2 << 20) - 1) >> 21 << 21);
    if (memory == NULL) {
        bench_die("no memory for %zu bytes", bytes);
    }
    (void)madvise(memory, bytes, MADV_HUGEPAGE);
    memset(memory, 0, bytes);
    return memory;
}

static struct plain_row *plain_find(const struct plain *plain, uint64_t key)
{
    for (uint64_t i = coxi_hash_key(key) & plain->mask; plain->index[i].row != 0;
         i = (i + 1) & plain->mask) {
        if (plain->index[i].key == key) {
            return &plain->rows[plain->index[i].row - 1];
        }
    }
    return NULL;
}

void plain_put(struct plain *plain, uint64_t key)
{
    uint64_t i = coxi_hash_key(key) & plain->mask;
    while (plain->index[i].row != 0) {
        i = (i + 1) & plain->mask;
    }
    plain->index[i] = (struct plain_entry){key, ++plain->n_rows};
}

void plain_init(struct plain *plain, uint64_t rows)
{
    *plain = (struct plain){.mask = 1};
    while (plain->mask < rows + rows / 2) {
        plain->mask *= 2;
    }
    plain->index = large(plain->mask * sizeof(*plain->index));
    plain->mask--;
    plain->rows = large(rows * sizeof(*plain->rows));
}

void plain_fini(struct plain *plain)
{
    free(plain->index);
    free(plain->rows);
}

static struct plain_row *row_of(const struct plain *plain, const uint64_t *keys,
                                const uint32_t *numbers, size_t i)
{
    return numbers == NULL ? plain_find(plain, keys[i]) : &plain->rows[numbers[i]];
}

void plain_pull(const struct plain *plain, const uint64_t *keys,
                const uint32_t *numbers, size_t n, float *ret)
{
    for (size_t i = 0; i < n; i++) {
        memcpy(ret + i * PLAIN_DIM, row_of(plain, keys, numbers, i)->values,
               sizeof(float[PLAIN_DIM]));
    }
}

void plain_push(const struct plain *plain, const struct coxi_optimizer *optimizer,
                const uint64_t *keys, const uint32_t *numbers, size_t n,
                const float *gradients)
{
    struct coxi_optimizer_step step;
    coxi_optimizer_begin(optimizer, 0, 0, &step);
    for (size_t i = 0; i < n; i++) {
        struct plain_row *row = row_of(plain, keys, numbers, i);
        coxi_optimizer_row(&step, row->values, row->state, gradients + i * PLAIN_DIM,
                           PLAIN_DIM);
    }
}
