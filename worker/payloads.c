/* See payloads.h. */
#include "worker/payloads.h"

#include <sys/sysinfo.h>

#include "common/error.h"
#include "common/module.h"
#include "worker/client_files.h"

void coxi_budget_init(struct coxi_budget *budget)
{
    struct sysinfo host;
    atomic_init(&budget->used_bytes, 0);
    budget->max_bytes =
        sysinfo(&host) == 0 ? (uint64_t)host.totalram * host.mem_unit : 0;
}

static int check(const struct coxi_message *message, size_t len)
{
    bool fits = message->kind == COXI_DISPATCH || message->kind == COXI_RESOURCE ||
                (message->kind == COXI_FILE_BYTES && len <= COXI_FILE_BLOCK) ||
                (message->kind == COXI_MODULE && len <= COXI_MODULE_BYTES_MAX);
    return fits ? 0
                : coxi_error(COX_EPROTO,
                             "a worker takes no message of kind %d with %zu bytes",
                             (int)message->kind, len);
}

int coxi_budget_take(struct coxi_budget *budget, struct coxi_peer *peer,
                     const struct coxi_message *message, size_t len)
{
    int r = check(message, len);
    if (r != 0 || len <= peer->payload_bytes) {
        return r;
    }
    uint64_t more = len - peer->payload_bytes;
    uint64_t used = atomic_load(&budget->used_bytes);
    do {
        if (budget->max_bytes > 0 &&
            (used > budget->max_bytes || more > budget->max_bytes - used)) {
            return coxi_error(COX_ELIMIT,
                              "a payload of %zu bytes is beyond the %llu bytes of this "
                              "worker's host, of which others have %llu",
                              len, (unsigned long long)budget->max_bytes,
                              (unsigned long long)used);
        }
    } while (!atomic_compare_exchange_weak(&budget->used_bytes, &used, used + more));
    peer->payload_bytes = len;
    return 0;
}

void coxi_budget_give(struct coxi_budget *budget, struct coxi_peer *peer)
{
    atomic_fetch_sub(&budget->used_bytes, peer->payload_bytes);
    peer->payload_bytes = 0;
}
