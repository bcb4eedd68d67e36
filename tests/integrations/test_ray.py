"""The callbacks for Ray Tune and Train, with the documented hooks of their base classes."""

from __future__ import annotations

import pickle
import threading
from types import SimpleNamespace
from typing import Any

import pytest

import chiplog
from tests.support.framework_runs import stored_runs
from tests.support.framework_stubs import ControllerCallback, LoggerCallback, UserCallback, integration


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Any:
    return integration(
        "ray",
        monkeypatch,
        ray={},
        ray__train={"UserCallback": UserCallback},
        ray__tune__logger={"LoggerCallback": LoggerCallback},
        ray__train__v2___internal__execution__callback={"ControllerCallback": ControllerCallback},
    )


class Trial(SimpleNamespace):
    def __str__(self) -> str:
        return f"train_{self.trial_id}"


def trial(number: int) -> Trial:
    return Trial(trial_id=str(number), config={"lr": number}, experiment_dir_name="search", checkpoint=None)


def test_every_trial_is_a_run_in_the_driver(ray: Any) -> None:
    """Many are open at once, on one background thread; the current run stays open."""
    callback, trials = ray.TuneCallback(project="tune"), [trial(number) for number in range(20)]
    with chiplog.init(sinks="none") as current:
        for one in trials:
            callback.on_trial_start(0, trials, one)
        for iteration in (1, 2):
            for one in trials:
                result = {
                    "loss": 1 / iteration,
                    "training_iteration": iteration,
                    "config": one.config,
                    "pid": 1,
                    "info": {"a": 1},
                }
                callback.on_trial_result(iteration, trials, one, result)
        threads = [thread.name for thread in threading.enumerate() if thread.name.startswith("chiplog-background")]
        assert len(threads) <= 2 and not current.inert and chiplog.run is current
        for one in trials[1:]:
            callback.on_trial_complete(2, trials, one)
        callback.on_trial_error(2, trials, trials[0])
    runs = {run.name: run for run in stored_runs("tune")}
    assert len(runs) == 20 and runs["train_0"].state == "failed" and runs["train_7"].state == "finished"
    assert runs["train_7"].series("loss").steps.tolist() == [1, 2] and runs["train_7"].config["lr"] == 7
    assert runs["train_7"].tags == ("search",) and "info/a" in runs["train_7"].names()
    assert "pid" not in runs["train_7"].names()


def test_reports_of_workers_are_rows(ray: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """The first worker's, or all; the callback travels to another process, which works elsewhere."""
    callback, end = pickle.loads(pickle.dumps(ray.train_callbacks(workers=True, project="train")))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    context = SimpleNamespace(train_loop_config={"lr": 1}, run_config=SimpleNamespace(name="n"))
    callback.after_report(context, [{"loss": 1.0}, {"loss": 3.0}], None)
    callback.after_report(context, [{"loss": 0.5}, {"loss": 2.0}], SimpleNamespace(path="c"))
    callback.after_exception(context, {1: ValueError("bad")})
    end.after_controller_finish(SimpleNamespace(error=None))
    monkeypatch.chdir(tmp_path)
    [run] = stored_runs("train")
    assert (run.name, run.state, run.config["lr"]) == ("n", "finished", 1)
    assert run.series("loss").values.tolist() == [1.0, 0.5] and run.series("loss/worker_1").values.tolist() == [
        3.0,
        2.0,
    ]


def test_odd_calls(ray: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Out of order, twice, after the end, with other arguments."""
    callback, train = ray.TuneCallback(), ray.TrainCallback()
    for _ in range(2):
        callback.log_trial_end(trial(1))
        callback.log_trial_save(trial(1))
        callback.log_trial_result(1, trial(1), {"loss": None, "nan": float("nan"), 3: "text"})
        callback.log_trial_end(trial(1), failed=True)
        callback.log_trial_start(object())
        train.after_report()
        train.after_report(None, [], None)
    assert len(stored_runs()) >= 2
    err = capsys.readouterr().err
    assert err.count("chiplog works with 2.60") == 2 and "Traceback" not in err
