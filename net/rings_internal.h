/* Shared by net/rings.c and net/rings_open.c only. */
#ifndef COXI_NET_RINGS_INTERNAL_H
#define COXI_NET_RINGS_INTERNAL_H

#include <stdatomic.h>

#include "common/sync.h"
#include "net/rings.h"

enum {
    COXI_RINGS_HEAD = 4096, /* bytes before the rings: a page */
};

/* The counts and the bell of one side. Only that side writes its counts. */
struct coxi_ring_side {
    _Alignas(64) atomic_uint_least64_t written;
    _Alignas(64) atomic_uint_least64_t taken;
    /* what this side waits for; set by this side, cleared by the other */
    _Alignas(64) atomic_uint wants;
    atomic_uint bell; /* the other side changes it to ring; unused with a shared bell */
};

/* The memory of a bell that rings share. */
struct coxi_bell_head {
    uint64_t secret[2];
    atomic_uint dozes; /* 1: its owner waits for data, or is about to */
    atomic_uint bell;
};
_Static_assert(sizeof(struct coxi_bell_head) <= COXI_RINGS_HEAD, "it fits its page");

struct coxi_bell {
    struct coxi_bell_head *head;
    uint64_t secret[2];
    int fd;
};

/*
 * The memory of the rings. Any change of this struct, of struct coxi_ring_side, of struct
 * coxi_bell_head, of their rules (rings.c) or of the name's format needs a new
 * COXI_RINGS_LAYOUT: the protocol number (schema/versions) does not cover them. Peers
 * with different layouts stay on the stream.
 */
struct coxi_rings_head {
    uint64_t secret[2];
    /* the secret of the maker's bell, if that bell is shared */
    uint64_t bell_secret[2];
    uint64_t bytes;
    /* [0]: the side that made the memory; [1]: the side that opened it */
    struct coxi_ring_side sides[2];
};
_Static_assert(sizeof(struct coxi_rings_head) <= COXI_RINGS_HEAD, "it fits its page");

struct coxi_rings {
    struct coxi_rings_head *head;
    struct coxi_ring_side *own;
    struct coxi_ring_side *other;
    atomic_uint *own_bell;
    atomic_uint *other_bell;
    struct coxi_bell_head *foreign; /* the other side's bell, if it is shared */
    size_t bytes;
    uint8_t *out; /* to the other side */
    uint8_t *in;
    /* our own counts; the counts in shared memory are for the other side to read */
    atomic_uint_least64_t written;
    atomic_uint_least64_t taken;
    /* the counts of the other side when somebody looked: they only grow */
    atomic_uint_least64_t seen_written;
    atomic_uint_least64_t seen_taken;
    struct coxi_linger for_data;
    struct coxi_linger for_room;
    atomic_bool broken;
    int fd; /* -1: hidden */
    char name[COXI_RINGS_NAME_MAX];
};

#endif
