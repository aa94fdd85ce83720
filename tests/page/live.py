#!/usr/bin/env python3
"""Looks at the page of a real run in headless Chromium: finds elements by role, compares values
with cox_stats, kills a ps, a worker and the client, and sees the page say so.

  live.py CLIENT MODULE COXSWAIN [PICTURES]

Exits with 77 if there is no Chromium.
"""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

from browser import Browser, program

TOTAL = 1000000  # steps that the client says it will run
PATIENCE_S = 60  # with sanitizers, on a busy machine


def descendants(ancestor, name):
    """The processes of that name that a process and its children have begun, by age."""
    parents = {}
    names = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                begin, _, end = file.read().rpartition(")")
        except OSError:
            continue
        names[int(pid)] = begin.partition("(")[2]
        parents[int(pid)] = int(end.split()[1])

    def is_ours(pid):
        while pid in parents and pid != ancestor:
            pid = parents[pid]
        return pid == ancestor

    return sorted(pid for pid in parents if is_ours(pid) and names[pid] == name[:15])


def steps_and_supervisors(ancestor):
    """The processes of the workers: those that run steps, and those that started them, by age."""
    workers = descendants(ancestor, "coxswain-worker")
    steps = {pid for worker in workers for pid in descendants(worker, "coxswain-worker") if pid != worker}
    return sorted(steps), [pid for pid in workers if pid not in steps]


class Client:
    """The client of a run, and the daemons that it has started."""

    def __init__(self, argv, directory, address):
        self.errors = open(os.path.join(directory, "errors"), "ab")
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=self.errors, text=True,
                                        env={**os.environ, "COX_HTTP": address})
        self.url = self.process.stdout.readline().strip()
        if not self.url.startswith("http://"):
            with open(self.errors.name, encoding="utf-8") as errors:
                raise RuntimeError(f"the client serves nothing: {errors.read()}")

    def get(self, path):
        return json.load(urllib.request.urlopen(self.url.rstrip("/") + path, timeout=20))

    def metrics(self):
        """Its counters, as Prometheus scrapes them: {"coxswain_client_commits_total": 3.0, ...}."""
        text = urllib.request.urlopen(self.url.rstrip("/") + "/metrics", timeout=20).read().decode()
        samples = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, _, value in samples if re.search("_(total|count|bucket|sum)({|$)", name)}

    def daemons(self, name):
        return descendants(self.process.pid, name)

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(PATIENCE_S)
        self.process.stdout.close()
        self.errors.close()


def check(what, holds):
    print(("ok: " if holds else "FAILED: ") + what, flush=True)
    if not holds:
        sys.exit(1)


class Page:
    def __init__(self, browser):
        self.browser = browser

    def text(self, selector):
        return self.browser.run(f"document.querySelector({json.dumps(selector)})?.textContent ?? ''")

    def tile(self, name):
        script = f"[...document.querySelectorAll('#tiles div')].find(d => d.firstChild.textContent === {json.dumps(name)})"
        return self.browser.run(f"{script}?.hidden === false ? {script}.lastChild.textContent : ''")

    def number(self, name):
        text = self.tile(name).replace(",", "")
        match = re.match(r"[\d.]+", text)
        return float(match[0]) * {"k": 1e3, "M": 1e6}.get(text[-1:], 1) if match else None

    def until(self, what, question):
        self.browser.wait_for(question, PATIENCE_S, what)
        check(what, True)

    def rows(self, place):
        return self.browser.run(
            f"[...document.querySelectorAll('#{place} tbody tr')].filter(r => !r.hidden)"
            ".map(r => [...r.cells].filter(c => !c.hidden).map(c => c.textContent))")


def look_at_roles(page, browser):
    for role, name in (("heading", "Curves"), ("heading", "Workers"), ("table", "Workers"), ("table", "Parameter servers"),
                       ("columnheader", "Steps/s"), ("rowheader", "ps 0"), ("rowheader", "worker 1"), ("navigation", "Sections"),
                       ("radio", "by step"), ("button", "Step time"), ("status", None)):
        page.until(f"there is a {role} {name or ''}", lambda: browser.by_role(role, name))
    check("each image says what it shows", all(browser.by_role("image")))


def look_at_names(page, browser):
    """Names from outside are text."""
    page.until("a metric's name is text", lambda: "<img src=x onerror=alert(1)>" in page.text("#curves"))
    page.until("the step's scalar is there", lambda: "loss0.7" in page.text("#curves"))
    page.until("a setting's value is text", lambda: "<script>alert(1)</script>" in page.text("#config-table"))
    page.until("a function's name is text", lambda: browser.run("document.getElementById('bound-card').hidden")
               or "<b/onclick=alert(1)>work</b>" in page.text("#profile-table"))
    check("no element came from a name", browser.run(
        "document.querySelectorAll('main img, main script, main b[onclick], main u').length") == 0)


UNDER_THE_POINTER = """(() => {
  const canvas = document.getElementById('lanes');
  const at = canvas.getBoundingClientRect();
  const tip = document.getElementById('tasks-tip');
  for (let x = at.width - 1; x > 0 && !tip.textContent.startsWith('worker'); x--) {
    canvas.dispatchEvent(new PointerEvent('pointermove', { clientX: at.left + x, clientY: at.top + 8 }));
  }
  return tip.textContent;
})()"""


def look_at_tasks(page, browser):
    """Steps are drawn while their section is in view, and the pointer tells which they are."""
    browser.run("document.getElementById('tasks').scrollIntoView()")
    page.until("the task stream has steps of all slots", lambda: re.match(
        "Task stream of 3 slots: [1-9]", browser.run("document.getElementById('lanes').getAttribute('aria-label') ?? ''")))
    page.until("the pointer tells a step and how long it took", lambda: re.fullmatch(
        r"worker 0, slot 0: <b/onclick=alert\(1\)>work</b>, [0-9.]+ (µs|ms)", browser.run(UNDER_THE_POINTER)))
    browser.run("scrollTo(0, 0)")


def kill_and_see(page, browser, client, picture):
    page.until("all are up", lambda: page.tile("Ps up") == "2 / 2" and page.tile("Workers ready") == "3 / 3")
    os.kill(client.daemons("coxswain-worker")[0], signal.SIGKILL)
    page.until("the page says that a worker is lost", lambda: "worker lost" in page.text("#events-list"))
    page.until("events are a list", lambda: browser.by_role("list", "Events, newest first"))
    page.until("and that it is back", lambda: "worker back" in page.text("#events-list")
               and page.tile("Workers ready") == "3 / 3")
    os.kill(client.daemons("coxswain-ps")[0], signal.SIGKILL)
    page.until("the page says that a ps is lost", lambda: "ps lost" in page.text("#events-list"))
    picture("ps-lost")
    page.until("and that it is back", lambda: "ps back" in page.text("#events-list") and page.tile("Ps up") == "2 / 2")


def progress(page):
    return page.browser.run("document.getElementById('progress').getAttribute('aria-valuetext')")


def links(page, client):
    """Each link that the page shows to itself is served."""
    shown = page.browser.run("[...document.querySelectorAll('footer a')].filter(a => a.offsetParent).map(a => a.href)")
    for url in shown:
        check(f"{url} is there", urllib.request.urlopen(url, timeout=20).status == 200)
    return [url.removeprefix(client.url.rstrip("/")) for url in shown]


SPEEDS = """import('/model.js').then(({ Model }) => {
  const model = new Model();
  const sample = (seq, t, rate) => model.add({ seq, t, kind: 'sample', rate });
  model.add({ seq: 1, t: 1, kind: 'run', pid: 1 });
  sample(2, 2, 100);
  sample(3, 3, 100);
  model.add({ seq: 4, t: 10, kind: 'run', pid: 2 });
  sample(5, 11, 0);
  sample(6, 12, 10);
  const after = model.recentRate();
  sample(7, 5, 30);
  return [after, model.recentRate()];
})"""


# A curve of 200,000 points, and samples that are a minute apart, with a gap and another client: how far apart the
# points of the older half are, the number of points, the first and the last, and the number of gaps.
LONG = """import('/model.js').then(({ Model }) => {
  const model = new Model();
  let seq = 0;
  for (let i = 0; i < 200000; i++) model.add({ seq: ++seq, t: i, kind: 'scalar', name: 'loss', step: i, value: 1 });
  const { x } = model.scalar('loss', 'client');
  const apart = x.slice(1, x.length >> 2).map((step, i) => step - x[i]);
  model.add({ seq: ++seq, t: 0, kind: 'run', pid: 1 });
  for (let i = 0; i < 100; i++) {
    model.add({ seq: ++seq, t: 60 * i + (i > 50 ? 1000 : 0), kind: 'sample', rate: 1 });
    if (i === 20) model.add({ seq: ++seq, t: 60 * i + 30, kind: 'run', pid: 2 });
  }
  return [Math.max(...apart) - Math.min(...apart), x.length > 10000 && x.length <= 20000, x[0], x[x.length - 1],
          model.curves.rate.filter((rate) => rate === null).length];
})"""


# What the axes of all drawn curves by step begin and end with.
AXES = "[...document.querySelectorAll('#curves .plot')].map(p => p.dataset.x).filter(x => x).map(x => x.split(' ').map(Number))"

DRAG = """(() => {
  const over = document.querySelector('#curves .u-over');
  const at = over.getBoundingClientRect();
  const send = (where, Kind, name, x) => where.dispatchEvent(new Kind(name, {
    clientX: at.left + x * at.width, clientY: at.top + at.height / 2, movementX: 9, bubbles: true, button: 0, buttons: 1 }));
  send(over, PointerEvent, 'pointerdown', 0.25);
  send(over, MouseEvent, 'mousedown', 0.25);
  send(over, MouseEvent, 'mousemove', 0.4);
  send(over, MouseEvent, 'mousemove', 0.5);
  send(over, MouseEvent, 'mouseup', 0.5);
})()"""


def look_at_zoom(page, browser):
    """A part of a curve that is dragged over fills its width, and that of the others; Esc shows all again."""
    browser.run("document.getElementById('curves').scrollIntoView()")
    page.until("curves are drawn", lambda: len(browser.run(AXES)) > 1)
    low, high = browser.run(AXES)[0]
    quarter = (high - low) / 4
    browser.run(DRAG)

    def is_at(begin, end):
        return all(abs(x - begin) < quarter / 4 and abs(y - end) < quarter / 4 for x, y in browser.run(AXES))

    page.until("all curves are zoomed to what was dragged over", lambda: is_at(low + quarter, low + 2 * quarter))
    browser.run("document.querySelector('#curves .plot').dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' }))")
    page.until("Esc shows all again", lambda: abs(browser.run(AXES)[0][1] - high) < quarter / 4)
    browser.run("scrollTo(0, 0)")


def ends():
    """Runs that have ended, or not: {the page's word: (records, what it says)}."""
    now = time.time()
    ended = subprocess.Popen(["true"])
    ended.wait()
    with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
        boot = file.read().strip()
    process = {"began_ticks": 1, "pid_namespace": os.stat("/proc/self/ns/pid").st_ino, "boot": boot}
    run = {"t": now - 60, "kind": "run", "run": "a", "pid": ended.pid, "host": "h", "program": "p"}
    sample = {"t": now - 1, "kind": "sample", "done": 7, "failed": 3, "total": 10}
    lost = {"t": now - 1, "kind": "event", "code": "run_over", "level": "error", "text": "ps 0 is lost for good"}
    return {
        "gone": ([{**run, "process": process}, sample], "The client is gone"),
        "no answer": ([run, {**sample, "t": now - 30}], "Nothing was heard of this run"),
        "failed": ([run, lost, {**sample, "over": True}], "This run cannot go on"),
        "over": ([run, {**sample, "over": True, "failure": "closure 8 (f): bad"}], "This run ended"),
        "opening": ([run, {**sample, "over": True}, {"t": now, "kind": "event", "code": "serves", "level": "info"}],
                    "A client is being opened"),
    }


def look_at_end(page, browser, word, records, sentence):
    with tempfile.TemporaryDirectory() as directory:
        with open(os.path.join(directory, "metrics.jsonl"), "w", encoding="utf-8") as file:
            file.writelines(json.dumps({"seq": i + 1, **record}, separators=(",", ":")) + "\n" for i, record in enumerate(records))
        served = Client([sys.argv[3], "page", directory], directory, "")
        try:
            browser.open(served.url)
            page.until(f"the page says {word}", lambda: page.text("#status") == word)
            check(f"and {sentence}", page.text("#sentence").startswith(sentence))
            check("and that 70 % is done", page.tile("Progress") == "70.0 %")
            told = {"failed": "ps 0 is lost for good", "over": "3 steps failed or were cancelled. The first: closure 8 (f): bad"}
            check("and why", told.get(word, "") in page.text("#alerts"))
        finally:
            served.end()


def tiles_fit(browser):
    """Also on a phone, where a tile is narrow."""
    browser.size(390, 844)
    fit = browser.run("[...document.querySelectorAll('#tiles dd')].every(d => d.scrollWidth <= d.clientWidth)")
    browser.size(1280, 900)
    return fit


def compare(page, client):
    """When nothing runs any more, the page has the numbers of cox_stats."""
    client.process.send_signal(signal.SIGUSR1)
    stats = json.loads(client.process.stdout.readline())
    state = client.get("/api/state")
    check("the state is live", state["live"])

    def shown():
        return client.get("/api/state")["sample"]["done"] == stats["done"] and (
            abs(page.number("Steps done") - stats["done"]) <= 0.005 * stats["done"] and
            abs(page.number("Commits") - stats["commits"]) <= 0.005 * stats["commits"])

    page.until("the page has the numbers of cox_stats", shown)
    sample = client.get("/api/state")["sample"]
    check("the client has said how much there is to do", sample["total"] == TOTAL)
    percent = f"{min(100, 100 * stats['done'] / TOTAL):.1f} %"
    page.until("the page shows how far it is", lambda: page.tile("Progress") == percent)
    page.until("also to those who do not see it", lambda: progress(page) == f"{percent}: {stats['done']:,} of {TOTAL:,} steps")
    page.until("it says that nothing runs", lambda: page.text("#status") == "idle")
    check("it has all workers", len(page.rows("workers-table")) == stats["workers"])
    check("it has the steps of all workers", [r[0] for r in page.rows("workers-table")] == ["worker 0", "worker 1", "worker 2"])


def main():
    if program() is None:
        print("skipped: there is no Chromium (Debian package chromium)")
        return 77
    argv, pictures = sys.argv[1:3], sys.argv[4] if len(sys.argv) > 4 else None

    def picture(name):
        if pictures:
            browser.picture(os.path.join(pictures, f"{name}.png"))

    with tempfile.TemporaryDirectory() as directory:
        argv.insert(1, directory)
        client = Client(argv, directory, "127.0.0.1:0")
        browser = Browser()
        page = Page(browser)
        try:
            browser.open(client.url)
            look_at_roles(page, browser)
            look_at_names(page, browser)
            look_at_tasks(page, browser)
            kill_and_see(page, browser, client, picture)
            check("the page of a client links to its metrics", "/metrics" in links(page, client))
            compare(page, client)
            picture("live")
            address = client.url.removeprefix("http://").rstrip("/")
            events = page.text("#events-list").count("worker lost")
            client.end()
            page.until("the page says that the client is gone", lambda: page.text("#status") == "over")
            check("and since when", page.text("#sentence").startswith("This run ended at "))
            client = Client(argv, directory, address)
            page.until("the page goes on with the next client", lambda: page.text("#status") == "training")
            check("and has what came before", page.text("#events-list").count("worker lost") >= events)
            browser.open(client.url)
            page.until("a new browser has it, too", lambda: page.text("#events-list").count("worker lost") >= events)
            client.end()
            client = Client([sys.argv[3], "page", directory], directory, "")
            browser.open(client.url)
            page.until("the page of the directory has it when all is over",
                       lambda: page.text("#events-list").count("worker lost") >= events and page.rows("workers-table"))
            page.until("and says that it is over", lambda: page.text("#status") == "over")
            check("and tells no speed", page.tile("Steps per second") == "")
            check("and when the last checkpoint was", " at " in page.tile("Last checkpoint"))
            check("no number covers the next one", tiles_fit(browser))
            check("the speed is that of the newest client, also if its clock is set back", browser.run(SPEEDS) == [5, 30])
            check("a long curve is thinned evenly, and only gaps are gaps", browser.run(LONG) == [0, True, 0, 199999, 2])
            look_at_zoom(page, browser)
            picture("over")
            check("and links to no metrics", "/metrics" not in links(page, client))
            for name, end in ends().items():
                look_at_end(page, browser, name, *end)
            check(f"no errors in the page {browser.errors}", not browser.errors)
        finally:
            browser.close()
            client.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
