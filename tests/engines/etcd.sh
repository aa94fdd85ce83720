#!/bin/bash
# Trains the click model with a real etcd that everything is found through, over tcp with a key,
# and takes away what can be taken away: a ps is killed and comes back at another port, workers
# come and go, etcd is killed and started again, forgets changes, loses its data, and is gone for
# the rest of the run. Each row is trained on exactly once in each epoch all the same, and the
# model is as good as without all that. Ends with a line for the table in docs/engines.md.
#
#   tests/engines/etcd.sh [BIN]      BIN: the programs (default build/Release/bin)
#
# Needs etcd-server (Debian), which it installs if it is missing. Takes two minutes.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib.sh
. tests/engines/etcd_lib.sh
bin=$(realpath "${1:-build/Release/bin}")
need etcd-server curl python3

begin
etcd_start
prefix=/coxswain/clicks
export COX_ETCD="http://127.0.0.1:$etcd_port" COX_ETCD_PREFIX=$prefix COX_ETCD_TTL=2
export COX_CLUSTER='{"cluster": {"etcd": {"ps": 2}}}'
"$bin/coxswain" key new run.key >/dev/null
export COX_KEY_FILE=$work/run.key

ps_start() { # INDEX
    start "ps-$1" "$bin/coxswain-ps" $as_user --index "$1"
}
worker_start() { # NAME
    start "worker-$1" "$bin/coxswain-worker" $as_user --name "$1"
}

say "daemons register"
ps_start 0
ps_start 1
worker_start a
worker_start b
await_key "$prefix/ps/0" present
await_key "$prefix/ps/1" present

say "a second ps 1 is refused"
code=0
"$bin/coxswain-ps" $as_user --index 1 >second.log 2>&1 || code=$?
[ "$code" = 2 ] || fail "a second ps 1 ended with $code, not 2"
grep -q event=index_taken second.log || fail "a second ps 1 did not say why it ended"

start client "$bin/ctr" --out out --rows 200000 --epochs 40 --checkpoints 1
client=${pids[client]}
await client event=epoch_done 1

say "ps 1 is killed, and starts at another port"
before=$(address "$prefix/ps/1")
stop ps-1 KILL
ps_start 1
await client event=recovered 1
await client event=ps_moved 1
[ "$(address "$prefix/ps/1")" != "$before" ] || fail "ps 1 is at the same address"

say "workers come and go"
worker_start c
worker_start d
await client 'event=worker_joined.*at d ' 1
stop worker-a TERM
await client event=worker_left 1

say "etcd is killed, and starts again"
etcd_stop
await client event=etcd_lost 1
etcd_start
await client event=etcd_back 1

say "etcd forgets changes, and ps 0 moves"
etcd_compact
stop ps-0 KILL
ps_start 0
await client event=recovered 2
etcd_compact

say "a worker stands still for longer than its lease"
step=$(pgrep -P "${pids[worker-b]}" | head -1)
kill -STOP "$step"
await_key "$prefix/worker/b" absent
kill -CONT "$step"
await_key "$prefix/worker/b" present

say "etcd loses its data"
etcd_stop
rm -rf etcd
etcd_start
for key in ps/0 ps/1 client worker/b worker/c worker/d; do
    await_key "$prefix/$key" present
done

say "etcd is gone for the rest of the run"
etcd_stop
await client event=etcd_lost 2
await client event=epoch_done 20
stop worker-c KILL
finish client
auc=$(result auc)
[ "$(result examples)" = 8000000 ] || fail "trained on $(result examples) examples, not 8000000"
python3 -c "import sys; sys.exit(abs($auc - 0.8602) > 0.001)" || fail "the AUC is $auc, not 0.8602"
say "AUC $auc"
echo "| etcd | $(etcd --version | sed -n 's/^etcd Version: //p') | \`tests/engines/etcd.sh\` | 2 ps (kill -9, another port), 2 of 4 workers, etcd 4 times (kill -9; once without its data, at last for good), compaction, an expired lease | AUC $auc, each of 8,000,000 rows once |"
