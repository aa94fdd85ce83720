"""A headless Chromium, driven with its DevTools protocol over two pipes. Standard library only."""
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


def program():
    """The browser's program; None: there is none."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Browser:
    """One page. Every wait has a deadline."""

    def __init__(self, width=1280, height=900, dark=False):
        self.profile = tempfile.mkdtemp(prefix="page-test-")
        to_browser, self.out = os.pipe()
        self.into, from_browser = os.pipe()

        def pipes():  # the browser reads from descriptor 3 and writes to 4
            high = os.dup2(to_browser, 60), os.dup2(from_browser, 61)
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self.process = subprocess.Popen(
            [program(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--no-first-run", "--disable-extensions", "--disable-background-networking",
             "--remote-debugging-pipe", f"--user-data-dir={self.profile}", f"--window-size={width},{height}",
             "about:blank"],
            preexec_fn=pipes, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.rest = b""
        self.loads = 0
        self.n = 0
        self.errors = []
        self.console = []  # what the page's console says of errors, also of answers that did not come
        self.session = None
        target = next(t for t in self.wait_for(self.targets, 30) if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Performance", "Network"):
            self.call(f"{domain}.enable")
        self.size(width, height)
        if dark:
            self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])

    def targets(self):
        return [t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page"]

    def size(self, width, height, scale=1, mobile=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale,
                  mobile=mobile)

    def read(self, deadline):
        """One message."""
        while b"\0" not in self.rest:
            if not select.select([self.into], [], [], max(0, deadline - time.monotonic()))[0]:
                raise TimeoutError("the browser does not answer")
            more = os.read(self.into, 1 << 20)
            if not more:
                raise RuntimeError("the browser has ended")
            self.rest += more
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **params):
        self.n += 1
        message = {"id": self.n, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + 60
        while True:
            answer = self.read(deadline)
            if answer.get("id") == self.n:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.note(answer)

    def note(self, event):
        """Keeps what went wrong in the page."""
        params = event.get("params", {})
        self.loads += event.get("method") == "Page.loadEventFired"
        if event.get("method") == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif event.get("method") == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
            self.console.append(str([arg.get("value", arg.get("description")) for arg in params["args"]]))
        elif event.get("method") == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.console.append(params["entry"]["text"])
        elif event.get("method") == "Page.javascriptDialogOpening":
            self.errors.append(f"a dialog: {params['message']}")
            raise RuntimeError(self.errors[-1])

    def open(self, url):
        """Returns when the page is loaded, so that nothing asks the document before it."""
        before = self.loads
        self.call("Page.navigate", url=url)
        self.wait_for(lambda: self.call("Page.getFrameTree") and self.loads > before, 60, f"{url} is not loaded")

    def run(self, script):
        """The value of an expression in the page; promises are awaited."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"].get("exception", {}).get("description", script))
        return answer["result"].get("value")

    def wait_for(self, question, seconds, what=""):
        """Asks until the answer is true."""
        deadline = time.monotonic() + seconds
        while True:
            answer = question()
            if answer:
                return answer
            if time.monotonic() > deadline:
                raise TimeoutError(what or str(question))
            select.select([self.into] if self.session else [], [], [], 0.05)

    def by_role(self, role, name=None):
        """What assistive technology sees: [(name, value or description)] of a role."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        wanted = {"nodeId": root, "role": role}
        if name is not None:
            wanted["accessibleName"] = name
        nodes = self.call("Accessibility.queryAXTree", **wanted)["nodes"]
        return [node.get("name", {}).get("value", "") for node in nodes if not node.get("ignored")]

    def metrics(self):
        return {m["name"]: m["value"] for m in self.call("Performance.getMetrics")["metrics"]}

    def picture(self, path, whole=True):
        import base64
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def close(self):
        try:
            self.session = None
            self.call("Browser.close")
        except (RuntimeError, TimeoutError, BrokenPipeError):
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.out)
        os.close(self.into)
        shutil.rmtree(self.profile, ignore_errors=True)
