#!/bin/sh
# Fails if the test suite, or a program, has left something in the temporary directory DIR.
#   leftovers.sh DIR
set -eu
dir=$1

listed() {
    ls -d "$dir"/coxswain-* "$dir"/cox-test-* 2>/dev/null || true
}

# What has just been killed may take a moment to go.
tries=0
while [ -n "$(listed)" ] && [ "$tries" -lt 50 ]; do
    tries=$((tries + 1))
    sleep 0.1
done
left=$(listed)
if [ -n "$left" ]; then
    echo "left behind in $dir:"
    for one in $left; do
        echo "$one: $(ls -A "$one" | tr '\n' ' ')"
    done
    exit 1
fi
