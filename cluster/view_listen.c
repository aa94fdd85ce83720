/* Where a process listens that others reach at an address. Pure; any thread. */
#include <stdio.h>
#include <string.h>

#include "cluster/view.h"

void coxi_view_listen(struct coxi_view *view, const char *url, const char *from)
{
    static const char tcp[] = "tcp://";
    const char *port = strrchr(url, ':');
    const char *host = url + strlen(tcp);
    const char *all = *host == '[' ? "[::]" : "0.0.0.0";
    (void)snprintf(view->from[COXI_FACT_LISTEN], sizeof(view->from[0]), "%s", from);
    if (strncmp(host, "localhost:", 10) == 0) {
        (void)snprintf(view->listen, sizeof(view->listen), "tcp://127.0.0.1%s", port);
    } else if (coxi_url_is_local(url)) {
        (void)snprintf(view->listen, sizeof(view->listen), "%s", url);
    } else {
        (void)snprintf(view->listen, sizeof(view->listen), "tcp://%s%s", all, port);
    }
}
