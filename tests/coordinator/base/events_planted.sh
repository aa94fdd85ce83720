#!/bin/sh
# Plants faults in the table of events and in the code that it describes; events.py must
# find each.
#   events_planted.sh ROOT
set -eu
cd "$1"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

plant() {
    rm -rf "$dir"/*
    cp -r --parents docs include coordinator "$dir"
    sed -i "$1" "$dir/docs/failures.md" "$dir/include/coxswain/event.h" "$dir"/coordinator/*/*.c
    if tests/coordinator/base/events.py "$dir" 2>"$dir/faults"; then
        echo "not found: $1" >&2
        exit 1
    fi
}

tests/coordinator/base/events.py .
plant '/^| `COX_EVENT_FENCED`/d'
plant 's/^\(| `COX_EVENT_FENCED` | \)error/\1info/'
plant 's/COXI_OF(.checkpoint = m->number)/COXI_OF(.seconds = 1)/'
plant 's/COX_EVENT_MODULE_MISSING,/COX_EVENT_MODULE_MISSING, COX_EVENT_NEW,/'
plant 's/{"fenced"/{"fended"/'
