# Shared by the scripts beside it; sourced. Runs programs in the background and waits for what
# they say, with a deadline; an etcd of its own. Whatever was started ends with the script.
declare -A pids=()
as_user=
[ "$(id -u)" = 0 ] && as_user="--user root"

fail() {
    say "FAILED: $*"
    for log in "$work"/*.log; do
        say "--- $log"
        tail -n 15 "$log" >&2
    done
    exit 1
}

end() {
    for name in "${!pids[@]}"; do
        kill -KILL "${pids[$name]}" 2>/dev/null || true
    done
    wait 2>/dev/null
    cd /
    rm -rf "$work"
}

# Makes a directory for all that is made, and goes there.
begin() {
    work=$(mktemp -d)
    trap end EXIT
    cd "$work"
}

# A port that is free now, of 127.0.0.1.
free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

start() { # NAME COMMAND...
    local name=$1
    shift
    "$@" >>"$work/$name.log" 2>&1 &
    pids[$name]=$!
}

stop() { # NAME SIGNAL
    kill "-$2" "${pids[$1]}"
    wait "${pids[$1]}" 2>/dev/null || true
    unset "pids[$1]"
}

# Calls a command until it succeeds, at most 60 s ($tries tries).
until_true() { # WHAT COMMAND...
    local what=$1 n=0
    shift
    until "$@"; do
        n=$((n + 1))
        [ "$n" -lt "${tries:-600}" ] || fail "waited in vain: $what"
        sleep 0.1
    done
}

has_lines() { # NAME PATTERN N
    [ "$(grep -c "$2" "$work/$1.log")" -ge "$3" ]
}

# Waits until the log of NAME has N lines with PATTERN.
await() { # NAME PATTERN N
    until_true "$1: $3 lines of '$2'" has_lines "$@"
}

is_over() { # NAME
    ! kill -0 "${pids[$1]}" 2>/dev/null
}

# Waits until NAME has ended, well.
finish() { # NAME
    local n=0 code=0
    until is_over "$1"; do
        n=$((n + 1))
        [ "$n" -lt 1800 ] || fail "$1 does not end"
        sleep 0.1
    done
    wait "${pids[$1]}" || code=$?
    unset "pids[$1]"
    [ "$code" = 0 ] || fail "$1 ended with $code"
}

# A number of the click example's last line.
result() { # FIELD
    tail -n 1 "$work/client.log" | sed -n "s/.*\"$1\": \([0-9.]*\).*/\1/p"
}

# ---- etcd

# Where its namespace is another one: the command that goes there, and its address.
etcd_in=()
etcd_host=127.0.0.1

etcd_answers() {
    "${etcd_in[@]}" curl -sf "http://$etcd_host:$etcd_port/health" >/dev/null
}

# Starts etcd, at the port of the first time, with its data of then.
etcd_start() {
    etcd_port=${etcd_port:-$(free_port)}
    etcd_peer=${etcd_peer:-$(free_port)}
    start etcd "${etcd_in[@]}" etcd --data-dir "$work/etcd" \
        --listen-client-urls "http://$etcd_host:$etcd_port" \
        --advertise-client-urls "http://$etcd_host:$etcd_port" \
        --listen-peer-urls "http://127.0.0.1:$etcd_peer" \
        --initial-advertise-peer-urls "http://127.0.0.1:$etcd_peer" \
        --initial-cluster "default=http://127.0.0.1:$etcd_peer"
    until_true "etcd answers" etcd_answers
}

etcd_stop() {
    stop etcd KILL
}

etcd_ask() { # PATH JSON
    "${etcd_in[@]}" curl -sf "http://$etcd_host:$etcd_port/v3/$1" -d "$2"
}

# The value of a key; nothing if there is none.
value() { # KEY
    etcd_ask kv/range "{\"key\": \"$(printf %s "$1" | base64 -w0)\"}" |
        sed -n 's/.*"value":"\([^"]*\)".*/\1/p' | base64 -d
}

address() { # KEY
    value "$1" | sed -n 's/.*"address":"\([^"]*\)".*/\1/p'
}

is_there() { # KEY present|absent
    [ "$2" = "$([ -n "$(value "$1")" ] && echo present || echo absent)" ]
}

await_key() { # KEY present|absent
    until_true "$1 is $2 in etcd" is_there "$@"
}

# Forgets all changes so far.
etcd_compact() {
    local revision
    revision=$(etcd_ask kv/range '{"key": "AA=="}' | sed -n 's/.*"revision":"\([0-9]*\)".*/\1/p')
    etcd_ask kv/compaction "{\"revision\": \"$revision\", \"physical\": true}" >/dev/null
}
