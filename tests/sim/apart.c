/* In place of net/link_local.c and net/gather.c: no two processes of a storm share memory. */
#include "common/error.h"
#include "net/gather.h"
#include "net/link.h"

int coxi_gather_new(struct coxi_gather **ret)
{
    (void)ret;
    return COX_ENOMEM;
}

void coxi_gather_free(struct coxi_gather *gather)
{
    (void)gather;
}

int coxi_link_offer(struct coxi_link *link, struct coxi_gather *gather,
                    size_t ring_bytes, const char **ret_name)
{
    (void)link;
    (void)gather;
    (void)ring_bytes;
    (void)ret_name;
    return COX_ENOMEM;
}

void coxi_link_withdraw(struct coxi_link *link)
{
    (void)link;
}

int coxi_link_accept(struct coxi_link *link, const char *name)
{
    (void)link;
    (void)name;
    return COX_EADDRESS;
}

void coxi_link_go_local(struct coxi_link *link)
{
    (void)link;
}

bool coxi_link_is_local(struct coxi_link *link)
{
    (void)link;
    return false;
}
