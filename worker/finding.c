/* See finding.h. */
#include "worker/finding.h"

#include <stdio.h>

#include "cluster/membership.h"
#include "common/error.h"
#include "common/log.h"
#include "net/server.h"
#include "schema/wire.h"

static void on_member(void *arg, const char *key, const char *url)
{
    struct coxi_finding *finding = arg;
    (void)key;
    if (!finding->may_use_tcp && !coxi_url_is_ipc(url)) {
        coxi_log(COXI_LOG_ERROR, "client_not_dialled",
                 "address=%s text=\"without a key anybody could run code here: give "
                 "all members of the run a key (coxswain key new), or say --insecure\"",
                 url);
    } else if (coxi_server_redial(finding->server, url) != 0) {
        coxi_log(COXI_LOG_ERROR, "client_not_dialled", "address=%s error=\"%s\"", url,
                 coxi_error_text());
    }
}

static void on_news(void *arg, enum coxi_member_news news, const char *text)
{
    static const struct {
        enum coxi_log_level level;
        const char *name;
    } lines[] = {
        [COXI_MEMBER_REGISTERED] = {COXI_LOG_INFO, "registered"},
        [COXI_MEMBER_HELD] = {COXI_LOG_WARN, "name_held"},
        [COXI_MEMBER_TAKEN] = {COXI_LOG_WARN, "name_taken"},
        [COXI_ETCD_LOST] = {COXI_LOG_WARN, "etcd_lost"},
        [COXI_ETCD_BACK] = {COXI_LOG_INFO, "etcd_back"},
    };
    (void)arg;
    coxi_log(lines[news].level, lines[news].name, "text=\"%s\"", text);
}

int coxi_finding_start(struct coxi_finding *finding,
                       const struct coxi_etcd_settings *settings, const char *name,
                       bool may_use_tcp, struct coxi_server *server)
{
    char key[COXI_WIRE_NAME_MAX + 16];
    if (settings == NULL) {
        return 0;
    }
    (void)snprintf(key, sizeof(key), "worker/%s", name);
    finding->server = server;
    finding->may_use_tcp = may_use_tcp;
    int r =
        coxi_membership_start(&(struct coxi_membership_options){.settings = settings,
                                                                .watch = "client",
                                                                .on_member = on_member,
                                                                .on_news = on_news,
                                                                .arg = finding},
                              &finding->membership);
    return r != 0
               ? r
               : coxi_membership_register(finding->membership,
                                          &(struct coxi_member){.key = key, .url = ""});
}

void coxi_finding_stop(struct coxi_finding *finding)
{
    coxi_membership_stop(finding->membership);
    finding->membership = NULL;
}
