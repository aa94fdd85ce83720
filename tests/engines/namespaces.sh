#!/bin/bash
# Four hosts as network namespaces, each with an address of its own, on a switch in a fifth one.
# The click model is trained on them twice over tcp under one key: found through etcd, where a whole
# host dies and its ps comes up on another one; and with TF_CONFIG, where workers dial in from other hosts and
# a ps comes back where it was. In both a worker with another key stays outside. Ends with lines for the table in
# docs/engines.md.
#
#   tests/engines/namespaces.sh [BIN]      BIN: the programs (default build/Release/bin)
#
# Needs root, and etcd-server and iproute2 (Debian), which it installs if they are missing. Takes two
# minutes. Namespaces and processes end with it.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib.sh
. tests/engines/etcd_lib.sh
. tests/engines/hosts_lib.sh
bin=$(realpath "${1:-build/Release/bin}")
need etcd-server iproute2 curl python3

# The address and port of a stranger with another key must not help it. Connections that end while
# they begin are denied, too, so that alone proves nothing.
denied() {
    grep -q event=connection_denied "$work"/ps-*.log "$work/client.log"
}
check_strangers() {
    until_true "the stranger is denied" denied
    ! grep -q 'event=worker_joined.*stranger' "$work/client.log" || fail "the stranger has joined"
    for host in "$@"; do
        grep -q "event=worker_joined.*at w$host " "$work/client.log" || fail "worker w$host has not joined"
    done
}

check() {
    auc=$(result auc)
    [ "$(result examples)" = 2000000 ] || fail "trained on $(result examples) examples, not 2000000"
    python3 -c "import sys; sys.exit(abs($auc - 0.8486) > 0.001)" || fail "the AUC is $auc, not 0.8486"
    say "AUC $auc"
}

begin
trap 'remove_hosts; end' EXIT
make_hosts
"$bin/coxswain" key new run.key >/dev/null
"$bin/coxswain" key new other.key >/dev/null
export COX_KEY_FILE=$work/run.key
rows=(--rows 200000 --epochs 10 --checkpoints 1)

say "four hosts through etcd"
etcd_host=10.77.0.1
etcd_port=2379
etcd_peer=2380
etcd_in=(ip netns exec "$network-1")
etcd_start
through=(env "COX_ETCD=http://10.77.0.1:2379" COX_ETCD_PREFIX=/coxswain/hosts COX_ETCD_TTL=2
    'COX_CLUSTER={"cluster": {"etcd": {"ps": 2}}}')
start_on 2 ps-0 "${through[@]}" "$bin/coxswain-ps" $as_user --index 0
start_on 3 ps-1 "${through[@]}" "$bin/coxswain-ps" $as_user --index 1
for host in 2 3 4; do
    start_on "$host" "worker-$host" "${through[@]}" "$bin/coxswain-worker" $as_user --name "w$host"
done
start_on 4 stranger "${through[@]}" COX_KEY_FILE="$work/other.key" \
    "$bin/coxswain-worker" $as_user --name stranger
start_on 1 client "${through[@]}" "$bin/ctr" --out etcd-out "${rows[@]}"
await client event=epoch_done 1

say "host 3 dies, and its ps comes up on host 4"
ip -n "$network-switch" link set p3 down
stop ps-1 KILL
stop worker-3 KILL
start_on 4 ps-1 "${through[@]}" "$bin/coxswain-ps" $as_user --index 1
await client 'event=ps_moved.*10.77.0.4' 1
await client event=recovered 1
finish client
check_strangers 2 3 4
check
say "| 4 hosts, etcd | network namespaces, etcd $(etcd --version | sed -n 's/^etcd Version: //p') | \`tests/engines/namespaces.sh\` | a host with a ps and a worker; the ps comes up on another host | AUC $auc, each of 2,000,000 rows once |"
for name in ps-0 ps-1 worker-2 worker-4 stranger etcd; do
    stop "$name" KILL
done
ip -n "$network-switch" link set p3 up
mv client.log etcd-client.log
rm -f ps-*.log

say "four hosts through TF_CONFIG, workers dial in"
hosts='"cluster": {"chief": ["10.77.0.1:2221"], "ps": ["10.77.0.2:2222", "10.77.0.3:2222"]}'
tf_ps() { # HOST INDEX
    start_on "$1" "ps-$2" env "TF_CONFIG={$hosts, \"task\": {\"type\": \"ps\", \"index\": $2}}" \
        "$bin/coxswain-ps" $as_user
}
# It lists no worker: workers dial the chief.
tf_worker() { # HOST NAME [VARIABLE=VALUE]
    start_on "$1" "worker-$2" env "TF_CONFIG={$hosts, \"task\": {\"type\": \"worker\", \"index\": $1}}" \
        "${@:3}" "$bin/coxswain-worker" $as_user --name "$2"
}
tf_ps 2 0
tf_ps 3 1
for host in 2 3 4; do
    tf_worker "$host" "w$host"
done
tf_worker 4 stranger COX_KEY_FILE="$work/other.key"
start_on 1 client env "TF_CONFIG={$hosts, \"task\": {\"type\": \"chief\", \"index\": 0}}" \
    "$bin/ctr" --out tf-out "${rows[@]}"
await client event=epoch_done 1

say "ps 1 and the worker on host 3 are killed, and start again"
stop ps-1 KILL
stop worker-w3 KILL
tf_ps 3 1
tf_worker 3 w3
await client event=recovered 1
finish client
check_strangers 2 3 4
check
say "| 4 hosts, TF_CONFIG | network namespaces | \`tests/engines/namespaces.sh\` | a ps and a worker (kill -9) | AUC $auc, each of 2,000,000 rows once |"
