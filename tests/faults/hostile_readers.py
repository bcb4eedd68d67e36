"""The page and the sinks, as readers of a hostile run; and what the files that were written must not contain."""

from __future__ import annotations

import asyncio
import contextlib
import io
import re
from pathlib import Path
from typing import Any

import msgspec

from chiplog.sinks import registry
from chiplog.store.journal.tail import Tail
from chiplog.store.runs.summary_cache import SummaryCache
from chiplog.views.web.http import Request
from chiplog.views.web.routes import Site
from tests.faults.hostile_questions import LISTENED, routes
from tests.faults.hostile_runs import LOCAL, NAMES, Findings, bounded, identity, last_lines

SCRIPT = re.compile(r"<script>alert|<img src=x|(?:href|src)=.?javascript:|<iframe", re.IGNORECASE)
REMOTE = re.compile(r"""(?:src|href|xlink:href|action)\s*=\s*["']?\s*(?:https?:)?//evil""", re.IGNORECASE)
MARKDOWN = re.compile(
    r"(?<!\\)!?\[[^\]\\]*\]\((?:https?://evil|javascript:)|[a-z]+:/?/|\bwww\.|@[a-z0-9]|#[0-9]", re.IGNORECASE
)
FENCED = re.compile(r"^(`{3,})text\n.*?^\1$", re.DOTALL | re.MULTILINE)


def pages(run: Path, findings: Findings, seed: int) -> None:
    """Ask the page for everything."""
    summaries = SummaryCache(run.parents[1])
    summaries.refresh()

    asyncio.run(_ask(summaries, findings, seed))


async def _ask(summaries: SummaryCache, findings: Findings, seed: int) -> None:
    site = Site(summaries)
    for entry in summaries.entries():
        names = [*entry.values, *NAMES]
        for path, query in routes(names):
            findings.requests += 1
            asked = {"run": entry.key, "runs": entry.key, **query}
            if "series" in asked:
                asked["q"] = msgspec.json.encode([[[entry.key, asked.pop("series")]]]).decode()
            try:
                with bounded(findings, f"seed {seed}: {path} {query}"):
                    response = await site(Request("GET", path, asked, [], path))
                    if path == "/api/live":
                        await _listen(response.body)
                    elif not isinstance(response.body, bytes):
                        async for _ in response.body:
                            pass
            except Exception:
                findings.append(f"seed {seed}: {path} {asked}: {last_lines()}")
    site.join(5.0)


async def _listen(events: Any) -> None:
    """The greeting of the feed, and whatever follows in a moment; its followers have ended by then."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LISTENED):
            async for _ in events:
                pass
    await events.aclose()


def sinks(run: Path, findings: Findings, seed: int) -> None:
    """Give the records to every local sink, with the state of the run's own cursor."""
    records = []
    tail = Tail(run)
    while batch := tail.read():
        records += batch
    for name in LOCAL:
        findings.sinks += 1
        stream = io.StringIO()
        try:
            with (
                bounded(findings, f"seed {seed}: sink {name}"),
                contextlib.redirect_stdout(stream),
                contextlib.redirect_stderr(stream),
            ):
                sink = registry.open_named(name, {}, identity(run), {})
                _restore(sink, run)
                sink.write(records)
                sink.write([])
                sink.close()
        except Exception:
            findings.append(f"seed {seed}: sink {name}: {last_lines()}")


def _restore(sink: Any, run: Path) -> None:
    """As a courier does: a state that a sink cannot use costs a start from scratch."""
    try:
        state = msgspec.json.decode((run / "cursors" / "csv.json").read_bytes())["state"]
        if hasattr(sink, "restore") and isinstance(state, dict):
            sink.restore(state)
    except Exception:
        if hasattr(sink, "restore"):
            sink.restore({})


def written(out: Path, findings: Findings, seed: int) -> None:
    """No file for people may hold markup or addresses of the run's maker."""
    for path in out.rglob("*"):
        if path.suffix not in (".html", ".md", ".svg"):
            continue
        text = path.read_text(errors="replace")
        if path.suffix == ".md":
            text = FENCED.sub("", text)  # where nothing is markup or a link
        for pattern in (SCRIPT, REMOTE, *([MARKDOWN] if path.suffix == ".md" else [])):
            if bad := pattern.search(text):
                around = text[max(0, bad.start() - 60) : bad.end() + 60]
                findings.append(f"seed {seed}: {path.name} has {bad[0]!r} in {around!r}")
