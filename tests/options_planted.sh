#!/bin/sh
# scripts/options --check finds a default and a comment that differ from docs/options.md, and a
# default of a field that is not there: planted in a copy of the tree.
#
#   tests/options_planted.sh SOURCE_DIR
set -eu
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
mkdir "$copy/docs"
cp -r "$1/scripts" "$1/include" "$copy"

# $1: a file; $2: the sed expression that plants something there
planted() {
    cp -r "$source/common" "$source/include" "$copy"
    cp "$source/docs/options.md" "$copy/docs"
    "$copy/scripts/options" --check
    sed -i "$2" "$copy/$1"
    if cmp -s "$copy/$1" "$source/$1" || "$copy/scripts/options" --check 2>/dev/null; then
        echo "not found: $2 in $1" >&2
        exit 1
    fi
}

source=$1
planted common/defaults.h 's/X(queue_max, 262144)/X(queue_max, 262145)/'
planted common/defaults.h 's/X(queue_max, /X(queue_most, /'
planted include/coxswain/options.h 's/Closures in the queue/Calls in the queue/'
planted docs/options.md '/`prefetch`/d'
