#!/bin/sh
# Fails if the compiler takes one kind of number for another one.
#   mixups.sh ROOT CC
set -eu
root=$1
cc=$2

# Compiles a function with the body $1, as the project is compiled.
compiles() {
    printf '%s\n' '#include "coordinator/base/event.h"' '#include "schema/wire.h"' \
        'void f(struct coxi_message *m);' "void f(struct coxi_message *m) { $1 }" |
        "$cc" -std=c11 -fsyntax-only -Wall -Wextra -Wconversion -Werror -I"$root" \
            -I"$root/include" -x c - 2>/dev/null
}

status=0
good() {
    compiles "$1" || {
        echo "mixups.sh: this has to compile: $1"
        status=1
    }
}
bad() {
    if compiles "$1"; then
        echo "mixups.sh: this must not compile: $1"
        status=1
    fi
}

# An index is no choice of one.
good 'uint32_t index = 3; m->layout.worker = coxi_maybe_of(index);'
bad 'uint32_t index = 3; m->layout.worker = index;'
bad 'uint32_t index = 3; (void)m; (void)COXI_OF(.worker = 1 + index);'
bad 'uint32_t index = m->layout.worker; (void)index;'

exit $status
