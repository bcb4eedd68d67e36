"""How quick the page and the terminal are: real Chromium, runs of a million steps, a run that is being written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from bench.rows import Figure, median, p99, row

STEPS = int(os.environ.get("BENCH_STEPS", "1000000"))
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--enable-precise-memory-info",
]
ROUNDS = 3

_WRITER = """
import chiplog, sys, time
where, rate, steps = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
run = chiplog.init("live", id="now", dir=where, sinks="none", compact=False)
row = {f"train/metric-{n:02d}": 0.0 for n in range(20)}
began = time.perf_counter()
for step in range(steps):
    for name in row:
        row[name] = 1 / (step + 1)
    run.log(row, step=step)
    if rate:
        time.sleep(max(0.0, began + (step + 1) / rate - time.perf_counter()))
run.finish()
"""


@contextmanager
def served(root: Path, cache: Path) -> Iterator[str]:
    """The address of a server in a process of its own."""
    root.mkdir(exist_ok=True)
    token = root.parent / "token"
    token.touch(mode=0o600)
    token.write_text("0123456789abcdef0123456789abcdef")
    command = [sys.executable, "-m", "chiplog", "ui", str(root), "--no-browser", "--token-file", str(token)]
    environ = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as process:
        assert process.stdout is not None
        try:
            yield f"{process.stdout.readline().strip()}#token={token.read_text()}"
        finally:
            process.terminate()
            process.wait(30)


@contextmanager
def browsing(address: str) -> Iterator[Any]:
    """A page of a fresh Chromium that has shown its token."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(120_000)
        page.goto(address)
        page.wait_for_selector("tr[data-key]")
        yield page
        browser.close()


# Resolves with the milliseconds until a chart is on the screen, from the moment at which the address changes.
_SHOWN = """([address, wanted]) => new Promise((done) => {
  const began = performance.now();
  const look = () => {
    const drawn = [...document.querySelectorAll('article.chart[data-drawn=yes]')];
    const found = drawn.filter((one) => Number(one.dataset.points) >= wanted);
    if (found.length) requestAnimationFrame(() => done(performance.now() - began)); else requestAnimationFrame(look);
  };
  location.hash = address; setTimeout(look, 0);
})"""
# A drag over the first chart, then the milliseconds to its first new picture and to the finer one.
_ZOOMED = """() => new Promise((done) => {
  const chart = document.querySelector('article.chart[data-drawn=yes]'), plot = chart.querySelector('.plot');
  const box = plot.getBoundingClientRect(), takes = chart.dataset.takes;
  const at = (x) => ({ clientX: box.left + x, clientY: box.top + 50, button: 0, pointerId: 1, bubbles: true });
  const send = (kind, x) => plot.dispatchEvent(new PointerEvent(kind, at(x)));
  plot.setPointerCapture = () => {};
  send('pointerdown', 120); send('pointermove', 220);
  const began = performance.now();
  send('pointerup', 220);
  let first = 0;
  const look = () => {
    first ||= performance.now() - began;
    if (chart.dataset.takes !== takes) done([first, performance.now() - began]); else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
})"""
_SCROLLED = """() => new Promise((done) => {
  const times = []; let last = performance.now(), frames = 0;
  const step = () => {
    const now = performance.now(); times.push(now - last); last = now;
    scrollBy(0, 60);
    if (++frames < 240) requestAnimationFrame(step); else done(times);
  };
  requestAnimationFrame(step);
})"""
_AGES = """(seconds) => new Promise((done) => {
  const ages = []; let last = 0; const end = performance.now() + seconds * 1000;
  const look = () => {
    const chart = document.querySelector('article.chart[data-drawn=yes]'), until = Number(chart.dataset.until);
    if (until > last) { if (last) ages.push(Date.now() - until / 1000); last = until; }
    if (performance.now() < end) requestAnimationFrame(look); else done(ages);
  };
  look();
})"""


@row
def page_start() -> Iterator[Figure]:
    """`chiplog ui` on a directory of 1,000 runs: from the start of the process to the first byte of the page."""
    from bench.fixtures import small_runs

    with tempfile.TemporaryDirectory() as folder:
        root, cache = Path(folder) / "runs", Path(folder) / "cache"
        small_runs(root, 1000)
        taken, floor, listed = [], [], []
        for _ in range(2 * ROUNDS):
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", "import asyncio"], check=True)
            floor.append((time.perf_counter() - began) * 1000)
            began = time.perf_counter()
            with served(root, cache) as address:
                with urlopen(address.partition("#")[0], timeout=30) as answer:
                    answer.read(1)
                    taken.append((time.perf_counter() - began) * 1000)
                while _count(address) < 1000:
                    time.sleep(0.01)
                listed.append((time.perf_counter() - began) * 1000)
    yield Figure("python -c 'import asyncio'", median(floor), "ms", note="the floor")
    yield Figure("to the first byte", median(taken[1:]), "ms", 300)
    yield Figure("to all 1,000 runs in the list, remembered", median(listed[1:]), "ms")
    yield Figure("to all 1,000 runs in the list, seen for the first time", listed[0], "ms")


def _count(address: str) -> int:
    import json
    from urllib.request import Request

    place, _, token = address.partition("#token=")
    with urlopen(Request(f"{place}api/runs", headers={"Authorization": f"Bearer {token}"}), timeout=30) as answer:
        return len(json.loads(answer.read())["runs"])


@row
def page_charts() -> Iterator[Figure]:
    """Charts of compacted runs: one of many series, then twenty over each other, and zooming into those."""
    from bench.fixtures import large_run

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "runs"
        large_run(root, "wide", steps=STEPS, metrics=50)
        for number in range(20):
            large_run(root, f"run-{number:02d}", steps=STEPS, metrics=1, seed=number)
        first, many, quick, fine = [], [], [], []
        for _ in range(ROUNDS):
            with served(root, Path(folder) / "cache") as address, browsing(address) as page:
                keys = page.evaluate(
                    "fetch('api/runs').then((a) => a.json()).then((a) => a.runs.map((r) => [r.id, r.key]))"
                )
                key = dict(keys)
                first.append(page.evaluate(_SHOWN, [f"/run/{key['wide']}", STEPS]))
                runs = ",".join(key[f"run-{number:02d}"] for number in range(20))
                many.append(page.evaluate(_SHOWN, [f"/charts?runs={runs}", 20 * STEPS]))
                for _ in range(2):
                    soon, later = page.evaluate(_ZOOMED)
                    quick.append(soon)
                    fine.append(later)
    size = f"{STEPS:,} steps"
    yield Figure(f"first chart of a run of {size} × 50 series, after the click", median(first), "ms", 700)
    yield Figure(f"20 runs × {size} over each other", median(many), "ms", 1500)
    yield Figure("zoom: the first new picture", median(quick), "ms", 100)
    yield Figure("zoom: with all the points that there are", median(fine), "ms", 100)


@row
def page_scroll() -> Iterator[Figure]:
    """500 charts on one page: frames while scrolling through them, and memory."""
    from bench.fixtures import large_run

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "runs"
        run = large_run(root, "many", steps=2000, metrics=500)
        with served(root, Path(folder) / "cache") as address, browsing(address) as page:
            key = page.evaluate("fetch('api/runs').then((a) => a.json()).then((a) => a.runs[0].key)")
            page.evaluate(_SHOWN, [f"/run/{key}", 2000])
            times = page.evaluate(_SCROLLED)[10:]
            heap = page.evaluate("performance.memory.usedJSHeapSize") / 2**20
        assert run.exists()
    yield Figure("frames per second while scrolling", 1000 / median(times), "/s", 30, at_least=True)
    yield Figure("the slowest of a hundred frames", p99(times), "ms")
    yield Figure("JavaScript heap", heap, "MiB", 300)


@row
def page_live() -> Iterator[Figure]:
    """A run at 100 steps/s × 20 series: the age of the newest point when it is drawn; then an hour of it, sped up."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "runs"
        with served(root, Path(folder) / "cache") as address:
            writer = subprocess.Popen([sys.executable, "-c", _WRITER, str(root), "100", "1500"])
            while _count(address) < 1:
                time.sleep(0.05)
            with browsing(address) as page:
                page.click("td.name a")
                page.wait_for_selector("article.chart[data-drawn=yes]")
                ages = page.evaluate(_AGES, 8)
            writer.wait()
    yield Figure("age of the newest point on the screen", median(ages), "ms", p99=p99(ages))
    yield Figure("  the oldest of a hundred", p99(ages), "ms", 1000)
    hour = max(3600, int(360_000 * STEPS / 1e6))
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "runs"
        with served(root, Path(folder) / "cache") as address:
            writer = subprocess.Popen([sys.executable, "-c", _WRITER, str(root), "3000", str(hour)])
            while _count(address) < 1:
                time.sleep(0.05)
            with browsing(address) as page:
                page.click("td.name a")
                page.wait_for_selector("article.chart[data-drawn=yes]")
                page.wait_for_timeout(2000)
                before = _heap(page)
                while writer.poll() is None:
                    page.wait_for_timeout(500)
                page.wait_for_timeout(2000)
                grown = _heap(page) - before
                points = int(page.get_attribute("article.chart[data-drawn=yes]", "data-points"))
    yield Figure(f"heap after {hour:,} steps more", grown, "MiB", 20)
    yield Figure("points of a chart that is open that are not on it", hour - points, "points", 0)


def _heap(page: Any) -> float:
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    return float(page.evaluate("performance.memory.usedJSHeapSize")) / 2**20


@row
def page_size() -> Iterator[Figure]:
    """What the page ships, compressed."""
    from chiplog.views.web.asset_bundle import files

    shipped = sum(asset.shipped for path, asset in files().items() if path != "/index.html")
    yield Figure("page, style and modules", shipped / 1024, "KiB", 250)


@row
def terminal() -> Iterator[Figure]:
    """`chiplog watch` on a compacted run of 100 series × 400,000 steps: the first screen of charts."""
    from bench.fixtures import large_run

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "runs"
        steps = int(400_000 * STEPS / 1e6)
        large_run(root, "wide", steps=steps, metrics=100)
        environ = {**os.environ, "XDG_CACHE_HOME": str(Path(folder) / "cache"), "COLUMNS": "160", "LINES": "50"}
        cold = []
        for _ in range(ROUNDS):
            began = time.perf_counter()
            command = [sys.executable, "-m", "chiplog", "--dir", str(root), "watch", "wide", "--once"]
            done = subprocess.run(command, env=environ, check=True, capture_output=True, text=True)
            assert "train/loss" in done.stdout
            cold.append(time.perf_counter() - began)
        warm = _warm(root)
    yield Figure(f"100 series × {steps:,} steps, a new process", median(cold), "s", 1.5)
    yield Figure("  opened in one that runs", median(warm), "s", 0.3)


def _warm(root: Path) -> list[float]:
    from chiplog.store.runs.summary_cache import SummaryCache
    from chiplog.views.tui.app import App
    from chiplog.views.tui.panels import Style

    summaries = SummaryCache(root)
    summaries.refresh()
    taken = []
    for _ in range(ROUNDS):
        board = App(summaries, Style(colour=True))
        board.render(160, 50)
        began = time.perf_counter()
        board.press("enter")
        assert any("train/loss" in line for line in board.render(160, 50))
        taken.append(time.perf_counter() - began)
    return taken
