/*
 * Faulty links under the stories. If COX_TEST_FAULTS names a kind, a scene's client,
 * workers and ps talk through relays (tests/net/relay.h) instead of shared memory, and
 * what the stories assert must hold all the same.
 *
 *   late       all connections hold bytes back for a moment
 *   bytewise   all connections pass single bytes for a while
 *   cut_ps     connections to ps are cut
 *   cut        connections to ps and to workers are cut
 *   half_open  both fall silent one way
 *
 * A worker whose connection is cut, or falls silent, is lost to the client. So the last
 * two are for stories that neither count losses nor hold steps.
 */
#ifndef COXI_TESTS_CONFORMANCE_FAULTY_H
#define COXI_TESTS_CONFORMANCE_FAULTY_H

#include "coxswain/coxswain.h"
#include "tests/net/relay.h"

enum faulty_end { FAULTY_PS, FAULTY_WORKER };

enum { FAULTY_LINKS_MAX = 16 };

/* The relays of a scene. */
struct faulty {
    struct relay *relays[FAULTY_LINKS_MAX];
    int n;
};

/* Sets options, and the environment of daemons that are started from now on. The local
 * cluster that cox_open starts next has its relays in `faulty`. */
void faulty_begin(struct faulty *faulty, struct cox_options *options);

/* The address to dial instead of `url`, which is copied: a new relay's, or `url`. */
const char *faulty_link(struct faulty *faulty, enum faulty_end end, const char *url);

/* Causes no faults as long as the links rest; false: there are no relays. */
bool faulty_rest(struct faulty *faulty, bool rest);

/* Asserts that faults have happened, if there should be any, and ends the relays. */
void faulty_end(struct faulty *faulty);

#endif
