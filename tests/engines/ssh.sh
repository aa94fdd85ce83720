#!/bin/bash
# Trains the click example with `coxswain launch`, against a real sshd: on loopback, and on
# hosts that are network namespaces (as root). Kills daemons, a connection and coxswain
# launch itself, and cuts a host off.
#
#   tests/engines/ssh.sh [BUILD]      BUILD: build/Release
#
# Prints a line for the table in docs/engines.md.
set -eu
cd "$(dirname "$0")/../.."
. scripts/lib.sh
need openssh-server openssh-client iproute2 python3

bin=$(realpath "${1:-build/Release}")/bin
dir=$(mktemp -d)
started=""
spaces=""
. tests/engines/lib.sh

clean_up() {
    code=$?
    if [ $code != 0 ]; then
        tail -n 20 "$dir"/*.said "$dir"/*.out >&2 || true
    fi
    for pid in $started; do
        kill "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    for space in $spaces; do
        ip netns del "$space"
    done
    rm -rf "$dir"
}
trap clean_up EXIT
trap 'exit 1' INT TERM

# ---- sshd

ssh-keygen -q -t ed25519 -N '' -f "$dir/host_key"
ssh-keygen -q -t ed25519 -N '' -f "$dir/user_key"
echo "all $(cat "$dir/host_key.pub")" >"$dir/known_hosts"
cat >"$dir/sshd_config" <<END
HostKey $dir/host_key
AuthorizedKeysFile $dir/user_key.pub
PidFile none
StrictModes no
UsePAM no
PermitRootLogin yes
PasswordAuthentication no
ClientAliveInterval 2
ClientAliveCountMax 2
END
[ -d /run/sshd ] || as_root mkdir -p /run/sshd

# ssh_config PORT ADDRESS ...: of hosts h1, h2, ...
ssh_config() {
    port=$1
    shift
    n=0
    for address in "$@"; do
        n=$((n + 1))
        printf 'Host h%d\n  HostName %s\n  Port %d\n' $n "$address" "$port"
    done
    cat <<END
Host *
  HostKeyAlias all
  IdentityFile $dir/user_key
  IdentitiesOnly yes
  UserKnownHostsFile $dir/known_hosts
END
}

# answers ADDRESS PORT [COMMAND ...]
answers() {
    answers_at="/dev/tcp/$1/$2"
    shift 2
    "$@" bash -c "exec 3<>$answers_at" 2>/dev/null
}

# launch FILE PREFIX ...: in the background; $launch is its process id.
launch() {
    file=$1
    shift
    "$@" "$bin/coxswain" launch --ssh "ssh -F $dir/ssh_config" --remote-bin-dir "$bin" \
        --ps 2 --workers 4 --peer-timeout-ms 3000 h1,h2,h3 -- \
        "$(click_client "$file")" 2>"$file.said" &
    launch=$!
    started="$started $launch"
    await 60 "the first epoch" grep -qs 'event=epoch_done' "$file.out"
}

finish() {
    if ! wait "$launch"; then
        cat "$1.said" "$1.out" >&2
        say "coxswain launch has failed"
        exit 1
    fi
    click_result "$1.out"
    await 5 "the end of all daemons" all_ended "$1"
}

# ---- on loopback: a worker, a ps, a connection

port=$(python3 -c 'import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])')
/usr/sbin/sshd -D -f "$dir/sshd_config" -o "ListenAddress=127.0.0.1:$port" -E "$dir/sshd.log" >/dev/null 2>&1 &
started=$!
await 10 "sshd" answers 127.0.0.1 "$port"
ssh_config "$port" 127.0.0.1 127.0.0.1 127.0.0.1 >"$dir/ssh_config"

launch "$dir/loopback"
kill -9 "$(pids_at "$(address_of "$dir/loopback" worker 1)")"
kill -9 "$(pids_at "$(address_of "$dir/loopback" ps 0)")"
await 60 "a ps that is back" grep -q 'event=recovered' "$dir/loopback.out"
for child in $(cat "/proc/$launch/task/$launch/children"); do
    if tr '\0' '\n' <"/proc/$child/cmdline" | grep -qxF h2; then
        kill -9 "$child" # its ssh
    fi
done
await 60 "a host that is started again" grep -q 'host h2: its connection has ended' \
    "$dir/loopback.said"
finish "$dir/loopback"
killed="a worker, a ps, the ssh of a host"

# ---- coxswain launch is killed: nothing stays

launch "$dir/killed"
kill -9 "$launch"
{ wait "$launch"; } 2>/dev/null || true
await 10 "the end of all daemons" all_ended "$dir/killed"
kill "$(cat "$dir/killed.pid")" # the client, which would wait for its ps
killed="$killed, \`coxswain launch\`"

# ---- namespaces: a host is cut off

if [ "$(id -u)" = 0 ] && ip netns add "cox-$$-c" 2>/dev/null; then
    spaces="cox-$$-c"
    ip -n "cox-$$-c" link set lo up
    ip -n "cox-$$-c" link add bridge0 type bridge
    ip -n "cox-$$-c" addr add 10.77.0.1/24 dev bridge0
    ip -n "cox-$$-c" link set bridge0 up
    for i in 1 2 3; do
        ip netns add "cox-$$-$i"
        spaces="$spaces cox-$$-$i"
        ip link add "h$i" netns "cox-$$-c" type veth peer name eth netns "cox-$$-$i"
        ip -n "cox-$$-c" link set "h$i" master bridge0 up
        ip -n "cox-$$-$i" addr add "10.77.0.1$i/24" dev eth
        ip -n "cox-$$-$i" link set eth up
        ip -n "cox-$$-$i" link set lo up
        ip netns exec "cox-$$-$i" /usr/sbin/sshd -D -f "$dir/sshd_config" \
            -o "ListenAddress=10.77.0.1$i:22" -E "$dir/sshd-$i.log" >/dev/null 2>&1 &
        started="$started $!"
        await 10 "sshd" answers "10.77.0.1$i" 22 ip netns exec "cox-$$-c"
    done
    ssh_config 22 10.77.0.11 10.77.0.12 10.77.0.13 >"$dir/ssh_config"
    launch "$dir/cut" ip netns exec "cox-$$-c"
    ip -n "cox-$$-c" link set h2 down
    await 60 "a host that is cut off" grep -q 'host h2: its connection has ended' \
        "$dir/cut.said"
    ip -n "cox-$$-c" link set h2 up
    finish "$dir/cut"
    killed="$killed; the network of a host (of 3 namespaces)"
else
    say "no network namespaces here (they need root): no host is cut off"
fi

version=$(ssh -V 2>&1 | sed 's/[ ,].*//; s/_/ /')
echo "| ssh | $version | \`tests/engines/ssh.sh\` | $killed | $(click_result "$dir/loopback.out") |"
