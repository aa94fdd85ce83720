#!/usr/bin/env python3
"""What a client, a ps and a worker serve, as others read it.

  metrics.py documents ROOT WATCHED MODULE    docs/watching.md lists the metrics that there are, and
                                              the dashboard (deploy/grafana) names no others
  metrics.py promtool ROOT WATCHED MODULE     promtool check metrics finds no fault
  metrics.py prometheus ROOT WATCHED MODULE   Prometheus scrapes all three; every expression of the
                                              dashboard can be evaluated, and most have values
  metrics.py cost ROOT WATCHED MODULE         prints what a scrape of each costs

promtool and prometheus are skipped (77) where they are not installed.
"""
import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

CLOSURES = 500
SKIPPED = 77
DEADLINE_S = 50
# Expressions that have a value only where something was lost, rounds ran, steps pulled, or gradients
# were counted: closures of this run only add.
RARE = re.compile(r"staleness|worker_pull|ps_pull_seconds")


def get(url, accept="text/plain"):
    request = urllib.request.Request(url, headers={"Accept": accept})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10) as r:
        return r.read().decode()


def url_in(path):
    """The URL in a file that a daemon writes. Daemons listen before they serve over HTTP."""
    until = time.monotonic() + DEADLINE_S
    while not path.exists():
        if time.monotonic() > until:
            sys.exit(f"there is no {path} after {DEADLINE_S} s")
        time.sleep(0.01)
    return path.read_text().strip()


@contextlib.contextmanager
def watched(program, module):
    """Runs it; yields the URLs by role, closures done, commits."""
    with tempfile.TemporaryDirectory() as directory:
        env = dict(os.environ)
        for role in "ps", "worker":
            env[f"COX_{role.upper()}_HTTP"] = "127.0.0.1:0"
            env[f"COX_{role.upper()}_HTTP_FILE"] = f"{directory}/{role}"
        run = subprocess.Popen([program, module, str(CLOSURES)], env=env, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
        try:
            client, done, commits = run.stdout.readline().split()
            urls = {"client": client}
            for role in "ps", "worker":
                urls[role] = url_in(pathlib.Path(directory, role))
            yield urls, int(done), int(commits)
        finally:
            run.stdin.close()
            code = run.wait(timeout=DEADLINE_S)
        if code != 0:
            sys.exit(f"watched ended with {code}")


def families(text):
    """Name -> type, of a text in Prometheus's format."""
    return dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))


def samples_of(found):
    """The names that expressions can use."""
    names = set()
    for name, kind in found.items():
        names |= {name + end for end in ("_bucket", "_sum", "_count")} if kind == "histogram" else {name}
    return names


def expressions(root):
    panels = json.loads((root / "deploy/grafana/coxswain.json").read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel.get("targets", [])]


def check_documents(root, urls):
    found = {}
    for url in urls.values():
        found.update(families(get(url + "/metrics")))
    told = re.findall(r"^\| `((?:coxswain|process)_\w+)`", (root / "docs/watching.md").read_text(), re.M)
    faults = [f"docs/watching.md does not list {n}" for n in sorted(set(found) - set(told))]
    faults += [f"docs/watching.md lists {n}, which there is not" for n in sorted(set(told) - set(found))]
    there = samples_of(found)
    for expression in expressions(root):
        faults += [f"the dashboard names {n}, which there is not: {expression}"
                   for n in re.findall(r"\b(?:coxswain|process)_\w+", expression) if n not in there]
    return faults


def check_promtool(urls):
    if shutil.which("promtool") is None:
        sys.exit(SKIPPED)
    faults = []
    for role, url in urls.items():
        said = subprocess.run(["promtool", "check", "metrics"], input=get(url + "/metrics"), text=True,
                              capture_output=True, check=False)
        if said.returncode != 0 or said.stderr or said.stdout:
            faults.append(f"{role}: {said.stdout}{said.stderr}")
    return faults


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def query(url, expression):
    text = get(f"{url}/api/v1/query?query={urllib.parse.quote(expression)}")
    return json.loads(text)["data"]["result"]


def await_value(url, expression, wanted):
    """Asks until the sum of the values is that."""
    until = time.monotonic() + DEADLINE_S
    values = None
    while time.monotonic() < until:
        with contextlib.suppress(OSError):
            values = [float(r["value"][1]) for r in query(url, expression)]
            if values and sum(values) == wanted:
                return []
        time.sleep(0.2)
    return [f"{expression} is {values}, not {wanted}"]


def await_all(url, missing):
    """Asks until all have values; all must be understood at once. Rates need two scrapes."""
    until = time.monotonic() + DEADLINE_S
    while missing and time.monotonic() < until:
        missing = [e for e in missing if not query(url, e) and not RARE.search(e)]
        time.sleep(0.2)
    return [f"no value of {e}" for e in missing]


def check_prometheus(root, urls, done, commits):
    if shutil.which("prometheus") is None:
        sys.exit(SKIPPED)
    faults = []
    with tempfile.TemporaryDirectory() as directory:
        targets = json.dumps([url.removeprefix("http://") for url in urls.values()])
        config = pathlib.Path(directory, "prometheus.yml")
        config.write_text("scrape_configs:\n  - job_name: coxswain\n    scrape_interval: 1s\n"
                          f"    static_configs: [{{targets: {targets}}}]\n")
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        with open(f"{directory}/log", "w+", encoding="utf-8") as log:
            server = subprocess.Popen(
                ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={directory}/data",
                 f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)
            try:
                faults += await_value(url, "up", 3)
                faults += await_value(url, "coxswain_client_closures_done_total", done)
                faults += await_value(url, "coxswain_ps_commits_total", commits)
                faults += await_value(url, 'coxswain_worker_attempts_total{outcome="done"}', done)
                faults += await_all(url, [e.replace("$__rate_interval", "1m") for e in expressions(root)])
            finally:
                server.terminate()
                server.wait(timeout=DEADLINE_S)
            if faults:
                log.seek(0)
                faults.append(log.read())
    return faults


def cpu_s(url):
    return float(re.search(r"^process_cpu_seconds_total (\S+)", get(url + "/metrics"), re.M)[1])


def print_cost(urls):
    for role, url in urls.items():
        begun, n = cpu_s(url), 500
        for _ in range(n):
            text = get(url + "/metrics", "application/openmetrics-text")
        print(f"{role}: {(cpu_s(url) - begun) / n * 1e3:.2f} ms of CPU, {len(text)} bytes")
    return []


def main():
    what, root, program, module = sys.argv[1:]
    root = pathlib.Path(root)
    with watched(program, module) as (urls, done, commits):
        if what == "documents":
            faults = check_documents(root, urls)
        elif what == "promtool":
            faults = check_promtool(urls)
        elif what == "cost":
            faults = print_cost(urls)
        else:
            faults = check_prometheus(root, urls, done, commits)
    if faults:
        sys.exit("\n".join(faults))


main()
