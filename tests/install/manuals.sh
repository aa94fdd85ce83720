#!/bin/sh
# Every installed program, and each of its commands, has a manual page: without faults, with
# all options that --help has.
#   manuals.sh BUILD
set -eu
build=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
faults=0

fault() {
    echo "$*"
    faults=1
}

DESTDIR=$dir cmake --install "$build" --prefix /usr >"$dir/log" || {
    cat "$dir/log"
    exit 1
}

# page NAME COMMAND...: the page NAME has what COMMAND --help has.
page() {
    file=$dir/usr/share/man/man1/$1.1
    shift
    if [ ! -f "$file" ]; then
        fault "no manual page of: $*"
        return
    fi
    "$dir/usr/bin/$@" --help >"$dir/help"
    sed 's/\\-/-/g' "$file" >"$dir/plain"
    for word in $(sed -n 's/^  \([-a-z]*\) .*/\1/p' "$dir/help"); do
        grep -q "^\.B $word\( \|$\)" "$dir/plain" || fault "$file lacks $word"
    done
    if command -v mandoc >/dev/null; then
        mandoc -Tlint "$file" || faults=1
    fi
}

for program in "$dir"/usr/bin/*; do
    name=$(basename "$program")
    page "$name" "$name"
done
for command in run cluster checkpoint; do
    page "coxswain-$command" coxswain "$command"
done
for command in list show verify diff export prune; do
    page "coxswain-checkpoint-$command" coxswain checkpoint "$command"
done
exit $faults
