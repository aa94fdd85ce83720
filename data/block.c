/* See block.h. */
#include "data/block.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "common/buffer.h"

enum { SPARE_MAX = 4 };

/* Blocks of whole chunks get large pages: the first use of 4 KiB pages would cost more
 * than reading the file into them. */
enum { LARGE_PAGE = 2 << 20, LARGE_FROM = 4 << 20 };

static uint8_t *memory_new(size_t bytes)
{
    if (bytes < LARGE_FROM) {
        return coxi_aligned_new(bytes);
    }
    bytes = coxi_align(bytes, LARGE_PAGE);
    uint8_t *data = aligned_alloc(LARGE_PAGE, bytes);
    if (data != NULL) {
        (void)madvise(data, bytes, MADV_HUGEPAGE);
    }
    return data;
}

static void block_free(struct coxi_block *block)
{
    free(block->data);
    free(block);
}

/* The smallest spare block that is large enough. */
static struct coxi_block *take_spare(struct coxi_block_pool *pool, size_t capacity)
{
    struct coxi_block **best = NULL;
    for (struct coxi_block **at = &pool->spare; *at != NULL; at = &(*at)->next) {
        if ((*at)->capacity >= capacity &&
            (best == NULL || (*at)->capacity < (*best)->capacity)) {
            best = at;
        }
    }
    if (best == NULL) {
        return NULL;
    }
    struct coxi_block *block = *best;
    *best = block->next;
    pool->n_spare--;
    return block;
}

struct coxi_block *coxi_block_new(struct coxi_block_pool *pool, size_t capacity)
{
    struct coxi_block *block = take_spare(pool, capacity);
    if (block == NULL) {
        block = malloc(sizeof(*block));
        uint8_t *data = memory_new(capacity + COXI_BLOCK_PAD);
        if (block == NULL || data == NULL) {
            free(block);
            free(data);
            return NULL;
        }
        block->capacity = capacity;
        block->data = data;
    }
    block->next = NULL;
    block->refs = 1;
    return block;
}

void coxi_block_unref(struct coxi_block_pool *pool, struct coxi_block *block)
{
    if (block == NULL || --block->refs > 0) {
        return;
    }
    block->next = pool->spare;
    pool->spare = block;
    if (++pool->n_spare > SPARE_MAX) { /* the smallest is the easiest to make again */
        struct coxi_block *least = take_spare(pool, 0);
        block_free(least);
    }
}

void coxi_block_pool_fini(struct coxi_block_pool *pool)
{
    while (pool->spare != NULL) {
        block_free(take_spare(pool, 0));
    }
}
