"""Requests about a run, to a real server without a browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import numpy as np
import pytest

import chiplog
from tests.views.web import serving as tools
from tests.views.web import stores


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tools.Served]:
    root = tmp_path_factory.mktemp("asked") / "runs"
    stores.rich(root)
    for number in range(3):
        stores.simple(root, f"run-{number}", lr=1e-4 * (number + 1))
    stores.damage(stores.simple(root, "broken"))
    with tools.serving(root) as server:
        yield server


def curves(served: tools.Served, charts: list[list[Any]], **params: Any) -> list[dict[str, Any]]:
    """The lines of an answer, unpacked as the page does it."""
    query = "&".join(
        [f"q={json.dumps(charts, separators=(',', ':'))}", *(f"{key}={value}" for key, value in params.items())]
    )
    body = served.ask(f"/api/series?{query}").body
    size = int.from_bytes(body[:8], "little")
    header = json.loads(body[8 : 8 + size])
    doubles = np.frombuffer(body, "<f8", offset=8 + size)
    return [
        {**one, **{name: doubles[at : at + length] for name, (at, length) in one["arrays"].items()}}
        for one in header["series"]
    ]


def test_a_series_arrives_exactly(served: tools.Served) -> None:
    """Every double as it was logged, NaN too."""
    key = served.keys()["rich"]
    stored = chiplog.read(served.root / "tiny-lm" / "rich").series("train/grad_norm")
    (line,) = curves(served, [[[key, "train/grad_norm"]]])
    assert line["mode"] == "points"
    assert np.array_equal(line["x"], stored.steps.astype(float))
    assert np.array_equal(line["y"], stored.values, equal_nan=True)
    assert [(mark[0], mark[1]) for mark in line["marks"]] == [(350.0, "nan"), (351.0, "nan")]


def test_all_points_of_a_chart_arrive_as_csv(served: tools.Served) -> None:
    """Each with its step, time and exact value; a run that is not there is an error."""
    key = served.keys()["rich"]
    stored = chiplog.read(served.root / "tiny-lm" / "rich").series("train/grad_norm")
    query = json.dumps([[[key, "train/grad_norm"], [key, "train/loss", 2]]], separators=(",", ":"))
    asked = Request(f"{served.address}api/points?q={query}", headers={"Authorization": f"Bearer {tools.TOKEN}"})
    with urlopen(asked, timeout=30) as answer:
        head, *rows = (line.split(",") for line in answer.read().decode().splitlines())
    assert head == ["run", "name", "rank", "step", "time", "value"]
    mine = [row for row in rows if row[1] == "train/grad_norm"]
    assert [float(row[5]) for row in mine] == pytest.approx(stored.values.tolist(), nan_ok=True, rel=0)
    assert [int(row[3]) for row in mine] == stored.steps.tolist()
    assert [np.datetime64(row[4].rstrip("Z"), "us") for row in mine] == stored.times.astype("datetime64[us]").tolist()
    assert {row[2] for row in rows if row[1] == "train/loss"} == {"2"}
    assert served.ask("/api/points?q=[[[%22none%22,%22x%22]]]").status == 404
    assert served.ask("/api/points?q=x").status == 400


def test_units_are_those_that_people_read(served: tools.Served) -> None:
    """Power in watts; a ratio has none."""
    units = served.get("run", run=served.keys()["rich"])["units"]
    assert units["gpu/0/power"] == ["W", 1000.0] and units["train/step_time_sec"] == ["s", 1.0]
    assert "train/mfu" not in units


def test_no_spike_hides_in_a_bucket(served: tools.Served) -> None:
    """Far fewer buckets than points still show the highest and the lowest of them."""
    key = served.keys()["rich"]
    stored = chiplog.read(served.root / "tiny-lm" / "rich").series("train/loss")
    (line,) = curves(served, [[[key, "train/loss"]]], n=20)
    assert line["mode"] == "buckets" and len(line["x"]) <= 20 < line["total"]
    assert line["max"].max() == stored.values.max() and line["min"].min() == stored.values.min()


def test_lines_of_one_chart_share_their_buckets(served: tools.Served) -> None:
    """So that they can be read at the same x."""
    keys = served.keys()
    first, second = curves(served, [[[keys["run-0"], "train/loss"], [keys["run-1"], "train/loss"]]], n=50)
    assert np.array_equal(first["x"], second["x"])


@pytest.mark.parametrize(
    ("kind", "first", "last"),
    [("step", 0, 199), ("relative", 0.5, 100), ("time", stores.BEGAN / 1e9 + 0.5, stores.BEGAN / 1e9 + 100),
     ("tokens", 4096, 200 * 4096), ("metric:train/lr", 1e-4, 1e-4)],
)  # fmt: skip
def test_x_is_measured_in_many_ways(served: tools.Served, kind: str, first: float, last: float) -> None:
    """Steps, time, tokens summed up where they are counted by step, and any other series."""
    (line,) = curves(served, [[[served.keys()["run-0"], "train/loss"]]], x=kind)
    assert line["x"][0] == pytest.approx(first) and line["x"][-1] == pytest.approx(last)


def test_a_window_has_one_point_beyond_each_end(served: tools.Served) -> None:
    """A line reaches the frame on both sides."""
    (line,) = curves(served, [[[served.keys()["run-0"], "train/loss"]]], low=50, high=60)
    assert (line["x"][0], line["x"][-1], line["total"]) == (49, 61, 200)


def test_a_damaged_run_shows_what_can_be_read(served: tools.Served) -> None:
    """And says what cannot."""
    key = served.keys()["broken"]
    about = served.get("run", run=key)
    (line,) = curves(served, [[[key, "train/loss"]]])
    assert about["damage_count"] >= 1 and "bytes" in about["damage"][0]
    assert 150 < line["total"] < 200


def test_samples_are_paged_and_searched(served: tools.Served) -> None:
    """Newest first, fifty at a time; what is searched for is text and nothing else."""
    key = served.keys()["rich"]
    page = served.get("samples", run=key, table="completions", offset=50)
    assert page["found"] == 52 and len(page["rows"]) == 2
    found = served.get("samples", run=key, table="completions", find="question 300-2")
    assert [row["step"] for row in found["rows"]] == [300]
    assert served.get("samples", run=key, table="completions", find=".*")["found"] == 0


def test_ranks_matrices_and_spans_are_there(served: tools.Served) -> None:
    """Each as the page draws it."""
    key = served.keys()["rich"]
    ranks = served.get("ranks", run=key, name="train/step_time_sec")
    assert ranks["ranks"] == [0, 1, 2, 3] and int(np.argmax(ranks["means"])) == 2 and len(ranks["values"]) == 4
    matrix = served.get("matrix", run=key, name="moe/tokens_per_expert", at=0)
    assert matrix["step"] == 0 and len(matrix["values"]) == 8 and len(matrix["values"][0]) == 16
    trace = served.get("trace", run=key)
    assert trace["names"][0]["name"] == "backward" and trace["names"][0]["own"] == pytest.approx(13 * 0.2)
    spent = served.get("goodput", run=key)
    assert 0 < spent["share"] < 1 and spent["seconds"]["down"] > 0
    assert {part["name"] for part in spent["step"]} >= {"compute at peak"}
    asked = Request(f"{served.address}api/perfetto?run={key}", headers={"Authorization": f"Bearer {tools.TOKEN}"})
    with urlopen(asked, timeout=20) as packets:
        assert "pftrace" in packets.headers["content-disposition"]
        body = packets.read()
    assert all(name in body for name in (b"forward", b"backward", b"optimizer"))


def test_a_step_is_a_timeline(tmp_path: Path) -> None:
    """Of one step alone: lanes by when they begin, spans below those they lie in, with their tags and what went wrong."""
    stores.traced(tmp_path)
    with tools.serving(tmp_path) as served:
        found = served.get("timeline", run=served.keys()["traced"], step=1, rank=0)
        assert served.get("timeline", run=served.keys()["traced"], step=7, rank=0)["spans"] == []
    assert found["seconds"] == pytest.approx(0.4) and found["left"] == 0
    assert [(lane["name"], lane["kind"], lane["rows"]) for lane in found["lanes"]] == [
        ("main", "", 3), ("tpu0_queue", "queue", 1), ("tpu0", "device", 1),
    ]  # fmt: skip
    rows = {(one["name"], one["lane"]): one["row"] for one in found["spans"]}
    assert rows == {
        ("step", 0): 0, ("forward", 0): 1, ("attention", 0): 2, ("backward", 0): 1, ("save", 0): 1, ("kernels", 1): 0, ("kernels", 2): 0,
    }  # fmt: skip
    (failed,) = (one for one in found["spans"] if one["failed"])
    assert failed["name"] == "save" and failed["tags"] == {"error": "OSError: disk full"}
    assert failed["start"] == pytest.approx(0.32) and failed["seconds"] == pytest.approx(0.07)
