# Shared by the scripts beside it, after etcd_lib.sh and hosts_lib.sh; sourced. A Kubernetes of the script's own:
# etcd, API server, controllers, scheduler and CoreDNS on a host (the switch's namespace, 10.77.0.254), and on
# hosts 1 and 2 a node each: containerd and a kubelet, in namespaces for the network, mounts and processes,
# so that kill -9 of its first process is the end of the node and of all that it runs.
#
# Programs come from $kubernetes/bin. Those that are missing are compiled from Go's module proxy, which
# takes about 20 minutes.
kubernetes=${COX_TEST_KUBERNETES:-/var/tmp/coxswain-kubernetes}
kubernetes_version=1.33.13
coredns_version=1.14.7
control=10.77.0.254
token=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')

kubernetes_built() {
    local name
    for name in kubelet kube-apiserver kube-controller-manager kube-scheduler coredns; do
        [ -x "$kubernetes/bin/$name" ] || return 1
    done
}

# k8s.io/kubernetes takes its own libraries from a folder that its module does not have: here from the
# modules of the same release.
build_kubernetes() {
    local module=k8s.io/kubernetes@v$kubernetes_version name
    local stamp=k8s.io/component-base/version
    export GOPATH=$kubernetes/go GOFLAGS="-modcacherw -mod=mod" GOTOOLCHAIN=local
    say "compiling Kubernetes $kubernetes_version in $kubernetes: about 20 minutes"
    mkdir -p "$kubernetes/bin"
    (cd "$kubernetes" && go mod download "$module")
    rm -rf "$kubernetes/src"
    cp -r "$GOPATH/pkg/mod/$module" "$kubernetes/src"
    rm -rf "$kubernetes/src/"{go.work,go.work.sum,vendor}
    sed -i -E -e '/ => \.\/staging\//d' \
        -e "s#^(\tk8s\.io/[a-z-]+) v0\.0\.0\$#\1 v0.${kubernetes_version#1.}#" "$kubernetes/src/go.mod"
    for name in kubelet kube-apiserver kube-controller-manager kube-scheduler; do
        (cd "$kubernetes/src" && go build -o "$kubernetes/bin/$name" -ldflags \
            "-s -w -X $stamp.gitVersion=v$kubernetes_version -X $stamp.gitMajor=1 -X $stamp.gitMinor=33" ./cmd/$name)
    done
    GOBIN=$kubernetes/bin go install -ldflags "-s -w" "github.com/coredns/coredns@v$coredns_version"
}

# ---- the host with everything but nodes

on_control() { # NAME COMMAND...
    start "$1" nsenter --net="/run/netns/$network-switch" "${@:2}"
}

api_answers() {
    [ "$(kubectl get --raw /readyz 2>/dev/null)" = ok ]
}

control_start() {
    ip -n "$network-switch" link set lo up
    ip -n "$network-switch" addr add $control/24 dev br0
    for host in 1 2; do
        ip -n "$network-switch" route add "10.244.$host.0/24" via "10.77.0.$host"
    done
    openssl genrsa -out service.key 2048 2>/dev/null
    openssl rsa -in service.key -pubout -out service.pub 2>/dev/null
    echo "$token,admin,admin,system:masters" >tokens.csv
    cat >kubeconfig <<END
apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: "https://$control:6443", insecure-skip-tls-verify: true}}]
users: [{name: admin, user: {token: $token}}]
contexts: [{name: test, context: {cluster: test, user: admin}}]
current-context: test
END
    chmod 0600 tokens.csv kubeconfig
    on_control etcd etcd --data-dir "$work/etcd"
    on_control api "$kubernetes/bin/kube-apiserver" --etcd-servers=http://127.0.0.1:2379 \
        --bind-address=$control --advertise-address=$control --cert-dir="$work/certificates" \
        --kubelet-preferred-address-types=InternalIP --token-auth-file="$work/tokens.csv" --authorization-mode=RBAC --allow-privileged \
        --service-cluster-ip-range=10.96.0.0/16 --service-account-issuer=https://$control \
        --service-account-key-file="$work/service.pub" \
        --service-account-signing-key-file="$work/service.key"
    until_true "the API server answers" api_answers
    on_control controllers "$kubernetes/bin/kube-controller-manager" --kubeconfig="$work/kubeconfig" \
        --service-account-private-key-file="$work/service.key" --leader-elect=false
    on_control scheduler "$kubernetes/bin/kube-scheduler" --kubeconfig="$work/kubeconfig" --leader-elect=false
    cat >Corefile <<END
cluster.local {
    bind $control
    kubernetes {
        kubeconfig $work/kubeconfig
        ttl 0
    }
}
END
    on_control dns "$kubernetes/bin/coredns" -conf "$work/Corefile"
}

# kubectl of this cluster, from this host into the namespace of the API server.
kubectl() {
    nsenter --net="/run/netns/$network-switch" "$kubectl" --kubeconfig="$work/kubeconfig" "$@"
}

# ---- nodes

# What a node is: its first process.
node_start() { # HOST
    local node=$work/node-$1
    mkdir -p "$node/cni"
    cat >"$node/cni/10-bridge.conf" <<END
{"cniVersion": "0.4.0", "name": "pods", "type": "bridge", "bridge": "cni0", "isGateway": true,
 "ipam": {"type": "host-local", "dataDir": "$node/addresses",
          "ranges": [[{"subnet": "10.244.$1.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}
END
    cat >"$node/containerd.toml" <<END
version = 2
root = "$node/containerd"
state = "$node/run"
[grpc]
address = "$node/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "localhost/pause:1"
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "$node/cni"
[plugins."io.containerd.grpc.v1.cri".containerd]
default_runtime_name = "runc"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
END
    cat >"$node/kubelet.yaml" <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 10.77.0.$1
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
cgroupRoot: /$network-$1
clusterDNS: [$control]
clusterDomain: cluster.local
containerRuntimeEndpoint: unix://$node/containerd.sock
enforceNodeAllocatable: []
evictionHard: {memory.available: "0%", nodefs.available: "0%", imagefs.available: "0%"}
failSwapOn: false
imageGCHighThresholdPercent: 100
localStorageCapacityIsolation: false
nodeStatusUpdateFrequency: 2s
podLogsDir: $node/logs
resolvConf: ""
syncFrequency: 2s
END
    cat >"$node/start.sh" <<END
# where kubelet and containerd leave things whatever their options say
for place in /run /var/lib /var/log /usr/libexec; do mount -t tmpfs none "\$place"; done
mkdir -p /run/netns
containerd --config "$node/containerd.toml" --log-level warn &
for image in $work/images/*.tar; do
    until ctr --address "$node/containerd.sock" -n k8s.io images import "\$image"; do sleep 0.2; done
done
exec "$kubernetes/bin/kubelet" --config="$node/kubelet.yaml" --kubeconfig="$work/kubeconfig" \
    --hostname-override="node-$1" --node-ip="10.77.0.$1" --root-dir="$node/kubelet"
END
    ip netns exec "$network-$1" sysctl -qw net.ipv4.ip_forward=1
    ip -n "$network-$1" route add "10.244.$((3 - $1)).0/24" via "10.77.0.$((3 - $1))"
    for group in cpu cpuacct cpuset memory pids systemd; do
        mkdir -p "/sys/fs/cgroup/$group/$network-$1"
    done
    cat /sys/fs/cgroup/cpuset/cpuset.cpus >"/sys/fs/cgroup/cpuset/$network-$1/cpuset.cpus"
    cat /sys/fs/cgroup/cpuset/cpuset.mems >"/sys/fs/cgroup/cpuset/$network-$1/cpuset.mems"
    start "node-$1" nsenter --net="/run/netns/$network-$1" unshare --mount --propagation=private --pid \
        --fork --kill-child --mount-proc sh "$node/start.sh"
}

# A kubelet sets these for its whole host: each with its value of before.
declare -A tunables=()
keep_tunables() {
    local name
    for name in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops \
        kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
        tunables[$name]=$(cat /proc/sys/$name)
    done
}

restore_tunables() {
    local name
    for name in "${!tunables[@]}"; do
        echo "${tunables[$name]}" >"/proc/sys/$name"
    done
}

# Waits until no process is left in a control group.
until_empty() { # DIRECTORY
    local n=0
    while [ -n "$(find "$1" -name cgroup.procs -exec cat {} + 2>/dev/null)" ] && [ $n -lt 100 ]; do
        n=$((n + 1))
        sleep 0.1
    done
}

nodes_stop() {
    local host
    for host in 1 2; do
        if [ -n "${pids[node-$host]:-}" ] && kill -KILL "${pids[node-$host]}" 2>/dev/null; then
            wait "${pids[node-$host]}" || true
        fi
        until_empty "/sys/fs/cgroup/cpu/$network-$host"
        find /sys/fs/cgroup/*/"$network-$host" -depth -type d -exec rmdir {} + 2>/dev/null || true
    done
}
