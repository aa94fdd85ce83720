#!/bin/sh
# The tests of objects/s3 against other servers than the fake one, one after the other: moto (PyPI),
# in a throw-away environment, and versitygw (a Go module). A server that cannot be had is
# skipped. ctest does not run this.
#
#   tests/objects/servers.sh [BUILD]     BUILD: build/Asan
# COX_TEST_VENV: another environment to use, which is made if it is missing.
# COX_TEST_VERSITYGW: the program, if it is there already.
set -eu
cd "$(dirname "$0")/../.."
. scripts/lib.sh
build=$(cd "${1:-build/Asan}" && pwd)
dir=$(mktemp -d)
server=
stop() {
    [ -z "$server" ] || { kill "$server" && wait "$server"; } 2>/dev/null || true
    server=
}
trap 'stop; chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
unset AWS_PROFILE AWS_SESSION_TOKEN AWS_ENDPOINT_URL_S3 ASAN_OPTIONS
export COX_TEST_S3=1 AWS_ACCESS_KEY_ID=TESTID AWS_SECRET_ACCESS_KEY=test/secret+key AWS_REGION=us-east-1

# Prints a port that was free a moment ago.
free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# Makes the bucket, as soon as the server answers.
make_bucket() {
    tries=0
    until curl -sf -X PUT --aws-sigv4 "aws:amz:$AWS_REGION:s3" \
        -u "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY" "$AWS_ENDPOINT_URL/bucket" >/dev/null; do
        tries=$((tries + 1))
        if [ "$tries" = 300 ] || ! kill -0 "$server"; then
            cat "$dir/log"
            return 1
        fi
        sleep 0.1
    done
}

# Runs the tests against the server that was started.
run() {
    echo "servers.sh: $1"
    make_bucket
    "$build/bin/objects_s3_test" || {
        tail -40 "$dir/log"
        exit 1
    }
    stop
}

need python3-venv curl
venv=${COX_TEST_VENV:-$dir/venv}
[ -d "$venv" ] || python3 -m venv "$venv"
if "$venv/bin/pip" -q install 'moto[s3,server]'; then
    port=$(free_port)
    export AWS_ENDPOINT_URL="http://127.0.0.1:$port"
    "$venv/bin/moto_server" -H 127.0.0.1 -p "$port" >"$dir/log" 2>&1 &
    server=$!
    run moto
else
    echo "servers.sh: skipped moto, because it cannot be had"
fi

gateway=${COX_TEST_VERSITYGW:-$dir/bin/versitygw}
if [ -z "${COX_TEST_VERSITYGW:-}" ]; then
    GOPATH=$dir/go GOBIN=$dir/bin go install github.com/versity/versitygw/cmd/versitygw@v1.8.0 || true
fi
if [ -x "$gateway" ]; then
    port=$(free_port)
    export AWS_ENDPOINT_URL="http://127.0.0.1:$port"
    mkdir "$dir/files"
    "$gateway" --port "127.0.0.1:$port" --access "$AWS_ACCESS_KEY_ID" --secret "$AWS_SECRET_ACCESS_KEY" \
        posix "$dir/files" >"$dir/log" 2>&1 &
    server=$!
    run versitygw
else
    echo "servers.sh: skipped versitygw, because it cannot be had"
fi
