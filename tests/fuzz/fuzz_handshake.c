/* The bytes of a handshake: from a stranger, and between two ends with one byte changed,
 * which must end before both have agreed. */
#include <string.h>

#include "net/handshake.h"
#include "tests/fuzz/fuzz.h"

enum { STEPS = 3 }; /* messages of a handshake */

static struct coxi_guard guard_of(enum coxi_role role)
{
    struct coxi_guard guard = {.key = {.kind = COXI_KEY_RUN},
                               .self = {.role = role, .index = 1, .run = 7}};
    memset(guard.key.secret, 5, sizeof(guard.key.secret));
    return guard;
}

/* A stranger says what the input has. */
static void try_stranger(struct coxi_handshake *handshake, struct fuzz_input *input)
{
    int r = 0;
    size_t need;
    while (r == 0 && (need = coxi_handshake_need(handshake)) > 0) {
        uint8_t bytes[COXI_HANDSHAKE_MAX] = {0};
        size_t len = need;
        const uint8_t *at = fuzz_bytes(input, &len);
        memcpy(bytes, at, len);
        r = coxi_handshake_take(handshake, bytes);
        if (len < need) {
            break;
        }
    }
}

/* Carries bytes from one end to the other, changed at one place. True: it took them. */
static bool carry(struct coxi_handshake *from, struct coxi_handshake *to, size_t at,
                  uint8_t change)
{
    size_t len;
    uint8_t bytes[COXI_HANDSHAKE_MAX];
    const uint8_t *out = coxi_handshake_out(from, &len);
    if (len == 0 || len != coxi_handshake_need(to)) {
        return false;
    }
    memcpy(bytes, out, len);
    bytes[at % len] ^= change;
    return coxi_handshake_take(to, bytes) == 0;
}

static void try_changed(struct coxi_handshake *dial, struct coxi_handshake *accept,
                        struct fuzz_input *input)
{
    size_t step = fuzz_below(input, 4);
    size_t at = fuzz_number(input, 1);
    uint8_t change = (uint8_t)fuzz_number(input, 1);
    struct coxi_handshake *ends[] = {dial, accept};
    size_t i = 0;
    while (i <= STEPS &&
           carry(ends[i % 2], ends[1 - i % 2], at, i == step ? change : 0)) {
        i++;
    }
    if (change != 0 && step < STEPS && i >= STEPS) {
        fuzz_fail("a changed handshake succeeds");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    struct coxi_guard client = guard_of(COXI_ROLE_CLIENT);
    struct coxi_guard ps = guard_of(COXI_ROLE_PS);
    struct coxi_handshake *dial = NULL;
    struct coxi_handshake *accept = NULL;
    if (coxi_handshake_dial(&client, &dial) == 0 &&
        coxi_handshake_accept(&ps, &accept) == 0) {
        switch (fuzz_below(&input, 3)) {
        case 0:
            try_stranger(accept, &input);
            break;
        case 1:
            try_stranger(dial, &input);
            break;
        default:
            try_changed(dial, accept, &input);
            break;
        }
    }
    coxi_handshake_free(dial);
    coxi_handshake_free(accept);
    return 0;
}
