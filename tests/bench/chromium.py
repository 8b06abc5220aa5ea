"""A real headless Chromium, driven over the pipe of its DevTools protocol: no port, no driver and no package.

With ``--remote-debugging-pipe`` Chromium reads commands from file descriptor 3 and writes answers and events to 4, each
a JSON text that ends in a zero byte.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_STARTING = (
    # The pipes' ends get numbers that are free first, since they may be 3 or 4 already.
    "import fcntl, os, sys; ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]; "
    "os.dup2(ends[0], 3); os.dup2(ends[1], 4); os.execv(sys.argv[3], sys.argv[3:])"
)
_OPTIONS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",  # it needs user namespaces, which containers don't have
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
)
_PATIENCE_S = 60.0  # a stuck browser fails a test; it never decides what is right


def executable() -> str | None:
    """Chromium's path; ``None`` where there is none."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found is not None:
            return found
    return None


class BrowserError(Exception):
    """Chromium answered with an error, or not at all."""


class Page:
    """A tab. Events are kept in order of arrival."""

    def __init__(self, browser: _Pipe, session: str) -> None:
        self._browser = browser
        self._session = session
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command of the protocol and return its result."""
        return self._browser.ask(method, parameters, self._session)

    def open(self, address: str, *, width: int = 900, height: int = 800, scheme: str = "light") -> None:
        """Load a page in a window of that size, with the reader's colour scheme, and forget earlier events."""
        self._browser.events.clear()
        self.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.ask("Page.navigate", url=address)
        self._browser.wait_for("Page.loadEventFired")

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression, as JSON gives it."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise BrowserError(json.dumps(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def complaints(self) -> list[str]:
        """What went to the console since the page was opened: messages, exceptions, policy violations, failed loads."""
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        names = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded", "Network.loadingFailed")
        return [json.dumps(event["params"]) for event in self._browser.events if event["method"] in names]

    def requests(self) -> list[str]:
        """The addresses that were asked for since the page was opened, the page's own among them."""
        return [
            event["params"]["request"]["url"]
            for event in self._browser.events
            if event["method"] == "Network.requestWillBeSent"
        ]


class _Pipe:
    """Commands to a running Chromium, and what it says."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands = commands
        self._answers = answers
        self._rest = b""
        self._last_id = 0
        self.events: list[dict[str, Any]] = []

    def ask(self, method: str, parameters: dict[str, Any], session: str | None = None) -> dict[str, Any]:
        self._last_id += 1
        command = {"id": self._last_id, "method": method, "params": parameters}
        if session is not None:
            command["sessionId"] = session
        content = json.dumps(command).encode() + b"\0"
        while content:
            content = content[os.write(self._commands, content) :]
        while True:
            message = self._next(method)
            if message.get("id") == self._last_id:
                if "error" in message:
                    raise BrowserError(f"{method}: {message['error']}")
                return message["result"]

    def wait_for(self, event: str) -> None:
        while not any(seen["method"] == event for seen in self.events):
            self._next(event)

    def _next(self, wanted: str) -> dict[str, Any]:
        """The next message; an event is kept too."""
        deadline_s = time.monotonic() + _PATIENCE_S
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._answers], [], [], max(0.0, deadline_s - time.monotonic()))
            content = os.read(self._answers, 1 << 16) if ready else b""
            if not content:
                raise BrowserError(f"Chromium {'ended' if ready else 'was silent'} before {wanted}")
            self._rest += content
        text, _, self._rest = self._rest.partition(b"\0")
        message = json.loads(text)
        if "method" in message:
            self.events.append(message)
        return message


@contextmanager
def browser() -> Iterator[Page]:
    """A tab of a Chromium of its own, which ends with the block."""
    path = executable()
    if path is None:
        raise BrowserError("there is no Chromium")
    command_end, commands = os.pipe()
    answers, answer_end = os.pipe()
    with tempfile.TemporaryDirectory(prefix="gpufeed-chromium-", ignore_cleanup_errors=True) as profile:
        ends = (str(command_end), str(answer_end))
        options = (*_OPTIONS, f"--user-data-dir={profile}", "about:blank")
        command = [sys.executable, "-c", _STARTING, *ends, path, *options]
        process = subprocess.Popen(
            command,
            pass_fds=(command_end, answer_end),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            os.close(command_end)
            os.close(answer_end)
            pipe = _Pipe(commands, answers)
            target = pipe.ask("Target.createTarget", {"url": "about:blank"})["targetId"]
            session = pipe.ask("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
            yield Page(pipe, session)
            pipe.ask("Browser.close", {})
            process.wait(_PATIENCE_S)
        finally:
            process.kill()
            process.wait()
            os.close(commands)
            os.close(answers)
