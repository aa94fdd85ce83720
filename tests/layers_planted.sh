#!/bin/sh
# layers.sh must fail where an include points up or sideways, or is relative.
#   layers_planted.sh ROOT
set -eu
root=$1
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
for layer in schema common net objects checkpoint data http page ps worker cluster evaluator coordinator cli examples bench tests include; do
    cp -r "$root/$layer" "$copy"
done
"$root/tests/layers.sh" "$copy"

# plant FILE HEADER: FILE includes HEADER, which is not allowed.
plant() {
    printf '#include "%s"\n' "$2" >"$copy/$1"
    if "$root/tests/layers.sh" "$copy" >/dev/null; then
        echo "layers.sh lets $1 include $2"
        exit 1
    fi
    rm "$copy/$1"
}

plant schema/planted.h common/buffer.h
plant common/planted.c ps/store.h
plant common/planted.c net/link.h
plant net/planted.c checkpoint/manifest.h
plant checkpoint/planted.h net/link.h
plant objects/planted.h checkpoint/place.h
plant objects/planted.c net/link.h
plant net/planted.h objects/s3.h
plant checkpoint/planted.c data/stream.h
plant data/planted.h checkpoint/manifest.h
plant http/planted.h net/link.h
plant net/planted.c http/http.h
plant page/planted.h net/link.h
plant http/planted.c page/page.h
plant ps/planted.h data/stream.h
plant cluster/planted.c checkpoint/manifest.h
plant cluster/planted.h ps/store.h
plant cluster/planted.c worker/config.h
plant page/planted.h cluster/cluster.h
plant evaluator/planted.c coordinator/coordinator.h
plant ps/planted.c worker/run.h
plant worker/planted.h coordinator/coordinator.h
plant coordinator/planted.c ps/store.h
plant coordinator/planted.c common/log.h
plant coordinator/planted.c evaluator/evaluator.h
plant coordinator/base/planted.c coordinator/workers/worker.h
plant coordinator/workers/planted.c coordinator/closures/settle.h
plant coordinator/recovery/planted.h coordinator/checkpoints/resume.h
plant cli/planted.c ../net/link.h
plant examples/planted.c net/link.h
"$root/tests/layers.sh" "$copy"
