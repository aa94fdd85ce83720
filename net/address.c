/* See address.h. */
#include "net/address.h"

#include <stdlib.h>
#include <string.h>

#include "common/error.h"

struct coxi_address_text {
    struct coxi_address_text *before;
    char text[];
};

int coxi_address_set(struct coxi_address *address, const char *text)
{
    struct coxi_address_text *before = atomic_load(&address->last);
    size_t len = strlen(text) + 1;
    if (before != NULL && strcmp(before->text, text) == 0) {
        return 0;
    }
    struct coxi_address_text *last = malloc(sizeof(*last) + len);
    if (last == NULL) {
        return coxi_error_memory("an address");
    }
    last->before = before;
    memcpy(last->text, text, len);
    atomic_store(&address->last, last);
    return 0;
}

const char *coxi_address_get(const struct coxi_address *address)
{
    return atomic_load(&address->last)->text;
}

void coxi_address_fini(struct coxi_address *address)
{
    struct coxi_address_text *last = atomic_load(&address->last);
    while (last != NULL) {
        struct coxi_address_text *before = last->before;
        free(last);
        last = before;
    }
    atomic_store(&address->last, NULL);
}
