#!/bin/sh
# Planted bugs must make reports, and no_report.sh must fail on them; but not on what is left
# by a process that was killed while it looked for leaks.
#   planted_bug.sh PROGRAM address|thread NO_REPORT
set -eu
reports=$(mktemp -d)
trap 'rm -rf "$reports"' EXIT
case "$2" in
address) kinds="overflow undefined leak" ;;
*) kinds=thread ;;
esac
for kind in $kinds; do
    rm -f "$reports"/*
    options="log_path=$reports/report"
    if ! "$3" "$reports" >/dev/null; then
        echo "no_report.sh fails where there is no report"
        exit 1
    fi
    {
        echo "==program==7==Running thread 5 was not suspended. False leaks are possible."
        echo "==program==7==Unable to get registers from thread 6."
    } >"$reports/report.1"
    if ! "$3" "$reports" >/dev/null; then
        echo "no_report.sh fails where a process was killed at its end"
        exit 1
    fi
    ASAN_OPTIONS=handle_abort=1:$options UBSAN_OPTIONS=abort_on_error=1:$options \
        TSAN_OPTIONS=$options "$1" "$kind" x || true
    if "$3" "$reports" >/dev/null; then
        echo "a planted bug of kind '$kind' made no report"
        exit 1
    fi
done
