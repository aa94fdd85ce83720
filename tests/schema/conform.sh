#!/bin/sh
# Fails where schema NEW is no evolution of OLD: what was sent under OLD would be misread,
# or a field has gone (flatc does not mind, the rules in wire.fbs do).
#   conform.sh FLATC OLD NEW
set -eu
"$1" --conform "$2" "$3"

fields() {
    awk '/^(table|struct) /{owner = $2}
        /^  [a-z0-9_]+:/{split($1, field, ":"); print owner "." field[1]}' "$1" | sort
}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fields "$2" >"$dir/old"
fields "$3" >"$dir/new"
gone=$(comm -23 "$dir/old" "$dir/new")
if [ ! -s "$dir/old" ] || [ -n "$gone" ]; then
    echo "fields of $2 that $3 does not have: $gone"
    exit 1
fi
