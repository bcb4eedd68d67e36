"""Records: encoding, decoding, and which numbers are points of which series."""

from __future__ import annotations

import json
import math

import pytest

from chiplog.core import records


def test_a_step_is_one_strict_json_object() -> None:
    """A row of plain numbers is written as it is, the tag first."""
    line = records.encode(records.Step(812, 5, 100, {"train/loss": 2.3456, "train/tokens": 16384}))
    assert line == (
        b'{"log":"step","seq":812,"time":5,"step":100,"metrics":{"train/loss":2.3456,"train/tokens":16384}}'
    )


def test_non_finite_numbers_are_strings_on_disk_and_numbers_again_when_read() -> None:
    """NaN and the infinities never break strict JSON."""
    row = {"a": math.nan, "b": math.inf, "c": -math.inf, "d": -0.0, "e": 2**70, "f": True, "null": 1}
    line = records.encode(records.Step(0, 0, 0, dict(row)))
    assert json.loads(line, parse_constant=pytest.fail)["metrics"]["a"] == "nan"
    read = records.decode(line)
    assert isinstance(read, records.Step)
    assert repr(read.metrics) == repr(row)


def test_a_kind_of_a_newer_version_is_kept_whole() -> None:
    """What this version does not know reads as a generic record, and is written out again as it was."""
    line = b'{"log":"hologram","seq":7,"time":8,"depth":3}'
    read = records.decode(line)
    assert isinstance(read, records.Unknown)
    assert (read.kind, read.seq, read.fields["depth"]) == ("hologram", 7, 3)
    assert records.fields(read) == {"log": "hologram", "seq": 7, "time": 8, "depth": 3}


def test_a_new_field_of_a_known_kind_is_no_trouble() -> None:
    """A newer writer may add fields."""
    read = records.decode(b'{"log":"text","seq":7,"time":8,"name":"a","text":"b","language":"en"}')
    assert isinstance(read, records.TextRecord)


@pytest.mark.parametrize("line", [b"[]", b"3", b"{}", b'{"log":5,"seq":1,"time":1}', b'{"log":"x"}', b"{"])
def test_what_is_no_record_is_refused(line: bytes) -> None:
    """Bytes without a kind, a seq and a time are not a record."""
    with pytest.raises((ValueError, Exception)):
        records.decode(line)


@pytest.mark.parametrize(
    ("record", "points"),
    [
        (records.Eval(0, 0, 5, {"loss": 2.0, "eval/acc": 0.5}), {"eval/loss": 2.0, "eval/acc": 0.5}),
        (
            records.Event(0, 0, "gpu", {"id": 0, "power": 350, "throttle": "", "x": "nan"}),
            {"gpu/0/power": 350, "gpu/0/x": math.nan},
        ),
        (records.Event(0, 0, "moe", {"load_imbalance": 1.45}), {"moe/load_imbalance": 1.45}),
        (
            records.Event(0, 0, "allocator", {"stats": [{"name": "weights", "device": 4}, {"name": "lora", "device": 2}]}),
            {"allocator/weights/device": 4, "allocator/lora/device": 2},
        ),
        (records.Event(0, 0, "dataset", {"split": "train", "tokens": 10**9}), {"dataset/train/tokens": 10**9}),
        (records.Event(0, 0, "load", {"cpu": [0.5, 0.7], "disk": {"free": 3}}), {"load/cpu/0": 0.5, "load/cpu/1": 0.7, "load/disk/free": 3}),
        (records.Event(0, 0, "config", {"lr": 0.1}), {}),
        (records.TextRecord(0, 0, "sample", "words"), {}),
    ],
)  # fmt: skip
def test_the_numbers_of_a_record_are_points(record: records.Record, points: dict[str, float]) -> None:
    """Evals and events give series by one rule; the config gives none."""
    assert repr(dict(records.points(record))) == repr(points)  # type: ignore[arg-type]


def test_every_kind_has_a_tag_of_its_own() -> None:
    """The kinds of the format are these and no others."""
    assert sorted(records.KINDS) == sorted(
        [
            "attempt",
            "step",
            "eval",
            "event",
            "table",
            "histogram",
            "matrix",
            "text",
            "file",
            "spans",
            "console",
            "alert",
            "clock",
            "finish",
        ]
    )
