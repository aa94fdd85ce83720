# Shared by the scripts beside it, after etcd_lib.sh; sourced. Four hosts as network namespaces, each
# with an address of its own (10.77.0.1 to 10.77.0.4), on a switch in a fifth one.
[ "$(id -u)" = 0 ] || {
    say "namespaces need root"
    exit 2
}
network=cox$$

remove_hosts() {
    for host in switch 1 2 3 4; do
        ip netns del "$network-$host" 2>/dev/null || true
    done
}

make_hosts() {
    ip netns add "$network-switch"
    ip -n "$network-switch" link add br0 type bridge
    ip -n "$network-switch" link set br0 up
    for host in 1 2 3 4; do
        ip netns add "$network-$host"
        ip -n "$network-$host" link set lo up
        ip -n "$network-switch" link add "p$host" type veth peer name eth0 netns "$network-$host"
        ip -n "$network-switch" link set "p$host" master br0 up
        ip -n "$network-$host" addr add "10.77.0.$host/24" dev eth0
        ip -n "$network-$host" link set eth0 up
    done
}

# Runs a command on a host.
on() { # HOST COMMAND...
    local host=$1
    shift
    exec ip netns exec "$network-$host" "$@"
}

# Sets $gateway to versitygw (a store of objects that speaks S3), compiled unless COX_TEST_VERSITYGW names it.
find_gateway() {
    gateway=${COX_TEST_VERSITYGW:-$work/bin/versitygw}
    if [ ! -x "$gateway" ]; then
        say "building versitygw"
        GOPATH=$work/go GOBIN=$work/bin GOFLAGS=-modcacherw \
            go install github.com/versity/versitygw/cmd/versitygw@v1.8.0 2>"$work/go.log"
    fi
}

# Starts a program on a host, as a name that says which.
start_on() { # HOST NAME COMMAND...
    start "$2" on "$1" "${@:3}"
}
