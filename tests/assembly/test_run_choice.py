"""Which run `init` opens: resume, ranks and the disabled mode."""

from __future__ import annotations

from pathlib import Path

import pytest

import chiplog
from chiplog.core.errors import BadSetting, RunExists, RunNotFound
from tests.core.run.begun import begin


def test_resume_is_a_token_must_or_never(tmp_path: Path) -> None:
    """Each with an error that says what to do."""
    first = begin(tmp_path)
    token = first.resume_token()
    first.finish()
    again = begin(tmp_path, resume=token)
    assert again.id == first.id and again.identity.attempt == 2
    assert begin(tmp_path, id=first.id, resume="must").id == first.id
    with pytest.raises(RunExists, match="resume='never'"):
        begin(tmp_path, id=first.id, resume="never")
    with pytest.raises(RunNotFound, match="resume='must'"):
        begin(tmp_path, id="none-such", resume="must")
    with pytest.raises(BadSetting, match="token"):
        begin(tmp_path, resume="maybe")


def test_disabled_switches_all_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is written, nothing is said, and the code runs as it is."""
    monkeypatch.setenv("CHIPLOG_MODE", "disabled")
    with begin(tmp_path / "runs", sinks="console,csv") as run:
        assert run.log({"x": 1.0}) == {"x": 1.0}
        with run.span("a"):
            run.event("b")
        run.summary["c"] = 1
    assert not (tmp_path / "runs").exists() and capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("ranks", "said"), [("last", ""), ("3", ""), ([3, 9], "there are only 4"), (7, "there are only 4")]
)
def test_the_rank_that_is_named_keeps_the_run(
    ranks: object, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its sinks; where none of those named is there, the last one does, and it is said."""
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")
    with begin(tmp_path, ranks=ranks, sinks="csv", reduce=False) as run:
        run.log({"x": 1.0})
    assert chiplog.read(run.dir).series("x").values.tolist() == [1.0]
    assert (run.dir / "files" / "metrics.csv").exists() and said in capsys.readouterr().err


def test_with_journals_on_all_ranks_rank_is_an_axis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The launch ties them together; the reader makes a step × rank matrix."""
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    for rank in range(3):
        monkeypatch.setenv("SLURM_PROCID", str(rank))
        monkeypatch.setenv("SLURM_NTASKS", "3")
        with begin(tmp_path, ranks="all") as run:
            for step in range(2):
                run.log({"loss": 10 * rank + step}, step=step)
    assert run.id == "77"
    matrix = chiplog.read(run.dir).series("loss").by_rank()
    assert matrix.ranks.tolist() == [0, 1, 2] and matrix.values.tolist() == [[0, 10, 20], [1, 11, 21]]
    assert chiplog.read(run.dir).series("loss", rank=1).values.tolist() == [10, 11]


def test_ranks_that_cannot_agree_are_told_how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a launch id, journals on all ranks are an error at the door."""
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(BadSetting, match="CHIPLOG_RUN_ID"):
        begin(tmp_path, ranks="all")
