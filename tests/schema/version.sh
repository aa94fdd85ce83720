#!/bin/sh
# Fails where wire.fbs, but for its comments, has changed since the number of the protocol was
# raised: releases that do not understand each other would not refuse each other.
#   version.sh SCHEMA
# SCHEMA/versions has a line for each number: "<number> <checksum of wire.fbs>", rising.
set -eu
dir=$1
number=$(sed -n 's/^ *COXI_WIRE_VERSION = \([0-9]*\),$/\1/p' "$dir/wire.h")
sum=$(sed 's,//.*,,' "$dir/wire.fbs" | tr -d '[:space:]' | sha256sum | cut -c 1-16)
last=$(tail -n 1 "$dir/versions")

if [ -z "$number" ] || [ "$last" != "$number $sum" ]; then
    cat <<END
The messages of schema/wire.fbs are not those of protocol $number. What to do:
  1. raise COXI_WIRE_VERSION in schema/wire.h, if that has not been done for this change
  2. add a line at the end of schema/versions: the new number and $sum
The last line there is: $last
END
    exit 1
fi
if ! grep -v '^#' "$dir/versions" | sort -n -u -c ||
    grep -v '^#' "$dir/versions" | cut -d ' ' -f 2 | sort | uniq -d | grep .; then
    echo "the lines of schema/versions do not rise, or two are alike"
    exit 1
fi
