/* See run_place.h. The place is the first argument, so its bytes are always at the same
 * offset: after the number of arguments, and its own head, shape and name. */
#include "common/run_place.h"

#include <string.h>

/* What stands before the place in packed arguments, after their number: as
 * struct packed_value, shape and name in dtype.c. */
struct front {
    uint16_t name_len;
    uint8_t dtype;
    uint8_t rank;
    uint32_t zero;
    uint64_t n;
    char name[8];
};

static const struct front front = {
    sizeof(COXI_RUN_PLACE_ARGUMENT) - 1, COX_I64, 1, 0, 2, COXI_RUN_PLACE_ARGUMENT};

enum {
    FRONT_AT = sizeof(uint64_t),
    PLACE_AT = FRONT_AT + sizeof(struct front),
    END = PLACE_AT + sizeof(struct coxi_run_place),
};

struct cox_value coxi_run_place_value(const struct coxi_run_place *place)
{
    return (struct cox_value)COX_VECTOR(COXI_RUN_PLACE_ARGUMENT, COX_I64, 2, place);
}

bool coxi_run_place_read(const void *args, size_t len, struct coxi_run_place *ret)
{
    const uint8_t *at = args;
    if (len < END || memcmp(at + FRONT_AT, &front, sizeof(front)) != 0) {
        return false;
    }
    memcpy(ret, at + PLACE_AT, sizeof(*ret));
    return true;
}

void coxi_run_place_write(void *args, const struct coxi_run_place *place)
{
    memcpy((uint8_t *)args + PLACE_AT, place, sizeof(*place));
}
