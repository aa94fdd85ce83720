#!/bin/sh
# The README's two commands in a minimal Debian 12 with nothing but git: makes such a
# system with debootstrap, clones this repository into it, and runs them there. Needs root,
# debootstrap, and apt that is set up for Debian 12; some minutes, 2 GB. Not part of the test
# suite.
#
#   tests/bare_machine.sh [DIRECTORY]      (default: a new one, removed at the end)
#
# Packages come from where this machine's apt gets those of its Debian 12 (DEBIAN_MIRROR names
# another mirror), through the proxies that its apt has.
set -eu
case "${1:-}" in
-h | --help)
    sed -n '2,11s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
esac
root=$(cd "$(dirname "$0")/.." && pwd)
release=bookworm
mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format \
    '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
    awk -v release="$release" '$2 == release && $3 == "main" { print $1; exit }')}
if [ -z "$mirror" ]; then
    echo "this machine's apt has no source of $release main: name one in DEBIAN_MIRROR" >&2
    exit 1
fi
system=${1:-}
if [ -z "$system" ]; then
    system=$(mktemp -d)
fi

finish() {
    for mount in "$system/dev/pts" "$system/dev/shm" "$system/dev" "$system/proc"; do
        umount "$mount" 2>/dev/null || true
    done
    if [ $# = 0 ]; then
        rm -rf "$system"
    fi
}
if [ $# = 0 ]; then
    trap finish EXIT
else
    trap 'finish keep' EXIT
fi

echo "debootstrap into $system"
debootstrap --variant=minbase --include=git,ca-certificates "$release" "$system" "$mirror" \
    >"$system.log" 2>&1 || {
    tail -n 20 "$system.log"
    exit 1
}
rm -f "$system.log"
mount --bind /proc "$system/proc"
mount --bind /dev "$system/dev"
mount --bind /dev/pts "$system/dev/pts"
mount --bind /dev/shm "$system/dev/shm"
cp /etc/resolv.conf "$system/etc/resolv.conf"
for scheme in http https; do
    eval "value=\${${scheme}_proxy:-}"
    eval "$(apt-config shell value "Acquire::$scheme::Proxy")"
    if [ -n "$value" ]; then
        printf 'Acquire::%s::Proxy "%s";\n' "$scheme" "$value" \
            >>"$system/etc/apt/apt.conf.d/99proxy"
    fi
done
git clone -q --no-local "$root" "$system/root/coxswain"

# timed LIMIT_S COMMAND: runs it in the system; over the limit is a failure.
timed() {
    limit=$1
    start=$(date +%s)
    chroot "$system" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin \
        sh -c "cd /root/coxswain && $2"
    took=$(($(date +%s) - start))
    echo "--- $2: $took s (at most $limit)"
    [ "$took" -le "$limit" ]
}

# leftovers: what a command may have left running or lying about.
leftovers() {
    "$root/tests/leftovers.sh" "$system/tmp"
    left=$(
        for process in /proc/[0-9]*; do
            if [ "$(readlink "$process/root" 2>/dev/null)" = "$system" ]; then
                tr '\0' ' ' <"$process/cmdline"
                echo
            fi
        done
    )
    if [ -n "$left" ]; then
        echo "left running: $left"
        exit 1
    fi
}

timed 300 ./scripts/demo
leftovers
timed 30 ./scripts/demo
leftovers
timed 900 ./scripts/test
leftovers
echo "the README's commands pass on a bare machine"
