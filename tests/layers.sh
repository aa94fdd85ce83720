#!/bin/sh
# Fails where an #include points up or sideways, or is relative, or the coordinator logs.
#   layers.sh ROOT
#
#   schema <- common <- { net, objects, http } <- { checkpoint, data } <- cluster <- { ps, worker, page } <- evaluator
#   <- coordinator
#   <- cli, examples, bench, tests
set -eu
cd "$1"
all='coordinator/|evaluator/|cluster/|worker/|ps/|net/|objects/|checkpoint/|data/|http/|page/|common/|schema/|coxswain/'

# Prints the includes of the files in folder $1 that are none of $2.
check() {
    find "$1" -name '*.[ch]' -o -name '*.cc' | xargs grep -nE '^#include "' |
        grep -vE "#include \"($2)" || true
}

bad=$(
    check schema 'schema/|wire_generated.h'
    check common 'common/|schema/|coxswain/'
    check net 'net/|common/|schema/|coxswain/'
    check objects 'objects/|common/|schema/|coxswain/'
    check checkpoint 'checkpoint/|objects/|common/|schema/|coxswain/'
    check data 'data/|objects/|common/|schema/|coxswain/'
    check http 'http/|common/|schema/|coxswain/'
    check page 'page/|checkpoint/|http/|common/|schema/|coxswain/'
    check ps 'ps/|cluster/|net/|checkpoint/|http/|common/|schema/|coxswain/'
    check worker 'worker/|cluster/|net/|data/|http/|common/|schema/|coxswain/'
    check cluster 'cluster/|net/|objects/|common/|schema/|coxswain/'
    check evaluator 'evaluator/|cluster/|net/|checkpoint/|common/|schema/|coxswain/'
    check coordinator 'coordinator/|cluster/|net/|checkpoint/|data/|http/|page/|common/|schema/|coxswain/'
    # Its rooms, from low to high; open.c and its neighbours put them together.
    rooms='coordinator/coordinator\.h'
    for room in base workers closures datasets variables recovery checkpoints monitor; do
        rooms="$rooms|coordinator/$room/"
        check "coordinator/$room" "$rooms|cluster/|net/|checkpoint/|data/|http/|page/|common/|schema/|coxswain/"
    done
    check cli 'cli/|coordinator/|evaluator/|cluster/|net/|objects/|checkpoint/|data/|http/|page/|common/|schema/|coxswain/'
    check examples '[a-z0-9_]+\.h' # a program of its own: beside it, and <coxswain/...>
    check bench "bench/|examples/|$all"
    check tests "[a-z_]+\.h|tests/|cli/|$all"
    check include 'coxswain/'
)
# The client library speaks in one way: events.
logs=$(grep -l '"common/log.h"' -r coordinator evaluator cluster | grep -vE '^(coordinator/base/event|cluster/daemon_view)\.c$' || true)
if [ -n "$logs" ]; then
    printf '%s\n' "$logs" 'These log by themselves; tell an event (coordinator/base/event.h).'
    exit 1
fi
if [ -n "$bad" ]; then
    printf '%s\n' "$bad" 'These includes point up or sideways; see the layers in ARCHITECTURE.md.'
    exit 1
fi
