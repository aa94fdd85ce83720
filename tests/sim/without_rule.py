#!/usr/bin/env python3
"""Proves that coxswain-sim can find: takes a rule of docs/exactly-once.md out of the real code and
plays storms until one is broken.

    without_rule.py [--build DIR] [--runs N] [--seed N] [NAME ...]
    without_rule.py --check      only whether each mutation still finds what it changes

NAME is a mutation ("3", "8b"); without any, all of mutations.py. "22b+repeats" takes out rule 22b and
also the cover "repeats"; a storm that breaks without the cover alone does not count. The tree is
not touched: changed files lie in a directory of their own, and their objects come before the
libraries' when the simulator is linked again. Prints a line of Markdown for each.
"""
import argparse, json, os, re, shlex, subprocess, sys, tempfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
FOLDERS = ("common", "data", "net", "checkpoint", "ps", "worker", "cluster", "coordinator")


def sources():
    for folder in FOLDERS:
        for path, _, names in os.walk(os.path.join(ROOT, folder)):
            for name in sorted(names):
                if name.endswith((".c", ".h")):
                    yield os.path.relpath(os.path.join(path, name), ROOT)


def body_of(text, function):
    """Where the function's body begins and ends, or None: it is not defined here."""
    for found in re.finditer(r"(?m)^[a-z].*?\b%s\(" % re.escape(function), text):
        brace = text.find("\n{", found.start())
        stop = text.find(";", found.start())
        if brace >= 0 and (stop < 0 or brace < stop):
            return brace + 2, text.index("\n}", brace)
    return None


def find(function, folder):
    there = [p for p in sources() if p.startswith(folder)
             and body_of(open(os.path.join(ROOT, p)).read(), function)]
    if len(there) != 1:
        sys.exit("%s is defined %d times in %s" % (function, len(there), folder or "the tree"))
    return there[0]


def mutate(changes, overlay):
    """Writes the changed files below `overlay`; returns their paths."""
    texts = {}
    for folder, function, old, new in changes:
        path = find(function, folder)
        text = texts.get(path) or open(os.path.join(ROOT, path)).read()
        begin, end = body_of(text, function)
        body = text[begin:end]
        if old is None:
            body = "\n    if (1) {\n        %s\n    }%s" % (new, body)
        elif old not in body:
            sys.exit("%s (%s) has no '%s'" % (function, path, old))
        else:
            body = body.replace(old, new)
        texts[path] = text[:begin] + body + text[end:]
    for path, text in texts.items():
        os.makedirs(os.path.join(overlay, os.path.dirname(path)), exist_ok=True)
        with open(os.path.join(overlay, path), "w") as file:
            file.write(text)
    return list(texts)


def users(header):
    """The .c files of the product that include a header, through others too."""
    included, more = {header}, True
    texts = {p: open(os.path.join(ROOT, p)).read() for p in sources()}
    while more:
        more = False
        for path, text in texts.items():
            if path not in included and any('#include "%s"' % h in text for h in included):
                included.add(path)
                more = True
    return [p for p in included if p.endswith(".c")]


def build(changes, build_dir, overlay):
    paths = mutate(changes, overlay)
    units = sorted({u for p in paths for u in ([p] if p.endswith(".c") else users(p))})
    commands = json.load(open(os.path.join(build_dir, "compile_commands.json")))
    objects = []
    for unit in units:
        whole = os.path.join(ROOT, unit)
        command = next((c for c in commands if c["file"] == whole), None)
        if command is None:
            continue  # a program of its own, or one that this build leaves out
        words = shlex.split(command["command"])
        there = os.path.join(overlay, unit)
        target = os.path.join(overlay, unit.replace("/", "_") + ".o")
        words = [there if w == whole and os.path.exists(there) else w for w in words]
        words[words.index("-o") + 1] = target
        words[1:1] = ["-I", overlay, "-w"]
        if words[0].endswith("ccache"):
            words = words[1:]
        subprocess.run(words, cwd=command["directory"], check=True)
        objects.append(target)
    link = subprocess.run(["ninja", "-C", build_dir, "-t", "commands", "coxswain-sim"], check=True,
                          capture_output=True, text=True).stdout.strip().split("\n")[-1]
    program = os.path.join(overlay, "sim")
    words = shlex.split(link.replace(": && ", "").replace(" && :", ""))
    words[words.index("-o") + 1] = program
    words[words.index("-o"):words.index("-o")] = objects
    subprocess.run(words, cwd=build_dir, check=True)
    return program


def run(program, seed, runs):
    done = subprocess.run([program, "--seed", str(seed), "--runs", str(runs)],
                          capture_output=True, text=True, errors="replace")
    lines = done.stdout.strip().split("\n")
    if not lines[-1].startswith("{"):
        return None, "the program ends with %d" % done.returncode
    result = json.loads(lines[-1])
    return result["runs"], result.get("first")


def is_sound(program, seed):
    """The simulator with all rules has nothing to say of that seed."""
    return subprocess.run([program, "--seed", str(seed), "--runs", "1"],
                          capture_output=True).returncode == 0


def play(program, cover, seed, runs):
    """The number of the first storm that breaks, and how; storms that `cover` breaks do not count."""
    at = seed
    while at < seed + runs:
        n, first = run(program, at, seed + runs - at)
        if first is None or n is None or cover is None or is_sound(cover, at + n - 1):
            return n and at + n - seed, first
        at += n
    return None, None


def changes_of(names, table):
    return [change for name in names for change in table[name][1]]


def main():
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from mutations import COVERED, COVERS, MUTATIONS
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "Release"))
    parser.add_argument("--runs", type=int, default=100000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    build_dir = os.path.abspath(arguments.build)
    names = arguments.names or list(MUTATIONS) + COVERED
    for name in names:
        rule, *covers = name.split("+")
        what = "; ".join([MUTATIONS[rule][0]] + [COVERS[c][0] for c in covers])
        without_covers = changes_of(covers, COVERS)
        changes = MUTATIONS[rule][1] + without_covers
        with tempfile.TemporaryDirectory() as overlay, tempfile.TemporaryDirectory() as beside:
            if arguments.check:
                mutate(changes, overlay)
                continue
            program = build(changes, build_dir, overlay)
            cover = build(without_covers, build_dir, beside) if covers else None
            n, first = play(program, cover, arguments.seed, arguments.runs)
            whole = os.path.join(arguments.build, "bin", "coxswain-sim")
            if n and first and not is_sound(whole, arguments.seed + n - 1):
                sys.exit("seed %d breaks with all rules, too" % (arguments.seed + n - 1))
        found = "not in %d" % arguments.runs if first is None else "%s" % (n or "at once")
        print("| %s | %s | %s | %s |" % (name, what, found, (first or "").replace("|", "/")), flush=True)


main()
