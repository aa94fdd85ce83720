#!/bin/sh
# Builds the program that docs/checkpoints.md shows, interrupts it as Ctrl-C does, and starts it again.
#   interrupted.sh ROOT BUILD CC [COMPILER_OPTION ...]
# shellcheck disable=SC2086 # options are words
set -eu
root=$1
lib=$2/lib
cc=$3
shift 3
options=$*
dir=$(mktemp -d)
pid=
trap 'rm -rf "$dir"' EXIT
trap '[ -z "$pid" ] || kill -KILL "$pid"; exit 1' HUP INT TERM

fail() {
    echo "$1" >&2
    cat "$dir/said" "$dir/errors" >&2
    exit 1
}

# Builds it as DIR/trainer, to count to $1 instead of a million.
build() {
    "$root/tests/readme_block.sh" "$root" trainer.c docs/checkpoints.md |
        sed "s/STEPS = 1000000 /STEPS = $1 /" >"$dir/trainer.c"
    grep -q "STEPS = $1 " "$dir/trainer.c"
    "$cc" -Wall -Wextra -Werror $options -I"$root/include" -o "$dir/trainer" \
        "$dir/trainer.c" -L"$lib" -lcoxswain -Wl,-rpath,"$lib"
}

"$root/tests/readme_block.sh" "$root" steps.c >"$dir/steps.c"
"$cc" -Wall -Wextra -Werror $options -I"$root/include" -shared -fPIC -o "$dir/steps.so" \
    "$dir/steps.c"
cd "$dir"
build 1000000000
mkfifo fifo
# A shell has what it starts in the background ignore SIGINT: env mends that.
env -u COX_BIN_DIR --default-signal=INT ./trainer >fifo 2>errors &
pid=$!
exec 3<fifo
read -r begins <&3
kill -INT "$pid"
read -r counted <&3 || counted=
wait "$pid" || fail "the interrupted program fails"
pid=
echo "$begins, $counted" >said
[ "$begins" = "begins at 0" ] || fail "the first program does not begin at 0"
n=${counted% steps}
[ "$n" -ge 0 ] || fail "the interrupted program does not say what it has counted"

build $((n + 1000))
env -u COX_BIN_DIR ./trainer >said 2>errors || fail "the second program fails"
[ "$(cat said)" = "begins at $n
$((n + 1000)) steps" ] || fail "the second program does not go on at $n"
