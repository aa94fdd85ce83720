#!/bin/sh
# Planted faults in docs/exactly-once.md: rules.sh must fail on each.
#   rules_planted.sh ROOT
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
check=$1/tests/conformance/rules.sh
for folder in "$1"/*/; do
    ln -s "$folder" "$dir/$(basename "$folder")"
done
rm "$dir/docs"
mkdir "$dir/docs"

refuses() {
    sed "$1" "$doc" >"$dir/docs/exactly-once.md"
    if cmp -s "$doc" "$dir/docs/exactly-once.md"; then
        echo "the change '$1' changes nothing"
        exit 1
    fi
    if "$check" "$dir" >/dev/null; then
        echo "the change '$1' passed"
        exit 1
    fi
}

doc=$1/docs/exactly-once.md
"$check" "$1"
refuses 's/^\*\*14\. /**15. /'                      # a number twice
refuses 's/`coxi_applied_begin`/`coxi_applied_bgin`/' # no such function
refuses 's/`coxi_restore_table` (ps.restore_table.c)/`coxi_restore_table`/' # in no file
refuses 's/^Kept: `coxi_restore_table`/Held: `load_table`/'   # a rule that nothing keeps
