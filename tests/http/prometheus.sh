#!/bin/sh
# Has promtool check what the client, a ps and a worker serve, and a real Prometheus scrape it.
# Both come from Debian's package, unpacked into a throw-away directory where it is not installed.
# Skipped where it cannot be had. ctest runs the same where they are installed.
#
#   tests/http/prometheus.sh [BUILD]     BUILD: build/Asan
set -eu
cd "$(dirname "$0")/../.."
. scripts/lib.sh
build=$(cd "${1:-build/Asan}" && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
if ! command -v prometheus >/dev/null; then
    (cd "$dir" && apt-get download prometheus >/dev/null 2>&1 && dpkg -x prometheus_*.deb .) || {
        say "skipped: Debian's package prometheus cannot be had here"
        exit 0
    }
    PATH=$dir/usr/bin:$PATH
fi
export COX_BIN_DIR="$build/bin"
for what in promtool prometheus; do
    tests/http/metrics.py $what "$(pwd)" "$build/bin/http_watched" \
        "$build/test-modules/counter.so"
    say "$what: no fault"
done
