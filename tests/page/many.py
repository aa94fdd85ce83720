#!/usr/bin/env python3
"""Looks at the page of a run with 1000 workers in headless Chromium: what it groups, sorts and
draws is compared with the records that it was given.

  many.py COXSWAIN [PICTURES]
  many.py COXSWAIN --measure SECONDS    prints what the page costs while all workers change

Exits with 77 if there is no Chromium.
"""
import json
import math
import os
import re
import select
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse

from browser import Browser, program
from live import Page, check

WORKERS = 1000
PER_HOST = 100
LOST = (7, 500, 999)
SLOW = 123
BUCKETS = 24  # of the histogram
EVERY_S = 16  # a client tells of 1000 workers' counts this often (coordinator/monitor/sampler.c)
MIB = 1 << 20


class Run:
    """The history of a run, as its client would write it."""

    def __init__(self, directory):
        self.file = open(os.path.join(directory, "metrics.jsonl"), "a", encoding="utf-8")
        self.seq = 0
        self.done = 0
        self.workers = [self.worker(i) for i in range(WORKERS)]
        self.add("run", run="ab", generation=1, pid=1, host="h", program="many", n_ps=1, n_workers=WORKERS)
        self.sample()
        self.tell(self.workers, whole=True)

    @staticmethod
    def worker(i):
        lost = i in LOST
        return {"index": i, "state": "away" if lost else "ready", "address": f"tcp://host-{i // PER_HOST}:{7000 + i % PER_HOST}",
                "slots": 1, "running": 0 if lost else 1, "done": 10 * i, "rate": 0 if lost else 2 + i / 1000,
                "step_us": 60000 if i == SLOW else 10000 + 10 * i, "rss": 0 if lost else (100 + i) * MIB,
                "lost": int(lost), "back": 0, "unreached": 0}

    def add(self, kind, t=None, **members):
        self.seq += 1
        self.file.write(json.dumps({"seq": self.seq, "t": t or time.time(), "kind": kind, **members}, separators=(",", ":")) + "\n")
        self.file.flush()

    def sample(self, done=2000, later=0):
        self.done += done
        self.add("sample", t=time.time() + later, queued=4000, in_flight=1000, done=self.done, failed=0, put_back=3, workers=WORKERS,
                 workers_ready=len(self.ready()), workers_lost=3, workers_cut_off=0, speculated=0, commits=self.done,
                 commits_duplicate=0, table_rows=10**6, ps_bytes=10**8, ps_age_ms=1, ps_recovered=0, checkpoints=1,
                 checkpoints_failed=0, rounds=0, rounds_failed=0, late=0, step=self.done, rate=2000.0, commits_rate=2000.0)
        self.add("ps", ps=[{"index": 0, "state": "up", "address": "tcp://ps:7000", "bytes": 10**8, "rows": 10**6, "pulls": self.done,
                            "commits": self.done, "pulls_rate": 2000.0, "commits_rate": 2000.0, "lag_ms": 1, "stale_mean": 3.5}])

    def tell(self, workers, whole=False):
        self.add("workers", whole=whole, workers=workers)

    def ready(self):
        return [w for w in self.workers if w["state"] == "ready"]

    def times(self):
        return sorted(w["step_us"] for w in self.ready())


class Server:
    """coxswain page of the directory."""

    def __init__(self, coxswain, directory):
        self.process = subprocess.Popen([coxswain, "page", directory], stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()
        check(f"the page is served: {self.url}", self.url.startswith("http://"))

    def end(self):
        self.process.terminate()
        self.process.wait(20)
        self.process.stdout.close()


def median(times):
    return times[len(times) // 2]


def value(text):
    """The number of a text in its base unit."""
    units = {"µs": 1, "ms": 1e3, "s": 1e6, "MiB": MIB, "GiB": 1 << 30, "": 1}
    match = re.search(r"(-?[\d,.]+)\s*(µs|ms|s|MiB|GiB|)\b", text)
    return float(match[1].replace(",", "")) * units[match[2]] if match else math.nan


def near(text, wanted):
    """The page rounds to three digits."""
    return abs(value(text) - wanted) <= 0.006 * abs(wanted)


def heights(times):
    """Of the histogram's bars, in per cent of the highest: buckets of equal ratio."""
    low, span = math.log(times[0]), math.log(times[-1] / times[0])
    counts = [0] * BUCKETS
    for us in times:
        counts[min(BUCKETS - 1, int((math.log(us) - low) / span * BUCKETS))] += 1
    return [0 if n == 0 else max(3, round(100 * n / max(counts))) for n in counts]


def look_at_summary(page, run):
    text = page.text("#workers-summary")
    check(f"the summary counts: {text}", text.startswith(f"{len(run.ready())} of 1,000 workers ready · a step takes "))
    check("and has the median", near(text.split("a step takes ")[1], median(run.times())))
    check("and names the slow one", text.endswith(f"worker {SLOW} takes 60 ms: slow"))
    check("the map says what it shows", page.browser.by_role("image", "A cell for each of 1000 workers: 3 lost. The table below has the same."))


def look_at_histogram(page, run):
    label = page.browser.run("document.getElementById('histogram-bars').getAttribute('aria-label')")
    wanted = run.times()
    check(f"the histogram has all that are ready: {label}", label.startswith(f"Step times of {len(wanted)} workers, from 10 ms to 60 ms, median "))
    check("and their median", near(label.split("median ")[1], median(wanted)))
    shown = page.browser.run("[...document.querySelectorAll('#histogram-bars .bar')].map(b => parseInt(b.style.height))")
    check("its bars are as high as they should be", all(abs(a - b) <= 1 for a, b in zip(shown, heights(wanted), strict=True)))


def look_at_hosts(page, run):
    rows = page.rows("hosts-table")
    check("hosts with lost workers come first", [r[0] for r in rows[:3]] == ["host-0", "host-5", "host-9"])
    for name, n, ready, rate, step, memory in rows:
        host = int(name.removeprefix("host-"))
        own = [w for w in run.workers if w["index"] // PER_HOST == host]
        times = sorted(w["step_us"] for w in own)
        check(f"the numbers of {name}", int(n) == PER_HOST and int(ready) == sum(w["state"] == "ready" for w in own)
              and near(rate, sum(w["rate"] for w in own)) and near(step, median(times)) and near(memory, sum(w["rss"] for w in own)))


def click(page, label):
    page.browser.run(f"[...document.querySelectorAll('#workers-table th button')].find(b => b.textContent === {json.dumps(label)}).click()")


def choose(page, element, text):
    page.browser.run(f"(() => {{ const e = document.getElementById({json.dumps(element)}); e.value = {json.dumps(text)};"
                     " e.dispatchEvent(new Event('input')); })()")


def look_at_table(page, run):
    rows = page.rows("workers-table")
    check("lost workers come first", [r[:2] for r in rows[:3]] == [[f"worker {i}", "✕ lost"] for i in LOST])
    check("the table shows some, and says how many more there are", len(rows) == 30 and page.text("#workers-table > button") == "Show more (970 not shown)")
    click(page, "Step time")
    check("sorted by step time, the slowest is first", page.rows("workers-table")[0][0] == f"worker {SLOW}")
    click(page, "Step time")
    check("and then the fastest", page.rows("workers-table")[0][0] == "worker 0")
    click(page, "Memory")
    first = page.rows("workers-table")[0]
    check(f"sorted by memory: {first}", first[0] == "worker 998" and near(first[7], run.workers[998]["rss"]))
    choose(page, "workers-state", "down")
    check("only those that are not ready", len(page.rows("workers-table")) == len(LOST))
    choose(page, "workers-state", "all")
    choose(page, "workers-filter", "host-3:70")
    check("only those of a host", {r[2].split(":")[1] for r in page.rows("workers-table")} == {"//host-3"})
    choose(page, "workers-filter", "")


def see_change(page, run):
    """One is back."""
    run.workers[7].update(state="ready", back=1, rate=2, rss=MIB)
    run.sample()
    run.tell([run.workers[7]])
    page.until("the page follows", lambda: page.text("#workers-summary").startswith("998 of 1,000 workers ready"))


def see_trouble(page, run):
    """A loss that is no number; steps that do not end."""
    run.add("scalar", name="loss", step=39, value=0.5, source="train")
    run.add("scalar", name="loss", step=40, value="NaN", source="train")
    run.add("scalar", name="loss", step=41, value="NaN", source="train")
    page.until("the page says that a curve is no number", lambda: "loss is NaN since step 40" in page.text("#alerts"))
    run.add("scalar", name="loss", step=42, value=0.4, source="train")
    page.until("until it is one", lambda: "loss" not in page.text("#alerts"))
    run.add("event", code="blocked", level="warn", text="none of 5000 closures is done for 10 s: closure 2 runs on worker 0")
    run.sample(done=0, later=20)
    page.until("the page says that no step ends", lambda: page.text("#status") == "stalled")
    check("and for how long", "No step has ended for" in page.text("#sentence"))
    check("and why, as far as the client knows", "closure 2 runs on worker 0" in page.text("#alerts"))
    run.sample(later=21)
    page.until("and that they end again", lambda: page.text("#status") == "2 workers away" and "No step" not in page.text("#alerts"))


def see_sections(page):
    """The link of the section that is in view is marked, and no other."""
    marked = "[...document.querySelectorAll('nav a[aria-current]')].map(a => a.textContent).join()"
    for name in ("Workers", "Logs", "Settings", "Overview"):
        page.browser.run(f"[...document.querySelectorAll('nav a')].find(a => a.textContent === {json.dumps(name)}).click()")
        page.until(f"{name} is marked", lambda: page.browser.run(marked) == name)


def measure(page, run, server, seconds):
    """Every second a sample; all workers as often as a client tells of them."""
    place = urllib.parse.urlsplit(server.url).netloc
    events = socket.create_connection(place.split(":"), 20)
    events.sendall(f"GET /events?since={run.seq} HTTP/1.1\r\nHost: {place}\r\n\r\n".encode())
    n = 0
    before = page.browser.metrics()
    begun = time.monotonic()
    for second in range(seconds):
        run.sample()
        if second % EVERY_S == 0:
            for worker in run.ready():
                worker["done"] += 32
                worker["rate"] += 0.1
                worker["step_us"] += 1
            run.tell(run.ready())
        while select.select([events], [], [], max(0, begun + second + 1 - time.monotonic()))[0]:
            n += len(events.recv(1 << 16))
    after = page.browser.metrics()
    took = time.monotonic() - begun
    events.close()
    print(f"main thread {1000 * (after['TaskDuration'] - before['TaskDuration']) / took:.0f} ms a second, of that scripts "
          f"{1000 * (after['ScriptDuration'] - before['ScriptDuration']) / took:.0f}; events {n / took / 1000:.1f} KB/s; "
          f"memory of scripts {after['JSHeapUsedSize'] / 1e6:.1f} MB; {took:.0f} s")


def main():
    if program() is None:
        print("skipped: there is no Chromium (Debian package chromium)")
        return 77
    pictures = sys.argv[2] if len(sys.argv) == 3 else None
    seconds = int(sys.argv[3]) if len(sys.argv) == 4 else 0
    with tempfile.TemporaryDirectory() as directory:
        run = Run(directory)
        server = Server(sys.argv[1], directory)
        browser = Browser()
        page = Page(browser)
        try:
            browser.open(server.url)
            page.until("the page has all workers", lambda: " of 1,000 workers ready" in page.text("#workers-summary"))
            if seconds > 0:
                measure(page, run, server, seconds)
                return 0
            look_at_summary(page, run)
            look_at_histogram(page, run)
            look_at_hosts(page, run)
            look_at_table(page, run)
            if pictures:
                browser.picture(os.path.join(pictures, "many.png"))
            see_change(page, run)
            see_trouble(page, run)
            see_sections(page)
            check(f"no errors in the page {browser.errors}", not browser.errors)
        finally:
            browser.close()
            server.end()
            run.file.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
