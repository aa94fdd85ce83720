/* See admission.h. Keys share counters, so all counters are atomic. If two keys race
 * for a counter, the higher count stays, which is right for both keys. */
#include "ps/admission.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "common/error.h"
#include "common/hash.h"
#include "common/rand.h"

enum { CHOICES = 4, ROW_BITS = 20, ROW = 1 << ROW_BITS };

struct coxi_admission {
    uint32_t count; /* admit_count; 0: keys are not counted */
    double probability;
    _Atomic(uint16_t) *counters; /* CHOICES rows of ROW counters */
};

int coxi_admission_new(const struct coxi_lifecycle *lifecycle,
                       struct coxi_admission **ret)
{
    bool draws = lifecycle->admit_probability > 0 && lifecycle->admit_probability < 1;
    if (lifecycle->admit_count <= 1 && !draws) {
        *ret = NULL;
        return 0;
    }
    struct coxi_admission *admission = calloc(1, sizeof(*admission));
    if (admission == NULL) {
        return coxi_error_memory("a table");
    }
    admission->probability = draws ? (double)lifecycle->admit_probability : 1;
    if (lifecycle->admit_count > 1) {
        uint32_t count = lifecycle->admit_count;
        admission->count = count < COXI_ADMIT_COUNT_MAX ? count : COXI_ADMIT_COUNT_MAX;
        admission->counters =
            calloc((size_t)CHOICES * ROW, sizeof(*admission->counters));
        if (admission->counters == NULL) {
            coxi_admission_free(admission);
            return coxi_error_memory("the counters of a table");
        }
    }
    *ret = admission;
    return 0;
}

void coxi_admission_free(struct coxi_admission *admission)
{
    if (admission != NULL) {
        free(admission->counters);
        free(admission);
    }
}

size_t coxi_admission_bytes(const struct coxi_admission *admission)
{
    return admission == NULL || admission->counters == NULL
               ? 0
               : sizeof(*admission->counters) * CHOICES * ROW;
}

static void raise_to(_Atomic(uint16_t) *counter, uint16_t count)
{
    uint16_t was = atomic_load_explicit(counter, memory_order_relaxed);
    while (was < count &&
           !atomic_compare_exchange_weak_explicit(
               counter, &was, count, memory_order_relaxed, memory_order_relaxed)) {
    }
}

/* Adds one to the key's count; returns the new count. */
static uint32_t count_key(struct coxi_admission *admission, uint64_t key)
{
    _Atomic(uint16_t) *counters[CHOICES];
    uint64_t bits = coxi_hash_key(key ^ 0x5851f42d4c957f2du);
    uint64_t step = coxi_hash_key(bits) | 1;
    uint16_t least = UINT16_MAX;
    for (size_t i = 0; i < CHOICES; i++, bits += step) {
        counters[i] = &admission->counters[i * ROW + (bits >> (64 - ROW_BITS))];
        uint16_t count = atomic_load_explicit(counters[i], memory_order_relaxed);
        least = count < least ? count : least;
    }
    if (least < UINT16_MAX) {
        least++;
    }
    for (size_t i = 0; i < CHOICES; i++) {
        raise_to(counters[i], least);
    }
    return least;
}

bool coxi_admission_ask(struct coxi_admission *admission, uint64_t key, uint64_t draw)
{
    if (admission->count > 0 && count_key(admission, key) < admission->count) {
        return false;
    }
    uint64_t state = draw ^ coxi_hash_key(key);
    return admission->probability >= 1 ||
           coxi_rand_unit(&state) < admission->probability;
}
