#!/bin/sh
# Planted changes of the messages, or of the number alone: version.sh must fail on each. A
# comment may change.
#   version_planted.sh VERSION SCHEMA
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
version=$1
schema=$2

# change FILE SED: in a copy of the schema.
change() {
    cp "$schema/wire.fbs" "$schema/wire.h" "$schema/versions" "$dir"
    sed -i "$2" "$dir/$1"
    if cmp -s "$schema/$1" "$dir/$1"; then
        echo "the change '$2' changes nothing"
        exit 1
    fi
}

refuses() {
    change "$1" "$2"
    if "$version" "$dir" >/dev/null 2>&1; then
        echo "the change '$2' of $1 passed"
        exit 1
    fi
}

refuses wire.fbs 's/^  slots:uint (id: 6);/&\n  more:uint (id: 9);/' # a field more
refuses wire.fbs 's/^enum Op : uint {.*Rate/&, Other/'              # a value more
refuses wire.h 's/COXI_WIRE_VERSION = /&1/'                         # the number alone
refuses versions '$ s/^/1/'                                         # and there alone
refuses versions '$ p'                                              # a line twice
change wire.fbs 's,^// The first frame,// First frame,'
"$version" "$dir"
