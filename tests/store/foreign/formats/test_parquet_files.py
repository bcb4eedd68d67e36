"""Neptune's exports by their documented schema, and other tables."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from chiplog.core import records
from tests.support import foreign_stores
from tests.support.foreign_stores import lost, opened, values

# The exporter's own schema: one row per value.
SCHEMA = pa.schema(
    [
        ("project_id", pa.string()),
        ("run_id", pa.string()),
        ("attribute_path", pa.string()),
        ("attribute_type", pa.string()),
        ("step", pa.decimal128(18, 6)),
        ("timestamp", pa.timestamp("ms", "UTC")),
        ("int_value", pa.int64()),
        ("float_value", pa.float64()),
        ("string_value", pa.string()),
        ("bool_value", pa.bool_()),
        ("datetime_value", pa.timestamp("ms", "UTC")),
        ("string_set_value", pa.list_(pa.string())),
        ("file_value", pa.struct([("path", pa.string())])),
        (
            "histogram_value",
            pa.struct([("type", pa.string()), ("edges", pa.list_(pa.float64())), ("values", pa.list_(pa.float64()))]),
        ),
    ]
)
NOW = datetime(2026, 1, 2, 3, 4, 5, 678000, UTC)


def export(folder: Path) -> Path:
    """A project with one run in two parts."""
    folder.mkdir(parents=True)
    base = {"project_id": "team/proj", "run_id": "RUN-1"}
    rows = [
        {"attribute_path": "sys/name", "attribute_type": "string", "string_value": "first"},
        {"attribute_path": "sys/tags", "attribute_type": "string_set", "string_set_value": ["a", "b"]},
        {"attribute_path": "sys/creation_time", "attribute_type": "datetime", "datetime_value": NOW},
        {"attribute_path": "sys/forking/parent", "attribute_type": "string", "string_value": "RUN-0"},
        {"attribute_path": "params/lr", "attribute_type": "float", "float_value": 0.1},
        {"attribute_path": "params/layers", "attribute_type": "int", "int_value": 12},
        {"attribute_path": "params/on", "attribute_type": "bool", "bool_value": True},
    ]
    series = [
        {
            "attribute_path": "loss",
            "attribute_type": "float_series",
            "step": Decimal(at) / 4,
            "timestamp": NOW,
            "float_value": float("nan") if at == 3 else 1 / (at + 1),
        }
        for at in range(40)
    ]
    others = [
        {"attribute_path": "said", "attribute_type": "string_series", "step": Decimal(1), "timestamp": NOW, "string_value": "hi"},
        {
            "attribute_path": "weights",
            "attribute_type": "histogram_series",
            "step": Decimal("2.5"),
            "timestamp": NOW,
            "histogram_value": {"type": "COUNTING", "edges": [0.0, 1.0, 2.0], "values": [3.0, 4.0]},
        },
        {"attribute_path": "model", "attribute_type": "file", "file_value": {"path": "RUN-1/model.pt"}},
    ]  # fmt: skip
    for number, part in enumerate((rows + series[:25], series[25:] + others)):
        table = pa.Table.from_pylist([{**base, **row} for row in part], SCHEMA)
        pq.write_table(table, folder / f"RUN-1_part_{number}.parquet", compression="snappy")
    return folder


def test_neptune_comes_over_without_loss(tmp_path: Path) -> None:
    """Every attribute type: decimal steps are not rounded, and no point is left out."""
    (run,) = opened(export(tmp_path / "exports" / "proj"), tmp_path / "cache")
    loss = run.series("loss")
    assert loss.steps.tolist() == [at / 4 for at in range(40)]
    assert [repr(value) for value in loss.values.tolist()] == [
        repr(float("nan") if at == 3 else 1 / (at + 1)) for at in range(40)
    ]
    assert loss.times.astype("int64").tolist() == [int(NOW.timestamp() * 1000) * 10**6] * 40
    assert (run.project, run.name, run.tags) == ("proj", "first", ("a", "b"))
    assert run.config == {"params/lr": 0.1, "params/layers": 12, "params/on": True}
    assert run.environment["source"]["sys/forking/parent"] == "RUN-0"
    (text,) = run.records("text")
    assert isinstance(text, records.TextRecord) and (text.text, text.step) == ("hi", 1)
    (histogram,) = run.records("histogram")
    assert isinstance(histogram, records.HistogramRecord)
    assert (histogram.edges, histogram.counts, histogram.step) == ([0.0, 1.0, 2.0], [3.0, 4.0], 2.5)
    assert [row["path"] for row in run.table("artifacts")] == ["RUN-1/model.pt"]
    assert lost(run) == {}


def test_any_table_with_a_step(tmp_path: Path) -> None:
    """Numbers, missing ones and texts."""
    path = tmp_path / "curve.parquet"
    pq.write_table(pa.table({"step": [1, 2], "loss": [0.5, None], "note": [None, "x"]}), path)
    (run,) = opened(path, tmp_path / "cache")
    assert values(run) == {"loss": [(1, 0.5)]}
    assert [text.text for text in run.records("text")] == ["x"]  # type: ignore[union-attr]


def test_a_damaged_part_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    """Cut or flipped, a file gives what can be read of it; values that were not there never appear."""
    folder = export(tmp_path / "proj")
    whole = values(opened(folder, tmp_path / "cache")[0])
    for copy in foreign_stores.cuts(folder, "RUN-1_part_1.parquet", tmp_path, 6):
        (run,) = opened(copy, tmp_path / "cache")
        foreign_stores.assert_part_of(values(run), whole)
        assert len(run.series("loss")) >= 25


def test_parts_of_our_own_runs_are_left_alone(tmp_path: Path) -> None:
    """They are Parquet with a step, too."""
    pq.write_table(pa.table({"name": ["a"], "step": [1], "seq": [1], "value": [0.5]}), tmp_path / "r.points.parquet")
    assert opened(tmp_path, tmp_path.parent / f"{tmp_path.name}-cache") == []
