/* See coxswain/watch.h: what the program logs. Threads: any. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/sync.h"
#include "coordinator/base/call.h"
#include "coordinator/base/history.h"
#include "coordinator/coordinator.h"

enum { CONFIG_MAX = 64 << 10 };

int cox_log_scalar(struct cox_coordinator *c, const char *name, uint64_t step,
                   double value)
{
    if (c == NULL || name == NULL || *name == '\0' ||
        strnlen(name, COXI_SCALAR_NAME_MAX + 1) > COXI_SCALAR_NAME_MAX) {
        return coxi_error(COX_EINVAL,
                          "cox_log_scalar needs a coordinator, and a name of 1 to %d "
                          "bytes",
                          COXI_SCALAR_NAME_MAX);
    }
    if (step > INT64_MAX) {
        return coxi_error(COX_EINVAL, "the step %llu of scalar '%s' is too large",
                          (unsigned long long)step, name);
    }
    return coxi_history_scalar(
        c, &(struct coxi_record_scalar){name, "client", step, value});
}

int cox_log_config(struct cox_coordinator *c, const char *json)
{
    json_error_t error;
    struct coxi_buffer fields = {0};
    if (c == NULL || json == NULL) {
        return coxi_error(COX_EINVAL, "cox_log_config needs a coordinator and a text");
    }
    if (strnlen(json, CONFIG_MAX + 1) > CONFIG_MAX) {
        return coxi_error(COX_ELIMIT, "a configuration has at most %d bytes",
                          CONFIG_MAX);
    }
    json_t *config = json_loads(json, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(config)) {
        json_decref(config);
        return coxi_error(COX_EINVAL, "the configuration is no object of JSON: %s",
                          config == NULL ? error.text : "it is something else");
    }
    char *text = json_dumps(config, JSON_COMPACT | JSON_ENSURE_ASCII);
    json_decref(config);
    int r = text != NULL ? coxi_buffer_printf(&fields, "\"config\":%s", text)
                         : coxi_error_memory("a configuration");
    r = r == 0 ? coxi_buffer_append_raw(&fields, "", 1) : r;
    if (r == 0) {
        coxi_history_add(c, COXI_RECORD_CONFIG, (const char *)fields.data, true);
    }
    free(text);
    coxi_buffer_fini(&fields);
    return r;
}

int cox_log_total(struct cox_coordinator *c, uint64_t closures)
{
    if (c == NULL || closures > INT64_MAX) {
        return coxi_error(COX_EINVAL, "cox_log_total needs a coordinator and a number "
                                      "of closures below 2^63");
    }
    coxi_lock(&c->lock);
    c->counts.total = closures;
    coxi_unlock(&c->lock);
    return 0;
}
