"""The config and the summary: dictionaries that report changes."""

from __future__ import annotations

import argparse
import copy
import pickle

import pytest

from chiplog.core.values.observed_dict import ObservedDict, Summary


def test_every_way_to_change_a_config_is_reported() -> None:
    """By key, by attribute, by update and by default."""
    changes: list[object] = []
    config = ObservedDict({"lr": 1}, changes.append)
    config["a"] = 1
    config.b = 2
    config.update(argparse.Namespace(c=3), d=4, allow_val_change=True)
    config |= {"e": 5}
    assert config.setdefault("f", 6) == 6 and config.setdefault("lr", 9) == 1
    assert changes == [{"a": 1}, {"b": 2}, {"c": 3, "d": 4}, {"e": 5}, {"f": 6}]


def test_a_config_reads_by_attribute_and_copies_as_a_dict() -> None:
    """A missing key is a missing attribute."""
    config = ObservedDict({"lr": 1}, lambda _: None)
    assert config.lr == 1
    with pytest.raises(AttributeError, match="missing"):
        _ = config.missing
    assert type(pickle.loads(pickle.dumps(config))) is type(copy.deepcopy(config)) is dict


def test_a_summary_reads_once_and_prefers_what_was_set() -> None:
    """Reading a value that was set reads nothing."""
    reads: list[int] = []

    def read() -> dict[str, int]:
        reads.append(1)
        return {"loss": 2, "best": 3}

    changes: list[object] = []
    summary = Summary({}, read, changes.append)
    summary["best"] = 1
    assert summary["best"] == 1 and not reads
    assert dict(summary) == {"loss": 2, "best": 1} and len(summary) == 2 and len(reads) == 1
    del summary["best"]
    assert "best" not in summary and changes == [{"best": 1}]
    summary["best"] = 2
    assert summary["best"] == 2


def test_what_is_removed_is_said_to_be_stored(capsys: pytest.CaptureFixture[str]) -> None:
    """Once, in whichever way; without the key, it is the error or the default of a dict."""
    config = ObservedDict({"a": 1, "b": 2, "c": 3, "d": 4}, lambda _: None)
    assert config.pop("absent", 9) == 9
    with pytest.raises(KeyError):
        config.pop("absent")
    assert not capsys.readouterr().err
    del config["a"]
    assert config.pop("b") == 2 and config.popitem() == ("d", 4)
    config.clear()
    assert config == {}
    said = capsys.readouterr().err
    assert said.count("chiplog:") == 1 and "'a' was removed from run.config in this process only" in said
    summary = Summary({"x": 1}, lambda: {"loss": 2}, lambda _: None)
    summary.clear()
    assert not summary and "from run.summary in this process only" in capsys.readouterr().err
