#!/bin/bash
# Trains the click example with the units of deploy/systemd under a real systemd: the one of this
# host, as the first process of namespaces of its own, on a copy of this host's files that is
# kept in memory. Its network is a loopback of its own. Does what docs/engines.md says, kills a
# ps and a worker, stops the client and starts it again, and gives a ps a wrong option.
#
#   tests/engines/systemd_started.sh
#
# Needs root, overlayfs and a mounted cgroup2. Takes two minutes. Prints a line for the table in
# docs/engines.md.
set -eu
cd "$(dirname "$0")/../.."
. scripts/lib.sh
if [ "$(id -u)" != 0 ]; then
    say "a systemd of our own needs root"
    exit 2
fi
need systemd util-linux iproute2 cmake
. tests/engines/click.sh
groups=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
group=$groups/coxswain-$$
unshared=
finish() {
    if [ -n "$unshared" ]; then
        kill -9 "$unshared" 2>/dev/null || true # and systemd with it (--kill-child)
        wait "$unshared" 2>/dev/null || true
    fi
    until [ ! -d "$group" ] || find "$group" -depth -type d -exec rmdir {} + 2>/dev/null; do
        sleep 0.1
    done
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' INT TERM

# ---- a host of its own

# Becomes systemd. The first process of the namespaces; $1: an empty directory.
boot() {
    mount -t tmpfs -o size=2g tmpfs "$1"
    mkdir "$1/upper" "$1/work" "$1/root"
    mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
    cp -r "$work/out/." "$1/root"
    cp -r deploy "$1/root/root"
    cd "$1/root"
    mount -t proc proc proc
    mount -t sysfs sysfs sys
    mount -t cgroup2 cgroup2 sys/fs/cgroup
    for directory in run tmp dev; do
        mount -t tmpfs -o mode=755 tmpfs $directory
    done
    chmod 1777 tmp
    mkdir dev/pts dev/shm
    for device in null:3 zero:5 full:7 random:8 urandom:9; do
        mknod -m 666 "dev/${device%:*}" c 1 "${device#*:}"
    done
    mknod -m 666 dev/tty c 5 0
    mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
    ln -s pts/ptmx dev/ptmx
    ln -s /proc/self/fd dev/fd
    : >etc/fstab
    echo 0123456789abcdef0123456789abcdef >etc/machine-id
    # what concerns the machine, and not this host of ours
    for unit in systemd-udevd.service systemd-udevd-kernel.socket systemd-udevd-control.socket \
        systemd-udev-trigger.service systemd-sysctl.service systemd-modules-load.service timers.target; do
        ln -sf /dev/null "etc/systemd/system/$unit"
    done
    printf '[Unit]\nRequires=basic.target\nAfter=basic.target\n' >etc/systemd/system/test.target
    ip link set lo up
    ip address add 10.0.0.1/32 dev lo
    mkdir before
    pivot_root . before
    cd /
    umount -l before
    exec env -i container=coxswain PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd \
        --unit=test.target --log-target=null
}

# there COMMAND: runs a shell's command under that systemd.
there() {
    nsenter -t "$(head -1 "$group/init.scope/cgroup.procs")" -m -p -u -i -n -C -r -w \
        bash -euc "$1"
}
is_up() { there 'systemctl is-active -q test.target'; }
said() { there 'journalctl -o cat --no-pager -u coxswain-job@client' >"$work/client.log"; }
client_says() {
    said
    grep -q "$1" "$work/client.log"
}
is_active() { there "systemctl is-active -q $1"; }
is_over() { ! is_active coxswain-job@client; }
fail() {
    say "$1"
    there 'journalctl -o cat --no-pager -n 40' >&2 || true
    exit 1
}

build_click
train_here
DESTDIR=$work/out cmake --install build/Release --prefix /usr >/dev/null
install -D -t "$work/out/opt/coxswain-job" "$bin/ctr" "$bin/ctr_steps.so"
cat >"$work/out/opt/coxswain-job/client" <<END
#!/bin/sh
exec /opt/coxswain-job/ctr --train /opt/coxswain-job/train.libsvm --valid /opt/coxswain-job/valid.libsvm \
    --epochs $epochs --resume --out /var/lib/coxswain/checkpoints/run
END
chmod 755 "$work/out/opt/coxswain-job/client"
cp "$work/here/train.libsvm" "$work/here/valid.libsvm" "$work/out/opt/coxswain-job"
chmod 644 "$work/out/opt/coxswain-job/"*.libsvm
mkdir "$work/disk" "$group"
(
    trap - EXIT
    echo $BASHPID >"$group/cgroup.procs"
    export work
    export -f boot
    exec unshare --fork --kill-child --pid --mount --uts --ipc --net --cgroup --propagation private \
        bash -euc "boot $work/disk"
) >"$work/boot.log" 2>&1 &
unshared=$!
wait_for 60 "systemd" is_up || { cat "$work/boot.log" >&2; exit 1; }

# ---- as docs/engines.md says

there 'cd /root
cp deploy/systemd/*.service /etc/systemd/system/
cp deploy/systemd/coxswain.sysusers /usr/lib/sysusers.d/coxswain.conf && systemd-sysusers 2>/dev/null
cp deploy/systemd/coxswain.tmpfiles /usr/lib/tmpfiles.d/coxswain.conf && systemd-tmpfiles --create coxswain.conf
coxswain key new run.key >/dev/null
for role in ps worker job; do install -o coxswain-$role -m 0400 run.key /etc/coxswain/$role.key; done
for i in 0 1; do
    echo COX_PS_LISTEN=10.0.0.1:400$i >/etc/coxswain/ps-$i.env
    echo COX_WORKER_LISTEN=10.0.0.1:410$i >/etc/coxswain/worker-$i.env
done
echo "COX_CLUSTER={\"ps\": [\"10.0.0.1:4000\", \"10.0.0.1:4001\"], \"worker\": [\"10.0.0.1:4100\", \"10.0.0.1:4101\"]}" \
    >/etc/coxswain/job.env
systemctl enable -q --now coxswain-ps@0 coxswain-ps@1 coxswain-worker@0 coxswain-worker@1
systemctl start coxswain-job@client'
wait_for 60 "the first epoch" client_says event=epoch_done || fail "the client does not train"

there 'systemctl kill -s KILL coxswain-ps@0 coxswain-worker@1'
wait_for 60 "a ps that is back" client_says event=recovered || fail "ps 0 is not back"
there 'systemctl stop coxswain-job@client && systemctl start coxswain-job@client'
wait_for 300 "the end of the client" is_over || fail "the client does not end"
said
check "$work/client.log" || fail "the client has failed"
grep -q 'going on from checkpoint' "$work/client.log" || fail "the client has begun anew"
for unit in coxswain-ps@0 coxswain-worker@1; do
    [ "$(there "systemctl show -P NRestarts $unit")" -ge 1 ] || fail "$unit was not started again"
done

there 'echo COX_PS_MEMORY_MAX=much >>/etc/coxswain/ps-1.env; systemctl restart coxswain-ps@1' || true
wait_for 20 "the end of ps 1" there '[ "$(systemctl is-failed coxswain-ps@1)" = failed ]' ||
    fail "a ps with a wrong option is started again and again"
printf '| systemd | %s | %s | %s | %s |\n' \
    "$(systemctl --version | sed -n '1s/^systemd \([0-9]*\).*/\1/p'), in namespaces" \
    '`tests/engines/systemd_started.sh`' \
    'a ps and a worker (kill -9); the client (stopped and started)' \
    "$trained; a ps with a wrong option stays ended"
