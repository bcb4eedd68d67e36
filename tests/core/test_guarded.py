"""Calls from a framework: an error is reported once, and training goes on."""

from __future__ import annotations

import inspect

import pytest

from chiplog.core.guarded import failed, guarded


def test_an_error_is_reported_once_and_training_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    """With the name of the hook."""

    @guarded("keras", False)
    def on_log() -> bool:
        raise ValueError("odd")

    assert [on_log(), on_log()] == [False, False]
    assert capsys.readouterr().err == "chiplog: keras: on_log failed; training continues: ValueError('odd')\n"


def test_a_hook_that_works_is_unchanged(capsys: pytest.CaptureFixture[str]) -> None:
    """Its result, and the signature by which frameworks decide what to pass."""

    @guarded("keras", 0)
    def on_step(step: int, *, loss: float = 1.0) -> int:
        """Log a step."""
        return step + 1

    assert on_step(1, loss=0.5) == 2
    assert str(inspect.signature(on_step)) == "(step: 'int', *, loss: 'float' = 1.0) -> 'int'"
    assert (on_step.__name__, on_step.__doc__) == ("on_step", "Log a step.")
    assert capsys.readouterr().err == ""


def test_each_kind_of_error_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """Another kind in the same hook is news; the same kind is not, whatever it says, and a long one is cut."""
    for error in (ValueError("a"), ValueError("b"), KeyError("c"), TypeError("d" * 500)):
        failed("keras: on_log", error)
    first, second, third = capsys.readouterr().err.splitlines()
    assert "ValueError('a')" in first and "KeyError('c')" in second
    assert "characters cut]" in third and len(third) < 300


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_is_not_kept_from_the_script(error: type[BaseException]) -> None:
    """Ctrl-C in a hook still ends the training."""

    @guarded("keras", None)
    def on_log() -> None:
        raise error

    with pytest.raises(error):
        on_log()
