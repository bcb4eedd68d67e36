"""The page beside other dashboards: the same run, from the start of the server to the first chart."""

from __future__ import annotations

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
    f"rows = [(dict.fromkeys(names, 1 / (step + 1)), step) for step in range({STEPS})]\n"
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


@row
def dashboards() -> Iterator[Figure]:
    """A run of 20,000 steps × 10 series: from the start of a dashboard's server to its first chart in Chromium."""
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
            for name, (command, selector) in _commands(home, logs).items():
                taken[name].append(_first_chart(browser, command, selector, environ))
        browser.close()
    for at, when in enumerate(("from the start of the server", "from opening its page again")):
        for name, rounds in taken.items():
            yield Figure(f"{name}: {when} to the first chart", median(one[at] for one in rounds), "s")
        for name in ("TensorBoard", "trackio"):
            times = median(theirs[at] / ours[at] for theirs, ours in zip(taken[name], taken["chiplog"], strict=True))
            yield Figure(f"  times sooner than {name}", times, "x", 5.0 if at else None, at_least=True)


def _commands(home: Path, logs: Path) -> dict[str, tuple[list[str], str]]:
    """How each is started, and what is in its page as soon as a chart is."""
    board = str(Path(sys.executable).parent / "tensorboard")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    ours = [sys.executable, "-m", "chiplog", "ui", str(home / "runs")]
    theirs = [board, "--logdir", str(logs), "--port", port]
    return {
        "chiplog": ([*ours, "--no-browser"], 'article.chart[data-drawn="yes"]'),
        "TensorBoard": ([*theirs, "--samples_per_plugin", "scalars=0"], "line-chart canvas"),
        "trackio": ([sys.executable, "-c", _SHOW], "canvas"),
    }


def _first_chart(browser: Any, command: list[str], selector: str, environ: dict[str, str]) -> tuple[float, float]:
    """Seconds to the first chart: from the start of the server, and then of the same page opened once more."""
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environ) as process:
        try:
            assert process.stdout is not None
            found = None
            while found is None:
                line = re.sub(r"\x1b\[[0-9;]*m", "", process.stdout.readline())
                found = re.search(r"http://(?:127\.0\.0\.1|localhost):\d+\S*", line)
            context = browser.new_context(viewport={"width": 1280, "height": 800})
            shown = _open(context, found[0], selector, click="chiplog" in command)
            first = time.perf_counter() - began
            began = time.perf_counter()
            _open(context, shown, selector)
            again = time.perf_counter() - began
            context.close()
            return first, again
        finally:
            process.terminate()
            process.wait(30)


def _open(context: Any, address: str, selector: str, *, click: bool = False) -> str:
    """Open a page and wait for its first chart; where it is then."""
    page = context.new_page()
    page.set_default_timeout(120_000)
    page.goto(address, wait_until="commit")
    if click:
        page.click("td.name a")
    page.wait_for_selector(selector)
    shown = str(page.url)
    page.close()
    return shown
