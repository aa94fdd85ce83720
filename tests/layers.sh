#!/bin/sh
# Fails where an #include points up or sideways, or is relative, or the coordinator logs.
#   layers.sh ROOT
#
#   schema <- common <- { ps, worker, coordinator } <- cli, examples, bench, tests
set -eu
cd "$1"

# Prints the includes of the files in folder $1 that are none of $2.
check() {
    find "$1" -name '*.[ch]' -o -name '*.cc' | xargs grep -nE '^#include "' |
        grep -vE "#include \"($2)" || true
}

bad=$(
    check schema 'schema/|wire_generated.h'
    check common 'common/|schema/|coxswain/'
    check ps 'ps/|common/|schema/|coxswain/'
    check worker 'worker/|common/|schema/|coxswain/'
    check coordinator 'coordinator/|common/|schema/|coxswain/'
    check cli 'cli/|coordinator/|common/|schema/|coxswain/'
    check examples '[a-z_]+\.h' # a program of its own: beside it, and <coxswain/...>
    check bench 'bench/|examples/|coordinator/|worker/|ps/|common/|schema/|coxswain/'
    check tests '[a-z_]+\.h|tests/|coordinator/|worker/|ps/|common/|schema/|coxswain/'
    check include 'coxswain/'
)
# The client library speaks in one way: events.
logs=$(grep -l '"common/log.h"' coordinator/*.[ch] | grep -v '^coordinator/event\.c$' || true)
if [ -n "$logs" ]; then
    printf '%s\n' "$logs" 'These log by themselves; tell an event (coordinator/event.h).'
    exit 1
fi
if [ -n "$bad" ]; then
    printf '%s\n' "$bad" 'These includes point up or sideways; see the layers in ARCHITECTURE.md.'
    exit 1
fi
