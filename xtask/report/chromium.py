"""How is a real browser controlled?

By Chromium's DevTools protocol over a pair of pipes: JSON messages that end with a zero byte. Only the
standard library is needed.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]


def find():
    """Returns the path of the browser, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Failed(Exception):
    """A request to the browser failed."""


class Browser:
    """A headless browser with one page."""

    def __init__(self, path, seconds=30):
        self.seconds = seconds
        self.number = 0
        self.rest = b""
        # The errors of the page, and its requests to the network.
        self.errors, self.requests = [], []
        self.folder = tempfile.mkdtemp(prefix="simjoin-chromium-")
        to_browser, self.send = os.pipe()
        self.receive, from_browser = os.pipe()

        def pipes():
            # The browser reads from descriptor 3 and writes to descriptor 4.
            reading, writing = os.dup(to_browser), os.dup(from_browser)
            while min(reading, writing) <= 4:
                reading, writing = os.dup(reading), os.dup(writing)
            os.dup2(reading, 3)
            os.dup2(writing, 4)

        options = [
            "--headless=new", "--remote-debugging-pipe", f"--user-data-dir={self.folder}",
            "--no-first-run", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            "--force-device-scale-factor=1", "--font-render-hinting=none",
        ]
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            options.append("--no-sandbox")
        self.log = open(os.path.join(self.folder, "log"), "wb")
        self.process = subprocess.Popen(
            [path, *options, "about:blank"], preexec_fn=pipes, close_fds=False,
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
        )
        os.close(to_browser)
        os.close(from_browser)
        self.session = None
        try:
            target = next(
                one for one in self.call("Target.getTargets")["targetInfos"] if one["type"] == "page"
            )
            attached = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
            self.session = attached["sessionId"]
            for domain in ["Page", "Runtime", "Log", "Network"]:
                self.call(f"{domain}.enable")
        except BaseException:
            self.close()
            raise

    def close(self):
        """Ends the browser."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for end in (self.send, self.receive):
            os.close(end)
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def call(self, method, **parameters):
        """Calls a method of the protocol and returns its result."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.send, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + self.seconds
        while True:
            answer = self.next(end, method)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise Failed(f"{method}: {answer['error'].get('message')}")
                return answer["result"]

    def next(self, end, what):
        """Returns the next message, and records events."""
        while b"\0" not in self.rest:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.receive], [], [], left)[0]:
                raise Failed(f"the browser sent nothing for {self.seconds} s: {what}")
            more = os.read(self.receive, 1 << 20)
            if not more:
                raise Failed(f"the browser ended: {what}")
            self.rest += more
        text, self.rest = self.rest.split(b"\0", 1)
        message = json.loads(text)
        self.record(message.get("method"), message.get("params", {}))
        return message

    def record(self, method, event):
        """Records errors and requests."""
        if method == "Runtime.exceptionThrown":
            details = event["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled" and event["type"] in ("error", "warning", "assert"):
            self.errors.append(" ".join(str(one.get("value")) for one in event["args"]))
        elif method == "Log.entryAdded" and event["entry"]["level"] in ("error", "warning"):
            self.errors.append(event["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(event["request"]["url"])

    def show(self, width, height, dark=False):
        """Sets the size of the window and the preferred colours."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, path):
        """Opens a file and waits until its script has finished."""
        self.errors.clear()
        self.requests.clear()
        self.call("Page.navigate", url="file://" + os.path.abspath(path))
        self.wait("document.readyState === 'complete' && document.documentElement.dataset.ready === 'true'")

    def wait(self, condition):
        """Waits until a condition holds on the page."""
        end = time.monotonic() + self.seconds
        while not self.ask(f"Boolean({condition})"):
            if time.monotonic() > end:
                raise Failed(f"{condition} did not become true; errors of the page: {self.errors}")
            time.sleep(0.02)

    def ask(self, expression):
        """Returns the value of an expression on the page."""
        result = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise Failed(details.get("exception", {}).get("description") or details["text"])
        return result["result"].get("value")

    def settle(self):
        """Waits for two frames, after which everything is drawn."""
        self.ask("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def key(self, key, code, text=None):
        """Presses a key."""
        more = {"text": text} if text else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def type(self, text):
        """Types a text into the focused element."""
        self.call("Input.insertText", text=text)

    def picture(self, path, whole=True, most=None):
        """Saves a picture of the whole page, or of its upper part."""
        self.settle()
        clip = {}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            height = min(size["height"], most or size["height"])
            clip = {
                "clip": {"x": 0, "y": 0, "width": size["width"], "height": height, "scale": 1},
                "captureBeyondViewport": True,
            }
        answer = self.call("Page.captureScreenshot", format="png", **clip)
        with open(path, "wb") as file:
            file.write(base64.b64decode(answer["data"]))
