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

# block NAME: the README's C block that begins with "/* NAME:".
block() {
    awk -v head="/* $1:" '
        /^```/ { inside = 0 }
        inside { print }
        /^```c$/ { getline; inside = index($0, head) == 1; if (inside) print }
    ' "$root/README.md" >"$dir/$1"
    [ -s "$dir/$1" ]
}

block steps.c
block client.c
"$cc" -Wall -Wextra -Werror "$@" -I"$root/include" -shared -fPIC -o "$dir/steps.so" "$dir/steps.c"
"$cc" -Wall -Wextra -Werror "$@" -I"$root/include" -o "$dir/client" "$dir/client.c" \
    -L"$build/lib" -lcoxswain -Wl,-rpath,"$build/lib"
cd "$dir"
said=$(COX_BIN_DIR=$build/bin ./client)
if [ "$said" != "100000 steps" ]; then
    echo "the README's program says: $said"
    exit 1
fi
