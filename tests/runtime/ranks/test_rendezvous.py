"""At the door: what is said where the ranks have no way to each other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import chiplog
from chiplog import assembly
from chiplog.core.errors import BadSetting
from chiplog.runtime.ranks.rendezvous import Rendezvous
from chiplog.runtime.ranks.transport.group import Finish


@pytest.fixture
def rank(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Rank 0 of two, as torchrun would say, and no process group."""
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    return monkeypatch


@pytest.mark.parametrize("reduce", [True, "sync", "every=5"])
def test_statistics_that_cannot_be_made_are_an_error(
    reduce: bool | str, rank: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Which says what to do first."""
    with pytest.raises(BadSetting, match="init_process_group"):
        chiplog.init(sinks="none", dir=tmp_path, reduce=reduce)
    assert list(tmp_path.iterdir()) == []


def test_statistics_that_nobody_asked_for_are_left_out(
    rank: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line says so, and the run is a run."""
    with chiplog.init(sinks="none", dir=tmp_path) as run:
        assert run.log({"x": 1.0}) == {"x": 1.0}
    assert "no statistics across the 2 ranks" in capsys.readouterr().err


@pytest.mark.parametrize("how", [{"reduce": False}, {"reduce": "off"}, {"mode": "disabled"}])
def test_nothing_is_said_where_none_are_wanted(
    how: dict[str, str | bool], rank: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chiplog.init(sinks="none", dir=tmp_path, **how).finish()
    assert capsys.readouterr().err == ""


def test_the_environment_has_the_last_word(rank: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rank.setenv("CHIPLOG_NO_REDUCE", "1")
    chiplog.init(sinks="none", dir=tmp_path, reduce="sync").finish()


def test_a_front_end_on_another_rank_keeps_nothing(rank: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Those whose APIs it has write on rank 0 only."""
    rank.setenv("RANK", "1")
    run = assembly.beside(sinks="none", dir=tmp_path)
    assert run.inert and run.log({"x": 1.0}) == {"x": 1.0}
    assert run.finish() and list(tmp_path.iterdir()) == []


class Mute:
    """A group whose rank 0 says nothing."""

    rank, world, waits = 3, 4, True

    def broadcast(self, message: str, seconds: float, main: int = 0) -> str:
        raise TimeoutError(f"nothing for {seconds:.0f} s")

    def form(self) -> Sequence[int] | None:
        return None

    def exchange(self, chunk: bytes, everyone: bool) -> Finish:
        raise NotImplementedError

    def leave(self, rank: int) -> None: ...

    def left(self) -> Sequence[int]:
        return ()

    def close(self) -> None: ...


def test_a_journal_that_would_belong_to_no_run_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """Where it writes nothing of its own, a rank goes on without rank 0's word."""
    with pytest.raises(
        BadSetting, match=r"rank 3 did not receive the run id .* \(nothing for 60 s\); .*CHIPLOG_RUN_ID"
    ):
        Rendezvous(Mute()).agree("run", "launch", must=True)
    assert Rendezvous(Mute()).agree("run", "launch") == ("run", "launch")
    assert "rank 3 did not receive the run id from rank 0" in capsys.readouterr().err
