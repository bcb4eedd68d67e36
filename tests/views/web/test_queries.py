"""What the page asks of spans."""

from __future__ import annotations

from pathlib import Path

import pytest

import chiplog
from chiplog.store.contents.contents import Contents
from chiplog.store.runs.summary_cache import SummaryCache
from chiplog.store.spans.span import StoredSpan
from chiplog.views.web import queries
from tests.store.spans.building import spans_of

S = 10**9


def test_a_trace_says_where_the_time_went_by_name_and_by_step() -> None:
    """Names by their own time, hosts and devices together; steps in order."""
    spans = spans_of(
        [
            StoredSpan(1, 0, "step", "main", 0, 10 * S, 3),
            StoredSpan(2, 1, "work", "main", S, 6 * S, 3),
            StoredSpan(3, 2, "work", "tpu0", 2 * S, 4 * S, 3, kind="device"),
            StoredSpan(4, 0, "step", "main", 20 * S, S, 4),
            StoredSpan(5, 0, "save", "main", 30 * S, 2 * S, None),
        ]
    )
    answer = queries.trace(spans)
    assert answer["count"] == 5 and answer["steps"] == [
        {"step": 3.0, "own": {"step": 4.0, "work": 10.0}},
        {"step": 4.0, "own": {"step": 1.0}},
    ]
    work, step, save = answer["names"]
    assert work == {"name": "work", "count": 2, "total": 10.0, "own": 10.0, "mean": 5.0, "p99": 6.0}
    assert (step["name"], step["own"], step["total"], save["name"]) == ("step", 5.0, 11.0, "save")
    assert queries.trace(spans_of([])) == {"count": 0, "names": [], "steps": []}


def test_a_timeline_is_one_step_of_the_last_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spans in rows below those they lie in; the shortest are left out where there are too many."""
    spans = spans_of(
        [
            StoredSpan(1, 0, "old", "main", 0, 10 * S, 3, attempt=1),
            StoredSpan(1, 0, "step", "main", 20 * S, 10 * S, 3, attempt=2),
            StoredSpan(2, 1, "work", "main", 21 * S, 6 * S, 3, attempt=2),
            StoredSpan(3, 2, "work", "tpu0", 22 * S, S, 3, kind="device", attempt=2, failed=True, error="OSError"),
            StoredSpan(1, 0, "other", "main", 0, S, 3, rank=1, attempt=2),
        ]
    )
    answer = queries.timeline(spans, 3, 0)
    assert [(one["name"], one["lane"], one["row"], one["start"]) for one in answer["spans"]] == [
        ("step", 0, 0, 0.0), ("work", 0, 1, 1.0), ("work", 1, 0, 2.0)
    ]  # fmt: skip
    assert answer["lanes"] == [{"name": "main", "kind": "", "rows": 2}, {"name": "tpu0", "kind": "device", "rows": 1}]
    assert answer["seconds"] == 10 and answer["left"] == 0 and answer["spans"][2]["tags"] == {"error": "OSError"}
    monkeypatch.setattr(queries, "BARS", 2)
    assert queries.timeline(spans, 3, 0)["left"] == 1 and len(queries.timeline(spans, 3, 0)["spans"]) == 2
    assert queries.timeline(spans, 99, 0)["spans"] == []


def test_a_page_has_what_the_run_set_and_its_histograms(tmp_path: Path) -> None:
    """The list of runs has the values too, as columns."""
    with chiplog.init("p", dir=tmp_path, sinks="none") as run:
        run.summary["best_acc"] = 0.9
        run.log({"loss": 1.0, "weights": chiplog.Histogram([1.0, 2.0, 3.0], bins=2)})
    summaries = SummaryCache(tmp_path)
    summaries.refresh()
    (entry,) = summaries.entries()
    about = queries.about(chiplog.read(run.dir), entry, Contents(run.dir))
    assert about["summary"] == {"best_acc": 0.9} and entry.values["best_acc"] == 0.9
    assert [(one["name"], one["counts"]) for one in about["histograms"]] == [("weights", [1, 2])]
