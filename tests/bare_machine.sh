#!/bin/sh
# The README's two commands in a minimal Debian 12 with nothing but git: makes such a
# system with debootstrap, clones this repository into it, and runs them there. Needs root,
# debootstrap, and a Debian mirror; some minutes, 2 GB. Not part of the test suite.
#
#   tests/bare_machine.sh [DIRECTORY]      (default: a new one, removed at the end)
#
# DEBIAN_MIRROR is the mirror (default: http://deb.debian.org/debian).
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
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
debootstrap --variant=minbase --include=git,ca-certificates bookworm "$system" "$mirror" \
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
for variable in http_proxy https_proxy; do
    eval "value=\${$variable:-}"
    if [ -n "$value" ]; then
        printf 'Acquire::%s::Proxy "%s";\n' "${variable%_proxy}" "$value" \
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

# leftovers: what the demo may have left running or lying about.
leftovers() {
    left=$(
        ls -d "$system"/tmp/coxswain-* 2>/dev/null || true
        for process in /proc/[0-9]*; do
            if [ "$(readlink "$process/root" 2>/dev/null)" = "$system" ]; then
                tr '\0' ' ' <"$process/cmdline"
                echo
            fi
        done
    )
    if [ -n "$left" ]; then
        echo "left behind: $left"
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
