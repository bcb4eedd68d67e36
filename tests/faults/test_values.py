"""Anything at all as a key, as a value and as a step."""

from __future__ import annotations

import csv
import datetime
import io
import json
import math
import re
import shutil
import struct
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import chiplog
from chiplog.core import run as doors
from chiplog.core.run import Run
from chiplog.store import layout
from chiplog.store.parts import compaction
from chiplog.views.export import tables

from . import reference
from .harness import PATIENCE, count, trainer

pytestmark = pytest.mark.timeout(5 * PATIENCE)  # a thousand examples on a machine with other things to do


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """One strict run for many examples: whatever goes wrong inside raises here."""
    made = chiplog.init(
        project="faults",
        sinks="none",
        dir=tmp_path_factory.mktemp("values"),
        strict=True,
        alerts=False,
        compact=False,
    )
    doors.current = None  # so that it outlives a single test
    yield made
    made.finish()


class RaisingFloat:
    def __float__(self) -> float:
        raise ZeroDivisionError("no float today")


class RaisingRepr:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


class RaisingLen:
    @property
    def shape(self) -> Any:
        raise ZeroDivisionError

    def __len__(self) -> int:
        raise ValueError("no length")


class RaisingEverything:
    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name) if name.startswith("__") else OSError(name)


class RaisingItem:
    dtype, shape = "float", ()

    def item(self) -> float:
        raise RuntimeError("it is gone")


class OwnFloat(float):
    def __repr__(self) -> str:
        raise RuntimeError("no words")


class RaisingItems(Mapping[str, float]):
    def __getitem__(self, key: str) -> float:
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("no keys")

    def __len__(self) -> int:
        return 3


def cyclic() -> dict[str, Any]:
    made: dict[str, Any] = {"x": 1.0}
    made["again"] = made
    return made


def cyclic_list() -> list[Any]:
    made: list[Any] = [1]
    made.append(made)
    return made


def object_array() -> Any:
    made = np.empty((), dtype=object)
    made[()] = made
    return made


FOREIGN = [
    RaisingFloat(), RaisingRepr(), RaisingLen(), RaisingEverything(), RaisingItem(), OwnFloat(0.5), RaisingItems(),
    cyclic(), cyclic_list(), object_array(), None, b"bytes", bytearray(b"x"), memoryview(b"x"), "text", "", 1j, ...,
    type, len,
    Decimal("0.1"), Decimal("sNaN"), Decimal("1e999"), Fraction(1, 3), Fraction(10**400), datetime.datetime.now(),
    datetime.timedelta(1), object(), lambda: None, range(3), {1, 2}, (), [], {}, [[1, 2], [3]], OrderedDict(a=1),
    np.float32(0.1), np.float16(0.1), np.longdouble("0.1"), np.int8(-3), np.uint64(2**64 - 1), np.bool_(True),
    np.array(0.5),
    np.array([0.5]), np.array([[[2]]]), np.zeros((1000, 1000)), np.array([object()], dtype=object), np.array("text"),
    np.datetime64("now"), np.array([], dtype=float), np.complex128(1j), np.ma.masked,
    torch.tensor(0.1), torch.tensor(0.1, dtype=torch.bfloat16), torch.tensor(3), torch.tensor(True), torch.zeros(3, 3),
    torch.zeros((), device="meta"), torch.zeros(2, device="meta"), torch.tensor(0.5, requires_grad=True),
    torch.tensor(1j), torch.zeros(0), torch.nn.Linear(1, 1), 10**5000, -(10**5000),
]  # fmt: skip


class Foreign(NamedTuple):
    """Stands for one of the values above while hypothesis looks at it and prints it."""

    index: int


def real(value: Any) -> Any:
    """A drawn value with the foreign ones in their places."""
    if isinstance(value, Foreign):
        return FOREIGN[value.index]
    if isinstance(value, dict):
        return {key: real(item) for key, item in value.items()}
    return [real(item) for item in value] if isinstance(value, list) else value


numbers = st.one_of(st.floats(), st.integers(-(2**200), 2**200), st.booleans())
keys = st.one_of(
    st.text(),
    st.text(st.characters(codec=None)),  # lone surrogates too
    st.sampled_from(
        [
            "",
            "\0",
            "__proto__",
            "../../x",
            "a\nb",
            "k" * 5000,
            "\ud800",
            "nan",
            "null",
            '"',
            "eval/",
            "/",
            "step",
            "crc",
        ]
    ),
)
odd_keys = st.one_of(keys, st.integers(), st.floats(), st.booleans(), st.none(), st.binary(), st.tuples(st.integers()))
anything = st.one_of(
    numbers,
    st.builds(Foreign, st.sampled_from(range(len(FOREIGN)))),
    st.text(),
    st.binary(),
    st.decimals(),
    st.fractions(),
    st.complex_numbers(),
)
nested = st.recursive(
    anything,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(odd_keys, inner, max_size=3)),
    max_leaves=8,
)
steps = st.one_of(
    st.none(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([np.int64(3), np.float32(0.5), True, Decimal(2)]),
)

quick = settings(max_examples=count(1000, 20_000), deadline=None, suppress_health_check=list(HealthCheck))


def last_step(run: Run) -> dict[str, Any]:
    """The newest step record, by the reference reader."""
    [path] = (run.dir / "journal").glob("*.jsonl")
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - (1 << 16)))
        lines = file.read().splitlines()
    rows = [record for line in lines[-4:] if (record := reference.check(line)) is not None and record["log"] == "step"]
    return max(rows, key=lambda row: int(row["seq"]))


def same(one: Any, other: Any) -> bool:
    """Equal to the last bit, and of the same kind."""
    if isinstance(one, float) and isinstance(other, float):
        return struct.pack("<d", one) == struct.pack("<d", other) or (math.isnan(one) and math.isnan(other))
    return type(one) is type(other) and bool(one == other)


@quick
@given(metrics=st.dictionaries(odd_keys, nested, max_size=5), step=steps)
def test_log_never_raises(run: Run, metrics: dict[Any, Any], step: Any) -> None:
    """Whatever is logged under whatever name at whatever finite step, nothing is raised, even in strict mode."""
    run.log(real(metrics), step=step)


@quick
@given(data=nested, name=keys)
def test_events_tables_and_configs_never_raise(run: Run, data: Any, name: str) -> None:
    """The same for everything else that takes values."""
    data = real(data)
    run.event(name, value=data)
    run.table(name, [{"value": data}])
    run.eval({name: data})
    run.config["value"] = data


@quick
@given(row=st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=40), numbers, min_size=1, max_size=5))
def test_numbers_are_read_back_bit_for_bit(run: Run, row: dict[str, Any]) -> None:
    """Floats, integers of any size and booleans come out of the journal exactly as they went in."""
    run.log(row, step=0)
    found = {name: reference.number(value) for name, value in last_step(run)["metrics"].items()}
    assert found.keys() == row.keys()
    assert all(same(found[name], value) for name, value in row.items())


def drawn(strategy: st.SearchStrategy[Any]) -> list[Any]:
    """As many examples as a property has, all together: they share a run, so that they can go through every sink."""
    found: list[Any] = []

    @quick
    @given(example=strategy)
    def collect(example: Any) -> None:
        found.append(example)

    collect()
    assert len(found) >= count(1000, 20_000)
    return found


def escaped(name: str) -> str:
    """What no UTF-8 can hold, with a backslash: as the format says."""
    return name.encode("utf-8", "backslashreplace").decode()


def in_csv(name: str) -> str:
    return f"'{name}" if name.startswith(("=", "+", "-", "@", "\t", "\r")) else name


def from_csv(cell: str) -> Any:
    if cell in ("true", "false"):
        return cell == "true"
    return int(cell) if re.fullmatch("-?[0-9]+", cell) else float(cell)


def csv_rows(path: Path) -> tuple[list[str], list[list[str]]]:
    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert all(len(row) == len(header) for row in rows)
    return header, rows


def alike(one: Any, other: Any) -> bool:
    """The same number to the last bit; a whole number may come as a double where that is exactly it."""
    if type(one) is type(other):
        return same(one, other)
    signs = one != 0 or math.copysign(1, one) == math.copysign(1, other)
    return bool not in (type(one), type(other)) and bool(one == other) and signs


ROWS = 500  # to a run


def test_numbers_are_the_same_in_every_format(tmp_path: Path) -> None:
    """Any names and any numbers: journal, JSON Lines, JSON, CSV, parts and both exports say the same to the last bit."""
    rows = drawn(st.dictionaries(keys, numbers, min_size=1, max_size=4))
    for at in range(0, len(rows), ROWS):
        some = [{escaped(name): value for name, value in row.items()} for row in rows[at : at + ROWS]]
        with chiplog.init("faults", sinks="csv,json,jsonl", dir=tmp_path, alerts=False, compact=False) as run:
            for step, row in enumerate(rows[at : at + ROWS]):
                run.log(row, step=step)
            assert run.finish(timeout=100)
        check_json(run.dir, some)
        check_csv(run.dir, some)
        check_exports(chiplog.read(run.dir), some, tmp_path)
        [segment] = layout.segments(run.dir)
        assert compaction.compact(run.dir, segment)
        check_points(pq.read_table(run.dir / "parts" / f"{segment.stem}.points.parquet"), some)
        shutil.rmtree(run.dir)


def check_json(run: Path, rows: list[dict[str, Any]]) -> None:
    lines = [json.loads(line) for line in (run / "files" / "metrics.jsonl").read_bytes().splitlines()]
    assert lines == json.loads((run / "files" / "metrics.json").read_bytes())
    lines.sort(key=lambda line: int(line["seq"]))  # files have the order of arrival
    assert lines == [{k: v for k, v in record.items() if k != "crc"} for record in reference.records(run)]
    found = [line["metrics"] for line in lines if line["log"] == "step"]
    for row, metrics in zip(rows, found, strict=True):
        assert row.keys() == metrics.keys()
        assert all(same(reference.number(metrics[name]), value) for name, value in row.items())


def beside(leads: Sequence[str], row: Mapping[str, Any], step: int) -> dict[str, Any]:
    """A row by columns: a metric called as one that every row has is `step/value`, or left out where it is the step."""
    return {
        f"{name}/value" if name in leads else name: value
        for name, value in row.items()
        if name != "step" or value != step or "time" not in leads
    }


def check_csv(run: Path, rows: list[dict[str, Any]]) -> None:
    header, found = csv_rows(run / "files" / "metrics.csv")
    rows = [beside(("step", "time"), row, step) for step, row in enumerate(rows)]
    names = list(dict.fromkeys(name for row in rows for name in row))
    assert header == ["step", "time", *map(in_csv, names)]
    for step, (row, cells) in enumerate(zip(rows, found, strict=True)):
        assert cells[0] == str(step)
        values = {name: from_csv(cell) for name, cell in zip(names, cells[2:], strict=True) if cell}
        assert values.keys() == row.keys()
        assert all(same(values[name], value) for name, value in row.items())


def check_exports(stored: Any, rows: list[dict[str, Any]], folder: Path) -> None:
    tables.to_parquet(stored, folder / "export.parquet")
    check_points(pq.read_table(folder / "export.parquet"), rows)
    with (folder / "export.csv").open("wb") as file:
        tables.to_csv(stored, file)
    header, found = csv_rows(folder / "export.csv")
    names = sorted({name for row in rows for name in row})
    rows = [beside(("step",), row, step) for step, row in enumerate(rows)]
    names = ["step/value" if name == "step" else name for name in names]
    assert header == ["step", *map(in_csv, names)]
    for row, cells in zip(rows, found, strict=True):
        values = {name: from_csv(cell) for name, cell in zip(names, cells[1:], strict=True) if cell}
        assert values.keys() == row.keys()
        assert all(alike(values[name], value) for name, value in row.items())


def check_points(table: Any, rows: list[dict[str, Any]]) -> None:
    """The columns of a Parquet file, as the format says to read them."""
    found: list[dict[str, Any]] = [{} for _ in rows]
    columns = (table[column].to_pylist() for column in ("name", "step", "value", "exact"))
    for name, step, value, exact in zip(*columns, strict=True):
        found[step][name] = value if exact is None else from_csv(exact)
    for row, values in zip(rows, found, strict=True):
        assert row.keys() == values.keys()
        assert all(alike(values[name], value) for name, value in row.items())


def test_foreign_values_break_no_format(tmp_path: Path) -> None:
    """Whatever is logged, as metric, event and table: every file can be read, and says what the journal says."""
    things = drawn(st.tuples(st.dictionaries(odd_keys, nested, max_size=4), steps, keys))
    for at in range(0, len(things), ROWS):
        run = chiplog.init("faults", sinks="csv,json,jsonl", dir=tmp_path, alerts=False, compact=False)
        for row, step, name in things[at : at + ROWS]:
            run.log(real(row), step=step)
            run.event(name, value=real(row))
            run.table("table", [real(row)], step=step)
        assert run.finish(timeout=100), run.health()
        lines = [json.loads(line) for line in (run.dir / "files" / "metrics.jsonl").read_bytes().splitlines()]
        assert lines == json.loads((run.dir / "files" / "metrics.json").read_bytes())
        written = sorted(reference.records(run.dir), key=lambda record: int(record["seq"]))
        assert sorted(lines, key=lambda line: int(line["seq"])) == [
            {key: value for key, value in record.items() if key != "crc"} for record in written
        ]
        for name in ("metrics.csv", "table.csv"):
            assert csv_rows(run.dir / "files" / name)[1]
        stored = chiplog.read(run.dir)
        before = stored.to_arrow()
        tables.to_csv(stored, io.BytesIO())
        [segment] = layout.segments(run.dir)
        assert compaction.compact(run.dir, segment)
        after = chiplog.read(run.dir).to_arrow()
        by = [("name", "ascending"), ("time", "ascending")]
        columns = ["name", "step", "time", "exact", "rank", "attempt"]
        old, new = (repr(table.sort_by(by).select(columns).to_pylist()) for table in (before, after))  # NaN is NaN
        assert old == new
        old, new = (table.sort_by(by)["value"].to_numpy().tobytes() for table in (before, after))
        assert old == new
        shutil.rmtree(run.dir)


@pytest.mark.parametrize("index", range(len(FOREIGN)))
def test_a_bad_value_does_not_cost_the_row(run: Run, index: int) -> None:
    """Beside any foreign value the good number of the row is kept, and the foreign one is a number, text, or said."""
    run.log({"bad": FOREIGN[index], "good": 0.25 + index}, step=index)
    assert last_step(run)["metrics"]["good"] == 0.25 + index


def test_numbers_of_other_libraries_are_exact(run: Run) -> None:
    """numpy, torch, Decimal and Fraction scalars are the numbers they are."""
    expected = {
        "f32": (np.float32(0.1), float(np.float32(0.1))),
        "u64": (np.uint64(2**64 - 1), 2**64 - 1),
        "bool": (np.bool_(True), True),
        "bf16": (torch.tensor(0.1, dtype=torch.bfloat16), 0.10009765625),
        "i64": (torch.tensor(2**62 + 1), 2**62 + 1),
        "one": (np.array([[7]]), 7),
        "decimal": (Decimal("0.1"), 0.1),
        "fraction": (Fraction(1, 3), 1 / 3),
        "grad": (torch.tensor(0.5, requires_grad=True), 0.5),
    }
    run.log({name: value for name, (value, _) in expected.items()}, step=0)
    found = last_step(run)["metrics"]
    assert all(same(found[name], value) for name, (_, value) in expected.items()), found


@pytest.mark.parametrize("value", [Decimal("1e999"), Decimal("-1e999"), Fraction(10**400)])
def test_a_finite_number_is_never_an_infinity(run: Run, value: Any) -> None:
    """A number too large for a double is kept as text, not as a wrong number."""
    row = run.log({"huge": value, "good": 1.0}, step=0)
    assert not math.isinf(row.get("huge", 0.0))


def test_a_mapping_with_many_ways_round_ends(run: Run) -> None:
    """Mappings that hold themselves twice, or each other many times over, are logged in a moment."""
    twice: dict[str, Any] = {"x": 1.0}
    twice["left"] = twice["right"] = twice
    laughs: dict[str, Any] = {"x": 1.0}
    for _ in range(60):
        laughs = {"a": laughs, "b": laughs}
    circle: list[Any] = [1]
    circle += [circle, circle]

    def log() -> None:
        run.log({"good": 1.0, **twice}, step=0)
        run.log({"good": 2.0, "deep": laughs}, step=0)
        run.event("circle", a=circle, b=twice, c=laughs)

    worker = threading.Thread(target=log, daemon=True)
    worker.start()
    worker.join(10)
    assert not worker.is_alive()
    assert 2.0 in [row["metrics"].get("good") for row in reference.records(run.dir, "step")]


@pytest.mark.parametrize(
    "step", [float("nan"), float("inf"), -1, 2**70, 0.5, True, np.int32(7), torch.tensor(7), Decimal("1.5")]
)
def test_no_step_costs_the_row(tmp_path: Path, step: Any) -> None:
    """Steps are data: negative, fractional, huge or not even a number, the row is in its series."""
    with chiplog.init(project="faults", sinks="none", dir=tmp_path) as run:
        run.log({"v": 1.0}, step=step)
    assert chiplog.read(run.dir).series("v").exact == [1.0]


@pytest.mark.parametrize(
    "key", ["", "\0", "__proto__", "../../x", "a\nb", "k" * 5000, "\ud800", 7, None, b"x", (1, 2), 0.5, True]
)
def test_any_key_is_the_name_of_a_series(tmp_path: Path, key: Any) -> None:
    """Any key is accepted, escaped where it must be, found again, and never a path."""
    before = {path.name for path in tmp_path.rglob("*")}
    with chiplog.init(project="faults", id="keys", sinks="csv,jsonl", dir=tmp_path) as run:
        assert run.log({key: 1.0, "other": 2.0}, step=0)
    stored = chiplog.read(run.dir)
    [name] = [name for name in stored.names() if name != "other"]
    assert stored.series(name).exact == [1.0]
    if isinstance(key, str) and key != "\ud800":
        assert name == key
    made = {path.name for path in tmp_path.rglob("*")} - before
    assert not [one for one in made if "proto" in one or "kkk" in one or one == "x"]


def test_two_keys_with_the_same_name_do_not_cost_the_row(tmp_path: Path) -> None:
    """The number 1 and the text "1" name the same series: the row is kept, and the last value is in it."""
    with chiplog.init(project="faults", sinks="none", dir=tmp_path) as run:
        run.log({1: 2.0, "1": 3.0}, step=0)
    assert chiplog.read(run.dir).series("1").exact in ([2.0, 3.0], [3.0])


def test_a_long_text_is_cut_and_marked(tmp_path: Path) -> None:
    """A text of 12 MB (full size: 100 MB), wherever it is given, is kept to its first MiB and says how much was cut."""
    long = "x" * count(12_000_000, 100_000_000)
    with chiplog.init("faults", sinks="csv,json,jsonl", dir=tmp_path, config={"long": long}) as run:
        began = time.process_time()
        run.log({"long": long, "good": 1.0, "media": chiplog.Text(long), long: 2.0}, step=0)
        run.event("event", long=long, inside=[{"long": long}])
        run.table("table", [{"long": long}])
        run.alert("alert", text=long)
        run.alert(long)
        assert time.process_time() - began < 5
    for record in reference.records(run.dir):
        assert len(json.dumps(record)) < 3_000_000
    texts = [record["text"] for record in reference.records(run.dir, "text")]
    assert len(texts) == 2
    assert all(len(text) < 1_100_000 and "characters cut" in text for text in texts)
    assert sorted(map(len, chiplog.read(run.dir).names()))[-1] < 70_000
    assert reference.series(run.dir, "good") == [1.0]
    assert sum(path.stat().st_size for path in run.dir.rglob("*")) < 60_000_000


MANY = """
names = int(sys.argv[3])
rows = int(sys.argv[4])
run = init(compact=False)
began = time.process_time()
if rows == 0:
    for n in range(names):
        run.log({f"layer/{n}": n + 0.5}, step=0)
for step in range(rows):
    run.log({f"layer/{n}": n + step / 2 for n in range(names)}, step=step)
run.finish()
with open("/proc/self/status") as status:  # what getrusage says includes the process that started this one
    [used] = [int(line.split()[1]) >> 10 for line in status if line.startswith("VmHWM")]
print("figures", time.process_time() - began, used, file=sys.stderr)
"""


def logged_many(folder: Path, names: int, rows: int) -> tuple[Path, float, int]:
    """A trainer that logs many names: where, how many seconds of its processor it took, and its MiB of memory."""
    with trainer(folder, MANY, str(names), str(rows)) as many:
        assert many.wait(PATIENCE) == 0, many.said
        [figures] = [line for line in many.said.splitlines() if line.startswith("figures")]
        print(figures)
        return many.run, float(figures.split()[1]), int(figures.split()[2])


@pytest.mark.parametrize("rows", [0, 1])
def test_a_hundred_thousand_names(tmp_path: Path, rows: int) -> None:
    """100,000 distinct names, a call each or all in one row: in 10 s and 300 MiB, and all of them are read again."""
    run, seconds, mebibytes = logged_many(tmp_path, 100_000, rows)
    assert seconds < 10 and mebibytes < 300
    found = reference.records(run, "step")
    half = 0 if rows else 0.5
    expected = {f"layer/{n}": n + half for n in range(100_000)}
    assert {name: value for row in found for name, value in row["metrics"].items()} == expected
    assert {row["step"] for row in found} == {0}
    stored = chiplog.read(run)
    assert stored.names() == list(expected)
    assert stored.summary == expected


def test_a_thousand_names_at_every_step(tmp_path: Path) -> None:
    """1,000 names for 1,000 steps (full size: 10,000, ten million points): every point is there, compacted too."""
    steps = count(1000, 10_000)
    run, _, mebibytes = logged_many(tmp_path, 1000, steps)
    assert mebibytes < 300
    stored = chiplog.read(run)
    assert len(stored.names()) == 1000
    for n in range(1000):
        series = stored.series(f"layer/{n}")
        assert np.array_equal(series.values, n + np.arange(steps) / 2)
        assert np.array_equal(series.steps, np.arange(steps))
    seen = 0
    for segment in layout.segments(run):
        assert compaction.compact(run, segment)
        table = pq.read_table(run / "parts" / f"{segment.stem}.points.parquet")
        names = np.array([int(name.rpartition("/")[2]) for name in table["name"].to_pylist()])
        assert np.array_equal(table["value"].to_numpy(), names + table["step"].to_numpy() / 2)
        seen += len(table)
    assert seen == 1000 * steps
    assert len(chiplog.read(run).series("layer/999")) == steps
