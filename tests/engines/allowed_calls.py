#!/usr/bin/env python3
"""Checks traces (strace -f) of a daemon against its systemd unit: system calls that the unit's
SystemCallFilter forbids, memory that is writable and executable (MemoryDenyWriteExecute), and
files of /proc that are hidden by ProcSubset=pid.

  allowed_calls.py GROUPS UNIT TRACE ...     GROUPS: the output of systemd-analyze syscall-filter
"""
import re
import sys


def read_groups(path):
    groups, name = {}, None
    for line in open(path):
        word = line.split("#")[0].strip()
        if line.startswith("@"):
            name = word
            groups[name] = set()
        elif word and name:
            groups[name].add(word)
    return groups


def expand(groups, words):
    calls = set()
    for word in words:
        calls |= expand(groups, groups[word]) if word.startswith("@") else {word}
    return calls


def allowed(groups, unit):
    calls = expand(groups, ["@default"])
    for line in open(unit):
        if line.startswith("SystemCallFilter="):
            value = line.split("=", 1)[1].strip()
            words = expand(groups, value.lstrip("~").split())
            calls = calls - words if value.startswith("~") else calls | words
    return calls


def forbidden(line, calls):
    found = re.match(r"\d+\s+(?:<\.\.\. )?(\w+)[( ]", line)
    if not found:
        return None
    name = found.group(1)
    if name not in calls:
        return name
    if "PROT_EXEC" in line and (name in ("mprotect", "pkey_mprotect") or "PROT_WRITE" in line):
        return name + " of executable memory"
    hidden = re.search(r'"(/proc/(?!self|thread-self|\d)[^"]*)".*= \d+$', line)
    return hidden and hidden.group(1)


def main():
    calls = allowed(read_groups(sys.argv[1]), sys.argv[2])
    found, lines = {}, 0
    for path in sys.argv[3:]:
        for line in open(path, errors="replace"):
            lines += 1
            what = forbidden(line, calls)
            if what:
                found.setdefault(what, line.strip()[:160])
    for what, line in sorted(found.items()):
        print(f"{sys.argv[2]} forbids {what}: {line}", file=sys.stderr)
    if found or lines == 0:
        sys.exit(1)


main()
