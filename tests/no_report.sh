#!/bin/sh
# Fails, and shows them, if sanitizers have left reports in directory $1.
#
# A process that is killed with kill -9 while it looks for leaks at its end leaves an empty
# file, or only the lines below: threads that could not be stopped, or not be read once they
# were. Nothing was found. A storm may kill its client so late.
set -eu
killed='Unable to get registers from thread [0-9]*\.$'
killed="$killed\|Running thread [0-9]* was not suspended\. False leaks are possible\.$"
bad=0
for report in "$1"/*; do
    if [ -e "$report" ] && grep -qv "$killed" "$report"; then
        cat "$report"
        bad=1
    fi
done
exit "$bad"
