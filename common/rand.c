/* See rand.h. */
#include "common/rand.h"

#include <sys/random.h>
#include <unistd.h>

#include "common/clock.h"

uint64_t coxi_random_id(void)
{
    uint64_t id = 0;
    if (getrandom(&id, sizeof(id), 0) != (ssize_t)sizeof(id) || id == 0) {
        uint64_t state = coxi_now_ns() ^ ((uint64_t)getpid() << 32);
        id = coxi_rand(&state) | 1;
    }
    return id;
}
