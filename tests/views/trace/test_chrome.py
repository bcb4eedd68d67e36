"""Traces in Chrome's JSON format."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path

import pytest

import chiplog
from chiplog.views.trace import chrome
from tests.perfetto.processor import SLICES, ask
from tests.support.waiting import wait_for


@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
def test_chromes_json_says_the_same(stored: chiplog.Stored, tmp_path: Path, name: str) -> None:
    """Perfetto reads it without complaint: spans, tags, counters, and arrows to the devices."""
    path = tmp_path / name
    assert chrome.write(stored, path) == path.stat().st_size
    raw = path.read_bytes()
    data = json.loads(gzip.decompress(raw) if name.endswith("gz") else raw)
    base = data["baseTimeNanoseconds"]
    told = sorted(
        (e["name"], base + round(e["ts"] * 1000), round(e["dur"] * 1000)) for e in data["traceEvents"] if e["ph"] == "X"
    )
    assert told == sorted((span.name, span.start, span.duration) for span in stored.spans())
    kinds = {event["ph"] for event in data["traceEvents"]}
    assert kinds == {"M", "X", "C", "i", "s", "f"}
    assert {e["name"] for e in data["traceEvents"] if e["ph"] == "C"} == {"train/loss"}
    if name == "t.json":
        slices, flows = ask(path, SLICES, "select count(*) as n from flow")
        assert len([row for row in slices if row["name"] in ("outer", "inner", "queue")]) == len(stored.spans())
        assert flows == [{"n": 3}]


def test_chromes_json_shows_spans_that_overlap(tmp_path: Path) -> None:
    """On rows of their own: what may run beside another on a device, and what was begun and ended out of turn."""
    works = [Future[None]() for _ in range(3)]
    with chiplog.init("p", id="run", sinks="none", dir=tmp_path / "runs", strict=True) as run:
        run.trace(concurrent=["rollout"])
        for work in works:
            with run.span("rollout", devices="tpu0") as span:
                span.async_end(work)
        first, second = run.span("first").begin(), run.span("second").begin()
        first.end()
        second.end()
        for at, work in enumerate(works):
            work.set_result(None)
            wait_for(lambda at=at: len(run.spans().device()) > at, timeout=10)  # type: ignore[misc]
    spans = chiplog.read(run.dir).spans()
    chrome.write(chiplog.read(run.dir), tmp_path / "t.json")
    slices, flows = ask(tmp_path / "t.json", SLICES, "select count(*) as n from flow")
    assert sorted((row["name"], row["dur"]) for row in slices) == sorted((one.name, one.duration) for one in spans)
    assert {row["thread"] for row in slices} == {"MainThread", "tpu0"} and flows == [{"n": 3}]


def test_arrows_of_several_ranks_stay_apart_in_chromes_json(tmp_path: Path) -> None:
    """Their spans have the same ids, at the same time."""
    code = (
        "import chiplog\n"
        "with chiplog.init('p', sinks='none', ranks='all', reduce=False, strict=True) as run:\n"
        "    for _ in range(3):\n"
        "        with run.span('work', devices='tpu0') as span: span.async_end(1)\n"
    )
    environ = {**os.environ, "WORLD_SIZE": "2", "CHIPLOG_RUN_ID": "two", "CHIPLOG_DIR": str(tmp_path / "runs")}
    for rank in "01":
        subprocess.run([sys.executable, "-c", code], env={**environ, "RANK": rank, "LOCAL_RANK": rank}, check=True)
    stored = chiplog.read("two", dir=tmp_path / "runs")
    assert {span.rank for span in stored.spans()} == {0, 1}
    events = list(chrome.events(stored))
    begins = {event["id"]: event["pid"] for event in events if event["ph"] == "s"}
    assert len(begins) == 6 and begins == {event["id"]: event["pid"] for event in events if event["ph"] == "f"}
