#!/bin/sh
# Builds and runs the program that the README shows, as it stands there.
#   readme.sh ROOT BUILD CC [COMPILER_OPTION ...]
set -eu
root=$1
build=$2
cc=$3
shift 3
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

for block in steps.c client.c; do
    "$root/tests/readme_block.sh" "$root" "$block" >"$dir/$block"
done
"$cc" -Wall -Wextra -Werror "$@" -I"$root/include" -shared -fPIC -o "$dir/steps.so" "$dir/steps.c"
"$cc" -Wall -Wextra -Werror "$@" -I"$root/include" -o "$dir/client" "$dir/client.c" \
    -L"$build/lib" -lcoxswain -Wl,-rpath,"$build/lib"
cd "$dir"
said=$(env -u COX_BIN_DIR ./client)
if [ "$said" != "100000 steps" ]; then
    echo "the README's program says: $said"
    exit 1
fi
