#!/bin/sh
# Planted incompatible changes: conform.sh must fail on each.
#   conform_planted.sh CONFORM FLATC SCHEMA
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

refuses() {
    sed "$1" "$schema" >"$dir/wire.fbs"
    if cmp -s "$schema" "$dir/wire.fbs"; then
        echo "the change '$1' changes nothing"
        exit 1
    fi
    if "$conform" "$flatc" "$schema" "$dir/wire.fbs" >/dev/null; then
        echo "the change '$1' passed"
        exit 1
    fi
}

conform=$1
flatc=$2
schema=$3
"$conform" "$flatc" "$schema" "$schema"
refuses 's/^  incarnation:ulong (id: 4);/  incarnation:uint (id: 4);/'  # another type
refuses 's/Gradient = 0, Add, Assign/Gradient = 0, Assign, Add/'        # other numbers
refuses 's/^  Hello, Refuse, Status,/  Refuse, Hello, Status,/'         # in the union, too
refuses 's/^  touched_n:uint;/  touched_n:ulong;/'                      # a struct that grows
refuses '/^  slots:uint (id: 6);/d'                                     # a field removed
