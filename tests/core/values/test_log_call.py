"""Calls of `log` that are not `log({name: value}, step)`."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

import pytest

import chiplog
from chiplog.core import messages


class Broken(dict[str, object]):
    def items(self) -> object:  # type: ignore[override]
        raise RuntimeError("no items")


def test_nothing_that_is_passed_to_log_raises_and_what_has_a_meaning_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A name and a value, named metrics, W&B's commit; every kind of mistake is explained once."""
    messages.forget()
    run = chiplog.init("p", dir=tmp_path, sinks="none")
    run.log("loss", 1.0)
    run.log("loss", 2.0, 7)
    run.log(acc=0.5, step=8)
    chiplog.log(top=0.9)
    run.log({"a": 1}, commit=False)
    run.log(MappingProxyType({"m": 1}))
    run.eval(loss=3.0)
    for wrong in (None, [1], 5, Broken(a=1), object()):
        run.log(wrong)  # type: ignore[arg-type]
    run.log()
    run.log("alone")  # type: ignore[arg-type]
    run.log({"b": 1}, 9, 10)
    run.finish()
    stored = chiplog.read(run.dir)
    assert stored.summary == {"loss": 2.0, "acc": 0.5, "top": 0.9, "a": 1, "m": 1, "eval/loss": 3.0, "b": 1}
    assert stored.series("loss").steps.tolist() == [0, 7]
    explained = capsys.readouterr().err
    assert explained.count("write run.log({'loss': 1.0})") == 1 and explained.count("commit=") == 1
    assert "log('alone')" not in explained  # a name was explained before
    assert "log([1]) records nothing" in explained and "log(None) records nothing" in explained


def test_dir_lists_what_users_may_call(tmp_path: Path) -> None:
    """Every name is there, and documented or a plain value; the other layers' doors are not listed."""
    with chiplog.init("p", dir=tmp_path, sinks="none") as run:
        assert all(hasattr(run, name) for name in dir(run))
        assert not {"parts", "write", "take_over", "forked", "post", "_recorder"} & set(dir(run))


def test_a_name_without_a_value_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is recorded, and the message has the call to write."""
    with chiplog.init("p", dir=tmp_path, sinks="none") as run:
        run.log("loss")  # type: ignore[arg-type]
    assert "log('loss') has no value: write run.log({'loss': value}, step=10)" in capsys.readouterr().err
    assert chiplog.read(run.dir).summary == {}


def test_steps_is_a_metric_and_perhaps_meant_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is kept, and the message says so once."""
    with chiplog.init("p", dir=tmp_path, sinks="none") as run:
        for _ in range(2):
            run.log({"a": 1.0}, steps=7)
        run.eval(acc=1.0, stpe=3)
    said = capsys.readouterr().err
    assert "eval(..., stpe=...) is a metric named 'stpe'; did you mean step=?" in said
    assert said.count("is a metric named 'steps'; did you mean step=?") == 1
    assert chiplog.read(run.dir).summary == {"a": 1.0, "steps": 7, "eval/acc": 1.0, "eval/stpe": 3}


def test_an_evaluation_of_nothing_is_not_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message has the call to write."""
    with chiplog.init("p", dir=tmp_path, sinks="none") as run:
        run.eval("loss")  # type: ignore[arg-type]
        run.eval({})
        run.eval({"sample": "text"})
    said = capsys.readouterr().err
    assert "eval('loss') has no value: write run.eval({'loss': value}, step=10)" in said
    assert list(chiplog.read(run.dir).records("eval")) == []
