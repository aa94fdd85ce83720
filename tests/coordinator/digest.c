/* See digest.h. */
#include "tests/coordinator/digest.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/checkpoint.h"
#include "common/file.h"
#include "common/hash.h"
#include "tests/test.h"

static uint64_t hash_of(uint64_t seed, const void *bytes, size_t len)
{
    const uint8_t *at = bytes;
    for (size_t i = 0; i < len; i++) {
        seed = coxi_hash_key(seed * 257 + at[i]);
    }
    return seed;
}

/* A piece, each row of which is known by its key, or by its number. */
static uint64_t piece_of(const struct coxi_whole *whole, const struct coxi_piece *piece,
                         const uint64_t *keys)
{
    uint64_t sum = 0;
    void *bytes = NULL;
    const struct coxi_st_tensor *tensor = piece->tensor;
    uint64_t rows = tensor->rank > 0 ? tensor->shape[0] : 1;
    assert_code(0, coxi_st_read_all(tensor, &bytes));
    size_t row_bytes = rows > 0 ? (size_t)(tensor->bytes / rows) : 0;
    for (uint64_t i = 0; i < rows; i++) {
        uint64_t row = keys != NULL ? keys[i] : piece->begin + i;
        sum += hash_of(hash_of(row, whole->name, strlen(whole->name)),
                       (const uint8_t *)bytes + i * row_bytes, row_bytes);
    }
    free(bytes);
    return sum;
}

static uint64_t whole_of(const struct coxi_checkpoint *checkpoint,
                         const struct coxi_whole *whole)
{
    uint64_t sum = 0;
    const struct coxi_whole *keys =
        coxi_checkpoint_find(checkpoint, whole->variable, "keys");
    /* how often a ps has updated a table depends on how many ps there are */
    for (size_t p = 0; strcmp(whole->part, "step") != 0 && p < whole->n_pieces; p++) {
        void *of = NULL;
        if (keys != NULL) {
            assert_code(0, coxi_st_read_all(keys->pieces[p].tensor, &of));
        }
        sum += piece_of(whole, &whole->pieces[p], of);
        free(of);
    }
    return sum;
}

uint64_t digest_of(struct cox_coordinator *c, const char *checkpoint_dir)
{
    char path[PATH_MAX];
    uint64_t number = 0;
    uint64_t sum = 0;
    struct coxi_checkpoint *checkpoint;
    assert_code(0, cox_checkpoint_save(c, NULL, &number));
    assert_code(
        0, coxi_path(path, "%s/ckpt-%llu", checkpoint_dir, (unsigned long long)number));
    assert_code(0, coxi_checkpoint_open(path, COXI_CHECKPOINT_CHECKED, &checkpoint));
    for (size_t i = 0; i < checkpoint->n_wholes; i++) {
        sum += whole_of(checkpoint, &checkpoint->wholes[i]);
    }
    coxi_checkpoint_close(checkpoint);
    return sum;
}
