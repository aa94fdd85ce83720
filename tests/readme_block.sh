#!/bin/sh
# Prints the C block that begins with "/* NAME:" in a page, by default the README.
#   readme_block.sh ROOT NAME [PAGE]
set -eu
awk -v head="/* $2:" '
    /^```/ { inside = 0 }
    inside { print; any = 1 }
    /^```c$/ { getline; inside = index($0, head) == 1; if (inside) print }
    END { exit !any }
' "$1/${3:-README.md}"
