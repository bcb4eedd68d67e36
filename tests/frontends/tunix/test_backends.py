"""The backends of the metrics logger: by their names, as factories, with their options, and what reaches them."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from chiplog.core.errors import MissingPackage
from chiplog.frontends.tunix import metrics_logger as direct
from chiplog.frontends.tunix.sft import metrics_logger
from chiplog.frontends.tunix.sft.metrics_logger import (
    CluBackend,
    MetricsLogger,
    MetricsLoggerOptions,
    TensorboardBackend,
    WandbBackend,
)
from tests.faults.harness import FULL
from tests.frontends.tunix.backend import Keeps
from tests.sinks.wandb.server import Server
from tests.support.launchers import start, start_jax
from tests.support.ports import free_port


class Writer:
    """A metric writer of CLU, by the methods that it has."""

    def __init__(self) -> None:
        self.scalars: list[tuple[int, dict[str, Any]]] = []
        self.histograms: list[tuple[int, dict[str, Any]]] = []
        self.ended: list[str] = []

    def write_histograms(self, step: int, arrays: dict[str, Any], num_buckets: dict[str, int] | None = None) -> None:
        self.histograms.append((step, {name: value.tolist() for name, value in arrays.items()}))

    def write_scalars(self, step: int, scalars: dict[str, Any]) -> None:
        self.scalars.append((step, dict(scalars)))

    def flush(self) -> None:
        self.ended.append("flush")

    def close(self) -> None:
        self.ended.append("close")


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nobody here is logged in to W&B."""
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("NETRC", raising=False)


@pytest.fixture
def clu(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[Writer, dict[str, Any]]]]:
    """A package `clu` with the one function that is called, since the real one needs TensorFlow; what it has made."""
    made: list[tuple[Writer, dict[str, Any]]] = []
    package, writers = types.ModuleType("clu"), types.ModuleType("clu.metric_writers")
    writers.create_default_writer = lambda **given: made.append((Writer(), given)) or made[-1][0]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "clu", package)
    monkeypatch.setitem(sys.modules, "clu.metric_writers", writers)
    yield made


def loaded(folder: str) -> EventAccumulator:
    found = EventAccumulator(folder, size_guidance={"scalars": 0, "histograms": 0})
    found.Reload()
    return found


# -- by name -----------------------------------------------------------------------------------------------------------


def test_the_names_of_the_original_are_there() -> None:
    """In both modules, and a factory is what makes a backend."""
    for name in ("TensorboardBackend", "WandbBackend", "CluBackend", "LoggingBackend", "BackendFactory"):
        assert getattr(metrics_logger, name) is getattr(direct, name)
        assert name in metrics_logger.__all__


def test_a_tensorboard_backend_works_alone() -> None:
    """It leaves an event file; a value without a step is at 0, and one that gets nothing leaves no run."""
    backend = TensorboardBackend(log_dir="logs", flush_every_n_steps=1)
    backend.log_scalar("/train/loss", 0.5, step=3)
    backend.log_scalar("train/other", np.float32(1.5))
    backend.close()
    TensorboardBackend("other").close()
    scalars = loaded("logs").Scalars
    assert [(one.step, one.value) for one in scalars("train/loss")] == [(3, 0.5)]
    assert [(one.step, one.value) for one in scalars("train/other")] == [(0, 1.5)]
    assert len(list(Path("runs/tunix").iterdir())) == 1


def test_backends_of_ours_are_sinks_of_the_loggers_run() -> None:
    """As factories too: one run, beside backends of others."""
    kept = Keeps()
    factories = [lambda: TensorboardBackend("logs"), lambda: TensorboardBackend("more"), lambda: kept]
    logger = MetricsLogger(MetricsLoggerOptions("unused", backend_factories=factories))
    logger.log("", "loss", 0.5, "train", 1)
    logger.close()
    for folder in ("logs", "more"):
        assert [one.value for one in loaded(folder).Scalars("train/loss")] == [0.5]
    assert kept.events == [("train/loss", 0.5, 1)] and kept.closed == 1
    assert not Path("unused").exists()
    assert len(list(Path("runs/tunix").iterdir())) == 2, "the logger's, and that of a second one of its kind"


def test_a_factory_that_fails_disturbs_nobody(capfd: pytest.CaptureFixture[str]) -> None:
    """Whatever it raises, the others get everything."""
    kept = Keeps()

    def exits() -> Any:
        raise SystemExit(3)

    def fails() -> Any:
        raise RuntimeError("no wind")

    logger = MetricsLogger(MetricsLoggerOptions("logs", backend_factories=[exits, fails, lambda: kept]))
    logger.log("", "loss", 0.5, "train", 1)
    logger.close()
    assert kept.events == [("train/loss", 0.5, 1)] and "no wind" in capfd.readouterr().err


# -- CLU ---------------------------------------------------------------------------------------------------------------


def test_a_writer_of_clu_is_a_factorys_product() -> None:
    """It gets every value in its own way, and is closed."""
    writer = Writer()
    logger = MetricsLogger(MetricsLoggerOptions("logs", backend_kwargs={"custom_backend": [lambda: writer]}))
    for step in range(3):
        logger.log("actor", "loss", float(step), "train", step)
    logger.log("actor", "vector", [1.0, 2.0], "train", 3)
    logger.close()
    assert writer.scalars == [(step, {"actor/train/loss": float(step)}) for step in range(3)]
    assert writer.histograms == [(3, {"actor/train/vector": [1.0, 2.0]})]
    assert writer.ended[-1] == "close"


def test_options_of_clu_are_used(clu: list[tuple[Writer, dict[str, Any]]]) -> None:
    """They make its default writer, in the place of our event file, unless that has options too."""
    options = MetricsLoggerOptions("logs", backend_kwargs={"clu": {"asynchronous": False}})
    logger = MetricsLogger(options)
    logger.log("", "loss", 0.5, "train", 7)
    logger.close()
    ((writer, given),) = clu
    assert given == {"logdir": "logs", "asynchronous": False}
    assert writer.scalars == [(7, {"train/loss": 0.5})] and writer.ended == ["flush", "close"]
    assert not Path("logs").exists()
    both = MetricsLogger(MetricsLoggerOptions("logs", backend_kwargs={"clu": {"log_dir": "x"}, "tensorboard": {}}))
    both.log("", "loss", 0.5, "train", 7)
    both.close()
    assert "train/loss" in loaded("logs").Tags()["scalars"]


def test_a_clu_backend_works_alone(clu: list[tuple[Writer, dict[str, Any]]]) -> None:
    """Also for values without a step."""
    backend = CluBackend(log_dir="logs")
    backend.log_scalar("/train/loss", 0.5)
    backend.close()
    assert clu[0][0].scalars == [(0, {"train/loss": 0.5})]


def test_without_clu_tensorboard_has_everything(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The backend itself says what is missing."""
    monkeypatch.setitem(sys.modules, "clu", None)
    with pytest.raises(MissingPackage, match="pip install clu"):
        CluBackend("logs")
    logger = MetricsLogger(MetricsLoggerOptions("logs", backend_kwargs={"clu": {}}))
    logger.log("", "loss", 0.5, "train", 1)
    logger.close()
    assert [one.value for one in loaded("logs").Scalars("train/loss")] == [0.5]
    assert "CLU is left out" in capfd.readouterr().err


# -- W&B ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.stop()


def run_script(code: str, server: Server) -> str:
    world = {key: value for key, value in os.environ.items() if not key.startswith(("WANDB_", "WB_"))}
    here = str(Path.cwd())
    world |= {"HOME": here, "WANDB_DATA_DIR": here, "WANDB_CACHE_DIR": here}
    world |= {"WANDB_BASE_URL": server.url, "WANDB_API_KEY": "0123456789abcdef" * 2 + "00000000"}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=world,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


WITH_SETTINGS = """
    import sys, wandb
    from chiplog.frontends.tunix.sft import metrics_logger as ml

    about = {
        "settings": wandb.Settings(x_file_stream_transmit_interval=0.2, run_notes="from the settings", console="off"),
        "config": {"lr": 3e-4, "model": {"layers": 2}},
        "id": "mine",
        "resume": sys.argv[1] if len(sys.argv) > 1 else RESUME,
        "group": "g",
    }
    def train(first, last, **more):
        options = ml.MetricsLoggerOptions("logs", "My Project", "experiment-1", backend_kwargs={"wandb": about}, **more)
        logger = ml.MetricsLogger(options)
        for step in range(first, last):
            logger.log("", "loss", float(step), "train", step)
        logger.close()
"""


@pytest.mark.timeout(170)
def test_wandb_has_the_settings_the_config_and_the_run_it_goes_on_with(server: Server) -> None:
    """As `wandb.init` has them; `resume="must"` goes on with the run that is there, also as a backend by its name."""
    said = run_script(WITH_SETTINGS.replace("RESUME", "'allow'") + "    train(0, 3)\n", server)
    (remote,) = server.runs.values()
    assert (remote.id, remote.project, remote.name) == ("mine", "My Project", "experiment-1")
    assert remote.values()["lr"] == 3e-4 and remote.values()["model"] == {"layers": 2}
    assert remote.about.get("groupName", "g") == "g" and "without" not in said
    factory = "    train(3, 5, backend_factories=[lambda: ml.WandbBackend('My Project', 'experiment-1', **about)])\n"
    run_script(
        WITH_SETTINGS.replace("RESUME", "'must'").replace('backend_kwargs={"wandb": about}, ', "") + factory, server
    )
    assert list(server.runs) == ["mine"]
    assert remote.series("train/loss") == [(step, float(step)) for step in range(5)]


def test_settings_alone_may_say_that_wandb_is_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then no key is needed; and one in the settings is not carried about."""
    import wandb

    about = WandbBackend("p", settings=wandb.Settings(mode="offline", api_key="0" * 40, run_tags=("a",))).options
    assert about["mode"] == "offline" and about["settings"] == {"run_tags": ["a"]}
    options = MetricsLoggerOptions("logs", backend_kwargs={"wandb": {"settings": wandb.Settings(mode="offline")}})
    assert [type(one).__name__ for one in options.create_backends()] == ["SinkBackend", "SinkBackend"]


@pytest.mark.parametrize("how", ["argument", "settings", "variable"])
def test_a_disabled_wandb_is_left_out_without_a_word(
    how: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """No process is started for it, so that the end of a script does not wait for one."""
    kwargs: dict[str, Any] = {"argument": {"mode": "disabled"}, "settings": {"settings": {"mode": "disabled"}}}.get(
        how, {}
    )
    if how == "variable":
        monkeypatch.setenv("WANDB_MODE", "disabled")
    options = MetricsLoggerOptions("logs", backend_kwargs={"wandb": kwargs})
    assert [backend.sink for backend in options.create_backends()] == ["tensorboard"]
    assert capfd.readouterr().err == ""


# -- vectors -----------------------------------------------------------------------------------------------------------


# -- several processes -------------------------------------------------------------------------------------------------

RANKS = """
import json, os, sys, time
from pathlib import Path
from chiplog.frontends.tunix.sft import metrics_logger as ml

if sys.argv[2] == "torch":
    import torch.distributed as dist
    dist.init_process_group("gloo")
else:
    import jax
    jax.distributed.initialize(os.environ["COORDINATOR"], int(os.environ["WORLD"]), int(os.environ["ME"]))
rank = int(os.environ.get("RANK", os.environ.get("ME", "0")))
os.chdir(sys.argv[1])

class Keeps:
    calls = []
    def log_scalar(self, event, value, **kwargs):
        self.calls.append([event, value, kwargs.get("step")])
    def close(self):
        pass

logger = ml.MetricsLogger(ml.MetricsLoggerOptions("logs", backend_factories=[Keeps]))
for step in range(4):
    logger.log("actor", "loss", step + rank / 2, "train", step)
    logger.log("actor", "kl", 0.5, "train", step)
    time.sleep(0.4)  # longer than a round of statistics takes
logger.close()
Path(f"{rank}.json").write_text(json.dumps(Keeps.calls))
"""


EVERY = [(engine, world) for engine in ("torch", "jax") for world in (2, 4)]


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("engine", "world"), EVERY if FULL else [("torch", 4), ("jax", 2)])
def test_backends_of_several_processes_get_what_was_logged(engine: str, world: int, tmp_path: Path) -> None:
    """Eight calls for eight values of the first process: no statistics of ranks, and nothing of the others."""
    import json

    script = tmp_path / "train.py"
    script.write_text(RANKS)
    if engine == "torch":
        launch = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={world}"]
        start([*launch, f"--master-port={free_port()}", str(script), str(tmp_path), "torch"])
    else:
        start_jax(world, str(script), str(tmp_path), "jax")
    first, *others = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(world))
    expected = [
        call for step in range(4) for call in (["actor/train/loss", float(step), step], ["actor/train/kl", 0.5, step])
    ]
    assert first == expected and others == [[]] * (world - 1)
