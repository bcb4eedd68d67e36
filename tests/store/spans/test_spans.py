"""Questions about stored spans."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chiplog
from chiplog.core.errors import MissingPackage
from chiplog.metrics import step_spans
from chiplog.metrics.step_spans import Aggregate
from chiplog.store import layout
from chiplog.store.parts import compaction
from chiplog.store.spans import arrow
from chiplog.store.spans.columns import SpanColumns, from_record
from chiplog.store.spans.span import StoredSpan, expand
from chiplog.store.spans.spans import Spans
from tests.store.spans.building import STREAMS, scattered, spans_of


def tree(*groups: tuple[str, list[str]]) -> Spans:
    """Roots with children of these names, one second each."""
    found: list[StoredSpan] = []
    for name, inside in groups:
        root = StoredSpan(len(found) + 1, 0, name, "main", len(found) * 10, 100)
        found.append(root)
        for child in inside:
            found.append(StoredSpan(len(found) + 1, root.id, child, "main", len(found) * 10, 5))
    return spans_of(found)


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
    spans = spans_of(
        StoredSpan(n, 0, f"s{n % 3}", "tpu0" if n % 2 else "main", n, 1, n // 4, {"micro": n} if n > 5 else {}, n == 7)
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
    spans = spans_of(
        [
            StoredSpan(1, 0, "step", "main", 0, 100),
            StoredSpan(2, 1, "forward", "main", 10, 20),
            StoredSpan(3, 2, "layer", "main", 12, 5),
            StoredSpan(4, 2, "forward", "tpu0", 15, 50, kind="device"),
        ]
    )
    assert names(spans.named("step").inside()) == ["forward", "layer", "forward"]
    assert names(spans.device().parents()) == ["forward"] and names(spans.roots()) == ["step"]
    assert spans.named("step").own() == pytest.approx(80e-9)


def test_attempts_and_ranks_do_not_mix() -> None:
    """The same id in another attempt is another span."""
    spans = spans_of(
        [
            StoredSpan(1, 0, "a", "main", 0, 10, attempt=1),
            StoredSpan(2, 1, "b", "main", 1, 2, attempt=1),
            StoredSpan(2, 1, "c", "main", 20, 5, attempt=2),
            StoredSpan(2, 1, "d", "main", 21, 5, rank=1, attempt=1),
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
    assert compaction.compact(run.dir, segment)
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


Listed = list[StoredSpan]


def has(test: Callable[[StoredSpan], Any]) -> Callable[[Listed], Listed]:
    return lambda spans: [span for span in spans if test(span)]


def outer(span: StoredSpan, spans: Listed) -> StoredSpan | None:
    return next((one for one in spans if one.key == span.parent_key), None)


def inside(chosen: Listed, spans: Listed) -> Listed:
    found: Listed = []
    while chosen := [one for one in spans if outer(one, spans) in chosen and one not in found]:
        found += chosen
    return sorted(found, key=lambda span: span.start)


def roots(spans: Listed) -> Listed:
    around = {span.key: outer(span, spans) for span in spans}
    return [
        span
        for span in spans
        if span.kind in ("", "task") and ((one := around[span.key]) is None or one.thread != span.thread)
    ]


def table(chosen: Listed, spans: Listed, *, by_step: bool = True) -> list[Aggregate]:
    groups: dict[Any, Listed] = {}
    for span in chosen:
        groups.setdefault((span.step if by_step else None, span.name, span.kind), []).append(span)
    own = step_spans.own_times(spans)
    return [
        Aggregate(
            step, name, kind, len(group), sum(span.duration for span in group) / 1e9,
            sum(own[span.key] for span in group) / 1e9, step_spans.quantile(lengths, 0.5) / 1e9,
            step_spans.quantile(lengths, 0.95) / 1e9, lengths[-1] / 1e9,
        )
        for (step, name, kind), group in groups.items()
        for lengths in [sorted(span.duration for span in group)]
    ]  # fmt: skip


def by_label(spans: Listed) -> dict[str, float]:
    found: dict[str, float] = {}
    for lane, seconds in step_spans.idle(spans).items():
        found[lane[2]] = found.get(lane[2], 0.0) + seconds  # type: ignore[index]
    return found


def wait(chosen: Listed, spans: Listed) -> float:
    return step_spans.wait(chosen, {span.key: span.start for span in spans})


def step_lengths(spans: Listed) -> dict[Any, int]:
    steps = sorted({span.step for span in spans if span.step is not None})
    of_step = {step: [span for span in spans if span.step == step] for step in steps}
    return {step: max(one.end for one in some) - min(one.start for one in some) for step, some in of_step.items()}


# Each question, and what a plain list of objects says.
QUESTIONS: dict[str, tuple[Callable[[Spans], Any], Callable[[Listed], Any]]] = {
    "all": (list, list),
    "length": (len, len),
    "named": (lambda s: s.named("a", "gl*"), has(lambda one: one.name in ("a", "global step"))),
    "tagged": (lambda s: s.tagged(micro=1), has(lambda one: one.tags.get("micro") == 1)),
    "tagged with any": (lambda s: s.tagged("micro"), has(lambda one: one.tags)),
    "timeline": (lambda s: s.on("tpu0", "main"), has(lambda one: one.thread in ("tpu0", "main"))),
    "hosts": (lambda s: s.host(), has(lambda one: one.kind in ("", "task"))),
    "devices": (lambda s: s.device(), has(lambda one: one.kind == "device")),
    "queued": (lambda s: s.queued(), has(lambda one: one.kind == "queue")),
    "step": (lambda s: s.at(2), has(lambda one: one.step == 2)),
    "steps between": (lambda s: s.at(first=2, last=2.5), has(lambda one: one.step is not None and 2 <= one.step < 3)),
    "any step": (lambda s: s.at(), has(lambda one: one.step is not None)),
    "rank": (lambda s: s.of(rank=1), has(lambda one: one.rank == 1)),
    "attempt": (lambda s: s.of(rank=0, attempt=1), has(lambda one: one.attempt == 1)),
    "failed": (lambda s: s.failed(), has(lambda one: one.failed)),
    "where": (lambda s: s.where(lambda one: one.id % 2), has(lambda one: one.id % 2)),
    "first": (lambda s: s.first("a"), lambda spans: has(lambda one: one.name == "a")(spans)[:1]),
    "last": (lambda s: s.last(), lambda spans: spans[-1:]),
    "third": (lambda s: s.nth("b", 2), lambda spans: has(lambda one: one.name == "b")(spans)[2:3]),
    "none": (lambda s: [*s.nth("b", 99), *s.first("nothing"), *s.named("nothing").device()], lambda _: []),
    "longest": (
        lambda s: sorted(s.longest(9).seconds),
        lambda spans: sorted(span.seconds for span in spans)[-9:],
    ),
    "roots": (lambda s: s.roots(), roots),
    "children": (
        lambda s: s.roots("a").children("b", "last"),
        lambda spans: [
            last[-1]
            for root in roots(spans)
            if root.name == "a"
            and (last := [one for one in spans if one.parent_key == root.key and one.name == "b"])
        ],
    ),
    "inside": (lambda s: s.named("a").inside(), lambda spans: inside(has(lambda one: one.name == "a")(spans), spans)),
    "parents": (
        lambda s: s.named("b").parents(),
        lambda spans: list(
            {one.key: one for span in spans if span.name == "b" and (one := outer(span, spans)) is not None}.values()
        ),
    ),
    "seconds": (lambda s: s.seconds, lambda spans: [span.seconds for span in spans]),
    "names": (lambda s: s.names, lambda spans: list(dict.fromkeys(span.name for span in spans))),
    "timelines": (lambda s: s.timelines, lambda spans: list(dict.fromkeys(span.thread for span in spans))),
    "steps": (lambda s: s.steps, lambda spans: sorted({span.step for span in spans if span.step is not None})),
    "ranks": (lambda s: (s.ranks, s.attempts), lambda spans: (sorted({one.rank for one in spans}), sorted({one.attempt for one in spans}))),
    "reach": (lambda s: s.reach, lambda spans: (spans[0].start, max(span.end for span in spans))),
    "lengths": (lambda s: s.lengths(), step_lengths),
    "total": (lambda s: s.total(), lambda spans: sum(span.duration for span in spans) / 1e9),
    "own": (lambda s: s.own(), lambda spans: sum(step_spans.own_times(spans).values()) / 1e9),
    "table": (lambda s: s.table(), lambda spans: table(spans, spans)),
    "table of all steps": (lambda s: s.table(by_step=False), lambda spans: table(spans, spans, by_step=False)),
    "table of some": (
        lambda s: s.of(rank=0).named("a").table(),
        lambda spans: table([one for one in spans if one.rank == 0 and one.name == "a"], spans),
    ),
    "by name": (
        lambda s: {name: list(some) for name, some in s.by_name().items()},
        lambda spans: {name: [one for one in spans if one.name == name] for name in dict.fromkeys(one.name for one in spans)},
    ),
    "alone": (
        lambda s: (s.named("a").alone().own(), list(s.named("a").alone().parents())),
        lambda spans: (
            sum(step_spans.own_times([one for one in spans if one.name == "a"]).values()) / 1e9,
            list({one.key: one for span in spans if span.name == "a" and (one := outer(span, spans)) is not None and one.name == "a"}.values()),
        ),
    ),
    "idle": (lambda s: s.idle(), by_label),
    "idle, not by start": (
        lambda s: s.of(rank=1)[::-1].idle(),
        lambda spans: by_label([one for one in spans if one.rank == 1]),
    ),
    "overlap": (lambda s: s.overlap(), step_spans.overlap),
    "wait": (lambda s: s.wait(), lambda spans: wait(spans, spans)),
    "metrics": (lambda s: s.metrics(2), lambda spans: step_spans.times([one for one in spans if one.step == 2])),
    "numpy": (
        lambda s: [column.tolist() for name, column in s.at(2).to_numpy().items()],
        lambda spans: [
            [getattr(one, name) for one in spans if one.step == 2]
            for name in ("id", "parent", "name", "thread", "kind", "start", "duration", "step", "failed", "error", "rank", "attempt")
        ],
    ),
    "arrow": (
        lambda s: [(row["id"], row["tags"], row["error"], row["rank"]) for row in s.to_arrow().to_pylist()],
        lambda spans: [
            (one.id, f'{{"micro":{one.tags["micro"]}}}' if one.tags else None, one.error or None, one.rank) for one in spans
        ],
    ),
    "slice": (lambda s: [*s[3:9:2], s[0], s[-1]], lambda spans: [*spans[3:9:2], spans[0], spans[-1]]),
}  # fmt: skip


@pytest.mark.parametrize("question", QUESTIONS)
def test_spans_answer_as_a_list_of_objects_would(question: str) -> None:
    """Whatever is asked, from a journal and from parts."""
    ask, expected = QUESTIONS[question]
    for seed in range(5):
        batches = scattered(seed)
        journal, parts = SpanColumns(), SpanColumns()
        for record, rank, attempt in batches:
            batch = from_record(record)
            assert batch is not None
            journal.append(batch, rank, attempt)
        spans = Spans(journal)
        for rank, attempt in STREAMS:
            some = SpanColumns()
            for record, *whose in batches:
                if whose == [rank, attempt] and (batch := from_record(record)) is not None:
                    some.append(batch, rank, attempt)
            parts.append(arrow.from_table(arrow.to_table(some)), rank, attempt)
        listed = sorted((span for one in batches for span in expand(*one)), key=lambda span: span.start)
        for asked in (spans, Spans(parts)):
            answer = ask(asked)
            assert (list(answer) if isinstance(answer, Spans) else answer) == expected(listed)


def test_no_spans_are_asked_in_vain() -> None:
    """Every question has an answer for none."""
    spans = spans_of([])
    assert not spans and spans.table() == [] and spans.idle() == {} and spans.lengths() == {} and spans.steps == []
    assert spans.reach == (0, 0) and spans.total() == spans.own() == spans.wait() == spans.overlap() == 0
    assert not spans.roots().children() and not spans.inside() and not spans.parents() and not spans.longest(3)
    assert spans.by_name() == {} and spans.ranks == [] and not spans.tagged("x").failed() and not spans.at(3)
    assert len(spans.to_numpy()["id"]) == 0 and spans.to_arrow().num_rows == 0
    with pytest.raises(IndexError):
        spans[0]


def test_spans_need_numpy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, an error says what to install, as for series."""
    run = record(tmp_path)
    for name in [
        name
        for name in sys.modules
        if name.startswith(("chiplog.store.spans.", "chiplog.store.reader", "chiplog.store.run_arrays"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(MissingPackage, match=r"'numpy'.*pip install 'chiplog\[read\]'"):
        chiplog.read(run.dir).spans()
