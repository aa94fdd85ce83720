#!/bin/sh
# Fails if the compiler takes one kind of number for another one.
#   mixups.sh ROOT CC
set -eu
root=$1
cc=$2

# Compiles a function with the body $1, as the project is compiled.
compiles() {
    printf '%s\n' '#include "coordinator/base/event.h"' \
        '#include "coordinator/base/replay_log.h"' '#include "coordinator/closures/settle.h"' \
        'void f(struct coxi_message *m, struct cox_coordinator *c);' \
        "void f(struct coxi_message *m, struct cox_coordinator *c) { (void)m; (void)c; $1 }" |
        "$cc" -std=c11 -D_GNU_SOURCE -fsyntax-only -Wall -Wextra -Wconversion -Werror -I"$root" \
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

# An index is not "this index, or none".
good 'uint32_t index = 3; m->layout.worker = coxi_maybe_of(index);'
bad 'uint32_t index = 3; m->layout.worker = index;'
bad 'uint32_t index = 3; (void)COXI_OF(.worker = 1 + index);'
bad 'uint32_t index = m->layout.worker; (void)index;'

# The id of a closure is neither that of a variable, nor an attempt, nor a row.
closure='struct coxi_closure_id closure = {7};'
variable='const struct coxi_variable *v = &m->create.variable;'
good "$closure (void)coxi_closure_find(c, closure);"
bad "$variable (void)coxi_closure_find(c, v->id);"
bad "$variable $closure closure = v->id;"
bad "$variable $closure struct coxi_update u = {closure, COXI_OP_ADD, 0, 1}; (void)u;"
bad "(void)coxi_closure_find(c, m->result.attempt);"
good "$closure coxi_replay_log_hold(c->replay_log, closure, 3);"
bad "$closure coxi_replay_log_hold(c->replay_log, 3, closure);"
bad "struct coxi_replay_entry entry = {.id = m->watermark.watermark}; (void)entry;"

exit $status
