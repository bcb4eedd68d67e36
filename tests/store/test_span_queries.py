"""Questions about stored spans."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import chiplog
from chiplog.core import records
from chiplog.store import layout, parts
from chiplog.store.columnar import Columns
from chiplog.store.spans import Span, Spans, expand


def tree(*groups: tuple[str, list[str]]) -> Spans:
    """Roots with children of these names, one second each."""
    found: list[Span] = []
    for name, inside in groups:
        root = Span(len(found) + 1, 0, name, "main", len(found) * 10, 100)
        found.append(root)
        for child in inside:
            found.append(Span(len(found) + 1, root.id, child, "main", len(found) * 10, 5))
    return Spans(found)


def names(spans: Spans) -> list[str]:
    return [span.name for span in spans]


def test_groups_are_chosen_for_each_parent() -> None:
    """a{b,b}, a{b}: all of all, last, the second of each, the first of each."""
    spans = tree(("a", ["b", "b", "c"]), ("a", ["b"]))
    roots = spans.roots("a")
    assert len(roots.children("b")) == 3 and len(spans.roots("a", "last").children("b")) == 1
    assert len(roots.children("b", 1)) == 1 and len(roots.children("b", "first")) == 2
    assert len(roots.children("b", -1)) == 0 and len(spans.roots("nothing")) == 0
    assert names(roots.children(which="last")) == ["c", "b"]
    with pytest.raises(ValueError, match="which"):
        roots.children("b", "newest")


def test_spans_are_chosen_by_name_tag_timeline_step_and_failure() -> None:
    """Each question narrows the answer of the one before."""
    spans = Spans(
        Span(n, 0, f"s{n % 3}", "tpu0" if n % 2 else "main", n, 1, n // 4, {"micro": n} if n > 5 else {}, n == 7)
        for n in range(12)
    )
    assert len(spans.named("s0")) == 4 and len(spans.named("s*")) == 12 and len(spans.named("s0", "s1")) == 8
    assert [span.id for span in spans.tagged("micro")] == [6, 7, 8, 9, 10, 11]
    assert [span.id for span in spans.tagged(micro=9)] == [9] and not spans.tagged(other=1)
    assert len(spans.on("tpu0")) == 6 and len(spans.on("tpu0").at(step=1)) == 2
    assert len(spans.at(first=1, last=2)) == 8 and len(spans.at(first=2)) == 4
    assert [span.id for span in spans.failed()] == [7]
    assert spans.first("s1")[0].id == 1 and spans.last("s1")[0].id == 10 and spans.nth("s1", 2)[0].id == 7
    assert not spans.nth("s1", 99) and not spans.first("nothing")
    assert [span.id for span in spans.where(lambda span: span.id > 9)] == [10, 11]
    assert names(spans[1:3]) == ["s1", "s2"] and spans.named("s0")[1:].whole is spans


def test_parents_and_what_is_inside() -> None:
    """At any depth, over timelines."""
    spans = Spans(
        [
            Span(1, 0, "step", "main", 0, 100),
            Span(2, 1, "forward", "main", 10, 20),
            Span(3, 2, "layer", "main", 12, 5),
            Span(4, 2, "forward", "tpu0", 15, 50, kind="device"),
        ]
    )
    assert names(spans.named("step").inside()) == ["forward", "layer", "forward"]
    assert names(spans.device().parents()) == ["forward"] and names(spans.roots()) == ["step"]
    assert spans.named("step").own() == pytest.approx(80e-9)


def test_attempts_and_ranks_do_not_mix() -> None:
    """The same id in another attempt is another span."""
    spans = Spans(
        [
            Span(1, 0, "a", "main", 0, 10, attempt=1),
            Span(2, 1, "b", "main", 1, 2, attempt=1),
            Span(2, 1, "c", "main", 20, 5, attempt=2),
            Span(2, 1, "d", "main", 21, 5, rank=1, attempt=1),
        ]
    )
    assert names(spans.named("a").children()) == ["b"]
    assert names(spans.of(attempt=2)) == ["c"] and names(spans.of(rank=1)) == ["d"]


def record(path: Path) -> chiplog.Run:
    run = chiplog.init("p", sinks="none", dir=path, strict=True)
    for step in range(3):
        run.begin_step(step)
        with run.span("step", tags={"step": step, "ok": True}), run.span("work", devices="tpu0") as span:
            span.async_end(1)
    with pytest.raises(ValueError), run.span("bad"):
        raise ValueError
    run.finish()
    return run


def test_parts_hold_all_that_the_journal_says(tmp_path: Path) -> None:
    """Kinds, errors and tags too, in columns that other tools read."""
    run = record(tmp_path)
    before = list(chiplog.read(run.dir).spans())
    [segment] = layout.segments(run.dir)
    assert parts.compact(run.dir, segment)
    assert chiplog.read(run.dir).spans() == before
    assert {span.kind for span in before} >= {"", "device"} and [one.error for one in before if one.failed] == [
        "ValueError"
    ]


def test_spans_are_columns_too(tmp_path: Path) -> None:
    """numpy and Arrow, with the same numbers."""
    spans = chiplog.read(record(tmp_path).dir).spans()
    columns, table = spans.to_numpy(), spans.to_arrow()
    assert columns["duration"].dtype == np.int64 and columns["duration"].sum() == sum(span.duration for span in spans)
    assert table["duration"].to_pylist() == columns["duration"].tolist()
    assert table["kind"].to_pylist().count("device") == 3 and table["rank"].to_pylist() == [0] * len(spans)
    assert table["name"].to_pylist() == names(spans)


def test_aggregates_are_logged_each_step(tmp_path: Path) -> None:
    """`run.trace(metrics=True)`: the series say what the spans say, for every step."""
    run = chiplog.init("p", sinks="none", dir=tmp_path, strict=True)
    run.trace(metrics=True)
    for step in range(4):
        run.begin_step(step)
        with run.span("step"), run.span("work", devices="tpu0") as span:
            span.async_end(1)
    run.finish()
    stored = chiplog.read(run.dir)
    series = stored.series("perf/work/total_sec")
    assert series.steps.tolist() == [0, 1, 2, 3]
    of_hosts = stored.spans().host().named("work")
    assert series.values.tolist() == pytest.approx(of_hosts.seconds)
    assert stored.series("perf/work/device_sec").steps.tolist() == [0, 1, 2, 3]
    row: dict[str, Any] = stored.spans().metrics(2)
    assert row["perf/work/total_sec"] == pytest.approx(series.values[2])


STREAMS = ((0, 0), (1, 0), (0, 1))  # rank, attempt


def scattered(seed: int) -> list[tuple[records.Spans, int, int]]:
    """Batches of spans of every sort: nested and not, on threads and devices, of several ranks, some without a step."""
    chance = random.Random(seed)
    found = []
    for stream, (rank, attempt) in enumerate(STREAMS):
        number = 0
        moments = chance.sample(range(300), 90)
        for _ in range(3):
            size = chance.randrange(30)
            ids = list(range(number + 1, number + size + 1))
            number += size
            found.append(
                (
                    records.Spans(
                        0, 0, ["a", "b", "global step"], ["main", "tpu0", "tpu0_queue", "main/Task-1"],
                        [chance.randrange(3) for _ in ids], [chance.randrange(4) for _ in ids], ids,
                        [chance.choice((0, 0, chance.randint(1, number))) for _ in ids],
                        [10**18 + 3 * moments[one - 1] + stream for one in ids], [chance.randrange(300) for _ in ids],
                        [chance.choice((None, 1, 2, 2.5, 3)) for _ in ids], failed=[one for one in ids if one % 7 == 0],
                        tags={str(one): {"micro": one % 3} for one in ids if one % 5 == 0},
                        errors={str(one): "ValueError" for one in ids if one % 14 == 0},
                        kinds={"tpu0": "device", "tpu0_queue": "queue", "main/Task-1": "task"},
                    ),
                    rank,
                    attempt,
                )
            )  # fmt: skip
    return found


QUESTIONS: dict[str, Callable[[Spans], Any]] = {
    "all": list,
    "length": len,
    "named": lambda spans: list(spans.named("a", "gl*")),
    "tagged": lambda spans: list(spans.tagged(micro=1)),
    "timeline": lambda spans: list(spans.on("tpu0", "main")),
    "hosts": lambda spans: list(spans.host()),
    "devices": lambda spans: list(spans.device()),
    "queued": lambda spans: list(spans.queued()),
    "step": lambda spans: list(spans.at(2)),
    "steps between": lambda spans: list(spans.at(first=2, last=2.5)),
    "rank": lambda spans: list(spans.of(rank=1)),
    "attempt": lambda spans: list(spans.of(rank=0, attempt=1)),
    "failed": lambda spans: list(spans.failed()),
    "first": lambda spans: list(spans.first("a")),
    "last": lambda spans: list(spans.last()),
    "third": lambda spans: list(spans.nth("b", 2)),
    "none": lambda spans: [*spans.nth("b", 99), *spans.first("nothing"), *spans.named("nothing").device()],
    "roots": lambda spans: list(spans.roots()),
    "children": lambda spans: list(spans.roots("a").children("b", "last")),
    "inside": lambda spans: list(spans.named("a").inside()),
    "parents": lambda spans: list(spans.named("b").parents()),
    "seconds": lambda spans: spans.seconds,
    "names": lambda spans: (spans.names, spans.timelines, spans.steps, spans.reach),
    "lengths": lambda spans: (spans.lengths(), spans.of(rank=9).lengths(), spans.of(rank=9).reach),
    "total": lambda spans: (spans.total(), spans.own()),
    "table": lambda spans: spans.table(),
    "table of all steps": lambda spans: spans.table(by_step=False),
    "table of some": lambda spans: [*spans.of(rank=0).named("a").table(), *spans.named("nothing").table()],
    "idle": lambda spans: (spans.idle(), spans.of(rank=9).idle()),
    "overlap": lambda spans: spans.overlap(),
    "wait": lambda spans: (spans.wait(), spans.device().wait(), spans.of(rank=1).wait()),
    "metrics": lambda spans: spans.metrics(2),
    "numpy": lambda spans: {name: column.tolist() for name, column in spans.at(2).to_numpy().items()},
    "arrow": lambda spans: spans.to_arrow().to_pylist(),
    "slice": lambda spans: [*spans[3:9:2], spans[0], spans[-1]],
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_columns_answer_as_objects_do(question: str) -> None:
    """Whatever is asked of spans in columns, a list of one object each would have said the same."""
    ask = QUESTIONS[question]
    for seed in range(10):
        batches = scattered(seed)
        columns = Columns()
        for batch in batches:
            columns.add(*batch)
        objects = Spans(span for batch in batches for span in expand(*batch))
        assert ask(columns.spans()) == ask(objects)
        stored = Columns()  # as parts have them
        for rank, attempt in STREAMS:
            stored.add_table(parts.spans_table(objects.of(rank=rank, attempt=attempt)), rank, attempt)
        assert ask(stored.spans()) == ask(objects)


def test_columns_refuse_what_they_cannot_hold(tmp_path: Path) -> None:
    """A batch that contradicts itself is left out; numbers beyond 64 bits, and steps beyond floats, are read as objects."""
    batch = scattered(1)[0][0]
    for wrong in ({"name": [99] * len(batch.id)}, {"thread": [-1] * len(batch.id)}, {"step": []}):
        columns = Columns()
        columns.add(msgspec.structs.replace(batch, **wrong), 0, 0)
        assert not columns.spans() and columns.spans().table() == [] and columns.spans().idle() == {}
    with pytest.raises(IndexError):
        Columns().spans()[0]
    run = chiplog.init("p", sinks="none", dir=tmp_path, compact=False)
    with run.span("far", tags={"step": 2**60 + 1}):
        pass
    assert run.spans()[0].step == 2**60 + 1
    run.finish()
