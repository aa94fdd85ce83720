/* Requests to etcd's JSON gateway, and answers: bytes are base64 there, 64-bit numbers
 * are texts, and what is 0 or false is left out. Pure; any thread. */
#ifndef COXI_CLUSTER_ETCD_JSON_H
#define COXI_CLUSTER_ETCD_JSON_H

#include <jansson.h>

#include "cluster/etcd.h"

/* Bodies of requests, for json_decref. NULL: no memory, which counts as such when the
 * request is sent. */
json_t *coxi_etcd_json_login(const char *user, const char *password);
json_t *coxi_etcd_json_lease(int64_t lease);
json_t *coxi_etcd_json_grant(int64_t ttl_s);
/* The key, or all that begin with it. `revision` not 0: to be watched from there on. */
json_t *coxi_etcd_json_range(const char *key, bool all, int64_t revision);
json_t *coxi_etcd_json_put(const char *key, const char *value, int64_t lease,
                           int64_t revision);

/* A number of an object; 0: it is not there, or no number. */
int64_t coxi_etcd_json_number(const json_t *object, const char *name);

/* Reads the answer to a range. COX_EIO: it makes no sense; COX_ENOMEM. */
int coxi_etcd_json_list(const json_t *answer, struct coxi_etcd_list *ret);

/* Reads a line of a watch. 0: something has changed at `revision` or later;
 * COX_ETIMEDOUT: it tells nothing new; COX_EAGAIN, COX_EIO as of coxi_etcd_wait. */
int coxi_etcd_json_event(const char *line, size_t len, int64_t revision);

/* The error that an answer with a status other than 200 tells: COX_ENOENT, COX_EDENIED,
 * COX_EIO, with etcd's own text. *ret_stale: the token is not valid any more; *ret_open:
 * etcd knows no users. */
int coxi_etcd_json_error(const char *body, size_t len, long status, bool *ret_stale,
                         bool *ret_open);

#endif
