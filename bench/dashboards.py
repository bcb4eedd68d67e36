"""The page compared with other dashboards: the same run, from the start of the server to the first chart."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.rows import Figure, median, row

STEPS, SERIES, ROUNDS = 20_000, 10, 3
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]

_ROWS = (
    f"names = [f'train/metric-{{n}}' for n in range({SERIES})]\n"
    "import math, random\n"
    "chance = random.Random(1)\n"
    "loss = lambda step: 2 + 5 / math.sqrt(1 + step / 100) + chance.gauss(0, 0.1)\n"
    f"rows = [({{name: loss(step) for name in names}}, step) for step in range({STEPS})]\n"
)
_OURS = _ROWS + (
    "import chiplog, sys\n"
    "run = chiplog.init('bench', id='one', dir=sys.argv[1], sinks='tensorboard', compact=False)\n"
    "for metrics, step in rows: run.log(metrics, step=step)\n"
    "run.finish()\n"
)
_TRACKIO = _ROWS + (
    "import trackio\n"
    "trackio.init(project='bench', name='one')\n"
    "for metrics, step in rows: trackio.log(metrics, step=step)\n"
    "trackio.finish()\n"
)
_SHOW = (
    "import time, trackio\ntrackio.show(project='bench', open_browser=False, block_thread=False)\n"
    "print(flush=True)\ntime.sleep(600)\n"
)
# Promises the times at which a page was opened and at which a curve was on a canvas: pixels of a colour, which frames
# and letters do not have, in more than half of its columns. Where the page is a list of runs, it opens the first.
_WATCH = """(canvas) => {
  const scratch = document.createElement('canvas');
  const pen = scratch.getContext('2d', { willReadFrequently: true });
  const coloured = (drawn) => {
    const { width, height } = Object.assign(scratch, { width: drawn.width, height: drawn.height });
    if (!width || !height) return false;
    pen.drawImage(drawn, 0, 0);
    const { data } = pen.getImageData(0, 0, width, height), columns = new Set();
    for (let at = 0; at < data.length; at += 4) {
      const [red, green, blue, alpha] = data.subarray(at, at + 4);
      if (alpha > 50 && Math.max(red, green, blue) - Math.min(red, green, blue) > 28) columns.add((at / 4) % width);
    }
    return columns.size > width / 2;
  };
  globalThis.curve = new Promise((done) => {
    let clicked = false;
    const look = () => {
      const run = document.querySelector('td.name a'), drawn = document.querySelector(canvas);
      if (run && !clicked) { clicked = true; run.click(); }
      if (drawn && coloured(drawn)) done([performance.timeOrigin, performance.timeOrigin + performance.now()]);
      else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  });
}"""


@row
def dashboards() -> Iterator[Figure]:
    """A run of 20,000 steps × 10 series: from the start of a dashboard's server to the first curve in Chromium.

    Each as it comes: TensorBoard draws 1,000 of the points, chosen by chance; ours bands of all of them.
    """
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, sync_playwright() as playwright:
        home = Path(folder)
        environ = {
            **os.environ,
            "XDG_CACHE_HOME": str(home / "cache"),
            "TRACKIO_DIR": str(home / "trackio"),
            "HF_HUB_OFFLINE": "1",
            "GRADIO_ANALYTICS_ENABLED": "False",
            "PYTHONUNBUFFERED": "1",
        }
        for code, words in ((_OURS, [str(home / "runs")]), (_TRACKIO, [])):
            subprocess.run([sys.executable, "-c", code, *words], check=True, env=environ, capture_output=True)
        subprocess.run(
            [sys.executable, "-m", "chiplog", "--dir", str(home / "runs"), "compact"], check=True, capture_output=True
        )
        logs = home / "runs" / "bench" / "one" / "files" / "tensorboard"
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        taken: dict[str, list[tuple[float, float]]] = {"chiplog": [], "TensorBoard": [], "trackio": []}
        for _ in range(ROUNDS):
            for name, (command, canvas) in _commands(home, logs).items():
                taken[name].append(_first_chart(browser, command, canvas, environ))
        browser.close()
    for at, when in enumerate(("from the start of the server", "from opening its page again")):
        for name, rounds in taken.items():
            yield Figure(f"{name}: {when} to the first curve", median(one[at] for one in rounds), "s")
        for name in ("TensorBoard", "trackio"):
            times = median(theirs[at] / ours[at] for theirs, ours in zip(taken[name], taken["chiplog"], strict=True))
            yield Figure(f"  times sooner than {name}", times, "x", 5.0 if at else None, at_least=True)


def _commands(home: Path, logs: Path) -> dict[str, tuple[list[str], str]]:
    """How each is started, and which canvas its first chart is."""
    board = str(Path(sys.executable).parent / "tensorboard")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    return {
        "chiplog": (
            [sys.executable, "-m", "chiplog", "ui", str(home / "runs"), "--no-browser"],
            "article.chart canvas",
        ),
        "TensorBoard": ([board, "--logdir", str(logs), "--port", port], "line-chart canvas"),
        "trackio": ([sys.executable, "-c", _SHOW], "canvas.marks"),
    }


def _first_chart(browser: Any, command: list[str], canvas: str, environ: dict[str, str]) -> tuple[float, float]:
    """Seconds to the first curve: from the start of the server, and then of the same page opened once more."""
    began = time.time()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environ) as process:
        try:
            assert process.stdout is not None
            found = None
            while found is None:
                line = re.sub(r"\x1b\[[0-9;]*m", "", process.stdout.readline())
                found = re.search(r"http://(?:127\.0\.0\.1|localhost):\d+\S*", line)
            context = browser.new_context(viewport={"width": 1280, "height": 800})
            context.add_init_script(f"({_WATCH})({json.dumps(canvas)})")
            shown, _, drawn = _open(context, found[0])
            first = drawn - began
            _, opened, drawn = _open(context, shown)
            context.close()
            return first, drawn - opened
        finally:
            process.terminate()
            process.wait(30)


def _open(context: Any, address: str) -> tuple[str, float, float]:
    """Open a page and wait for its first curve: where it is then, and when the page was opened and drawn."""
    page = context.new_page()
    page.goto(address, wait_until="commit")
    opened, drawn = page.evaluate("() => curve")
    shown = str(page.url)
    page.close()
    return shown, opened / 1000, drawn / 1000
