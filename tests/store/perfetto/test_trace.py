"""A run as a trace, judged by Perfetto's own trace processor."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import chiplog
from chiplog.core import run as engine
from chiplog.store.perfetto.trace import Trace
from chiplog.views.trace import perfetto
from tests.perfetto.processor import SLICES, Row, args_of, ask
from tests.support.span_batches import NOW, S, batch


class Told(NamedTuple):
    """What the processor says of a run, and the run."""

    stored: chiplog.Stored
    slices: list[Row]
    args: list[Row]
    counters: list[Row]
    flows: list[Row]
    processes: list[Row]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    folder = tmp_path_factory.mktemp("trace")
    run = chiplog.init("p", sinks="none", dir=folder, id="told", strict=True)
    with ThreadPoolExecutor(1) as device:
        for step in range(2):
            run.begin_step(step)
            with run.span("step", tags={"epoch": 1, "last": step == 1, "lr": 0.5, "phase": "warm"}):
                for _ in range(2):
                    with run.span("forward", devices="tpu0") as span:
                        span.async_end(device.submit(time.sleep, 0.01))
            run.log({"train/loss": 2.5 - step, "train/secret": 7.0}, step=step)
            run.event("gpu", id=0, power=350.5)

        async def turn(name: str) -> None:
            with run.span(name):
                await asyncio.sleep(0.01)

        async def both() -> None:
            await asyncio.gather(turn("A"), turn("B"))

        with pytest.raises(KeyError), run.span("bad"):
            raise KeyError
        asyncio.run(both())
        run.eval({"loss": 1.5})
        run.alert("spike", text="very high")
        run.finish()
    engine.current = None
    stored = chiplog.read(run.dir)
    path = folder / "t.pftrace"
    perfetto.write(stored, path)
    yield Told(
        stored,
        *ask(
            path,
            SLICES,
            "select * from args",
            "select ts, value, t.name from counter c join counter_track t on c.track_id = t.id order by ts",
            "select * from flow",
            "select pid, name from process where pid > 0",
        ),
    )


def test_every_span_is_a_slice_to_the_nanosecond(told: Told) -> None:
    """Begin, duration and name as they are stored, on the wall clock."""
    slices = sorted(
        (row["name"], row["ts"], row["dur"]) for row in told.slices if row["name"] not in ("eval", "alert: spike")
    )
    assert slices == sorted((span.name, span.start, span.duration) for span in told.stored.spans())


def test_spans_nest_as_they_ran(told: Told) -> None:
    """Depths and parents on the thread's track."""
    by_id = {row["id"]: row for row in told.slices}
    inner = [row for row in told.slices if row["name"] == "forward" and row["thread"] == "MainThread"]
    assert len(inner) == 4
    assert all(row["depth"] == 1 and by_id[row["parent_id"]]["name"] == "step" for row in inner)


def test_tasks_devices_and_queues_have_tracks(told: Told) -> None:
    """Tasks below their thread, devices and queues below the rank."""
    tracks = {row["track"]: row for row in told.slices if row["track"]}
    assert {"tpu0", "tpu0_queue"} < set(tracks) and len([name for name in tracks if name.startswith("Task-")]) == 2
    assert all(row["depth"] == 0 for row in told.slices if row["name"] in ("A", "B"))
    assert [row["name"] for row in told.processes] == [told.processes[0]["name"]]
    assert told.processes[0]["name"].startswith("rank 0 (")


def test_tags_are_typed_arguments(told: Told) -> None:
    """With the step, and with the error of a span that failed."""
    steps = [args_of(told.args, row) for row in told.slices if row["name"] == "step"]
    assert steps[1] == {"epoch": 1, "last": 1, "lr": 0.5, "phase": "warm", "step": 1}
    kinds = {row["key"]: row["value_type"] for row in told.args}
    assert (kinds["debug.last"], kinds["debug.lr"], kinds["debug.phase"]) == ("bool", "real", "string")
    [bad] = [args_of(told.args, row) for row in told.slices if row["name"] == "bad"]
    assert bad == {"error": "KeyError", "step": 1}


def test_metrics_are_counters_on_the_same_clock(told: Told) -> None:
    """Losses and power; what nobody asked for is left out."""
    found: dict[str, list[Any]] = {}
    for row in told.counters:
        found.setdefault(row["name"], []).append((row["ts"], row["value"]))
    loss = told.stored.series("train/loss")
    assert found["train/loss"] == list(zip(loss.times.tolist(), loss.values.tolist(), strict=True))
    assert [value for _, value in found["gpu/0/power"]] == [350.5, 350.5] and [v for _, v in found["eval/loss"]] == [
        1.5
    ]
    assert "train/secret" not in found


def test_alerts_and_evals_are_instants(told: Told) -> None:
    """With what they say."""
    by_name = {row["name"]: row for row in told.slices if row["dur"] == 0}
    assert args_of(told.args, by_name["alert: spike"])["text"] == "very high"
    assert args_of(told.args, by_name["eval"])["loss"] == 1.5


def test_flows_lead_from_the_host_to_the_device(told: Told) -> None:
    """Through the queue where the work had to wait."""
    by_id = {row["id"]: row for row in told.slices}
    arrows = [(by_id[flow["slice_out"]], by_id[flow["slice_in"]]) for flow in told.flows]
    assert {one["track"] or one["thread"] for one, _ in arrows} == {"MainThread", "tpu0_queue"}
    ends = [other for _, other in arrows if other["track"] == "tpu0"]
    assert len(ends) == 4 and all(one["ts"] <= other["ts"] for one, other in arrows)


def test_spans_that_overlap_keep_their_times(tmp_path: Path) -> None:
    """1-5, 2-6 and 6-10 on one timeline: two lanes, the third back on the first; a parent written later is around."""
    trace = Trace(0, 1, NOW)
    path = tmp_path / "t.pftrace"
    pieces = [trace.feed(batch(("one", 1, 5), ("two", 2, 6), ("three", 6, 10)))]
    pieces.append(trace.feed(batch(("child", 20, 21), ("child", 22, 23), parents=(9, 9))))
    pieces.append(trace.feed(batch(("parent", 20, 24))))  # begins with its first child, which is in the file before it
    pieces.append(trace.feed(batch(("instant", 30, 30), ("next", 30, 31))))
    path.write_bytes(b"".join(pieces))
    [slices] = ask(path, SLICES.replace("s.id,", "s.id, s.track_id,"))
    found = {row["name"]: row for row in slices if row["name"] != "child"}
    assert [found[name]["dur"] for name in ("one", "two", "three", "next")] == [4 * S, 4 * S, 4 * S, S]
    assert found["one"]["track_id"] == found["three"]["track_id"] != found["two"]["track_id"]
    children = [row for row in slices if row["name"] == "child"]
    assert [row["dur"] for row in children] == [S, S] and {row["depth"] for row in children} == {1}
    assert abs(found["parent"]["dur"] - 4 * S) <= 1 and found["parent"]["depth"] == 0


def test_ranks_are_processes_of_one_trace(tmp_path: Path) -> None:
    """Files of two ranks, put together: two processes on one clock, nothing mixed."""
    pieces = []
    for rank in range(2):
        trace = Trace(rank, 1, NOW + rank * 5 * S, about=f"(host {rank}, pid 1)")
        pieces.append(trace.feed(batch((f"work {rank}", 10, 12))))
    path = tmp_path / "both.pftrace"
    path.write_bytes(b"".join(pieces))
    [rows] = ask(
        path,
        "select s.name, s.ts, p.name as process from slice s join thread_track t on s.track_id = t.id "
        "join thread using (utid) join process p using (upid) order by s.name",
    )
    assert [(row["name"], row["ts"] - NOW, row["process"]) for row in rows] == [
        ("work 0", 10 * S, "rank 0 (host 0, pid 1)"),
        ("work 1", 10 * S, "rank 1 (host 1, pid 1)"),
    ]


def test_a_record_that_contradicts_itself_is_left_out() -> None:
    """A name or a timeline that is not there costs that span only."""
    odd = batch(("one", 1, 2), ("two", 3, 4))
    odd.name[0] = 7
    assert Trace(0, 1, NOW).feed(odd).count(b"two") == 1


def test_any_number_of_threads_fits_into_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the first ten thousand tracks the others share one, lane beside lane."""
    monkeypatch.setattr("chiplog.store.perfetto.trace.MOST", 5)
    trace = Trace(0, 1, NOW)
    many = batch(*[(f"s{n}", n, n + 30) for n in range(20)])
    many.threads[:] = [f"thread {n}" for n in range(20)]
    many.thread[:] = range(20)
    said = trace.feed(many)
    assert said.count(b"more threads") > 10 and b"thread 3" in said and b"thread 19" not in said
