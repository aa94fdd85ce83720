#!/bin/sh
# limits.sh BENCH LIMITS CASE: what docs/limits.md (LIMITS) says that things take, against what
# the case measures: at most a quarter more.
set -eu
bench=$1
limits=$2

# The number that the pattern has in its only group, without commas.
stated() {
    number=$(sed -n "s/.*$1.*/\1/p" "$limits" | head -n 1 | tr -d ,)
    [ -n "$number" ] || { echo "$limits does not say '$1'" >&2; exit 1; }
    echo "$number"
}

# assert NAME STATED_BYTES PARTS: the value of the case's line NAME, of one of the PARTS.
assert() {
    printf '%s\n' "$lines" | awk -v name="\"name\":\"$1\"" -v stated="$2" -v parts="$3" '
        index($0, name ",") {
            sub(/.*"value":/, ""); measured = $0 / parts; found = 1
        }
        END {
            printf "%s: %d bytes, %d are stated\n", name, measured, stated
            exit !(found && measured <= 1.25 * stated)
        }'
}

case $3 in
scale)
    ulimit -n "$(ulimit -Hn)"
    lines=$("$bench" scale --workers 1000 --ps 1 --seconds 0.1 --json 2>/dev/null)
    assert memory $(($(stated 'about \([0-9]*\) KiB, [0-9]* KiB after it has worked') * 1024)) 1
    assert memory_used $(($(stated 'KiB, \([0-9]*\) KiB after it has worked') * 1024)) 1
    ;;
variables)
    lines=$("$bench" variables --json 2>/dev/null)
    assert create_memory "$(stated '65,536, about \([0-9]*\) bytes each')" 65536
    ;;
footprint)
    lines=$("$bench" footprint --seconds 0.1 --json 2>/dev/null)
    assert queued_closure "$(stated '262,144, about \([0-9]*\) bytes each')" 1
    assert empty_table $(($(stated 'about \([0-9]*\) KiB on each ps') * 1024)) 1
    assert returned_ps $(($(stated 'about \([0-9]*\) KiB a time') * 1024)) 1
    ;;
esac
