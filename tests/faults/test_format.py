"""The format page: its examples are real lines, its query runs, and its reader reads."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
from pathlib import Path

import duckdb
import pytest

import chiplog
from chiplog.core import records
from chiplog.store import layout
from chiplog.store.parts import compaction
from tests.support.waiting import wait_for

from . import reference

PAGE = (Path(__file__).parents[2] / "docs" / "format.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with a torn line, a lost newline and every odd number."""
    made = chiplog.init(project="faults", sinks="none", dir=tmp_path / "runs", alerts=False)
    for step in range(20):
        made.log({"train/loss": 1 / (step + 1), "n": step}, step=step)
    made.log(
        {"train/loss": float("nan"), "up": float("inf"), "down": float("-inf"), "yes": True, "ü\n": -0.0},
        step=20,
    )
    made.event("gpu", id=0, power=350.5)
    made.finish()
    return made.dir


def damage(run: Path) -> None:
    [segment] = (run / "journal").glob("*.jsonl")
    lines = segment.read_bytes().splitlines(keepends=True)
    lines[5] = lines[5][:30]  # torn, with the next record right behind it
    lines[9] = lines[9].replace(b'"n":', b'"m":')  # does not match its CRC
    segment.write_bytes(b"".join(lines))


def test_every_example_is_a_line_the_library_reads() -> None:
    """The examples are real: their CRCs are right, and between them they show every kind."""
    lines = [line for block in blocks("json") for line in block.splitlines()]
    found = [reference.check(line.encode()) for line in lines]
    assert all(found)
    assert {record["log"] for record in found if record} == set(records.KINDS)
    assert not [line for line in lines if isinstance(records.decode(line.encode()), records.Unknown)]


def test_the_rule_for_series_is_as_written() -> None:
    """The examples of the page give the series that the page says they give."""
    found = [records.decode(line.encode()) for block in blocks("json") for line in block.splitlines()]
    names = {name for record in found for name, _ in records.points(record)}
    assert names == {
        "loss", "train/loss", "train/tokens", "train/grad_norm", "big", "ok", "eval/loss", "eval/tokens", "gpu/0/power",
        "gpu/0/memory/used", "allocator/weights/device", "allocator/cache/device", "dataset/train/files",
    }  # fmt: skip


def test_every_field_of_every_kind_is_on_the_page() -> None:
    """A field that is written is a field that is described."""
    for kind in records.KINDS.values():
        for field in kind.__struct_fields__:
            assert f"`{field}`" in PAGE or f'"{field}":' in PAGE, f"{kind.__name__}.{field}"


def test_the_columns_of_parts_are_on_the_page(run: Path) -> None:
    """The table of columns names all of them."""
    import pyarrow.parquet as pq

    [segment] = layout.segments(run)
    compaction.compact(run, segment)
    for path in (run / "parts").iterdir():
        kind = path.name.split(".")[1]
        [row] = [line for line in PAGE.splitlines() if line.startswith(f"| `.{kind}.parquet`")]
        assert all(f"`{column}`" in row for column in pq.read_schema(path).names)
        about = json.loads(pq.read_schema(path).metadata[b"chiplog"])
        assert all(f"`{field}`" in PAGE for field in about), about


def test_the_reader_on_the_page_reads_a_damaged_run(run: Path, tmp_path: Path) -> None:
    """The 40 lines of JavaScript find what the reference reader finds, beside the damage too."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    damage(run)
    [code] = blocks("javascript")
    assert len(code.splitlines()) <= 50
    (tmp_path / "reader.js").write_text(code, encoding="utf-8")
    words = [node, str(tmp_path / "reader.js"), str(run)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=30)
    spoken = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
    found = []
    for line in done.stdout.splitlines():
        _, seq, step, name, value = line.split("\t")
        found.append((int(seq), float(step), json.loads(name), spoken[value] if value in spoken else float(value)))
    expected = [
        (row["seq"], row["step"], name, float(reference.number(value)))
        for row in reference.records(run, "step")
        for name, value in row["metrics"].items()
    ]
    assert len(found) > 30
    assert repr(found) == repr([(seq, float(step), name, value + 0.0) for seq, step, name, value in expected])
    assert done.stderr.count("damage") == 2


def test_the_query_on_the_page_runs_over_many_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One glob over all finished runs opens in DuckDB, however short they are, and if some steps are not integers."""
    monkeypatch.chdir(tmp_path)
    for n in range(3):
        with chiplog.init(project=f"project-{n % 2}", id=f"run-{n}", sinks="none", compact=True) as made:
            for step in range(10):
                made.log({"train/loss": 10.0 * n + step}, step=step / 2 if n == 2 else step)
    wait_for(lambda: len(list(tmp_path.glob("runs/*/*/parts/*.points.parquet"))) == 3, 60)
    [query] = blocks("sql")
    assert duckdb.sql(query).fetchall() == [(f"run-{n}", "train/loss", 10, 10.0 * n, 10.0 * n + 9) for n in range(3)]


def test_the_reference_reader_agrees_on_a_damaged_run(run: Path) -> None:
    """The page alone is enough to write a reader that finds the same records and the same damage as the library."""
    damage(run)
    stored = chiplog.read(run)
    assert [record.seq for record in stored.records()] == [record["seq"] for record in reference.records(run)]
    assert [(one.start, one.end) for one in stored.damage] == reference.damage(run)
    assert len(stored.damage) == 2


def test_the_page_says_nothing_the_library_does_not_keep(tmp_path: Path) -> None:
    """Layout, names and rights on disk are those on the page."""
    with chiplog.init(project="faults", id="run", sinks="csv", dir=tmp_path) as made:
        made.log({"x": 1}, step=0)
        assert (made.dir / "journal" / "r00000.reserve").stat().st_size == 16 << 10
    assert (made.dir / "journal" / "r00000-a01-0000.jsonl").exists()
    assert not (made.dir / "journal" / "r00000.reserve").exists()
    cursor = json.loads((made.dir / "cursors" / "csv.json").read_bytes())
    size = (made.dir / "journal" / "r00000-a01-0000.jsonl").stat().st_size
    assert cursor["positions"] == {"r00000-a01": [0, size, -1]}
    assert set(cursor) == {"positions", "state", "crc"}
