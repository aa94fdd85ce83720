#!/bin/sh
# TensorBoard's own reader reads what a client has written for it: a client that was killed, and
# its successor that goes on from a checkpoint. TensorBoard comes from PyPI into a throw-away
# environment; without PyPI the test is skipped. ctest does not run this.
#
#   tests/coordinator/monitor/tensorboard.sh [BUILD]     BUILD: build/Asan
# COX_TEST_VENV: another environment to use, which is made if it is missing.
set -eu
cd "$(dirname "$0")/../../.."
. scripts/lib.sh
build=$(cd "${1:-build/Asan}" && pwd)
need python3-venv
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
venv=${COX_TEST_VENV:-$dir/venv}
[ -d "$venv" ] || python3 -m venv "$venv"
if ! "$venv/bin/pip" -q install tensorboard; then
    echo "tensorboard.sh: skipped, because TensorBoard cannot be had"
    exit 0
fi
export COX_TEST_CURVES="$dir" COX_BIN_DIR="$build/bin"
if "$build/bin/client_curves" run_the_client >"$dir/first" 2>&1; then
    echo "the first client should have been killed"
    exit 1
fi
"$build/bin/client_curves" run_the_client >"$dir/second" 2>&1 || {
    cat "$dir/second"
    exit 1
}
"$venv/bin/python" tests/coordinator/monitor/curves.py "$dir"
