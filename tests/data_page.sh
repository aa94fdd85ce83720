#!/bin/sh
# Compiles each C block of docs/data.md, and runs its first program on a click log.
#   data_page.sh ROOT BUILD CC [COMPILER_OPTION ...]
set -eu
root=$1
build=$2
cc=$3
shift 3
page=docs/data.md
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

options=$*
# shellcheck disable=SC2046 # names are words
set -- $(sed -n '/^```c$/{n;s|^/\* \([a-z]*\.c\):.*|\1|p;}' "$root/$page")
if [ $# -ne "$(grep -c '^```c$' "$root/$page")" ]; then
    echo "$page has a C block that does not begin with a comment with its name"
    exit 1
fi
for block; do
    "$root/tests/readme_block.sh" "$root" "$block" "$page" >"$dir/$block"
    # shellcheck disable=SC2086 # options are words
    "$cc" -std=c11 -Wall -Wextra -Werror $options -I"$root/include" -fPIC -c \
        -o "$dir/${block%.c}.o" "$dir/$block"
done

cd "$dir"
# shellcheck disable=SC2086
"$cc" $options -shared -o steps.so steps.o -lm
# shellcheck disable=SC2086
"$cc" $options -o client client.o -L"$build/lib" -lcoxswain -Wl,-rpath,"$build/lib"
"$build/bin/coxswain" data generate --format criteo --records 20000 --files 4 clicks \
    clicks.tsv >generated
said=$(env -u COX_BIN_DIR ./client)
if [ "$said" != "40000 records, 0 of them bad" ]; then
    echo "the program of $page says: $said"
    exit 1
fi
