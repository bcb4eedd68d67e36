"""Anything at all as a key, as a value and as a step."""

from __future__ import annotations

import datetime
import math
import struct
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import chiplog
from chiplog.core import run as doors
from chiplog.core.run import Run
from chiplog.store import layout, parts

from . import reference
from .harness import PATIENCE, count, wait_for

pytestmark = pytest.mark.timeout(PATIENCE)


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
    st.floats(),
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
    """Whatever is logged under whatever name at whatever step, nothing is raised, even in strict mode."""
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


@settings(max_examples=count(30, 300), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    values=st.lists(numbers, min_size=1, max_size=60),
    steps=st.lists(st.integers(-(2**40), 2**40), min_size=60, max_size=60),
)
def test_numbers_are_read_back_exactly_through_parquet(
    tmp_path_factory: pytest.TempPathFactory, values: list[Any], steps: list[int]
) -> None:
    """The same through parts: what the series gives is what was logged, in the order it was logged."""
    run = chiplog.init(project="faults", sinks="none", dir=tmp_path_factory.mktemp("parquet"), alerts=False)
    for value, step in zip(values, steps, strict=False):
        run.log({"v": value, "w": 1}, step=step)
    run.finish()
    before = chiplog.read(run.dir).series("v").exact
    for segment in layout.segments(run.dir):
        assert parts.compact(run.dir, segment)
    after = chiplog.read(run.dir).series("v")
    for found in (before, after.exact):
        assert len(found) == len(values)
        for one, value in zip(found, values, strict=True):
            assert one == value or (one != one and value != value)
            assert isinstance(one, bool) == isinstance(value, bool)
            assert not isinstance(value, float) or same(float(one), value)
    assert after.steps.tolist() == steps[: len(values)]


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


def test_a_long_text_is_cut_and_marked(run: Run) -> None:
    """A text of 12 MB is kept to its first MiB, and says how much was cut."""
    run.log({"long": "x" * 12_000_000, "good": 1.0}, step=0)
    wait_for(lambda: reference.records(run.dir, "text"))
    longest = max((record["text"] for record in reference.records(run.dir, "text")), key=len)
    assert len(longest) < 1_100_000
    assert "characters cut" in longest


def test_a_hundred_thousand_names_in_one_row(tmp_path: Path) -> None:
    """A row of 100,000 numbers may become several records of one step, and all of them are there."""
    with chiplog.init(project="faults", sinks="none", dir=tmp_path, compact=False) as run:
        run.log({f"layer/{n}": n for n in range(100_000)}, step=0)
    assert len(chiplog.read(run.dir).names()) == 100_000
    rows = reference.records(run.dir, "step")
    assert {name: value for row in rows for name, value in row["metrics"].items()} == {
        f"layer/{n}": n for n in range(100_000)
    }
    assert {row["step"] for row in rows} == {0}
