"""The logger of Lightning and Fabric, in both namespaces, with real trainers."""

from __future__ import annotations

import pickle
import warnings
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import chiplog
from chiplog.core.run import Run
from tests.support.framework_runs import stored_runs

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import lightning
    import pytorch_lightning
    import torch
    from lightning.fabric import Fabric
    from lightning_utilities.core.rank_zero import rank_zero_only

    from chiplog.integrations.lightning import ChiplogLogger
    from chiplog.integrations.pytorch_lightning import ChiplogLogger as OtherLogger

pytestmark = pytest.mark.filterwarnings("ignore")


def module(base: Any) -> Any:
    class Model(base):
        def __init__(self, width: int = 4) -> None:
            super().__init__()
            self.save_hyperparameters()
            self.layer = torch.nn.Linear(width, 1)

        def training_step(self, batch: Any, number: int) -> Any:
            loss = self.layer(batch).pow(2).mean()
            self.log("train/loss", loss)
            for logger in self.loggers:
                logger.experiment.add_scalar("by_hand", 2.0, self.global_step)
            return loss

        def validation_step(self, batch: Any, number: int) -> None:
            self.log("val/loss", self.layer(batch).pow(2).mean())

        test_step = validation_step

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    return Model()


def data() -> Any:
    return torch.utils.data.DataLoader(torch.randn(8, 4), batch_size=4)


def trainer(package: Any, logger: Any, **more: Any) -> Any:
    return package.Trainer(
        max_epochs=2, logger=logger, log_every_n_steps=1, accelerator="cpu", enable_progress_bar=False,
        enable_model_summary=False, **{"enable_checkpointing": False, **more},
    )  # fmt: skip


@pytest.mark.parametrize(("package", "logger"), [(lightning, ChiplogLogger), (pytorch_lightning, OtherLogger)])
def test_a_trainer_is_recorded_in_both_namespaces(package: Any, logger: Any) -> None:
    """Rows, hyperparameters, checkpoints in a folder of the run's own, and the test after training."""
    one = trainer(package, logger(project="lit", tags=["a"]), enable_checkpointing=True)
    model = module(package.LightningModule)
    one.fit(model, data(), data())
    one.test(model, data(), verbose=False)
    assert one.log_dir is None and one.logger.save() is None
    [run] = stored_runs("lit")
    assert run.series("train/loss").steps.tolist() == [0, 1, 2, 3]
    assert len(run.series("val/loss")) == 3 and "by_hand" in run.names() and "epoch" in run.names()
    assert run.config["width"] == 4 and run.tags == ("a",) and run.state == "finished"
    [checkpoint] = (Path("lit") / run.id / "checkpoints").glob("*.ckpt")
    events = [event for event in run.records("event") if event.name == "checkpoint"]
    assert events and Path(events[-1].data["path"]).name == checkpoint.name


def test_a_failed_training_is_a_failed_run() -> None:
    """With its reason."""
    model = module(lightning.LightningModule)
    model.training_step = lambda *_: 1 / 0
    with pytest.raises(ZeroDivisionError):
        trainer(lightning, ChiplogLogger()).fit(model, data())
    [run] = stored_runs()
    assert (run.state, run.attempts[-1].finish.reason) == ("failed", "ZeroDivisionError: division by zero")


def test_two_trainings_are_two_runs_and_the_current_run_is_used() -> None:
    """A script's own run stays open."""
    for _ in range(2):
        trainer(lightning, ChiplogLogger()).fit(module(lightning.LightningModule), data())
    assert len(stored_runs()) == 2
    with chiplog.init(project="own", sinks="none") as run:
        trainer(lightning, ChiplogLogger()).fit(module(lightning.LightningModule), data())
        assert not run.inert
    [own] = stored_runs("own")
    assert "train/loss" in own.names() and len(stored_runs()) == 2


@pytest.mark.parametrize("package", [lightning, pytorch_lightning])
def test_a_variable_is_enough(package: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `CHIPLOG_AUTO=1` every Trainer is recorded, also next to another logger or with none; without it, none is."""
    group = f"{'lightning.pytorch' if package is lightning else 'pytorch_lightning'}.callbacks_factory"
    assert "chiplog" in {one.name for one in metadata.entry_points(group=group)}, "install the package again"
    trainer(package, False).fit(module(package.LightningModule), data())
    assert not Path("runs").exists()
    monkeypatch.setenv("CHIPLOG_AUTO", "1")
    for logger in (False, ChiplogLogger() if package is lightning else OtherLogger()):
        trainer(package, logger).fit(module(package.LightningModule), data())
    runs = stored_runs()
    assert [run.series("train/loss").steps.tolist() for run in runs] == [[0, 1, 2, 3]] * 2


def test_fabric_logs() -> None:
    """A loop of one's own with Fabric."""
    fabric = Fabric(accelerator="cpu", loggers=ChiplogLogger(project="fabric"))
    for step in range(3):
        fabric.log_dict({"loss": torch.tensor(1.0), "text": "t"}, step)
        fabric.log("lr", 0.1, step)
    fabric.logger.finalize("success")
    [run] = stored_runs("fabric")
    assert run.series("loss").steps.tolist() == run.series("lr").steps.tolist() == [0, 1, 2]


def test_other_ranks_keep_nothing_and_wait_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every property can be read on every rank; the experiment accepts any call."""
    monkeypatch.setattr(rank_zero_only, "rank", 1)
    logger = ChiplogLogger(project="p", id="same")
    assert (logger.name, logger.version, logger.save_dir, logger.log_dir) == ("p", "same", None, None)
    logger.log_metrics({"loss": 1.0}, 0)
    logger.log_hyperparams({"lr": 0.1})
    logger.experiment.add_scalar("a", 1.0)
    logger.experiment.whatever(1)
    logger.finalize("success")
    assert not Path("runs").exists()


def test_odd_calls(capsys: pytest.CaptureFixture[str]) -> None:
    """Out of order, twice, after the end, with other arguments, with values of all kinds, as a copy."""
    logger = ChiplogLogger()
    logger.finalize("success")
    logger.log_metrics({"nan": float("nan"), "none": None, 3: 1.0, "tensor": torch.tensor(1.0)})
    logger.log_hyperparams(None)
    logger.log_graph(torch.nn.Linear(1, 1))
    logger.experiment.add_scalars("main", {"a": 1.0}, 2)
    assert isinstance(logger.experiment.run, Run) and logger.experiment.dir == logger.run.dir
    logger.experiment.add_embedding([1])
    copy = pickle.loads(pickle.dumps(logger))
    assert copy.run is None
    for _ in range(2):
        logger.log_metrics()  # type: ignore[call-arg]
        logger.finalize("failed")
    logger.log_metrics({"after": 1.0})
    first, after = stored_runs()
    assert {"nan", "3", "tensor", "main/a"} <= set(first.names()) and first.state == "failed"
    assert "after" in after.names()
    err = capsys.readouterr().err
    assert "chiplog works with 2.5 and 2.6" in err and "add_embedding has no effect" in err and "Traceback" not in err
