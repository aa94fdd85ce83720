#!/bin/sh
# Compiles each C block of docs/modes.md, and runs each of its modules with the client of
# docs/data.md on a click log.
#   modes_page.sh ROOT BUILD CC [COMPILER_OPTION ...]
set -eu
root=$1
build=$2
cc=$3
shift 3
page=docs/modes.md
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

options=$*
# shellcheck disable=SC2046 # names are words
set -- $(sed -n '/^```c$/{n;s|^/\* \([a-z]*\.c\):.*|\1|p;}' "$root/$page")
if [ $# -ne "$(grep -c '^```c$' "$root/$page")" ]; then
    echo "$page has a C block that does not begin with a comment with its name"
    exit 1
fi
"$root/tests/readme_block.sh" "$root" client.c docs/data.md >"$dir/client.c"
cd "$dir"
# shellcheck disable=SC2086 # options are words
"$cc" -std=c11 $options -I"$root/include" -o client client.c -L"$build/lib" -lcoxswain \
    -Wl,-rpath,"$build/lib"
"$build/bin/coxswain" data generate --format criteo --records 20000 --files 4 clicks \
    clicks.tsv >generated
for block; do
    "$root/tests/readme_block.sh" "$root" "$block" "$page" >"$block"
    # shellcheck disable=SC2086
    "$cc" -std=c11 -Wall -Wextra -Werror $options -I"$root/include" -fPIC -shared \
        -o "${block%.c}.so" "$block" -lm
    if ! grep -q 'COX_STEP("train", train)' "$block"; then
        continue
    fi
    cp "${block%.c}.so" steps.so
    said=$(env -u COX_BIN_DIR ./client)
    if [ "$said" != "40000 records, 0 of them bad" ]; then
        echo "the program of $page with $block says: $said"
        exit 1
    fi
done
