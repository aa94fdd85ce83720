/* How a process uses etcd: where it is, the keys of its job, who it is there. */
#ifndef COXI_CLUSTER_ETCD_SETTINGS_H
#define COXI_CLUSTER_ETCD_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

enum { COXI_ETCD_ENDPOINTS_MAX = 16, COXI_ETCD_TTL_MAX_S = 3600 };

/* Texts are borrowed. Zeroed: nothing is said, and etcd is not used. */
struct coxi_etcd_settings {
    const char *endpoints; /* "http://h1:2379,http://h2:2379"; NULL: no etcd */
    const char *prefix;    /* of the job's keys: "/coxswain/JOB" */
    const char *user;      /* NULL: etcd wants no password */
    const char *password_file;
    const char *ca_file;   /* of https; NULL: those of the system */
    const char *cert_file; /* what this process proves itself with; or NULL */
    const char *key_file;
    int64_t ttl_s;         /* a process silent for this long is forgotten; 0: 10 */
    const char *advertise; /* "HOST" or "HOST:PORT" for peers; NULL: found out */
};

/*
 * Fills in what is not said from the environment: COX_ETCD, COX_ETCD_PREFIX,
 * COX_ETCD_USER, COX_ETCD_PASSWORD_FILE, COX_ETCD_CA, COX_ETCD_CERT, COX_ETCD_KEY,
 * COX_ETCD_TTL, COX_ADVERTISE. Then checks all of it, if there are endpoints.
 * COX_EINVAL: the text names the setting.
 */
int coxi_etcd_settings_fill(struct coxi_etcd_settings *settings);

/* Takes from `other` what is not said. Its texts are borrowed. */
void coxi_etcd_settings_complete(struct coxi_etcd_settings *settings,
                                 const struct coxi_etcd_settings *other);

/* An owned copy, for coxi_etcd_settings_free, which takes NULL. COX_ENOMEM. */
int coxi_etcd_settings_copy(const struct coxi_etcd_settings *settings,
                            struct coxi_etcd_settings **ret);
void coxi_etcd_settings_free(struct coxi_etcd_settings *settings);

/* The options of a daemon, whose `config` struct has `struct coxi_etcd_settings etcd`. */
#define COXI_ETCD_OPTIONS(config)                                                      \
    {.name = "etcd",                                                                   \
     .type = COXI_OPTION_STRING,                                                       \
     .offset = offsetof(config, etcd.endpoints),                                       \
     .help = "find peers, and be found, through etcd at these URLs, separated by "     \
             "commas, as http://host:2379 (default: what COX_ETCD says, if set)"},     \
        {.name = "etcd-prefix",                                                        \
         .type = COXI_OPTION_STRING,                                                   \
         .offset = offsetof(config, etcd.prefix),                                      \
         .help = "with --etcd: what the job's keys begin with; all members of a job "  \
                 "have the same (default: what COX_ETCD_PREFIX says, without that "    \
                 "/coxswain/default)"},                                                \
        {.name = "etcd-user",                                                          \
         .type = COXI_OPTION_STRING,                                                   \
         .offset = offsetof(config, etcd.user),                                        \
         .help = "with --etcd: the user there (default: what COX_ETCD_USER says, if "  \
                 "set)"},                                                              \
        {.name = "etcd-password-file",                                                 \
         .type = COXI_OPTION_STRING,                                                   \
         .offset = offsetof(config, etcd.password_file),                               \
         .help = "the file with the password of --etcd-user (default: the file that "  \
                 "COX_ETCD_PASSWORD_FILE names, if set)"},                             \
        {.name = "etcd-ca",                                                            \
         .type = COXI_OPTION_STRING,                                                   \
         .offset = offsetof(config, etcd.ca_file),                                     \
         .help = "with https: the certificates that may have signed etcd's (default: " \
                 "the file that COX_ETCD_CA names, without that those of this host)"}, \
        {.name = "etcd-cert",                                                          \
         .type = COXI_OPTION_STRING,                                                   \
         .offset = offsetof(config, etcd.cert_file),                                   \
         .help = "with https: this process's certificate, if etcd wants one "          \
                 "(default: the file that COX_ETCD_CERT names, if set)"},              \
        {.name = "etcd-key",                                                           \
         .type = COXI_OPTION_STRING,                                                   \
         .offset = offsetof(config, etcd.key_file),                                    \
         .help = "the secret key of --etcd-cert (default: the file that COX_ETCD_KEY " \
                 "names, if set)"},                                                    \
        {.name = "etcd-ttl",                                                           \
         .type = COXI_OPTION_INT,                                                      \
         .offset = offsetof(config, etcd.ttl_s),                                       \
         .max = COXI_ETCD_TTL_MAX_S,                                                   \
         .fallback = "0",                                                              \
         .help = "with --etcd: seconds until etcd forgets a process that has ended "   \
                 "without a word (0: what COX_ETCD_TTL says, without that 10)"},       \
        {.name = "advertise",                                                          \
         .type = COXI_OPTION_STRING,                                                   \
         .offset = offsetof(config, etcd.advertise),                                   \
         .help = "with --etcd: HOST or HOST:PORT at which peers reach this process "   \
                 "(default: what COX_ADVERTISE says, without that the host of "        \
                 "--listen, and if that is 0.0.0.0 the address from which this host "  \
                 "reaches etcd)"}

#endif
