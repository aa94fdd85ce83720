/* The configuration of a worker: its options, and checks across them. Main thread. */
#ifndef COXI_WORKER_CONFIG_H
#define COXI_WORKER_CONFIG_H

#include "cluster/etcd_settings.h"
#include "cluster/view.h"
#include "common/option.h"
#include "http/serve.h"
#include "net/daemon.h"
#include "net/signature.h"
#include "schema/wire.h"

struct coxi_worker_config {
    struct coxi_daemon_options daemon;
    struct coxi_serve_options http;
    struct coxi_etcd_settings etcd;
    const char *client;
    const char *name;
    const char *dir;
    int64_t slots;
    int64_t commit_window;
    int64_t step_memory_max;
    int64_t step_rows_max;
    int64_t pull_cache_max;
    int64_t kept_max;
    int64_t data_cache_max;
    const char *module_key_file;
    bool no_modules;
    const char *confine;
    const char *confine_read;
    const char *confine_write;
    bool step_cores;
    int64_t step_files_max;
    int64_t step_address_space_max;
    bool prints_apart;
    bool step_process;
    struct coxi_view view; /* of the environment, if it was needed */
    bool asks_etcd;        /* no option: the client's address is looked for in etcd */
    char client_url[COXI_URL_MAX + 1];     /* `client` */
    struct coxi_module_key module_key;     /* the content of module_key_file */
    char own_name[COXI_WIRE_NAME_MAX + 1]; /* used if `name` is not given */
};

/* The program, and its options for coxi_options_parse. */
extern const struct coxi_program coxi_worker_program;

/*
 * Checks the parsed options, applies those that all daemons have, and gives the worker
 * a name. COX_EINVAL, COX_EADDRESS: the text names the option.
 */
int coxi_worker_config_apply(struct coxi_worker_config *config);

#endif
