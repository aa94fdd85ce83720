#!/bin/bash
# Checks the units in deploy/systemd, without starting a systemd: that systemd-analyze has
# nothing to say against them, that their exposure is low, and that daemons which train the
# click example do nothing that the units forbid: system calls, memory that is written and
# executed, files of /proc. Workers confine their steps, as in the unit.
#
#   tests/engines/systemd.sh [BUILD]      BUILD: build/Release
#
# Prints a line for the table in docs/engines.md.
set -eu
cd "$(dirname "$0")/../.."
. scripts/lib.sh
need systemd strace python3

exposure_max=1.5
bin=$(realpath "${1:-build/Release}")/bin
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
. tests/engines/lib.sh

# ---- what systemd-analyze says. Programs are where they will be only once installed.

mkdir "$dir/units"
for unit in deploy/systemd/*.service; do
    sed 's|^ExecStart=[^ ]*|ExecStart=/bin/true|' "$unit" >"$dir/units/$(basename "$unit")"
done
units="coxswain-ps@0 coxswain-worker@0 coxswain-job@client"
worst=0
for unit in $units; do
    said=$(SYSTEMD_LOG_LEVEL=warning systemd-analyze verify --man=no "$dir/units/$unit.service" 2>&1 || true)
    if [ -n "$said" ]; then
        say "systemd-analyze verify: $said"
        exit 1
    fi
    level=$(systemd-analyze security --offline=true "$dir/units/$unit.service" |
        sed -n 's/.*exposure level for .*: \([0-9.]*\) .*/\1/p')
    worst=$(printf '%s\n' "$worst" "$level" | sort -n | tail -1)
    if ! awk "BEGIN { exit !($level > 0 && $level <= $exposure_max) }"; then
        say "$unit has an exposure of $level"
        exit 1
    fi
done

# ---- what daemons do

mkdir "$dir/bin"
cp "$bin/coxswain" "$dir/bin"
for role in ps worker; do
    cat >"$dir/bin/coxswain-$role" <<END
#!/bin/sh
exec strace -D -f -qq -e signal=none -o "$dir/calls.$role.\$\$" "$bin/coxswain-$role" "\$@"
END
    chmod +x "$dir/bin/coxswain-$role"
done
COX_WORKER_CONFINE=all "$dir/bin/coxswain" run --ps 2 --workers 2 -- \
    "$(click_client "$dir/click")" 2>"$dir/said" || {
    cat "$dir/said" "$dir/click.out" >&2
    exit 1
}
result=$(click_result "$dir/click.out")
systemd-analyze --no-pager syscall-filter >"$dir/groups"
for role in ps worker; do
    python3 tests/engines/allowed_calls.py "$dir/groups" "deploy/systemd/coxswain-$role@.service" \
        "$dir"/calls.$role.*
    echo 'SystemCallFilter=~@network-io' | cat "deploy/systemd/coxswain-$role@.service" - >"$dir/planted"
    if python3 tests/engines/allowed_calls.py "$dir/groups" "$dir/planted" "$dir"/calls.$role.* 2>/dev/null; then
        say "a unit that forbids sockets to $role is not noticed"
        exit 1
    fi
done

version=$(systemd-analyze --version | sed -n '1s/^\(systemd [0-9]*\).*/\1/p')
echo "| systemd | $version (units checked, not started) | \`tests/engines/systemd.sh\` | nothing | exposure at most $worst; $result, with the units' system calls only |"
