"""How a run ends, and what a second attempt makes of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import chiplog
from chiplog.sinks.delivery.courier import Courier
from chiplog.store.journal.segment_file import SegmentFile
from tests.core.run.begun import begin


def test_finish_twice_and_log_afterwards_are_harmless(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Said once, not kept, not raised."""
    run = begin(tmp_path)
    assert run.finish() and run.finish()
    assert run.log({"x": 1.0}) == {"x": 1.0}
    run.log({"x": 1.0})
    run.event("late")
    assert capsys.readouterr().err.count("the run has finished") == 1
    assert chiplog.read(run.dir).names() == []


@pytest.mark.parametrize(
    ("error", "state"), [(None, "finished"), (ValueError("no"), "failed"), (KeyboardInterrupt(), "interrupted"), (SystemExit(3), "failed"), (SystemExit(), "finished")]
)  # fmt: skip
def test_the_state_says_how_it_ended(tmp_path: Path, error: BaseException | None, state: str) -> None:
    """From the exception that left the `with` block."""
    try:
        with begin(tmp_path) as run:
            if error is not None:
                raise error
    except BaseException as raised:
        assert raised is error
    assert chiplog.read(run.dir).state == state


def test_a_run_is_running_until_it_ends(tmp_path: Path) -> None:
    """And its attempts say who writes them."""
    run = begin(tmp_path)
    stored = chiplog.read(run.dir)
    assert stored.state == "running"
    (attempt,) = stored.attempts
    assert attempt.start is not None and attempt.start.pid == os.getpid()
    run.finish()
    assert stored.state == "finished"


def test_a_second_launch_hides_the_first_from_its_first_step_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All points are kept; the default view is the line a person expects."""
    for launch, steps in enumerate([range(10), range(6, 12)]):
        with begin(tmp_path, id="r") as run:
            for step in steps:
                run.log({"x": launch}, step=step)
    assert "new attempt" in capsys.readouterr().err
    stored = chiplog.read(run.dir)
    series = stored.series("x")
    assert series.steps.tolist() == [*range(6), *range(6, 12)] and series.values.tolist() == [0] * 6 + [1] * 6
    assert len(stored.series("x", attempt=1)) == 10
    assert len(list(stored.records("step"))) == 16


def test_two_writers_at_once_are_both_shown(tmp_path: Path) -> None:
    """Lifetimes that overlap hide nothing from each other."""
    first = begin(tmp_path, id="r")
    chiplog.core.run.current = None
    second = begin(tmp_path, id="r")
    second.log({"x": 2.0}, step=0)
    first.log({"x": 1.0}, step=0)
    second.finish()
    first.finish()
    assert sorted(chiplog.read(first.dir).series("x").values.tolist()) == [1.0, 2.0]


def test_what_cannot_be_copied_in_time_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow copy holds up neither the journal nor the end."""
    import shutil

    go = threading.Event()
    monkeypatch.setattr(shutil, "copyfileobj", lambda *_: go.wait(30))
    (tmp_path / "big.bin").write_text("big")
    run = begin(tmp_path, durability="relaxed")
    run.artifact(tmp_path / "big.bin")
    run.log({"x": 1.0})
    done = run.finish(timeout=1)
    go.set()
    assert not done and "big" in done.missing["files"]
    assert chiplog.read(run.dir).state == "finished" and len(chiplog.read(run.dir).series("x")) == 1


def test_one_thing_that_fails_at_the_end_keeps_nothing_else_from_it(tmp_path: Path) -> None:
    """The finish record is written, sinks are closed, whatever a hook or a span's tags do."""
    run = begin(tmp_path, sinks="memory")
    run.before_finish(lambda: 1 / 0)  # type: ignore[arg-type,return-value]
    run.at_finish(lambda: 1 / 0)  # type: ignore[arg-type,return-value]
    with run.span("odd", tags=np.arange(3)):  # type: ignore[arg-type]
        pass
    with run.span("even"):
        pass
    assert run.finish()
    stored = chiplog.read(run.dir)
    assert stored.state == "finished" and [span.name for span in stored.spans()] == ["odd", "even"]


def test_a_row_without_a_step_hides_nothing_after_a_resume(tmp_path: Path) -> None:
    """Only steps that were given say where a newer launch begins."""
    with begin(tmp_path, id="r") as run:
        for step in range(5):
            run.log({"loss": step}, step=step)
    with begin(tmp_path, id="r") as run:
        run.log({"startup/sec": 1.0})
        run.log({"loss": 50}, step=5)
    assert chiplog.read(run.dir).series("loss").values.tolist() == [0, 1, 2, 3, 4, 50]


def test_a_finished_run_can_be_continued_in_the_same_process(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message of a late call names the way; an evaluation then belongs to the last step, and hides nothing."""
    run = begin(tmp_path, id="r")
    for step in range(5):
        run.log({"loss": step}, step=step)
    run.finish()
    run.eval({"loss": 1.0})
    assert "continue it by chiplog.init(resume=run.resume_token())" in capsys.readouterr().err
    with chiplog.init(dir=tmp_path, sinks="none", resume=run.resume_token()) as again:
        again.eval({"loss": 0.5})
        again.finish(state="pruned")
    stored = chiplog.read(again.dir)
    assert [(one.step, one.metrics) for one in stored.records("eval")] == [(4, {"loss": 0.5})]
    assert stored.series("loss").values.tolist() == [0, 1, 2, 3, 4] and stored.state == "pruned"


def test_long_integers_stay_with_their_own_attempt(tmp_path: Path) -> None:
    """Though another attempt counts its records from 0 again."""
    for value, step in ((2**60 + 1, 0), (0.5, 1)):
        with begin(tmp_path, id="r") as run:
            run.log({"x": value}, step=step)
    assert chiplog.read(run.dir).series("x").exact == [2**60 + 1, 0.5]


def test_the_view_does_not_depend_on_the_clocks_of_the_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An attempt that begins an hour before the one it follows is still the newer one."""
    with begin(tmp_path, id="r") as run:
        for step in range(10):
            run.log({"x": 1.0}, step=step)
    import time

    now = time.time_ns()
    monkeypatch.setattr(
        chiplog.core.clock.RunClock.__init__, "__defaults__", (lambda: now - 3600 * 10**9, time.monotonic_ns)
    )
    with pytest.raises(RuntimeError), begin(tmp_path, id="r") as run:
        run.log({"x": 2.0}, step=5)
        raise RuntimeError
    stored = chiplog.read(run.dir)
    assert stored.series("x").values.tolist() == [1.0] * 5 + [2.0] and stored.state == "failed"


def test_a_worker_that_attached_itself_does_not_decide_the_state(tmp_path: Path) -> None:
    """Workers often end without a word."""
    run = begin(tmp_path)
    code = f"import chiplog, os; chiplog.attach({str(run.dir)!r}).log({{'x': 1.0}}); os._exit(0)"
    subprocess.run([sys.executable, "-c", code], check=True)
    run.finish()
    assert chiplog.read(run.dir).state == "finished" and len(chiplog.read(run.dir).series("x")) == 1


def test_a_stored_run_may_be_asked_by_several_threads(tmp_path: Path) -> None:
    """Each gets the whole series."""
    with begin(tmp_path) as run:
        for step in range(3000):
            run.log({"x": step}, step=step)
    stored = chiplog.read(run.dir)
    lengths: list[int] = []
    threads = [threading.Thread(target=lambda: lengths.append(len(stored.series("x").times))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lengths == [3000] * 8


def test_a_signal_handler_is_given_back_at_the_end(tmp_path: Path) -> None:
    """Many runs in one process do not pile them up."""
    before = signal.getsignal(signal.SIGTERM)
    with begin(tmp_path, on_signal="flush"):
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), MemoryError()])
@pytest.mark.parametrize("step", ["before_finish", "at_finish", "journal", "files", "sinks"])
def test_no_error_of_a_step_skips_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, error: BaseException
) -> None:
    """Whatever a step raises, the last record is written and every sink is closed, or reported as not closed."""

    def fail(*args: object, **more: object) -> None:
        raise error

    run = begin(tmp_path, sinks=["csv", "jsonl"])
    for number in range(3):
        run.log({"loss": number}, step=number)
    if step == "journal":
        monkeypatch.setattr(SegmentFile, "finish", fail)
    elif step == "files":
        monkeypatch.setattr(run._shutdown._files, "close", fail)
    elif step == "sinks":
        monkeypatch.setattr(Courier, "wait", fail)
    else:
        getattr(run, step)(fail)
    try:
        run.finish()
    except BaseException as raised:
        assert raised is error and not isinstance(error, Exception)
    done = run.finish()  # what came of it
    assert chiplog.read(run.dir).state == "finished"
    unclosed = {"sinks": {"csv", "jsonl"}, "files": {"files"}, "journal": {"journal"}}.get(step, set())
    assert done.complete == (not unclosed) and set(done.missing) == unclosed
    if step != "sinks":
        assert len((run.dir / "files/metrics.csv").read_text().splitlines()) == 4
