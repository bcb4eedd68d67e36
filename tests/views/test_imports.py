"""Traces of other profilers in ours, and ours for other tools."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
import torch

import chiplog
from chiplog.views import chrome, imports, perfetto
from chiplog.views.imports import UnreadableTrace
from tests.perfetto.processor import SLICES, ask


@pytest.fixture
def stored(tmp_path: Path) -> chiplog.Stored:
    with chiplog.init("p", id="run", sinks="none", dir=tmp_path / "runs", strict=True) as run:
        for step in range(3):
            run.log({"train/loss": 1.0, "train/other": 2.0}, step=step)
            with run.span("outer", tags={"k": step}), run.span("inner", devices="tpu0") as span:
                span.async_end(1)
        run.alert("spike")
    return chiplog.read(run.dir)


def test_profiles_of_torch_and_jax_are_on_our_clock(stored: chiplog.Stored, tmp_path: Path) -> None:
    """Real ones: their operators lie where the profile was taken, in processes of their own."""
    began = time.time_ns()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        (torch.ones(100, 100) @ torch.ones(100, 100)).sum()
    profile.export_chrome_trace(str(tmp_path / "torch.json"))
    with jax.profiler.trace(str(tmp_path / "jax")):
        jax.jit(lambda x: x @ x)(jnp.ones((100, 100))).block_until_ready()
    ended = time.time_ns()
    path = tmp_path / "all.pftrace"
    perfetto.write(stored, path, more=imports.packets([tmp_path / "torch.json", tmp_path / "jax"], stored))
    slices, processes = ask(path, SLICES, "select name from process where pid > 0")
    names = {row["name"] for row in slices}
    assert {"outer", "inner", "aten::matmul"} <= names
    of_theirs = [row for row in slices if row["name"].startswith("aten::") or "PjitFunction" in row["name"]]
    assert any("PjitFunction" in row["name"] for row in of_theirs)
    assert all(began - 10**9 < row["ts"] and row["ts"] + row["dur"] < ended + 10**9 for row in of_theirs)
    assert {row["depth"] for row in slices if row["name"] == "aten::mm"} == {1}
    assert len(processes) >= 3


def test_every_kind_of_event_is_taken_over(stored: chiplog.Stored, tmp_path: Path) -> None:
    """Complete ones, begins with their ends, instants, counters, flows; overlapping ones keep their times."""
    events = [
        {"ph": "M", "name": "process_name", "pid": 5, "args": {"name": "gpu"}},
        {"ph": "M", "name": "thread_name", "pid": 5, "tid": 1, "args": {"name": "stream 7"}},
        {
            "ph": "X",
            "name": "kernel",
            "cat": "gpu",
            "pid": 5,
            "tid": 1,
            "ts": 10.0,
            "dur": 5.5,
            "args": {"grid": [1, 2]},
        },
        {"ph": "X", "name": "beside", "pid": 5, "tid": 1, "ts": 12.0, "dur": 8.0},
        {"ph": "B", "name": "open", "pid": "cpu", "tid": "main", "ts": 1.0},
        {"ph": "X", "name": "launch", "pid": "cpu", "tid": "main", "ts": 2.0, "dur": 1.0},
        {"ph": "E", "pid": "cpu", "tid": "main", "ts": 30.0},
        {"ph": "s", "id": 3, "pid": "cpu", "tid": "main", "ts": 2.0},
        {"ph": "f", "id": 3, "pid": 5, "tid": 1, "ts": 10.0, "bp": "e"},
        {"ph": "i", "name": "mark", "pid": 5, "tid": 1, "ts": 11.0},
        {"ph": "C", "name": "memory", "pid": 5, "ts": 11.0, "args": {"bytes": 64}},
        {"odd": True},
    ]
    file = tmp_path / "t.json.gz"
    file.write_bytes(gzip.compress(json.dumps({"traceEvents": events, "baseTimeNanoseconds": 10**18}).encode()))
    path = tmp_path / "t.pftrace"
    path.write_bytes(b"".join(imports.packets([file], stored)))
    slices, counters, flows = ask(path, SLICES, "select value from counter", "select count(*) as n from flow")
    found = {row["name"]: (row["ts"] - 10**18, row["dur"]) for row in slices}
    assert found == {
        "open": (1000, 29_000), "launch": (2000, 1000), "kernel": (10_000, 5500), "beside": (12_000, 8000),
        "mark": (11_000, 0),
    }  # fmt: skip
    assert counters == [{"value": 64}] and flows == [{"n": 1}]


def test_what_is_no_trace_is_named(stored: chiplog.Stored, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong file, an empty folder; and one that does not say when it was is laid to the begin of the run."""
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "empty").mkdir()
    for given, said in ((tmp_path / "bad.json", "no trace of torch"), (tmp_path / "empty", "holds no trace")):
        with pytest.raises(UnreadableTrace, match=said):
            list(imports.packets([given], stored))
    (tmp_path / "when.json").write_text(json.dumps([{"ph": "X", "name": "x", "pid": 1, "tid": 1, "ts": 5, "dur": 1}]))
    assert b"".join(imports.packets([tmp_path / "when.json"], stored))
    assert "does not say when" in capsys.readouterr().err


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
