#!/bin/sh
# Reads what other programs write, and has them read what Coxswain writes: pandas (CSV), the
# tfrecord package and TensorFlow (TFRecord, tf.Example), moto (S3). They come from PyPI into
# a throw-away environment. ctest does not run this.
#
#   tests/data/interoperable.sh [--without-tensorflow] [BUILD]     BUILD: build/Release
set -eu
cd "$(dirname "$0")/../.."
. scripts/lib.sh
wheels="pandas tfrecord moto[server,s3] boto3 tensorflow-cpu"
if [ "${1:-}" = --without-tensorflow ]; then
    wheels=${wheels% tensorflow-cpu}
    shift
fi
build=$(cd "${1:-build/Release}" && pwd)
need python3-venv
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
# shellcheck disable=SC2086
"$dir/venv/bin/pip" -q install $wheels
mkdir "$dir/files"
"$dir/venv/bin/python" tests/data/interoperable.py "$build/bin/coxswain" "$dir/files"
