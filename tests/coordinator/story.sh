#!/bin/sh
# Prints what the library tells while a worker, a ps, the disk and the network fail in turn.
#   story.sh BUILD        (a build with tests, as build/Asan; takes 50 s)
#
# Needs no root: it runs in namespaces of its own, with a disk of 4 MiB, and with a network in
# which the client is one host and the daemons are another. The client writes to the standard
# error of this script; docs/failures.md shows that output.
set -eu
if [ -z "${STORY_INSIDE-}" ]; then
    exec env STORY_INSIDE=1 unshare --map-root-user --mount --net --pid --fork --mount-proc "$0" "$@"
fi
build=$(cd "$1" && pwd)
dir=$(mktemp -d)
trap 'umount "$dir/disk" && rm -rf "$dir"' EXIT
mkdir "$dir/disk"
mount -t tmpfs -o size=4m none "$dir/disk"
ip link set lo up
ip link add servers type veth peer name client
unshare --net sleep 1000 &
client=$!
until [ "$(readlink /proc/$client/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do :; done
ip link set client netns $client
ip addr add 10.77.0.1/24 dev servers
ip link set servers up
nsenter -t $client -n ip addr add 10.77.0.2/24 dev client
nsenter -t $client -n ip link set client up
nsenter -t $client -n ip link set lo up

ps() {
    "$build/bin/coxswain-ps" --user root --index "$1" --listen "tcp://10.77.0.1:400$1" --insecure \
        --peer-timeout-ms 3000 2>>"$dir/ps-$1.log" &
    eval "ps_$1=\$!"
}
worker() {
    "$build/bin/coxswain-worker" --user root --index "$1" --listen "tcp://10.77.0.1:500$1" --insecure \
        --peer-timeout-ms 3000 2>>"$dir/worker-$1.log" &
    eval "worker_$1=\$!"
}
ps 0
ps 1
worker 0
worker 1
export COX_CLUSTER='{"ps": ["10.77.0.1:4000", "10.77.0.1:4001"], "worker": ["10.77.0.1:5000", "10.77.0.1:5001"]}'
nsenter -t $client -n "$build/bin/client_story" "$build/test-modules/counter.so" "$dir/disk/ckpt" 40 &
story=$!
sleep 4
kill -9 "$worker_1"
sleep 2
worker 1
sleep 3
kill -9 "$ps_1"
sleep 2
ps 1
sleep 4
dd if=/dev/zero of="$dir/disk/full" bs=64k 2>/dev/null || true
sleep 14
rm "$dir/disk/full"
sleep 3
ip link set servers down
sleep 5
ip link set servers up
wait $story
kill "$ps_0" "$ps_1" "$worker_0" "$worker_1" $client
