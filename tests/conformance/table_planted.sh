#!/bin/sh
# table.sh must fail where the table and the tests differ.
#   table_planted.sh ROOT CTEST BUILD
set -eu
root=$1
ctest=$2
build=$3
check=$root/tests/conformance/table.sh
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

"$ctest" --test-dir "$build" -N -R '^conformance/' >"$dir/tests"

# refuses SED_OF_TABLE SED_OF_TESTS WORDS: changes the table, and the tests that ctest lists,
# by these sed scripts. Then table.sh must fail and print the words.
refuses() {
    sed "$1" "$root/docs/conformance.md" >"$dir/table.md"
    cat >"$dir/ctest" <<END
#!/bin/sh
sed '$2' '$dir/tests'
END
    chmod +x "$dir/ctest"
    if "$check" "$dir/table.md" "$dir/ctest" "$build" >"$dir/said"; then
        echo "table.sh lets pass: table '$1', tests '$2'"
        exit 1
    fi
    if ! grep -q "$3" "$dir/said"; then
        echo "table '$1', tests '$2': table.sh does not say '$3', but:"
        cat "$dir/said"
        exit 1
    fi
}

test=conformance/queue.wait_after_completion_returns
refuses "\\,$test,d" '' 'are tests, and not in the table'
refuses "s,$test,&_at_once," '' 'are in the table, and not among the tests'
refuses "\\,$test,p" '' 'stand in the table twice'
refuses '/conformance/d' '' 'there are no tests in'
refuses '' "/: conformance.queue.wait_after_completion_returns\$/d" 'not among the tests'
refuses '' '/wait_after_completion_returns_with_a_queue_of_2$/d' 'not among the tests'
refuses '' '/two_workers_shuffle_differently_when_workers_come_late$/d' 'not among the tests'
refuses '' 's/wait_after_completion_returns$/&_at_once/' 'are tests, and not in the table'
"$check" "$root/docs/conformance.md" "$ctest" "$build"
