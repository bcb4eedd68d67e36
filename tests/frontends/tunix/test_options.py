"""Backends of one's own in the Tunix front end: threads, errors of factories, and what messages say."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from chiplog.frontends.tunix.sft.metrics_logger import MetricsLogger, MetricsLoggerOptions, TensorboardBackend
from tests.frontends.tunix.backend import Keeps


class Database:
    """A backend whose connection is bound to the thread that made it."""

    made: ClassVar[list[threading.Thread]] = []

    def __init__(self, path: str = "metrics.db") -> None:
        self.made.append(threading.current_thread())
        self.connection = sqlite3.connect(path)
        self.connection.execute("CREATE TABLE metrics (name, value, step)")

    def log_scalar(self, event: str, value: Any, **kwargs: Any) -> None:
        self.connection.execute("INSERT INTO metrics VALUES (?, ?, ?)", (event, value, kwargs["step"]))

    def close(self) -> None:
        self.connection.commit()
        self.connection.close()


def loaded(folder: str | Path) -> EventAccumulator:
    found = EventAccumulator(str(folder), size_guidance={"scalars": 0, "histograms": 0})
    found.Reload()
    return found


@pytest.mark.parametrize("how", ["backend_factories", "custom_backend"])
def test_a_backend_is_made_on_the_thread_that_calls_it(how: str) -> None:
    """So a connection of sqlite3, which is bound to its thread, has all rows."""
    Database.made.clear()
    given: dict[str, Any] = {how: [lambda: Database("metrics.db")]}
    options = MetricsLoggerOptions("logs", **(given if how == "backend_factories" else {"backend_kwargs": given}))
    logger = MetricsLogger(options)
    for step in range(3):
        logger.log("actor", "loss", float(step), "train", step)
    logger.close()
    rows = sqlite3.connect("metrics.db").execute("SELECT * FROM metrics").fetchall()
    assert rows == [("actor/train/loss", float(step), step) for step in range(3)]
    assert len(Database.made) == 1 and Database.made[0] is not threading.main_thread()


def test_ours_beside_a_backend_that_is_bound_to_its_thread() -> None:
    """A factory of TensorboardBackend is the logger's own sink, and the other backend has everything too."""
    logger = MetricsLogger(
        MetricsLoggerOptions("unused", backend_factories=[lambda: TensorboardBackend("logs"), Database])
    )
    logger.log("", "loss", 0.5, "train", 1)
    logger.close()
    assert logger.run is not None and sorted(logger.run.health()["sinks"]) == ["database", "tensorboard"]
    assert [one.value for one in loaded("logs").Scalars("train/loss")] == [0.5]
    assert sqlite3.connect("metrics.db").execute("SELECT value FROM metrics").fetchall() == [(0.5,)]


def test_a_factory_that_raises_is_named_once(capfd: pytest.CaptureFixture[str]) -> None:
    """The other backend has everything."""
    kept = Keeps()

    def unreachable() -> Keeps:
        raise ConnectionError("no route to host")

    logger = MetricsLogger(MetricsLoggerOptions("logs", backend_factories=[unreachable, lambda: kept]))
    logger.log("", "loss", 0.5, "train", 1)
    logger.close()
    assert capfd.readouterr().err.count("its factory unreachable raised ConnectionError: no route to host") == 1
    assert kept.named("train/loss") == [(1, 0.5)]


def test_a_slow_backend_is_closed_and_what_it_lacks_is_counted(capfd: pytest.CaptureFixture[str]) -> None:
    """In calls, when the time of the end is over."""
    never = threading.Event()

    class Slow(Keeps):
        def log_scalar(self, event: str, value: Any, **kwargs: Any) -> None:
            never.wait(0.1)
            super().log_scalar(event, value, **kwargs)

    slow = Slow()
    logger = MetricsLogger(MetricsLoggerOptions("logs", backend_factories=[lambda: slow]))
    for step in range(160):
        logger.log("", "loss", 1.0, "train", step)
    logger.close(timeout=2.0)
    assert slow.closed == 1 and 0 < len(slow.events) < 160
    assert f"'slow' is not complete: {160 - len(slow.events)} calls are not delivered" in capfd.readouterr().err


def test_a_log_dir_in_a_cloud_does_not_end_the_program(capfd: pytest.CaptureFixture[str]) -> None:
    """Event files are in the run's own directory, and one message says so."""
    for _ in range(2):
        logger = MetricsLogger(MetricsLoggerOptions(log_dir="gs://bucket/logs"))
        logger.log("", "loss", 0.5, "train", 1)
        logger.close()
    assert logger.run is not None
    found = loaded(logger.run.dir / "files" / "tensorboard").Scalars("train/loss")
    assert [(one.step, one.value) for one in found] == [(1, 0.5)]
    assert capfd.readouterr().err.count("log_dir = 'gs://bucket/logs' is not a local directory") == 1
    assert not Path("gs:").exists()


def test_the_histogram_of_an_array_has_its_exact_sums() -> None:
    """They are known, and not estimated from the bins."""
    logger = MetricsLogger(MetricsLoggerOptions("logs"))
    logger.log("", "each", np.arange(3.0), "train", 1)
    logger.close()
    (histogram,) = loaded("logs").Histograms("train/each")
    assert (histogram.histogram_value.sum, histogram.histogram_value.sum_squares) == (3.0, 5.0)
    assert histogram.histogram_value.num == 3.0


def test_a_metric_without_a_prefix_is_named_without_a_slash() -> None:
    """As it is called in all backends."""
    logger = MetricsLogger()
    with pytest.raises(ValueError, match="Metric 'train/zz' not found"):
        logger.get_metric("", "zz", "train")


def test_a_mode_that_wandb_does_not_have_is_named(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """With the choices; W&B is left out."""
    monkeypatch.setenv("WANDB_MODE", "bogus")
    logger = MetricsLogger(MetricsLoggerOptions("logs"))
    logger.close()
    said = capfd.readouterr().err
    assert "WANDB_MODE = 'bogus' is not one of its modes: online, offline, disabled, shared" in said
    assert "no key" not in said
