#!/bin/sh
# Installs into a DESTDIR and builds the README's program, client and step module, from that
# alone: as pkg-config says (ROUTE pkg_config), or with CMake's find_package (cmake). Runs it.
#   builds.sh ROUTE ROOT BUILD CC [COMPILER_OPTION ...]
set -eu
route=$1
root=$2
build=$3
cc=$4
shift 4
unset COX_BIN_DIR
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

DESTDIR=$dir/root cmake --install "$build" --prefix /opt/coxswain >"$dir/log" || {
    cat "$dir/log"
    exit 1
}
at=$dir/root/opt/coxswain
if grep -rIl "$build\|$root" "$at/lib" "$at/include" "$at/share"; then
    echo "these installed files name the source or the build tree"
    exit 1
fi
for block in steps.c client.c; do
    "$root/tests/readme_block.sh" "$root" "$block" >"$dir/$block"
done

build_pkg_config() {
    PKG_CONFIG_PATH=$(dirname "$(find "$at" -name coxswain.pc)")
    export PKG_CONFIG_PATH
    lib=$(pkg-config --variable=libdir coxswain)
    # shellcheck disable=SC2046
    "$cc" -Wall -Wextra -Werror "$@" $(pkg-config --cflags coxswain) -shared -fPIC \
        -o steps.so steps.c
    # shellcheck disable=SC2046
    "$cc" -Wall -Wextra -Werror "$@" -o client client.c \
        $(pkg-config --cflags --libs coxswain) -Wl,-rpath,"$lib"
}

build_cmake() {
    cp "$root/tests/install/program/CMakeLists.txt" .
    cmake -G Ninja -S . -B out -DCMAKE_PREFIX_PATH="$at" -DCMAKE_C_COMPILER="$cc" \
        -DCMAKE_C_FLAGS="$*" >log && cmake --build out >>log || {
        cat log
        exit 1
    }
    cp out/client out/steps.so .
}

cd "$dir"
"build_$route" "$@"
said=$(./client 2>events) || true
if [ "$said" != "100000 steps" ]; then
    echo "built by $route, the README's program says: $said; $(cat events)"
    exit 1
fi
