/* What a ps serves over HTTP (--http): how it is, and its metrics, by run. */
#ifndef COXI_PS_EXPOSED_H
#define COXI_PS_EXPOSED_H

#include "http/serve.h"

struct coxi_ps;

/* Serves until coxi_served_stop, which comes before coxi_ps_close. Does nothing if no
 * address is given. COX_EADDRESS, COX_EIO, COX_ENOMEM. */
int coxi_ps_expose(const struct coxi_serve_options *options, struct coxi_ps *ps,
                   struct coxi_served **ret);

#endif
