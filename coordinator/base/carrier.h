/*
 * The client's side of a carry (ps/carry.h): fetches a shard from a ps, or brings it one,
 * because the ps does not see the directory of checkpoints. In a few lanes at a time the
 * client asks the ps for the next turn, whose answer has the next piece, or says which
 * piece the ps wants. Memory: COXI_CARRY_LANES pieces.
 */
#ifndef COXI_COORDINATOR_BASE_CARRIER_H
#define COXI_COORDINATOR_BASE_CARRIER_H

#include <stdatomic.h>

#include "checkpoint/place.h"
#include "net/ps_client.h"

struct coxi_carrying {
    struct coxi_psc *psc;
    struct coxi_session session;
    uint64_t incarnation;
    uint64_t id;    /* the carry's */
    int timeout_ms; /* of a turn; 0: the ps client's */
    /* optional: once it is set, the carry is given up, unless the ps says that it is over */
    const atomic_bool *stops;
};

/* A shard that has come. */
struct coxi_fetched {
    uint64_t bytes;
    uint32_t crc32;
};

/*
 * Writes the shard into the sink, which it neither finishes nor abandons, until the ps says
 * that the carry is over. Call it before or while the Snapshot is under way. *ret: what
 * has come; compare it with the Snapshot's answer. If the sink fails, the ps is told, and
 * the Snapshot fails with that error. COX_EPSLOST, COX_ETIMEDOUT, COX_EPROTO (bytes are
 * missing, or came twice), COX_ENOMEM, COX_ECANCELLED (`stops`), errors of the sink.
 */
int coxi_carrier_fetch(const struct coxi_carrying *carrying,
                       const struct coxi_file_sink *sink, struct coxi_fetched *ret);

/* Brings the pieces for which the ps asks, until the carry is over. The same for a
 * Restore, and a file of `bytes` bytes. */
int coxi_carrier_bring(const struct coxi_carrying *carrying,
                       const struct coxi_file_source *source, uint64_t bytes);

/* ---- on a thread of its own, while others wait for the answer of the ps */

struct coxi_carrier;

/*
 * Makes the file `path`, and starts to fetch into it. COX_EIO, COX_ENOMEM. `leaves_disk`:
 * as for coxi_disk_give_up_when.
 */
int coxi_carrier_start_fetch(const struct coxi_carrying *carrying, const char *path,
                             const atomic_bool *leaves_disk, struct coxi_carrier **ret);

/* One of the files that are brought to a ps one after the other. */
struct coxi_carrier_file {
    const char *path; /* copied */
    uint64_t bytes;
    uint64_t id; /* of its carry */
};

/* Starts to bring the files; `carrying->id` counts for nothing. */
int coxi_carrier_start_bring(const struct coxi_carrying *carrying,
                             const struct coxi_carrier_file *files, size_t n,
                             struct coxi_carrier **ret);

/*
 * The ps has answered the Snapshot or Restore, or that has failed: waits until the carrier
 * knows that the last carry is over, gives it up if the ps goes on all the same, and frees
 * the carrier. The file that was fetched is on disk then, or removed. `sent`: that file
 * as the ps has sent it; NULL: not known. COX_ECHECKSUM: something else has come. Takes
 * NULL.
 */
int coxi_carrier_end(struct coxi_carrier *carrier, const struct coxi_fetched *sent);

#endif
