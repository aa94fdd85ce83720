#!/bin/sh
# Fails unless SECURITY.md has a table of attacks, and each test that it names is there.
#   attacks.sh ROOT
set -eu
cd "$1"

names=$(sed -n '/^## Attacks, and the tests/,/^## How/p' SECURITY.md | grep '^|' |
    grep -oE '`[a-z0-9_]+`' | tr -d '`')
if [ "$(echo "$names" | wc -l)" -lt 40 ]; then
    echo "SECURITY.md names fewer than 40 tests of attacks"
    exit 1
fi
there=$(grep -rhoE '^TEST\([a-z0-9_]+' --include='*_test.c' tests | sed 's/TEST(//' | sort)
missing=$(echo "$names" | sort -u | while read -r name; do
    echo "$there" | grep -qx "$name" || echo "$name"
done)
if [ -n "$missing" ]; then
    echo "SECURITY.md names tests that are not there:"
    echo "$missing"
    exit 1
fi
