"""Items of W&B's records, as its own messages encode them."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import pytest
from wandb.proto.wandb_internal_pb2 import HistoryItem, HistoryRecord

from chiplog.core.records import Plain
from chiplog.store.foreign.formats.wandb.items import items, nested, numbers, odd, path_of, raw_items
from chiplog.store.protobuf.reader import BadMessage


def row(**values: object) -> HistoryRecord:
    return HistoryRecord(item=[HistoryItem(key=key, value_json=json.dumps(value)) for key, value in values.items()])


def read(record: HistoryRecord) -> dict[tuple[str, ...], Plain]:
    return items(record.SerializeToString())


@pytest.mark.parametrize("seed", range(10))
def test_items_are_those_of_wandbs_messages(seed: int) -> None:
    """Keys and values of any length, where the numbers of bytes that hold it change; nested keys; nothing at all."""
    chance, record = random.Random(seed), HistoryRecord()
    expected: dict[tuple[str, ...], Any] = {}
    for number in range(30):
        length = chance.choice([0, 1, 100, 120, 124, 125, 126, 127, 128, 300, 16_383, 20_000])
        value = chance.choice([1, -2.5, True, None, "x" * length, ["ü" * length], {"a": length}])
        if chance.random() < 0.2:
            path = (f"outer{number}", "größe" * chance.randrange(40))
            record.item.append(HistoryItem(nested_key=path, value_json=json.dumps(value)))
        else:
            path = (f"{number}" + "k" * chance.choice([0, 1, 120, 125, 126, 127, 128, 300]),)
            record.item.append(HistoryItem(key=path[0], value_json=json.dumps(value, ensure_ascii=False)))
        expected[path] = value
    if seed % 2:
        record.step.num = 7  # another field behind the items
    parsed = HistoryRecord.FromString(record.SerializeToString())
    assert len(parsed.item) == 30
    assert read(record) == expected


def test_a_row_of_numbers_is_read_at_once() -> None:
    """Integers stay exact; anything that is not a finite number leaves the row to be read item by item."""
    record = row(loss=0.5, count=2**60 + 1, on=True, _step=3)
    data = record.SerializeToString()
    assert numbers(raw_items(data)) == {"loss": 0.5, "count": 2**60 + 1, "on": True, "_step": 3}
    for value in ("text", None, [1], {"a": 1}, math.nan, math.inf):
        odd_one = row(loss=0.5, other=value)
        assert numbers(raw_items(odd_one.SerializeToString())) is None
        assert repr(read(odd_one)) == repr({("loss",): 0.5, ("other",): value})
    assert numbers([]) == {}


@pytest.mark.parametrize("text", ["1,2", "1]", "[1", '1"', "\\", "[" * 100_000])
def test_a_value_that_is_not_json_is_text(text: str) -> None:
    """It never becomes the value of its neighbour."""
    record = row(before=1, after=2)
    record.item.insert(1, HistoryItem(key="bad", value_json=text))
    data = record.SerializeToString()
    assert numbers(raw_items(data)) is None
    assert read(record) == {("before",): 1, ("bad",): text, ("after",): 2}


def test_the_paths_of_items_are_mappings() -> None:
    """A number in the way of a path gives place to the mapping that comes later."""
    record = HistoryRecord(
        item=[HistoryItem(nested_key=("a", "b"), value_json="1"), HistoryItem(key="c", value_json="2")]
    )
    record.item.append(HistoryItem(nested_key=("c", "d"), value_json="3"))
    assert nested(read(record)) == {"a": {"b": 1}, "c": {"d": 3}}
    assert nested({}) == {}


def test_typed_values_are_read() -> None:
    """Of newer versions: a boolean, an integer, a double, text and JSON by the numbers of their fields."""
    key = b"\x0a\x01k"
    for field, value in (
        (b"\x20\x01", True),
        (b"\x28" + b"\xff" * 9 + b"\x01", -1),
        (b"\x31" + b"\x00" * 6 + b"\xf8\x3f", 1.5),
        (b"\x3a\x02hi", "hi"),
        (b"\x42\x03[1]", [1]),
        (b"\x82\x01\x04null", None),
    ):
        assert odd(key + field) == (("k",), value)
    assert odd(b"\x12\x01a\x12\x01b\x3a\x01x") == (("a", "b"), "x")
    assert odd(b"\x3a\x01x") == ((), "x") and items(b"\x0a\x03\x3a\x01x") == {}


def test_names_that_are_not_utf_8_are_kept_apart() -> None:
    """By the bytes that make them differ."""
    assert path_of(b"\x0a\x02a\xff") == ("a\\xff",) != path_of(b"\x0a\x02a\xfe")


def test_a_message_that_is_cut_never_has_a_wrong_number() -> None:
    """It has the items before the cut, or it is refused."""
    data = row(loss=0.5, count=2**60, text="x" * 200, last=7).SerializeToString()
    whole = items(data)
    for at in range(len(data)):
        try:
            some = items(data[:at])
        except (BadMessage, IndexError):
            continue
        for path, value in some.items():
            if isinstance(value, (int, float)):
                assert repr(whole.get(path)).startswith(repr(value)), (at, path)
