#!/usr/bin/env python3
"""Compares the table of events in docs/failures.md with the code.

  events.py ROOT

Every code of enum cox_event_code has a row, in the same order, with its level, with the ids that the
coordinator gives it, and with a line of its name. The comment of each code in event.h begins with
the same level.
"""
import pathlib
import re
import sys

LEVELS = {"DEBUG": "debug", "INFO": "info", "WARNING": "warning", "ERROR": "error"}
IDS = ["ps", "worker", "closure", "checkpoint", "seconds"]


def told_by_header(text):
    """Code -> the first word of its comment, which is before or behind it."""
    enum = text[text.index("enum cox_event_code {"):]
    enum = enum[:enum.index("};")]
    told = {}
    comments = []  # a comment whose code comes after it
    for comment, code in re.findall(r"/\*(.*?)\*/|(COX_EVENT_[A-Z_]+)[ =1]*,", enum, re.S):
        if code:
            told[code] = comments.pop() if comments else None
        elif told and told[list(told)[-1]] is None:
            told[list(told)[-1]] = comment
        else:
            comments.append(comment)
    return {code: re.match(r"[\s*]*(\w*)", comment or "").group(1)
            for code, comment in told.items()}


def kinds(text):
    """Code -> name, level."""
    found = re.findall(r'\[(COX_EVENT_\w+)\] = \{"(\w+)", COX_EVENT_(\w+)\}', text)
    return {code: (name, LEVELS[level]) for code, name, level in found}


def ids_given(root):
    """Code -> the ids of all calls that tell it."""
    given = {}
    for path in sorted(root.glob("coordinator/**/*.c")):
        calls = r"\bcoxi_event\(([^;]*?)\bCOXI_OF\(((?:[^()]|\([^()]*\))*)\)"
        for call in re.finditer(calls, path.read_text()):
            for code in re.findall(r"COX_EVENT_\w+", call.group(1)):
                fields = re.findall(r"\.(\w+) =", call.group(2))
                given.setdefault(code, set()).update(f for f in fields if f in IDS)
    return given


def rows(text):
    """Code -> the cells behind it."""
    found = re.findall(r"^\| `(COX_EVENT_\w+)` \| (.*) \|$", text, re.M)
    return {code: cells.split(" | ") for code, cells in found}


def faults(root):
    header = told_by_header((root / "include/coxswain/event.h").read_text())
    names = kinds((root / "coordinator/base/event.c").read_text())
    given = ids_given(root)
    table = rows((root / "docs/failures.md").read_text())
    if list(table) != list(header) or set(names) != set(header):
        yield "the table's codes are not those of event.h, in their order"
    for code in [c for c in header if c in table and c in names]:
        name, level = names[code]
        said, ids, _, line = table[code]
        expected = [i for i in IDS if i in given.get(code, ())]
        if re.match(r"\w+", said).group() != level or header[code] != level:
            yield f"{code} is of level {level}: {said} in the table, {header[code]} in event.h"
        if ids != (", ".join(expected) or "none"):
            yield f"{code} has the ids {expected}, not {ids}"
        if not line.startswith(f"`event={name} "):
            yield f"the line of {code} is not one of {name}"
        in_line = re.findall(r"(\w+)=", line[:line.index("text=")])[1:]
        if not set(in_line) <= set(expected):
            yield f"the line of {code} has other ids: {in_line}"


found = list(faults(pathlib.Path(sys.argv[1])))
print("\n".join(found), file=sys.stderr)
sys.exit(1 if found else 0)
