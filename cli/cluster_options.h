/* Options of the commands that start clusters; their `config` structs have a struct
 * coxi_cluster_options called `cluster`. */
#ifndef COXI_CLI_CLUSTER_OPTIONS_H
#define COXI_CLI_CLUSTER_OPTIONS_H

#include <stdint.h>

struct coxi_cluster_options {
    int64_t ps;
    int64_t workers;
    int64_t slots;
    int64_t peer_timeout_ms;
    int64_t step_memory_max;
    const char *log_dir;
    const char *checkpoint_root;
    const char *key_file;
};

#define COXI_CLUSTER_OPTIONS(config, max_each)                                         \
    {.name = "ps",                                                                     \
     .type = COXI_OPTION_INT,                                                          \
     .offset = offsetof(config, cluster.ps),                                           \
     .min = 1,                                                                         \
     .max = (max_each),                                                                \
     .fallback = "2",                                                                  \
     .help = "parameter servers"},                                                     \
        {.name = "workers",                                                            \
         .type = COXI_OPTION_INT,                                                      \
         .offset = offsetof(config, cluster.workers),                                  \
         .min = 1,                                                                     \
         .max = (max_each),                                                            \
         .fallback = "2",                                                              \
         .help = "workers"},                                                           \
        {.name = "slots",                                                              \
         .type = COXI_OPTION_INT,                                                      \
         .offset = offsetof(config, cluster.slots),                                    \
         .min = 1,                                                                     \
         .max = 1024,                                                                  \
         .fallback = "1",                                                              \
         .help = "steps at a time on each worker"},                                    \
        {.name = "peer-timeout-ms",                                                    \
         .type = COXI_OPTION_INT,                                                      \
         .offset = offsetof(config, cluster.peer_timeout_ms),                          \
         .min = 100,                                                                   \
         .max = 3600000,                                                               \
         .fallback = "10000",                                                          \
         .help = "a peer silent for this long is lost"},                               \
        {.name = "step-memory-max",                                                    \
         .type = COXI_OPTION_BYTES,                                                    \
         .offset = offsetof(config, cluster.step_memory_max),                          \
         .max = COXI_BYTES_MAX,                                                        \
         .fallback = "0",                                                              \
         .help = "most memory of a worker's step process, without kept results, as "   \
                 "512M or 2G; 0: no limit"},                                           \
        {.name = "key-file",                                                           \
         .type = COXI_OPTION_STRING,                                                   \
         .offset = offsetof(config, cluster.key_file),                                 \
         .help =                                                                       \
             "the run's key (default: the file that COX_KEY_FILE names, or else a "    \
             "new key, which is removed at the end)"},                                 \
        {.name = "log-dir",                                                            \
         .type = COXI_OPTION_STRING,                                                   \
         .offset = offsetof(config, cluster.log_dir),                                  \
         .help = "keep the daemons' logs, and what steps print, in this directory "    \
                 "(default: "                                                          \
                 "no logs; what steps print goes to standard error)"},                 \
        {.name = "checkpoint-root",                                                    \
         .type = COXI_OPTION_STRING,                                                   \
         .offset = offsetof(config, cluster.checkpoint_root),                          \
         .help = "the parameter servers write and read checkpoints only beneath this " \
                 "directory, an absolute path, or beneath s3://BUCKET/PREFIX"}

#endif
