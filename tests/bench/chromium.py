"""Chromium over its debugging pipe: what a page's own clock says of its loading."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
# Milliseconds from the start of the navigation; null until there was a paint.
TIMES = """new Promise((done) => { const look = () => {
  const paint = performance.getEntriesByName("first-contentful-paint")[0], loaded = performance.timing.loadEventEnd;
  if (!paint || !loaded) return setTimeout(look, 20);
  done({first_paint_ms: paint.startTime, loaded_ms: loaded - performance.timing.navigationStart}); }; look(); })"""


class Chromium:
    """A headless browser with a profile of its own, as a context: `with Chromium() as browser`."""

    def __enter__(self) -> Chromium:
        program = next((path for path in map(shutil.which, NAMES) if path), None)
        if not program:
            raise SystemExit(f"no browser: none of {', '.join(NAMES)} is in PATH. On Debian: apt-get install chromium")
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        read_there, self._to = os.pipe()
        self._from, write_there = os.pipe()
        # The browser reads commands from file descriptor 3 and answers on 4.
        shell = f'exec 3<&{read_there} 4>&{write_there}; exec "$@"'
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--window-size=1280,900"]
        self._process = subprocess.Popen(
            ["bash", "-c", shell, "bash", program, *options, f"--user-data-dir={self._profile.name}", "about:blank"],
            pass_fds=(read_there, write_there),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read_there)
        os.close(write_there)
        self._number, self._left = 0, b""
        self.version = self.call("Browser.getVersion")["product"]
        [target] = [one for one in self.call("Target.getTargets")["targetInfos"] if one["type"] == "page"]
        attached = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        return self

    def __exit__(self, *_reason: object) -> None:
        self._process.terminate()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)
        self._profile.cleanup()

    def call(self, method: str, session: str = "", **values: Any) -> dict[str, Any]:
        """The answer to one command of the DevTools protocol; RuntimeError where it is refused."""
        self._number += 1
        message = {
            "id": self._number,
            "method": method,
            "params": values,
            **({"sessionId": session} if session else {}),
        }
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._left:
            more = os.read(self._from, 1 << 20)
            if not more:
                raise RuntimeError("the browser has ended")
            self._left += more
        text, _end, self._left = self._left.partition(b"\0")
        return json.loads(text)

    def times(self, page: Path) -> dict[str, float]:
        """First paint and end of loading of a page, in ms."""
        self.call("Page.navigate", self._session, url=page.as_uri())
        options = {"awaitPromise": True, "returnByValue": True}
        return self.call("Runtime.evaluate", self._session, expression=TIMES, **options)["result"]["value"]
