#!/bin/sh
# A seed's storm is the same each time: its trace, to the last message.
#
#   replays.sh PROGRAM
set -eu
program=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for seed in 3 10 1064; do
    for i in 1 2; do
        "$program" --seed $seed --runs 1 --trace 2>"$dir/$i" >/dev/null
    done
    if [ ! -s "$dir/1" ] || ! cmp "$dir/1" "$dir/2"; then
        echo "seed $seed is not the same twice"
        exit 1
    fi
done
