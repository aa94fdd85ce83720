#!/bin/sh
# Prints the README's C block that begins with "/* NAME:".
#   readme_block.sh ROOT NAME
set -eu
awk -v head="/* $2:" '
    /^```/ { inside = 0 }
    inside { print; any = 1 }
    /^```c$/ { getline; inside = index($0, head) == 1; if (inside) print }
    END { exit !any }
' "$1/README.md"
