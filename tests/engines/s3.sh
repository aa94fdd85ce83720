#!/bin/bash
# Checkpoints in a store of objects (versitygw, a Go module), without any file that hosts share.
# Four hosts as network namespaces: the store and the client, two ps, and workers; a second evaluator is on
# another host than the client. While the click model is trained, a ps is killed and starts again without
# a disk of its own, the store is killed and starts again, and at last the client's host is gone: the
# client goes on at another host from what the store has. Then the same with shards that go
# through the client. Ends with lines for the table in docs/engines.md.
#
#   tests/engines/s3.sh [BIN]      BIN: the programs (default build/Release/bin)
#
# Needs root, and Go for versitygw, unless COX_TEST_VERSITYGW names the program. Takes three minutes.
# Namespaces and processes end with it.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib.sh
. tests/engines/etcd_lib.sh
. tests/engines/hosts_lib.sh
bin=$(realpath "${1:-build/Release/bin}")
need iproute2 curl python3
unset AWS_PROFILE AWS_SESSION_TOKEN AWS_ENDPOINT_URL_S3
export AWS_ACCESS_KEY_ID=TESTID AWS_SECRET_ACCESS_KEY=test/secret+key AWS_REGION=us-east-1
export AWS_ENDPOINT_URL=http://10.77.0.1:7070

begin
trap 'remove_hosts; end' EXIT
find_gateway
make_hosts
"$bin/coxswain" key new run.key >/dev/null
export COX_KEY_FILE=$work/run.key
mkdir -p store/bucket

store_answers() {
    ip netns exec "$network-1" curl -s "$AWS_ENDPOINT_URL" >/dev/null
}

store_start() {
    start_on 1 store "$gateway" --port 10.77.0.1:7070 --access "$AWS_ACCESS_KEY_ID" \
        --secret "$AWS_SECRET_ACCESS_KEY" posix "$work/store"
    until_true "the store answers" store_answers
}

# Only ps that talk to the store themselves have credentials.
ps_start() { # INDEX
    local credentials=()
    [ "$via" = ps ] || credentials=(-u AWS_ACCESS_KEY_ID -u AWS_SECRET_ACCESS_KEY)
    start_on $(($1 + 2)) "ps-$1" env "${credentials[@]}" HOME=/nowhere "$bin/coxswain-ps" $as_user --index "$1" \
        --listen "tcp://10.77.0.$(($1 + 2)):2222" --checkpoint-root="s3://bucket/$via"
}

client_start() { # HOST OPTIONS...
    start_on "$1" client env "$hosts" COX_CHECKPOINT_VIA="$via" "$bin/ctr" --rows 200000 --epochs 10 \
        --out "$work/$via" --checkpoint-dir "s3://bucket/$via" "${@:2}"
}

is_named() { # N: LATEST names a checkpoint from N on
    local latest
    latest=$(sed -n 's/^ckpt-//p' "$work/store/bucket/$via/LATEST" 2>/dev/null)
    [ "${latest:-0}" -ge "$1" ]
}

has_few_marks() {
    [ "$(find "$work/store/bucket/$via" -path '*/readers/*' -type f | wc -l)" -le 1 ]
}

train() { # VIA
    via=$1
    hosts='COX_CLUSTER={"ps": ["10.77.0.2:2222", "10.77.0.3:2222"], "worker": ["10.77.0.3:2223", "10.77.0.4:2223"]}'
    say "checkpoints in a store, shards by way of: $via"
    store_start
    ps_start 0
    ps_start 1
    start_on 3 worker-0 "$bin/coxswain-worker" $as_user --index 0 --listen tcp://10.77.0.3:2223
    start_on 4 worker-1 "$bin/coxswain-worker" $as_user --index 1 --listen tcp://10.77.0.4:2223
    client_start 1
    until_true "the first checkpoint" is_named 1
    start_on 2 evaluator "$bin/ctr" --role evaluator --train "$work/$via/train.libsvm" \
        --valid "$work/$via/valid.libsvm" --checkpoint-dir "s3://bucket/$via"

    say "ps 1 is killed, and starts again"
    stop ps-1 KILL
    ps_start 1
    await client event=recovered 1

    say "the store is killed, and starts again"
    stop store KILL
    store_start
    until_true "another checkpoint" is_named 4

    say "the client's process is gone; another host goes on"
    stop client KILL
    mv client.log "first-$via.log"
    client_start 4 --resume --train "$work/$via/train.libsvm" --valid "$work/$via/valid.libsvm"
    await client event=resumed 1
    finish client
    finish evaluator
    auc=$(result auc)
    grep -q 'so far: 2000000 records, 0 tasks failed, 0 skipped' client.log ||
        fail "not each of 2000000 examples was trained on once"
    python3 -c "import sys; sys.exit(abs($auc - 0.8486) > 0.001)" || fail "the AUC is $auc, not 0.8486"
    [ "$(grep -c auc "store/bucket/$via/eval.jsonl")" -gt 11 ] || fail "results of the two evaluators are missing"
    # the killed client's may be left; its evaluator ends 60 s after the last checkpoint
    tries=1200 until_true "readers have removed their marks" has_few_marks
    ip netns exec "$network-2" "$bin/coxswain" checkpoint verify "s3://bucket/$via" >verify.log ||
        fail "a checkpoint is damaged"
    say "AUC $auc"
    for name in ps-0 ps-1 worker-0 worker-1 store; do
        stop "$name" KILL
    done
    say "| object store (S3), 4 hosts | versitygw 1.8.0, network namespaces | \`tests/engines/s3.sh\`, shards by way of the $via | a ps, the store, the client, which goes on at another host | 2000000 examples, each once; auc $auc |"
}

train ps
train client
