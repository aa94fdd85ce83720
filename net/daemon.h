/* The part of starting up that both daemons (ps, worker) share. Main thread. */
#ifndef COXI_NET_DAEMON_H
#define COXI_NET_DAEMON_H

#include <stdbool.h>
#include <stdint.h>

#include "net/key.h"
#include "net/link.h"

/* Exit codes. 0: done; 1 to 127: a person must mend something; from 128: start the
 * daemon again. */
enum { COXI_EXIT_CONFIG = 2, COXI_EXIT_FAILED = 1, COXI_EXIT_AGAIN = 128 };

/* The file descriptor to which --alerts writes; the process that started the daemon
 * reads it. */
enum { COXI_ALERTS_FD = 4 };

/* Options of both daemons; their `config` structs begin with it. */
struct coxi_daemon_options {
    const char *listen;
    const char *address_file;
    const char *log_level;
    const char *log_format;
    const char *alerts;
    int64_t log_max;
    int64_t index; /* negative: not given */
    int64_t peer_timeout_ms;
    const char *local_path;
    const char *key_file;
    const char *user;
    const char *ipc_group;
    const char *seal;
    bool insecure;
    int64_t parent;
    int64_t end_without_client_s;
    int64_t first_client_s;
    /* no options: `listen` as a URL; the content of key_file; the directory that
     * coxi_daemon_settle has made, and its lock */
    char url[COXI_URL_MAX + 1];
    struct coxi_key key;
    bool has_keys; /* the program reads keys from elsewhere; set before _start */
    bool is_found; /* peers on other hosts learn the address; set before _settle */
    char dir[64];
    int dir_lock;
};

#define COXI_DAEMON_OPTIONS(config)                                                    \
    {.name = "listen",                                                                 \
     .type = COXI_OPTION_STRING,                                                       \
     .offset = offsetof(config, daemon.listen),                                        \
     .help =                                                                           \
         "address to listen at: host:port (port 0: any), which needs a key, or "       \
         "ipc:///path (default: of this process's task in the environment, see "       \
         "coxswain cluster explain; without one, with a key tcp://127.0.0.1:0, else "  \
         "a socket in a new directory that only this user may enter)"},                \
        {.name = "index",                                                              \
         .type = COXI_OPTION_INT,                                                      \
         .offset = offsetof(config, daemon.index),                                     \
         .max = 65535,                                                                 \
         .help = "place in the cluster's list, from 0 (default: of this process's "    \
                 "task in the environment, else 0)"},                                  \
        {.name = "address-file",                                                       \
         .type = COXI_OPTION_STRING,                                                   \
         .offset = offsetof(config, daemon.address_file),                              \
         .help = "write the address to this file once it can be dialled"},             \
        {.name = "peer-timeout-ms",                                                    \
         .type = COXI_OPTION_INT,                                                      \
         .offset = offsetof(config, daemon.peer_timeout_ms),                           \
         .min = 100,                                                                   \
         .max = 3600000,                                                               \
         .fallback = "10000",                                                          \
         .help = "a peer silent for this long is lost"},                               \
        {.name = "log-level",                                                          \
         .type = COXI_OPTION_CHOICE,                                                   \
         .offset = offsetof(config, daemon.log_level),                                 \
         .choices = "debug|info|warn|error",                                           \
         .fallback = "info",                                                           \
         .help = "least level that is logged"},                                        \
        {.name = "log-format",                                                         \
         .type = COXI_OPTION_CHOICE,                                                   \
         .offset = offsetof(config, daemon.log_format),                                \
         .choices = "text|json",                                                       \
         .help = "json: each line of the log is a JSON object (default: what "         \
                 "$COX_LOG_FORMAT says, without that text)"},                          \
        {.name = "log-max",                                                            \
         .type = COXI_OPTION_BYTES,                                                    \
         .offset = offsetof(config, daemon.log_max),                                   \
         .max = COXI_BYTES_MAX,                                                        \
         .fallback = "16M",                                                            \
         .help = "if standard error is a file: when it has more bytes, they are "      \
                 "moved to FILE.1, replacing that; 0: no limit"},                      \
        {.name = "alerts",                                                             \
         .type = COXI_OPTION_CHOICE,                                                   \
         .offset = offsetof(config, daemon.alerts),                                    \
         .choices = "none|warn|error",                                                 \
         .fallback = "none",                                                           \
         .help = "least level of the log's lines that also go to file descriptor 4"},  \
        {.name = "local-path",                                                         \
         .type = COXI_OPTION_CHOICE,                                                   \
         .offset = offsetof(config, daemon.local_path),                                \
         .choices = "on|off",                                                          \
         .fallback = "on",                                                             \
         .help = "use shared memory to peers on the same host"},                       \
        {.name = "key-file",                                                           \
         .type = COXI_OPTION_STRING,                                                   \
         .offset = offsetof(config, daemon.key_file),                                  \
         .help = "the run's key, made by coxswain key new; only peers that have it "   \
                 "are let in (default: the file that COX_KEY_FILE names, if set)"},    \
        {.name = "seal",                                                               \
         .type = COXI_OPTION_CHOICE,                                                   \
         .offset = offsetof(config, daemon.seal),                                      \
         .choices = "on|off",                                                          \
         .help = "off: with a key, messages over tcp are not encrypted, but still "    \
                 "protected against changes; if either end of a connection says on, "  \
                 "it is on (default: what $COX_SEAL says, without that on)"},          \
        {.name = "insecure",                                                           \
         .type = COXI_OPTION_FLAG,                                                     \
         .offset = offsetof(config, daemon.insecure),                                  \
         .help = "use tcp without a key, on loopback, too: anybody who reaches the "   \
                 "port can run code here"},                                            \
        {.name = "ipc-group",                                                          \
         .type = COXI_OPTION_STRING,                                                   \
         .offset = offsetof(config, daemon.ipc_group),                                 \
         .help = "at ipc addresses, let in the members of this group, a name or "      \
                 "number, besides this user and root"},                                \
        {.name = "user",                                                               \
         .type = COXI_OPTION_STRING,                                                   \
         .offset = offsetof(config, daemon.user),                                      \
         .help = "started as root: run as this user, a name or number, once the key "  \
                 "is read; root needs it, also to stay root (--user root)"},           \
        {.name = "end-without-client",                                                 \
         .type = COXI_OPTION_INT,                                                      \
         .offset = offsetof(config, daemon.end_without_client_s),                      \
         .max = 1000000,                                                               \
         .help =                                                                       \
             "end with exit code 0 when the last client has gone and no other has "    \
             "come for this many seconds; 0: never"},                                  \
        {.name = "first-client-within",                                                \
         .type = COXI_OPTION_INT,                                                      \
         .offset = offsetof(config, daemon.first_client_s),                            \
         .max = 1000000,                                                               \
         .help = "end with exit code 1 when no client has come at all for this many "  \
                 "seconds, because it has failed before; 0: wait for ever"},           \
        {.name = "parent",                                                             \
         .type = COXI_OPTION_INT,                                                      \
         .offset = offsetof(config, daemon.parent),                                    \
         .max = INT32_MAX,                                                             \
         .help = "process id of the program that started this one; when it ends, so "  \
                 "does this one"}

/* The log's last words of a daemon that ends because of --first-client-within. */
#define COXI_NO_FIRST_CLIENT                                                           \
    "text=\"no client has come (--first-client-within): see how the client has "       \
    "ended\""

/*
 * Applies the options: starts the log, ignores signals that must not kill the daemon,
 * reads the key, changes to the user of --user, and arranges that the daemon dies with
 * its parent. Sets `url` from `listen`, if that is
 * given. COX_EADDRESS: `listen` is no address. COX_EINVAL: it is no ipc address, and
 * there is neither a key nor --insecure. Errors of coxi_key_read and coxi_user_become.
 */
int coxi_daemon_start(struct coxi_daemon_options *options, const char *role);

/*
 * Chooses `listen` if it is not given: see --listen. For the process that is about to
 * listen, after coxi_daemon_start. COX_EIO. coxi_daemon_leave removes what this made.
 */
int coxi_daemon_settle(struct coxi_daemon_options *options, const char *role);
void coxi_daemon_leave(struct coxi_daemon_options *options);

/* COX_EINVAL unless only this user reaches `url`, or there is a key, or --insecure.
 * `option` is where the URL was given. */
int coxi_daemon_check_reach(const struct coxi_daemon_options *options,
                            const char *option, const char *url);

/* Asks the kernel to kill this process when process `parent` ends. If `parent` has
 * already ended, exits at once. */
void coxi_die_with_parent(int parent);

/* True if --local-path is on. */
bool coxi_daemon_local_path(const struct coxi_daemon_options *options);

/* Writes the address that peers dial to the file of --address-file. COX_EIO. */
int coxi_daemon_announce(const char *path, const char *address);

/* Prints "<program>: <last error text>" on standard error; returns COXI_EXIT_CONFIG. */
int coxi_exit_config(const char *program);

#endif
