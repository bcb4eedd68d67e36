"""Traces of other profilers in ours."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
import torch

import chiplog
from chiplog.views.trace import perfetto, profilers
from chiplog.views.trace.profilers import UnreadableTrace
from tests.faults.harness import FULL
from tests.perfetto.processor import SLICES, ask


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
    perfetto.write(stored, path, more=profilers.packets([tmp_path / "torch.json", tmp_path / "jax"], stored))
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
    path.write_bytes(b"".join(profilers.packets([file], stored)))
    slices, counters, flows = ask(path, SLICES, "select value from counter", "select count(*) as n from flow")
    found = {row["name"]: (row["ts"] - 10**18, row["dur"]) for row in slices}
    assert found == {
        "open": (1000, 29_000), "launch": (2000, 1000), "kernel": (10_000, 5500), "beside": (12_000, 8000),
        "mark": (11_000, 0),
    }  # fmt: skip
    assert counters == [{"value": 64}] and flows == [{"n": 1}]


def test_what_is_no_trace_is_named(stored: chiplog.Stored, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong file, an empty folder; and one without a time is put at the start of the run."""
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "empty").mkdir()
    for given, said in ((tmp_path / "bad.json", "not a torch.profiler"), (tmp_path / "empty", "holds no trace")):
        with pytest.raises(UnreadableTrace, match=said):
            list(profilers.packets([given], stored))
    (tmp_path / "when.json").write_text(json.dumps([{"ph": "X", "name": "x", "pid": 1, "tid": 1, "ts": 5, "dur": 1}]))
    assert b"".join(profilers.packets([tmp_path / "when.json"], stored))
    assert "has no start time" in capsys.readouterr().err


def _event(**fields: Any) -> dict[str, Any]:
    return {"ph": "X", "name": "x", "pid": 1, "tid": 1, "ts": 5, "dur": 1, **fields}


HOSTILE: dict[str, Any] = {
    "times": [
        _event(ts=ts, dur=dur)
        for ts in (float("nan"), float("inf"), -5, 10**400, "5", None, True, 9e15)
        for dur in (float("nan"), -1, 10**400, "1", [1], None)
    ],
    "identities": [_event(pid=pid, tid=tid) for pid in ([1], {"a": 1}, None, 1.5, "x") for tid in ({}, [], 2**90, -1)],
    "names": [
        _event(name=name, cat=cat) for name in (None, [1], {"a": []}, 5, "\ud800", "x" * 10**6) for cat in ([1], 5)
    ],
    "args": [_event(args=args) for args in ([1], 5, "x", {"a": {"b": [1, None]}}, {"n": 10**400, "f": float("nan")})],
    "counters": [_event(ph="C", args=args) for args in ([1], 5, {"a": 10**400}, {"a": float("nan")}, {"a": True}, {})],
    "kinds": [_event(ph=ph) for ph in ("B", "E", "E", "B", "i", "s", "f", "M", None, [], {}, 5)],
    "flows": [_event(ph="s", id=flow) for flow in (2**90, -1, "x", [1])] + [_event()],
    "crossing": [_event(ts=n, dur=10**6 - n * 3 if n % 2 else 10**6) for n in range(20_000 if FULL else 5_000)],
    "many names": [_event(name=f"name {n}", ts=n) for n in range(1_000_000 if FULL else 10_000)],
}


@pytest.mark.parametrize("sort", HOSTILE)
def test_a_hostile_trace_harms_nobody(stored: chiplog.Stored, tmp_path: Path, sort: str) -> None:
    """Whatever stands in a trace, it is taken over or left out, in bounded time."""
    file = tmp_path / "hostile.json"
    for whole in ({"traceEvents": HOSTILE[sort], "baseTimeNanoseconds": 10**400}, HOSTILE[sort]):
        file.write_text(json.dumps(whole))
        began = time.process_time()
        sum(map(len, profilers.packets([file], stored)))
        assert time.process_time() - began < 30


GUARDED = """
import json, resource, sys
from pathlib import Path
import chiplog
from chiplog.views.trace import profilers as imports, perfetto
from chiplog.store.reader import Stored
stored, hostile, target = Stored(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
list(imports.packets([hostile / "good.json"], stored))  # what is imported late is imported by now
perfetto.write(stored, target, more=imports.packets([hostile / "good.json"], stored))
imports.LARGEST = int(sys.argv[4])
limit = (1 << 30) + 2 * imports.LARGEST
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
seen = []
def audit(event, args):
    if event in ("exec", "compile", "import", "marshal.loads", "pickle.find_class") or event.startswith(
        ("socket.", "subprocess.", "os.exec", "os.system", "os.posix_spawn", "os.fork", "ctypes.")
    ):
        seen.append(event)
    if event == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+"):
        seen.append(f"open {args[0]}")
sys.addaudithook(audit)
said = {}
for file in sorted(hostile.iterdir()):
    try:
        for _ in imports.packets([file], stored):
            pass
        said[file.name] = ""
    except imports.UnreadableTrace as error:
        said[file.name] = str(error)
print(json.dumps({"said": said, "seen": seen}))
"""


def test_hostile_files_run_nothing_and_fill_nothing(stored: chiplog.Stored, tmp_path: Path) -> None:
    """Bombs, depths, pipes and devices are named as what they are; nothing is run, opened to the net or written."""
    most = profilers.LARGEST if FULL else 1 << 26
    hostile = tmp_path / "hostile"
    hostile.mkdir()
    (hostile / "good.json").write_text(json.dumps([_event()]))
    (hostile / "deep.json").write_text("[" * 1_000_000)
    (hostile / "deep args.json").write_text('[{"ph": "X", "ts": 1, "args": {"a": ' + "[" * 900 + "]" * 900 + "}}]")
    (hostile / "torn.json.gz").write_bytes(gzip.compress(b"[" + b"1," * 10_000)[:-20])
    (hostile / "wrong.json.gz").write_bytes(b"\x1f\x8b\x08" + b"\xff" * 1000)
    with gzip.open(hostile / "bomb.json.gz", "wb", compresslevel=1) as bomb:
        for _ in range((most >> 20) + 1):
            bomb.write(b" " * (1 << 20))
    (hostile / "words.json").write_bytes(b"\xff\xfe\x00not json")
    os.mkfifo(hostile / "pipe.json")
    (hostile / "zero.json").symlink_to("/dev/zero")
    (hostile / "loop.json").symlink_to("loop.json")
    (hostile / "host.xplane.pb").write_bytes(b"\xff" * 1_000_000)
    command = [sys.executable, "-c", GUARDED, str(stored.path), str(hostile), str(tmp_path / "t.pftrace"), str(most)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["seen"] == []
    assert [name for name, said in answer["said"].items() if not said] == ["deep args.json", "good.json"]
    assert "a pipe, not a file" in answer["said"]["pipe.json"] and "a device, not" in answer["said"]["zero.json"]
    assert f"more than {most:,} bytes" in answer["said"]["bomb.json.gz"]
