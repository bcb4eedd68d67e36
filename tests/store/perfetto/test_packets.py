"""The encoder of Perfetto packets, judged by Perfetto's own trace processor."""

from __future__ import annotations

from pathlib import Path

from chiplog.store.perfetto.packets import PacketWriter
from tests.perfetto.processor import SLICES, args_of, ask

NOW = 1_794_800_000_000_000_000
S = 10**9


def test_what_is_written_is_what_the_processor_reads(tmp_path: Path) -> None:
    """Names, times to the nanosecond, depths, arguments with their types, flows, instants and counters."""
    writer = PacketWriter(7, NOW)
    writer.process(1, 10, "rank 0")
    writer.thread(2, 10, 11, "MainThread")
    writer.track(3, "tpu0", 1)
    writer.counter(4, "loss", 1, "nats")
    args = {"i": -5, "big": 1 << 70, "f": 0.5, "t": True, "s": "ü\ud800", "d": {"k": [1, {"deep": "x"}]}, "none": None}
    events = [
        writer.slice(2, "outer", NOW + 10, NOW + 1000, step=3, flow=99),
        writer.slice(2, "inner", NOW + 20, NOW + 20, args, step=3),
        writer.slice(2, "later", NOW + 2000, NOW + 2001, step=3),
        writer.slice(2, "later", NOW + 3000, NOW + 3000 + (1 << 43), step=3),  # beyond what fits into six bytes
        writer.slice(3, "outer", NOW + 500, NOW + 700, flow=99),
        writer.slice(3, "before", NOW - 300, NOW - 100),  # before the sequence began
        writer.instant(1, "alert", NOW + 50, {"level": "warn"}),
        writer.count(4, NOW + 60, 2.25),
        writer.count(4, NOW + 70, -1e300),
    ]
    path = tmp_path / "t.pftrace"
    path.write_bytes(writer.news() + b"".join(events))
    slices, found, counters, flows, threads = ask(
        path,
        SLICES,
        "select * from args",
        "select ts, value, t.name, unit from counter c join counter_track t on c.track_id = t.id order by ts",
        "select slice_out, slice_in from flow",
        "select t.tid, t.name as thread, p.pid, p.name as process from thread t join process p using (upid) where pid = 10",
    )
    said = {(row["name"], row["ts"] - NOW): (row["dur"], row["depth"]) for row in slices}
    assert said == {
        ("outer", 10): (990, 0), ("inner", 20): (0, 1), ("later", 2000): (1, 0), ("later", 3000): (1 << 43, 0),
        ("outer", 500): (200, 0), ("before", -300): (200, 0), ("alert", 50): (0, 0),
    }  # fmt: skip
    inner = next(row for row in slices if row["name"] == "inner")
    assert args_of(found, inner) == {
        "i": -5, "big": float(1 << 70), "f": 0.5, "t": 1, "s": "ü\\ud800", "d.k[0]": 1, "d.k[1].deep": "x",
        "none": "None", "step": 3,
    }  # fmt: skip
    assert [row["value_type"] for row in found if row["key"] == "debug.t"] == ["bool"]
    assert [(row["ts"] - NOW, row["value"], row["name"], row["unit"]) for row in counters] == [
        (60, 2.25, "loss", "nats"), (70, -1e300, "loss", "nats"),
    ]  # fmt: skip
    by_id = {row["id"]: row for row in slices}
    [flow] = flows
    assert by_id[flow["slice_out"]]["ts"] == NOW + 10 and by_id[flow["slice_in"]]["ts"] == NOW + 500
    assert {(row["pid"], row["process"]) for row in threads} == {(10, "rank 0")}
    assert (11, "MainThread") in {(row["tid"], row["thread"]) for row in threads}


def test_a_string_is_said_once() -> None:
    """However often a name is used, and however often the news are asked for."""
    writer = PacketWriter(1, NOW)
    events = b"".join([writer.slice(2, "a long name of a span", NOW + n, NOW + n + 1, step=1) for n in range(100)])
    news = writer.news()
    assert (news + events).count(b"a long name of a span") == 1 and writer.news() == b""
    assert len(events) <= 100 * 50
