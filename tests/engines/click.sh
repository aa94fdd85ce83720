# Shared by the scripts beside it that run the click example; sourced, in the project's
# root. They use Release's programs ($bin), and a directory of their own ($work), which is removed.

bin=$PWD/build/Release/bin
work=$(mktemp -d /tmp/coxswain-engine.XXXXXX)
# What the client trains: the same in every run, so that results can be compared.
rows=200000
epochs=10

# Built by scripts/build Release, if it is not there yet.
build_click() {
    if [ ! -x "$bin/ctr" ] || [ ! -x "$bin/coxswain-worker" ]; then
        scripts/build Release >&2
    fi
}

# Daemons that root starts have to be told to stay root.
stay_root() {
    if [ "$(id -u)" = 0 ]; then
        export COX_PS_USER=root COX_WORKER_USER=root
    fi
}

# wait_for SECONDS WHAT COMMAND...: until COMMAND succeeds; fails after SECONDS.
wait_for() {
    end=$(($(date +%s) + $1))
    what=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        if [ "$(date +%s)" -ge "$end" ]; then
            say "waited in vain for $what"
            return 1
        fi
        sleep 0.1
    done
}

# child_of PID PROGRAM: the first process below PID that runs PROGRAM.
child_of() {
    for child in $(cat /proc/"$1"/task/*/children 2>/dev/null); do
        if [ "$(readlink "/proc/$child/exe")" = "$2" ]; then
            echo "$child"
            return 0
        fi
        if child_of "$child" "$2"; then
            return 0
        fi
    done
    return 1
}

# trains OUT: the client has written its first checkpoint there.
trains() {
    [ -e "$1/checkpoints/LATEST" ]
}

# result LOG NAME: a number of the client's last line.
result() {
    sed -n 's/.*{"examples".*/&/p' "$1" | tail -1 | sed -n "s/.*\"$2\": \([0-9.]*\).*/\1/p"
}

# The same training on this host, undisturbed: what any engine has to reach.
train_here() {
    "$bin/ctr" --rows $rows --epochs $epochs --out "$work/here" >"$work/here.log" 2>&1
    usual=$(result "$work/here.log" auc)
}

# check LOG: the client has trained to the end, with every example once in each epoch, also
# if it went on from a checkpoint, and reaches the usual auc. Sets $trained for the table.
check() {
    auc=$(result "$1" auc)
    if [ -z "$auc" ] || ! grep -q "so far: $((rows * epochs)) records, 0 tasks failed, 0 skipped" "$1"; then
        say "the client has not trained each of $((rows * epochs)) examples once"
        return 1
    fi
    awk -v a="$auc" -v b="$usual" 'BEGIN { exit !(a > b - 0.005 && a < b + 0.005) }' || {
        say "the auc is $auc; undisturbed it is $usual"
        return 1
    }
    trained="$((rows * epochs)) examples, each once; auc $auc, undisturbed $usual"
}
