/* See registered.h. */
#include "ps/registered.h"

#include <stdio.h>

#include "cluster/membership.h"
#include "common/log.h"

static void on_news(void *arg, enum coxi_member_news news, const char *text)
{
    static const struct {
        enum coxi_log_level level;
        const char *name;
    } lines[] = {
        [COXI_MEMBER_REGISTERED] = {COXI_LOG_INFO, "registered"},
        [COXI_MEMBER_HELD] = {COXI_LOG_WARN, "index_held"},
        [COXI_MEMBER_TAKEN] = {COXI_LOG_ERROR, "index_taken"},
        [COXI_ETCD_LOST] = {COXI_LOG_WARN, "etcd_lost"},
        [COXI_ETCD_BACK] = {COXI_LOG_INFO, "etcd_back"},
    };
    const struct coxi_registered *registered = arg;
    coxi_log(lines[news].level, lines[news].name, "text=\"%s\"", text);
    if (news == COXI_MEMBER_TAKEN) {
        registered->taken(registered->arg);
    }
}

int coxi_registered_start(struct coxi_registered *registered,
                          const struct coxi_etcd_settings *settings, uint32_t index,
                          const char *url)
{
    char key[32];
    if (settings->endpoints == NULL) {
        return 0;
    }
    (void)snprintf(key, sizeof(key), "ps/%u", index);
    int r = coxi_membership_start(
        &(struct coxi_membership_options){
            .settings = settings, .on_news = on_news, .arg = registered},
        &registered->membership);
    return r != 0
               ? r
               : coxi_membership_register(
                     registered->membership,
                     &(struct coxi_member){.key = key, .url = url, .exclusive = true});
}

void coxi_registered_stop(struct coxi_registered *registered)
{
    coxi_membership_stop(registered->membership);
    registered->membership = NULL;
}
