"""A real browser for tests: Chromium without a window, spoken to through its debugging pipe. Needs no package.

Holds no test. `find_chromium` gives None where the machine has no Chromium.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.waiting import LIMIT

OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-default-browser-check",
    "--remote-debugging-pipe",
)  # fmt: skip


def find_chromium() -> str | None:
    """The path of Chromium."""
    return next(
        (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
    )


class Tab:
    """One page of the browser, and everything it complained about or asked for."""

    def __init__(self, browser: Browser, session: str):
        self.browser, self.session = browser, session
        self.complaints: list[str] = []
        self.requests: list[str] = []
        browser.tabs[session] = self
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **parameters: Any) -> dict:
        return self.browser.ask(method, self.session, **parameters)

    def hear(self, message: dict) -> None:
        """Take a message that nobody asked for."""
        method, found = message["method"], message["params"]
        if method == "Runtime.exceptionThrown":
            self.complaints.append(found["exceptionDetails"]["text"])
        elif method == "Runtime.consoleAPICalled" and found["type"] in ("error", "warning", "assert"):
            self.complaints.append(json.dumps(found["args"]))
        elif method == "Log.entryAdded" and found["entry"]["level"] in ("error", "warning"):
            self.complaints.append(found["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(found["request"]["url"])

    def open(self, path: Path, width: int, scheme: str = "light") -> None:
        """Load a file in a window of this width, and wait until it is there."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=width < 500)
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.ask("Page.navigate", url=path.as_uri())
        deadline = time.monotonic() + LIMIT
        while self.run("document.readyState + location.href") != "complete" + path.as_uri():
            assert time.monotonic() < deadline, "the page does not load"
            time.sleep(0.01)

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")


class Browser:
    """A running Chromium."""

    def __init__(self, sending: int, hearing: int):
        self.sending, self.hearing = sending, hearing
        self.number, self.rest = 0, b""
        self.tabs: dict[str, Tab] = {}

    def new_tab(self) -> Tab:
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        return Tab(self, self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"])

    def ask(self, method: str, session: str | None = None, **parameters: Any) -> dict:
        """Give an order, and wait for the answer."""
        self.number += 1
        order = {"id": self.number, "method": method, "params": parameters} | (
            {"sessionId": session} if session else {}
        )
        os.write(self.sending, json.dumps(order).encode() + b"\0")
        while True:
            message = self._next()
            if message.get("id") == self.number:
                assert "error" not in message, message
                return message["result"]
            if message.get("sessionId") in self.tabs and "method" in message:
                self.tabs[message["sessionId"]].hear(message)

    def _next(self) -> dict:
        while b"\0" not in self.rest:
            more = os.read(self.hearing, 1 << 16)
            assert more, "the browser ended"
            self.rest += more
        message, _, self.rest = self.rest.partition(b"\0")
        return json.loads(message)


@contextmanager
def started(path: str) -> Iterator[Browser]:
    """A browser that ends with the block."""
    theirs, sending = os.pipe()
    hearing, answers = os.pipe()

    def connect() -> None:  # Chromium reads orders from 3 and writes answers to 4
        low, high = os.dup(theirs), os.dup(answers)
        os.dup2(low, 3)
        os.dup2(high, 4)

    with tempfile.TemporaryDirectory() as profile:
        process = subprocess.Popen(
            [path, *OPTIONS, f"--user-data-dir={profile}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False,
            preexec_fn=connect,  # noqa: PLW1509
        )  # fmt: skip
        os.close(theirs)
        os.close(answers)
        try:
            browser = Browser(sending, hearing)
            yield browser
            browser.ask("Browser.close")
        finally:
            os.close(sending)
            os.close(hearing)
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
