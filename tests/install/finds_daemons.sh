#!/bin/sh
# Installs into a directory, moves that elsewhere, and builds the README's program there as
# C++17: it finds library, headers and daemons without being told where they are, also where
# the daemons are in libexec. Every installed program has help.
#   install.sh ROOT BUILD CXX [COMPILER_OPTION ...]
set -eu
root=$1
build=$2
cxx=$3
shift 3
unset COX_BIN_DIR
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

cmake --install "$build" --prefix "$dir/first" >"$dir/log" || {
    cat "$dir/log"
    exit 1
}
mv "$dir/first" "$dir/moved"
at=$dir/moved
lib=$(dirname "$(find "$at" -name libcoxswain.so)")

for program in "$at"/bin/*; do
    "$program" --help >"$dir/help"
    grep -q "^Usage: $(basename "$program") " "$dir/help"
done

"$root/tests/readme_block.sh" "$root" steps.c >"$dir/steps.c"
"$root/tests/readme_block.sh" "$root" client.c >"$dir/client.c"
"$cxx" -x c++ -std=c++17 -Wall -Wextra -Werror "$@" -I"$at/include" -shared -fPIC \
    -o "$dir/steps.so" "$dir/steps.c"
"$cxx" -x c++ -std=c++17 -Wall -Wextra -Werror "$@" -I"$at/include" -o "$dir/client" \
    "$dir/client.c" -L"$lib" -lcoxswain -Wl,-rpath,"$lib"
cd "$dir"

# counts WHERE: the program does what the README says.
counts() {
    said=$(./client 2>events) || true
    if [ "$said" != "100000 steps" ]; then
        echo "with the daemons in $1 the README's program says: $said; $(cat events)"
        exit 1
    fi
}

counts bin
mkdir "$at/libexec" "$at/libexec/coxswain"
mv "$at"/bin/coxswain-ps "$at"/bin/coxswain-worker "$at/libexec/coxswain"
counts "libexec/coxswain, their launcher in bin"
mv "$at/bin/coxswain" "$at/libexec/coxswain"
counts libexec/coxswain
mv "$at/libexec/coxswain" "$dir/aside"
mv "$dir"/aside/* "$at/libexec"
counts libexec
