#!/usr/bin/env python3
"""Looks at the page of a real run in headless Chromium while its ps and workers are killed by kill -9,
again and again, and scrapes the client's metrics meanwhile. When all is over the page and the
metrics have the numbers of cox_stats.

  storm.py CLIENT MODULE [PICTURES [SEED]]

Exits with 77 if there is no Chromium.
"""
import json
import os
import random
import signal
import sys
import tempfile
import time

from browser import Browser, program
from live import Client, Page, check, descendants, steps_and_supervisors

BLOWS = 12
PS = 2
WORKERS = 3


def all_up(page):
    return page.tile("Ps up") == f"{PS} / {PS}" and page.tile("Workers ready") == f"{WORKERS} / {WORKERS}"


def told(page):
    """What the page says has happened: {"ps lost": 3, ...}."""
    names = page.browser.run("[...document.querySelectorAll('#events-list b')].map(b => b.textContent)")
    return {name: names.count(name) for name in set(names)}


def kill_and_hold(page, client, picture):
    """The local cluster starts again what has died, at once. It is stopped meanwhile, as if their host were gone."""
    page.until("the page tells how long it takes", lambda: " left, until " in page.text("#sentence"))
    launcher = descendants(client.process.pid, "coxswain")[0]
    steps, supervisors = steps_and_supervisors(launcher)
    os.kill(launcher, signal.SIGSTOP)
    try:
        begun = time.monotonic()
        for pid in (client.daemons("coxswain-ps")[0], *steps, supervisors[0]):
            os.kill(pid, signal.SIGKILL)
        page.until("the page says that a ps is lost", lambda: "ps 0 is" in page.text("#alerts"))
        print(f"after {time.monotonic() - begun:.2f} s")
        page.until("and a worker", lambda: page.browser.run("/worker [0-9]: /.test(document.querySelector('#alerts').textContent)"))
        print(f"after {time.monotonic() - begun:.2f} s")
        page.until("and what the run waits for", lambda: page.text("#sentence").endswith("The run waits for ps 0."))
        picture("storm")
    finally:
        os.kill(launcher, signal.SIGCONT)
    begun = time.monotonic()
    page.until("and that all are back", lambda: all_up(page) and page.text("#alerts") == "" and page.text("#status") == "training")
    print(f"after {time.monotonic() - begun:.2f} s")


def blow(client, chance):
    """Kills one or two processes; returns what they were."""
    steps, supervisors = steps_and_supervisors(client.process.pid)
    killed = []
    for kind, pids in chance.sample([("ps", client.daemons("coxswain-ps")), ("step", steps), ("worker", supervisors)], chance.randint(1, 2)):
        if pids:
            try:
                os.kill(chance.choice(pids), signal.SIGKILL)
                killed.append(kind)
            except ProcessLookupError:
                pass  # it has ended by itself, because its supervisor was killed
    return killed


def storm(page, client, chance):
    """Blow after blow: each as soon as the page tells something new, or when all are back."""
    scraped = {}
    for n in range(BLOWS):
        before = told(page)
        last, scraped = scraped, client.metrics()
        fallen = [name for name, value in last.items() if scraped.get(name, -1) < value]
        check(f"no counter falls {fallen}", not fallen)
        killed = blow(client, chance)
        page.until(f"blow {n}, {killed}, is told of", lambda: told(page) != before)
        if chance.random() < 0.4:
            page.until("all are back", lambda: all_up(page))
    page.until("all are back after the storm", lambda: all_up(page) and page.text("#alerts") == "" and page.text("#status") == "training")


def compare(page, client):
    """When nothing runs any more, the page has the numbers of cox_stats."""
    client.process.send_signal(signal.SIGUSR1)
    stats = json.loads(client.process.stdout.readline())
    print(stats)
    check("nothing has failed", stats["failed"] == 0)
    check("workers and ps were lost", stats["workers_lost"] > 0 and stats["ps_recovered"] > 0)
    page.until("the page says that nothing runs", lambda: page.text("#status") == "idle")

    def sampled():
        sample = client.get("/api/state")["sample"]
        return all(sample[name] == n for name, n in stats.items())

    page.until("the run's newest sample has the numbers of cox_stats", sampled)
    for name, member in (("Steps done", "done"), ("Commits", "commits"), ("Sent again", "put_back")):
        page.until(f"so has the page: {name}", lambda: page.tile(name) == short(stats[member]))
    scraped = client.metrics()
    for name, member in (("closures_done", "done"), ("closures_failed", "failed"), ("attempts_put_back", "put_back"),
                         ("commits", "commits"), ("commits_duplicate", "commits_duplicate"), ("workers_lost", "workers_lost"),
                         ("ps_recovered", "ps_recovered"), ("checkpoints", "checkpoints")):
        check(f"so have the metrics: {name}", scraped[f"coxswain_client_{name}_total"] == stats[member])
    check("no tile tells of failures", page.tile("Failed") == "")
    lost = page.browser.run("[...document.querySelectorAll('#workers-table thead th')].findIndex(th => th.textContent.startsWith('Lost'))")
    page.until("and how often workers were lost", lambda: sum(int(row[lost]) for row in page.rows("workers-table")) == stats["workers_lost"])
    events = told(page)
    check(f"each loss and each return of a worker is an event: {events}", events["worker lost"] == stats["workers_lost"])
    check("and each return of a ps", events["ps back"] == stats["ps_recovered"])


def short(n):
    """As the page writes it (page/format.js)."""
    for size, unit, scale in ((1e6, " M", 1e6), (1e4, " k", 1e3)):
        if n >= size:
            return f"{n / scale:#.3g}".rstrip(".") + unit
    return f"{n:,}" if n > 0 else ""


def main():
    if program() is None:
        print("skipped: there is no Chromium (Debian package chromium)")
        return 77
    pictures = sys.argv[3] if len(sys.argv) > 3 else None
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else 1

    def picture(name):
        if pictures:
            browser.picture(os.path.join(pictures, f"{name}.png"))

    print(f"seed {seed}")
    with tempfile.TemporaryDirectory() as directory:
        client = Client([sys.argv[1], directory, sys.argv[2]], directory, "127.0.0.1:0")
        browser = Browser()
        page = Page(browser)
        try:
            browser.open(client.url)
            page.until("all are up", lambda: all_up(page))
            kill_and_hold(page, client, picture)
            storm(page, client, random.Random(seed))
            compare(page, client)
            picture("storm-over")
            check(f"no errors in the page {browser.errors}", not browser.errors)
            check(f"none in its console {browser.console}", not browser.console)
        finally:
            browser.close()
            client.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
