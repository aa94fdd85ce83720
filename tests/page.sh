#!/bin/sh
# Compiles each C block of a page, and runs each of its modules that has a step "train" with
# the client of docs/data.md on a click log.
#   page.sh ROOT BUILD PAGE CC [COMPILER_OPTION ...]
set -eu
root=$1
build=$2
page=$3
cc=$4
shift 4
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
options=$*

# compile BLOCK PAGE
compile() {
    "$root/tests/readme_block.sh" "$root" "$1" "$2" >"$1"
    # shellcheck disable=SC2086 # options are words
    "$cc" -std=c11 -Wall -Wextra -Werror $options -I"$root/include" -fPIC -c \
        -o "${1%.c}.o" "$1"
}

# shellcheck disable=SC2046 # names are words
set -- $(sed -n '/^```c$/{n;s|^/\* \([a-z]*\.c\):.*|\1|p;}' "$root/$page")
if [ $# -ne "$(grep -c '^```c$' "$root/$page")" ]; then
    echo "$page has a C block that does not begin with a comment with its name"
    exit 1
fi
cd "$dir"
compile client.c docs/data.md
# shellcheck disable=SC2086
"$cc" $options -o client client.o -L"$build/lib" -lcoxswain -Wl,-rpath,"$build/lib"
"$build/bin/coxswain" data generate --format criteo --records 20000 --files 4 clicks \
    clicks.tsv >generated
trained=0
for block; do
    compile "$block" "$page"
    if ! grep -q 'COX_STEP("train", train)' "$block"; then
        continue
    fi
    # shellcheck disable=SC2086
    "$cc" $options -shared -o steps.so "${block%.c}.o" -lm
    said=$(env -u COX_BIN_DIR ./client)
    if [ "$said" != "40000 records, 0 of them bad" ]; then
        echo "the program of docs/data.md with $block of $page says: $said"
        exit 1
    fi
    trained=$((trained + 1))
done
if [ $trained -eq 0 ]; then
    echo "$page has no module with a step \"train\""
    exit 1
fi
