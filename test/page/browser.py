# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, driven over its DevTools protocol through two pipes: no port is opened, no driver is needed.

One target (tab) at a time. What the page does wrong is kept: `complaints` holds console messages, exceptions and violations of the
Content-Security-Policy, `requests` every address that was asked for (or would have been: what the policy
forbids is among them), `answered` those of them that somebody answered.
"""
import base64
import fcntl
import json
import os
import shutil
import signal
import tempfile
import threading
import time

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def program():
    """The browser's path, or None."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class BrowserError(Exception):
    """The browser said no, or nothing in time."""


class Browser:
    def __init__(self, javascript=True):
        self.dir = tempfile.mkdtemp(prefix="poolgate-browser-")
        ours_r, theirs_w = os.pipe()
        theirs_r, ours_w = os.pipe()
        argv = [program(), "--headless", "--remote-debugging-pipe", "--no-first-run", "--no-default-browser-check", "--disable-gpu",
                "--disable-dev-shm-usage", "--disable-extensions", "--disable-background-networking", "--disable-component-update",
                "--disable-sync", "--no-proxy-server", "--hide-scrollbars", f"--user-data-dir={self.dir}"]
        if os.geteuid() == 0:
            argv.append("--no-sandbox")
        # It reads commands from descriptor 3 and writes to 4: ours are brought out of the way first.
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100) for fd in (theirs_r, theirs_w)]
        null = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
        moved = [(os.POSIX_SPAWN_DUP2, fd, to) for fd, to in zip(high, (3, 4))]
        self.pid = os.posix_spawn(argv[0], argv, {**os.environ, "HOME": self.dir}, file_actions=null + moved, setsid=True)
        for fd in (theirs_r, theirs_w, *high):
            os.close(fd)
        self.write_fd, self.read_fd = ours_w, ours_r
        self.last, self.answers, self.news = 0, {}, threading.Condition()
        self.complaints, self.requests, self.answered, self.events = [], [], [], []
        self.session = None
        threading.Thread(target=self._read, daemon=True).start()
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Audits"):
            self.call(f"{domain}.enable")
        if not javascript:
            self.call("Emulation.setScriptExecutionDisabled", value=True)

    def _read(self):
        pending = b""
        while True:
            try:
                piece = os.read(self.read_fd, 1 << 20)
            except OSError:
                piece = b""
            if not piece:
                with self.news:
                    self.answers[None] = True
                    self.news.notify_all()
                return
            *whole, pending = (pending + piece).split(b"\0")
            for text in whole:
                self._take(json.loads(text))

    def _take(self, message):
        with self.news:
            if "id" in message:
                self.answers[message["id"]] = message
            else:
                method, p = message["method"], message["params"]
                self.events.append(method)
                if method == "Runtime.exceptionThrown":
                    self.complaints.append(json.dumps(p["exceptionDetails"]))
                elif method == "Log.entryAdded" and p["entry"]["level"] != "verbose":
                    self.complaints.append(p["entry"]["text"])
                elif method == "Audits.issueAdded":
                    self.complaints.append(json.dumps(p["issue"]))
                elif method == "Runtime.consoleAPICalled" or method == "Page.javascriptDialogOpening":
                    self.complaints.append(json.dumps(p))
                elif method == "Network.requestWillBeSent":
                    self.requests.append(p["request"]["url"])
                elif method == "Network.responseReceived":
                    self.answered.append(p["response"]["url"])
            self.news.notify_all()

    def call(self, method, seconds=30, **params):
        with self.news:
            self.last += 1
            number = self.last
        message = {"id": number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.write_fd, data):]
        with self.news:
            if not self.news.wait_for(lambda: number in self.answers or None in self.answers, seconds) or number not in self.answers:
                raise BrowserError(f"no answer to {method}")
            answer = self.answers.pop(number)
        if "error" in answer:
            raise BrowserError(f"{method}: {answer['error']}")
        return answer["result"]

    def open(self, url, seconds=30):
        """Go there and wait until everything that it asks for has come."""
        with self.news:
            self.events.clear()
        said = self.call("Page.navigate", url=url)
        if said.get("errorText"):
            raise BrowserError(said["errorText"])
        with self.news:
            if not self.news.wait_for(lambda: "Page.loadEventFired" in self.events, seconds):
                raise BrowserError(f"{url} does not load")

    def eval(self, expression):
        """The value of an expression in the page."""
        said = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in said:
            raise BrowserError(json.dumps(said["exceptionDetails"]))
        return said["result"].get("value")

    def wait(self, expression, seconds=20):
        """Until the expression is true."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.eval(expression):
                return True
            time.sleep(0.1)
        return False

    def size(self, width, height, phone=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=2 if phone else 1, mobile=phone)

    def dark(self, on):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if on else "light"}])

    def screenshot(self, path, height=None):
        """The page from its top, as high as it is (or so high), as PNG."""
        box = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": box["width"], "height": min(box["height"], height or box["height"]), "scale": 1}
        data = base64.b64decode(self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)["data"])
        with open(path, "wb") as f:
            f.write(data)

    def _ended(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if os.waitpid(self.pid, os.WNOHANG)[0]:
                return True
            time.sleep(0.02)
        return False

    def close(self):
        self.session = None
        try:
            self.call("Browser.close", seconds=5)
        except (BrowserError, OSError):
            pass
        if not self._ended(10):
            os.killpg(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        for fd in (self.write_fd, self.read_fd):
            try:
                os.close(fd)
            except OSError:
                pass
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
