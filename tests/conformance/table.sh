#!/bin/sh
# Fails unless the table of behaviours lists exactly the registered tests, and each test is
# registered in all its set-ups.
#   table.sh TABLE CTEST BUILD
set -eu
table=$1
ctest=$2
build=$3
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# The registered tests, without the fixtures that ctest lists with them, and without those of
# this folder's scripts.
"$ctest" --test-dir "$build" -N -R '^conformance/' |
    sed -n 's,^ *Test *#[0-9]*: \(conformance/.*\),\1,p' |
    grep -v -E '^conformance/(attacks|rules|table)[.]' | sort >"$dir/all"

# The tests that must be registered: each test of the table, once for each set-up.
sed -n 's/^| .* | `\(.*\)` |$/\1/p' "$table" | sort >"$dir/table"
while read -r name; do
    echo "$name"
    echo "${name}_with_a_queue_of_2"
    case $name in
    conformance/coordinator.*) echo "${name}_when_workers_come_late" ;;
    esac
done <"$dir/table" | sort >"$dir/wanted"

bad=0
if [ ! -s "$dir/table" ]; then
    echo "there are no tests in $table"
    bad=1
fi
if uniq -d "$dir/table" | grep .; then
    echo "stand in the table twice"
    bad=1
fi
if comm -23 "$dir/wanted" "$dir/all" | grep .; then
    echo "are in the table, and not among the tests"
    bad=1
fi
if comm -13 "$dir/wanted" "$dir/all" | grep .; then
    echo "are tests, and not in the table"
    bad=1
fi
exit $bad
