#!/bin/sh
# Trains the click example under Open MPI's mpirun, and kills a worker meanwhile. Then a client that
# fails at once must not leave a job that waits.
#
#   tests/engines/mpi.sh
#
# Prints a line for the table of docs/engines.md.
set -eu
cd "$(dirname "$0")/../.."
. scripts/lib.sh
need openmpi-bin
. tests/engines/click.sh
mpirun_pid=
finish() {
    if [ -n "$mpirun_pid" ] && kill -0 "$mpirun_pid" 2>/dev/null; then
        kill "$mpirun_pid" || true
        wait "$mpirun_pid" || true
    fi
    rm -rf "$work"
}
trap finish EXIT
build_click
stay_root
train_here

# Without a client for 3 s the daemons end, and mpirun with them. --enable-recovery: mpirun
# goes on when a process dies. Sockets: no key, and no port.
export COX_PS_END_WITHOUT_CLIENT=3 COX_WORKER_END_WITHOUT_CLIENT=3
root=
if [ "$(id -u)" = 0 ]; then
    root=--allow-run-as-root
fi
timeout 300 mpirun $root --oversubscribe --enable-recovery \
    -np 1 "$bin/ctr" --rows $rows --epochs $epochs --out "$work/out" : \
    -np 2 "$bin/coxswain-ps" : -np 4 "$bin/coxswain-worker" >"$work/log" 2>&1 &
mpirun_pid=$!
wait_for 60 "the first checkpoint" trains "$work/out" || { tail -20 "$work/log" >&2; exit 1; }
worker=$(child_of "$mpirun_pid" "$bin/coxswain-worker")
kill -9 "$worker"
code=0
wait "$mpirun_pid" || code=$?
mpirun_pid=
check "$work/log" || { tail -40 "$work/log" >&2; exit 1; }
grep -q 'event=worker_lost' "$work/log" || { say "no worker was lost"; exit 1; }

COX_PS_FIRST_CLIENT_WITHIN=2 COX_WORKER_FIRST_CLIENT_WITHIN=2 timeout 60 \
    mpirun $root --oversubscribe --enable-recovery -np 1 /bin/false : \
    -np 1 "$bin/coxswain-ps" : -np 2 "$bin/coxswain-worker" >"$work/failed" 2>&1 || failed=$?
if [ "${failed:-0}" = 124 ] || [ "$(grep -c event=no_client "$work/failed")" != 3 ]; then
    tail -40 "$work/failed" >&2
    say "a job whose client has failed goes on"
    exit 1
fi
printf '| Open MPI | %s | %s | %s | %s |\n' \
    "$(mpirun --version | sed -n '1s/.*) //p')" \
    '`mpirun --enable-recovery -np 1 ctr : -np 2 coxswain-ps : -np 4 coxswain-worker`' \
    'a worker (kill -9); then a client that fails at once' \
    "$trained; mpirun exits $code; the daemons end"
