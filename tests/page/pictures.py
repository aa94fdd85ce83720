#!/usr/bin/env python3
"""Takes the pictures of docs/watching.md from a real run: one while it trains, and one when a ps
and a worker have just been killed.

  pictures.py CTR DIR
"""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

from browser import Browser
from live import Page, check, descendants, steps_and_supervisors

WIDTH, HEIGHT = 1180, 930
CURVE_POINTS = 8  # evaluations in the first picture
PATIENCE_S = 120


def address_of(errors):
    """What the client says when it begins to serve."""
    for line in errors:
        if match := re.search(r"watched at (http://[^/\s]+/)", line):
            return match[1]
    raise RuntimeError("the client serves nothing")


def while_it_trains(page, path):
    page.browser.wait_for(lambda: (page.number("Last checkpoint") or 0) > CURVE_POINTS and "left, until" in page.text("#sentence"),
                          PATIENCE_S, "some checkpoints")
    page.browser.picture(path, whole=False)


def with_some_killed(page, client, path):
    """The local cluster starts again what has died, at once. It is stopped meanwhile, as if their host were gone."""
    launcher = descendants(client.pid, "coxswain")[0]
    supervisor = steps_and_supervisors(launcher)[1][-1]
    os.kill(launcher, signal.SIGSTOP)
    try:
        begun = time.monotonic()
        os.kill(descendants(client.pid, "coxswain-ps")[0], signal.SIGKILL)
        for pid in reversed(descendants(supervisor, "coxswain-worker")):
            os.kill(pid, signal.SIGKILL)
        page.until("the page says that they are lost",
                   lambda: re.search("ps 0 is.*worker [0-9]: ", page.text("#alerts")))
        print(f"after {time.monotonic() - begun:.2f} s")
        page.browser.picture(path, whole=False)
    finally:
        os.kill(launcher, signal.SIGCONT)
    page.until("and that they are back", lambda: page.tile("Ps up") == "2 / 2" and page.tile("Workers ready") == "4 / 4")


def main():
    ctr, pictures = sys.argv[1:]
    with tempfile.TemporaryDirectory() as directory:
        client = subprocess.Popen(
            [ctr, "--out", f"{directory}/out", "--workers", "4", "--epochs", "40"], stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True, env={**os.environ, "COX_HTTP": "127.0.0.1:0"})
        browser = None
        try:
            url = address_of(client.stderr)
            browser = Browser(WIDTH, HEIGHT)
            page = Page(browser)
            browser.open(url)
            while_it_trains(page, os.path.join(pictures, "watching-page.png"))
            with_some_killed(page, client, os.path.join(pictures, "watching-lost.png"))
            check(f"no errors in the page {browser.errors}", not browser.errors)
        finally:
            if browser is not None:
                browser.close()
            client.terminate()
            client.wait(PATIENCE_S)
            client.stderr.close()


if __name__ == "__main__":
    main()
