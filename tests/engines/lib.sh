# Shared by the scripts beside it; sourced, after cd to the project's root, with $bin (the
# directory of the programs) and $dir (a directory of the script's own) set.

# The click example at a size that takes seconds. Much of what it learns are pairs of ids;
# without them the area under the curve stays below 0.90.
click_rows=400000
click_examples=2400000
click_auc=0.90
click="--rows $click_rows --ids 5 --pairs 1 --model fm"

# click_client FILE: the path of a program that writes COX_CLUSTER to FILE and its process
# id to FILE.pid, and becomes the click example, which writes what it says to FILE.out.
click_client() {
    cat >"$1.sh" <<END
#!/bin/sh
printf '%s' "\$COX_CLUSTER" >"$1"
echo \$\$ >"$1.pid"
exec "$bin/ctr" $click --out "$1.d" >"$1.out" 2>&1
END
    chmod +x "$1.sh"
    echo "$1.sh"
}

# await SECONDS WHAT COMMAND ...: runs the command until it is true.
await() {
    await_until=$(($(date +%s) + $1))
    await_what=$2
    shift 2
    while ! "$@"; do
        if [ "$(date +%s)" -ge "$await_until" ]; then
            say "$await_what did not come true"
            return 1
        fi
        sleep 0.1
    done
}

# address_of FILE ROLE INDEX: of a daemon, from a COX_CLUSTER in a file.
address_of() {
    python3 -c 'import json, sys
print(json.load(open(sys.argv[1]))["cluster"][sys.argv[2]][int(sys.argv[3])])' "$@"
}

# pids_at ADDRESS ...: the process ids of the daemons that listen there; of a worker its
# supervisor's.
pids_at() {
    python3 - "$@" <<'END'
import os
import sys
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        words = open(f"/proc/{pid}/cmdline", "rb").read().decode(errors="replace").split("\0")
    except OSError:
        continue
    if {f"--listen={url}" for url in sys.argv[1:]} & set(words) and "--step-process" not in words:
        print(pid)
END
}

# True if nothing listens at the addresses of a COX_CLUSTER in a file.
all_ended() {
    # shellcheck disable=SC2046
    [ -z "$(pids_at $(tr ',"' '\n\n' <"$1" | grep -o 'tcp://[^]]*'))" ]
}

# click_result FILE: fails unless the click example has its usual quality, and each row
# counted once in each epoch. Prints both.
click_result() {
    python3 - "$1" "$click_examples" "$click_auc" <<'END'
import json
import sys
lines = [line for line in open(sys.argv[1]) if line.startswith("{\"examples\"")]
if not lines:
    sys.exit("the click example has not ended: see " + sys.argv[1])
result = json.loads(lines[-1])
if result["examples"] != int(sys.argv[2]) or result["auc"] < float(sys.argv[3]):
    sys.exit("the click example is not as it should be: " + lines[-1])
print("%d examples, AUC %.3f" % (result["examples"], result["auc"]))
END
}
