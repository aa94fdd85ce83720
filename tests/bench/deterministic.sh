#!/bin/sh
# A storm and a calm run of deterministic rounds end with the same checksum.
#   deterministic.sh CHAOS DEADLINE_S [SEED [STEPS]]
set -eu
chaos=$1
deadline_s=$2
seed=${3:-21}
steps=${4:-240}
rounds="--json --mode sync --deterministic --seed $seed --steps $steps --deadline-s $deadline_s"

sum_of() {
    printf '%s\n' "$1" | sed -n 's/.*"checksum":"\([0-9a-f]*\)".*"ok":true.*/\1/p'
}

# shellcheck disable=SC2086
calm=$("$chaos" $rounds --ps 2 --workers 2 --step-us 0 || true)
# shellcheck disable=SC2086
storm=$("$chaos" $rounds --ps 3 --workers 3 --step-us 15000 --kill-workers-every 400 \
    --kill-ps-every 900 --kill-client-every 1700 --checkpoint-every-ms 150 || true)
printf '%s\n%s\n' "$calm" "$storm"
for kind in worker ps client; do
    printf '%s\n' "$storm" | grep -q "\"kills_$kind\":[1-9]" || {
        echo "no $kind was killed"
        exit 1
    }
done
if [ -z "$(sum_of "$calm")" ] || [ "$(sum_of "$calm")" != "$(sum_of "$storm")" ]; then
    echo "the checksums are '$(sum_of "$calm")' and, after the storm, '$(sum_of "$storm")'"
    exit 1
fi
