#!/bin/sh
# Trains the click example in jobs of a real Slurm: slurmctld and four slurmd on this host,
# in directories and at ports of their own.
#
#   tests/engines/slurm.sh     (as root, because slurmd starts the tasks of users)
#
# 1. a node is killed while the job trains; 2. scancel: a checkpoint is written; 3. a job is
# requeued while it trains, and goes on. Prints lines for the table of docs/engines.md.
set -eu
cd "$(dirname "$0")/../.."
. scripts/lib.sh
if [ "$(id -u)" != 0 ]; then
    say "slurmd needs root"
    exit 2
fi
# Node names have to be resolved: this process and its children see a file of their own.
if [ -z "${COX_OWN_HOSTS:-}" ]; then
    need slurm-wlm munge util-linux
    export COX_OWN_HOSTS=1
    exec unshare --mount --propagation private "$0"
fi
. tests/engines/click.sh
port=$((20000 + $$ % 5000 * 2))
finish() {
    for job in $(squeue -h -o %i 2>/dev/null); do
        scancel --signal=KILL --full "$job" || true
    done
    for process in $(cat "$work"/*.pid 2>/dev/null) $(for n in 1 2 3 4; do tasks_of n$n; done); do
        kill -9 "$process" 2>/dev/null || true
    done
    rm -rf "$work"
}

start_slurm() {
    mkdir -p "$work/state" "$work/home"
    host=$(hostname)
    { cat /etc/hosts; echo '127.0.0.1 n1 n2 n3 n4'; } >"$work/hosts"
    mount --bind "$work/hosts" /etc/hosts
    dd if=/dev/urandom of="$work/munge.key" bs=1024 count=1 2>/dev/null
    chmod 400 "$work/munge.key"
    chmod 711 "$work"
    munged --force --key-file="$work/munge.key" --socket="$work/munge.sock" \
        --pid-file="$work/munge.pid" --log-file="$work/munge.log" \
        --seed-file="$work/munge.seed" 2>/dev/null
    cat >"$work/slurm.conf" <<X
ClusterName=coxswain
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge.sock,cred_expire=10
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool.%n
SlurmctldPidFile=$work/ctld.pid
SlurmdPidFile=$work/slurmd.%n.pid
SlurmctldLogFile=$work/ctld.log
SlurmdLogFile=$work/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
MpiDefault=none
KillWait=30
SlurmdTimeout=10
BatchStartTimeout=30
NodeName=n[1-4] NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 1))-$((port + 4)) CPUs=2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
X
    export SLURM_CONF="$work/slurm.conf"
    slurmctld -c -f "$SLURM_CONF"
    for node in 1 2 3 4; do
        mkdir -p "$work/spool.n$node"
        slurmd -N n$node -f "$SLURM_CONF"
    done
    wait_for 30 "four idle nodes" four_idle
}
four_idle() { [ "$(sinfo -h -t idle -o %D)" = 4 ]; }

# submit OUT: prints the job's number.
submit() {
    sbatch --parsable -N 4 -n 8 --output="$1.log" --export=ALL \
        deploy/slurm/coxswain.sbatch "$bin/ctr" --train "$work/here/train.libsvm" \
        --valid "$work/here/valid.libsvm" --epochs $epochs --resume --out "$1"
}
# over JOB: it is no more in the queue, or has ended there.
over() {
    case "$(squeue -h -j "$1" -o %T 2>/dev/null)" in
    '' | COMPLETED | CANCELLED | FAILED | TIMEOUT | NODE_FAIL) return 0 ;;
    *) return 1 ;;
    esac
}
newest() { cat "$1/checkpoints/LATEST"; }
line() {
    printf '| Slurm | %s | `%s` | %s | %s |\n' "$(sinfo --version | cut -d' ' -f2)" \
        'sbatch -N 4 -n 8 deploy/slurm/coxswain.sbatch ctr' "$1" "$2"
}
# tasks_of NODE: the task processes of a node in our Slurm.
tasks_of() {
    # shellcheck disable=SC2046
    grep -lzx "SLURM_CONF=$SLURM_CONF" \
        $(grep -lzx "SLURMD_NODENAME=$1" /proc/[0-9]*/environ 2>/dev/null) 2>/dev/null |
        cut -d/ -f3
}
fail() {
    say "$1"
    tail -30 "$2" >&2
    exit 1
}

trap finish EXIT
build_click
stay_root
train_here
start_slurm
PATH=$bin:$PATH
export PATH HOME="$work/home"

# begins OUT: submits a job, and waits for its first checkpoint.
begins() {
    job=$(submit "$1")
    wait_for 90 "the first checkpoint" trains "$1" || fail "no checkpoint" "$1.log"
}
# ends OUT: waits for the end of the job, and checks what it has trained.
ends() {
    wait_for 240 "the end of job $job" over "$job" || fail "job $job goes on" "$1.log"
    sed 's/^ *[0-9]*: //' "$1.log" >"$1.plain"
    check "$1.plain" || fail "job $job is wrong" "$1.log"
}

# 1. A node is killed: its slurmd and all of its tasks.
begins "$work/killed"
kill -9 "$(cat "$work/slurmd.n4.pid")"
# shellcheck disable=SC2046
kill -9 $(tasks_of n4)
ends "$work/killed"
grep -q 'event=worker_lost' "$work/killed.log" || fail "no worker was lost" "$work/killed.log"
line 'a node (kill -9 of its slurmd and tasks)' "$trained"
slurmd -N n4 -f "$SLURM_CONF"
wait_for 90 "four idle nodes" four_idle

# 2. scancel: the client writes a checkpoint, from which another job goes on.
begins "$work/cancelled"
before=$(newest "$work/cancelled")
scancel "$job"
wait_for 60 "the end of job $job" over "$job" || fail "job $job goes on" "$work/cancelled.log"
saved=$(newest "$work/cancelled")
[ "$saved" != "$before" ] || fail "scancel has saved no checkpoint" "$work/cancelled.log"
wait_for 90 "four idle nodes" four_idle
job=$(submit "$work/cancelled")
ends "$work/cancelled"
grep -q 'going on from checkpoint' "$work/cancelled.log" || fail "not resumed" "$work/cancelled.log"
line 'scancel, then a new job' "a checkpoint at SIGTERM; $trained"
wait_for 90 "four idle nodes" four_idle

# 3. The job is requeued while it trains.
begins "$work/requeued"
scontrol requeue "$job"
ends "$work/requeued"
grep -q 'going on from checkpoint' "$work/requeued.log" || fail "not resumed" "$work/requeued.log"
line 'scontrol requeue' "$trained"
