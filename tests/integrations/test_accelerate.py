"""The tracker of Accelerate, with a real Accelerator."""

from __future__ import annotations

import warnings

import numpy
import pytest

import chiplog
from tests.support.framework_runs import stored_runs

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from accelerate import Accelerator, tracking

    from chiplog.integrations import accelerate as integration

pytestmark = pytest.mark.filterwarnings("ignore")


def test_an_accelerator_logs_with_one_word() -> None:
    """`log_with="chiplog"`: settings from `init_kwargs`, the config, rows, images and tables; the end of the training."""
    accelerator = Accelerator(log_with="chiplog", cpu=True)
    accelerator.init_trackers("tiny-lm", config={"lr": 0.1}, init_kwargs={"chiplog": {"name": "n", "tags": ["a"]}})
    tracker = accelerator.get_tracker("chiplog")
    for step in range(3):
        accelerator.log({"loss": 1 / (step + 1), "nan": float("nan"), 3: None}, step=step)
    tracker.log_images({"images": [numpy.zeros((4, 4, 3))]}, step=2)
    tracker.log_table("answers", columns=["q", "a"], data=[["1+1", "2"]], step=2)
    run = accelerator.get_tracker("chiplog", unwrap=True)
    assert run is chiplog.run
    accelerator.end_training()
    tracker.finish()
    tracker.log({"after": 1.0})
    [stored, after] = stored_runs("tiny-lm") + stored_runs()
    assert (stored.name, stored.tags, stored.config["lr"], stored.state) == ("n", ("a",), 0.1, "finished")
    assert stored.series("loss").steps.tolist() == [0, 1, 2]
    assert [(row["q"], row["a"]) for row in stored.table("answers")] == [("1+1", "2")]
    assert "after" in after.names()


def test_hooks_of_another_version(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a registry, and with other arguments, a line says which versions work."""
    monkeypatch.delattr(tracking, "register_tracker_class")
    integration._register()
    tracker = integration.ChiplogTracker("p")
    for _ in range(2):
        tracker.log()  # type: ignore[call-arg]
    passed = Accelerator(log_with=[integration.ChiplogTracker("passed")], cpu=True)
    passed.init_trackers("ignored", config={"lr": 0.1})
    passed.log({"loss": 1.0}, step=3)
    passed.end_training()
    [stored] = stored_runs("passed")
    assert stored.config["lr"] == 0.1 and stored.names() == ["loss"]
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2 and all("chiplog works with 1.10 to" in line for line in lines)
