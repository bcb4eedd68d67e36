"""What a writer records."""

from __future__ import annotations

from pathlib import Path

import pytest

import chiplog
from chiplog.compat.shared.writer_recording import Recording


def test_a_run_that_is_passed_in_is_not_ended(tmp_path: Path) -> None:
    """Whatever the writer does."""
    with chiplog.init("p", id="r", dir=tmp_path, sinks="none") as run:
        kept = Recording("writer", None, run, {})
        kept.log("loss", 1.0, 2, None)
        kept.finish()
        assert kept.run is run and not run.inert
    assert chiplog.read(tmp_path / "p" / "r").series("loss").steps.tolist() == [2]


def test_a_run_of_its_own_ends_with_the_reason_and_is_continued(tmp_path: Path) -> None:
    """As another attempt."""
    kept = Recording("writer", "name", None, {"project": "p", "dir": tmp_path, "sinks": "none"})
    kept.log("loss", 1.0, 0, None)
    kept.finish(ValueError("bad data"))
    (run,) = chiplog.runs(tmp_path)
    assert (run.state, run.name) == ("failed", "name")
    kept.log("loss", 2.0, 1, None)
    kept.finish()
    assert [one.state for one in chiplog.read(run.path).attempts] == ["failed", "finished"]


def test_each_problem_is_reported_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """With the name of the writer, and nothing is raised."""
    kept = Recording("a writer of tests", None, None, {"dir": tmp_path, "nonsense": 1})
    kept.log("loss", 1.0, 0, 5.0)
    kept.log("loss", 1.0, 0, 5.0)
    kept.finish()
    reported = capfd.readouterr().err
    assert (
        "a writer of tests: no run could be started" in reported
        or "a writer of tests: starting a run failed" in reported
    )
    assert reported.count("walltime= is accepted and not kept") == 1
