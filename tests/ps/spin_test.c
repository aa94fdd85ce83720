/* The lock of a byte. */
#include <pthread.h>
#include <stdatomic.h>

#include "ps/spin.h"
#include "tests/test.h"

enum { N_THREADS = 4, ROUNDS = 50000 };

struct shared {
    struct coxi_spin lock;
    uint64_t count; /* guarded by lock */
    uint64_t twin;  /* equal to `count`; changed after it */
    atomic_uint n_unequal;
};

static void *count(void *arg)
{
    struct shared *shared = arg;
    for (int i = 0; i < ROUNDS; i++) {
        coxi_spin_lock(&shared->lock);
        if (shared->count != shared->twin) {
            atomic_fetch_add(&shared->n_unequal, 1);
        }
        shared->count++;
        shared->twin++;
        coxi_spin_unlock(&shared->lock);
    }
    return NULL;
}

TEST(one_thread_at_a_time_has_the_lock)
{
    static struct shared shared;
    pthread_t threads[N_THREADS];
    for (int i = 0; i < N_THREADS; i++) {
        assert_int_equal(0, pthread_create(&threads[i], NULL, count, &shared));
    }
    for (int i = 0; i < N_THREADS; i++) {
        assert_int_equal(0, pthread_join(threads[i], NULL));
    }
    assert_int_equal(0, atomic_load(&shared.n_unequal));
    assert_int_equal((uint64_t)N_THREADS * ROUNDS, shared.count);
}
