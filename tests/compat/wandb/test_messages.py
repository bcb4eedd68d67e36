"""What the stand-in reports: once, and never into a training loop."""

from __future__ import annotations

import pytest

from chiplog.compat.wandb import messages


def test_the_same_thing_is_reported_once(capsys: pytest.CaptureFixture[str]) -> None:
    """A call in a loop does not fill the terminal."""
    for _ in range(3):
        messages.not_kept("wandb.telescope")
        messages.not_kept("wandb.compass")
    lines = capsys.readouterr().err.splitlines()
    assert [("telescope" in line, "compass" in line) for line in lines] == [(True, False), (False, True)]


@pytest.mark.parametrize("value", ["true", "1", "TRUE"])
def test_it_is_silent_where_wandb_is(
    value: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`WANDB_SILENT` is a setting of W&B's client."""
    monkeypatch.setenv("WANDB_SILENT", value)
    messages.say("something")
    assert capsys.readouterr().err == ""


def test_an_error_of_a_guarded_call_is_reported_and_the_default_returned(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is raised where a script trains."""

    @messages.guarded(7)
    def measure(value: int) -> int:
        return 1 // value

    assert measure(1) == 1 and capsys.readouterr().err == ""
    assert measure(0) == 7 and "wandb.measure failed" in capsys.readouterr().err
