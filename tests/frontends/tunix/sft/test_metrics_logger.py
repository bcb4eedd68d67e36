"""The metrics logger of the Tunix front end; the numbers A1 to A14 are those of the acceptance list."""

from __future__ import annotations

import copy
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import chiplog
from chiplog.core.errors import BadSetting, Unwritable
from chiplog.frontends import tunix
from chiplog.frontends.tunix import backends, metrics_logger
from chiplog.frontends.tunix.metrics_logger import MetricsLogger, MetricsLoggerOptions, Mode
from chiplog.sinks import registry
from chiplog.sinks.wandb import login
from tests.frontends.tunix.backend import Keeps
from tests.support.waiting import wait_for

Make = Callable[..., MetricsLogger]


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nobody here is logged in to W&B."""
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("NETRC", raising=False)


@pytest.fixture
def make() -> Iterator[Make]:
    """Loggers that are closed in the end."""
    made: list[MetricsLogger] = []

    def one(*backends: Any, log_dir: str = "logs", **more: Any) -> MetricsLogger:
        given = {"backend_factories": [lambda kept=kept: kept for kept in backends]} if backends else {}
        made.append(MetricsLogger(MetricsLoggerOptions(log_dir, **given, **more)))
        return made[-1]

    yield one
    for logger in made:
        logger.close()


def scalars(folder: str | Path) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard finds in a folder."""
    loaded = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    loaded.Reload()
    return {tag: [(one.step, round(one.value, 4)) for one in loaded.Scalars(tag)] for tag in loaded.Tags()["scalars"]}


# -- options -----------------------------------------------------------------------------------------------------------


def test_the_defaults_are_the_documented_ones() -> None:
    """Every one of them."""
    options = MetricsLoggerOptions("logs")
    assert options.log_dir == "logs"
    assert options.project_name == "tunix"
    assert options.run_name == ""
    assert options.flush_every_n_steps == 100
    assert options.backend_kwargs == {}
    assert list(options.backend_factories) == []
    assert options.enable_opentelemetry is False


def test_the_order_of_the_options_is_the_documented_one() -> None:
    """For those who give them by place."""
    options = MetricsLoggerOptions("logs", "project", "name", 20, {"clu": {}}, [Keeps])
    assert (options.project_name, options.run_name, options.flush_every_n_steps) == ("project", "name", 20)
    assert options.backend_kwargs == {"clu": {}} and options.backend_factories == [Keeps]


def test_a_run_without_a_name_is_called_by_the_time(make: Make) -> None:
    """As 2025-01-14_08-40-01."""
    logger = make(Keeps())
    assert logger.run is not None and re.fullmatch(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d", logger.run.name)
    named = make(Keeps(), run_name="experiment-1", project_name="My Project")
    assert named.run is not None and (named.run.name, named.run.project) == ("experiment-1", "My Project")


def test_options_can_be_pickled(make: Make) -> None:
    """They hold classes and data, never a live object."""
    options = MetricsLoggerOptions("logs", backend_factories=[Keeps])
    assert pickle.loads(pickle.dumps(options)) == options


def test_both_paths_lead_to_the_same_module() -> None:
    """`metrics_logger` is there directly and under `sft`."""
    from chiplog.frontends.tunix.sft import metrics_logger as mirrored

    assert mirrored.MetricsLogger is metrics_logger.MetricsLogger and mirrored.Mode is metrics_logger.Mode
    assert tunix.metrics_logger is metrics_logger


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"backend_kwargs": {"tensorbord": {}}}, "no 'tensorbord'; available: tensorboard, wandb"),
        ({"backend_kwargs": {"tensorboard": {"logdir": "x"}}}, "no 'logdir'; available: log_dir, flush_every"),
        ({"backend_factories": [3]}, "3 is not a backend factory"),
    ],
)
def test_a_mistake_in_the_options_is_named_at_the_door(options: dict[str, Any], words: str) -> None:
    """With the choices there are."""
    with pytest.raises(BadSetting, match=words):
        MetricsLogger(MetricsLoggerOptions(**{"log_dir": "logs", **options}))


def test_a_directory_that_cannot_be_made_is_an_error_at_the_door() -> None:
    """Before any training."""
    Path("file").touch()
    with pytest.raises(Unwritable, match="cannot create log_dir"):
        MetricsLogger(MetricsLoggerOptions("file/logs"))


# -- logging -----------------------------------------------------------------------------------------------------------


def test_values_reach_the_backend_and_the_history(make: Make) -> None:
    """A1: the mode may be the enum or the word."""
    kept = Keeps()
    logger = make(kept)
    logger.log("p", "loss", 0.1, Mode.TRAIN, 1)
    logger.log("p", "loss", 0.05, "train", 2)
    assert logger.get_metric("p", "loss", "train") == pytest.approx(0.075)
    assert logger.get_metric_history("p", "loss", Mode.TRAIN).tolist() == [0.1, 0.05]
    logger.close()
    assert kept.events == [("p/train/loss", 0.1, 1), ("p/train/loss", 0.05, 2)]


@pytest.mark.parametrize(("values", "mean"), [((10, 100), 31.6227766), ((10, 1000), 100)])
def test_perplexities_are_averaged_geometrically(values: tuple[int, int], mean: float) -> None:
    """A2: and only they."""
    logger = MetricsLogger()
    for value in values:
        logger.log("p", "perplexity", value, Mode.EVAL, 1)
        logger.log("p", "loss", value, Mode.EVAL, 1)
    assert logger.get_metric("p", "perplexity", "eval") == pytest.approx(mean)
    assert logger.get_metric("p", "loss", "eval") == sum(values) / 2


def test_a_name_without_prefix_has_no_leading_slash(make: Make) -> None:
    """A3: for backends and for TensorBoard."""
    kept = Keeps()
    logger = make(kept)
    logger.log("", "loss", 1.0, Mode.TRAIN, 0)
    logger.close()
    assert kept.events == [("train/loss", 1.0, 0)]
    logger = make()
    logger.log("", "loss", 1.0, Mode.TRAIN, 0)
    logger.close()
    assert scalars("logs") == {"train/loss": [(0, 1.0)]}


@pytest.mark.parametrize(
    ("prefix", "name", "mode"), [("q", "loss", "train"), ("p", "los", "train"), ("p", "loss", "eval")]
)
def test_what_is_not_there_is_a_value_error_that_lists_what_is(prefix: str, name: str, mode: str) -> None:
    """A4: of the prefix, the name and the mode; never a KeyError."""
    logger = MetricsLogger()
    assert not logger.metric_exists(prefix, name, mode)
    with pytest.raises(ValueError, match="none yet"):
        logger.get_metric(prefix, name, mode)
    logger.log("p", "loss", 1.0, Mode.TRAIN, 0)
    assert logger.metric_exists("p", "loss", "train") and not logger.metric_exists(prefix, name, mode)
    for ask in (logger.get_metric, logger.get_metric_history):
        with pytest.raises(ValueError, match=f"Metric '{prefix}/{mode}/{name}' not found; available: p/train/loss"):
            ask(prefix, name, mode)


def test_a_metric_is_found_by_either_of_its_names() -> None:
    """By the documented one and by the one the original code has."""
    logger = MetricsLogger()
    logger.log("rewards", "score/mean", 2.0, "train", 0)
    logger.log("global", "reward_kl_penalty", 3.0, "train", 0)
    assert logger.get_metric("score", "mean", "train") == 2.0
    assert logger.get_metric("rewards", "reward_kl_penalty", "train") == 3.0
    assert not logger.metric_exists("score", "mean", "eval")


def test_without_options_there_is_a_history_and_nothing_else() -> None:
    """No run, no file."""
    logger = MetricsLogger()
    logger.log("p", "loss", np.float32(0.5), "train", 0)
    logger.close()
    assert logger.get_metric("p", "loss", "train") == 0.5 and list(Path().iterdir()) == []


def test_what_is_no_number_harms_nobody(make: Make, capfd: pytest.CaptureFixture[str]) -> None:
    """It is kept as text, and said."""
    kept = Keeps()
    logger = make(kept)
    logger.log("p", "loss", "high", "train", 0)
    logger.log("p", "loss", 1.0, "train", 1)
    logger.close()
    assert kept.events == [("p/train/loss", 1.0, 1)] and logger.get_metric("p", "loss", "train") == 1.0
    assert "not in the history" in capfd.readouterr().err


# -- backends ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["backend_factories", "custom_backend"])
def test_factories_replace_the_defaults(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A5: called once each, closed once each, and nothing else is made."""
    monkeypatch.setenv("WANDB_MODE", "offline")
    made: list[Keeps] = []

    def factory() -> Keeps:
        made.append(Keeps())
        return made[-1]

    given: dict[str, Any] = {how: [factory]} if how == "backend_factories" else {"backend_kwargs": {how: [factory]}}
    logger = MetricsLogger(MetricsLoggerOptions("logs", **given))
    logger.log("p", "loss", 1.0, "train", 0)
    logger.close()
    logger.close()
    assert len(made) == 1 and made[0].closed == 1 and made[0].events == [("p/train/loss", 1.0, 0)]
    assert not Path("logs").exists() and logger.run is not None and list(logger.run.health()["sinks"]) == ["keeps"]


def test_no_factories_mean_the_defaults(make: Make) -> None:
    """A5: also when a list of none is given."""
    logger = make(backend_kwargs={"custom_backend": []})
    logger.log("p", "loss", 1.0, "train", 0)
    logger.close()
    assert scalars("logs") == {"p/train/loss": [(0, 1.0)]}


def test_a_backend_with_other_methods_is_still_a_backend(make: Make) -> None:
    """Whatever else its class can do, or pretends to."""

    class Busy(Keeps):
        def write(self, batch: Any) -> None:
            raise AssertionError("nobody asked for this")

        log = log_config = finish = write

    kept = Busy()
    logger = make(kept)
    logger.log("p", "loss", 1.0, "train", 0)
    logger.close()
    assert kept.events == [("p/train/loss", 1.0, 0)]


def test_wandb_that_is_not_installed_is_left_out(
    make: Make, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A7: TensorBoard works, and one line says so."""
    monkeypatch.setattr(registry, "find_spec", lambda name: None)
    for _ in range(2):
        make().log("p", "loss", 1.0, "train", 0)
    assert capfd.readouterr().err.count("W&B is left out: it is not installed") == 1


def test_wandb_without_a_key_asks_nobody(make: Make, capfd: pytest.CaptureFixture[str]) -> None:
    """A7: it is left out, visibly, and the end waits for nothing."""
    logger = make()
    logger.log("p", "loss", 1.0, "train", 0)
    began = time.monotonic()
    logger.close()
    assert time.monotonic() - began < 10
    assert scalars("logs") == {"p/train/loss": [(0, 1.0)]}
    assert capfd.readouterr().err.count("W&B is left out: it has no key") == 1


def test_wandb_that_fails_is_said_and_harms_nobody(tmp_path: Path) -> None:
    """A7: TensorBoard has everything, nothing is raised, and the end waits no longer than it was told to."""
    code = (
        "import os, signal, time\n"
        "from chiplog.frontends.tunix.metrics_logger import *\n"
        "logger = MetricsLogger(MetricsLoggerOptions('logs'))\n"
        "logger.log('p', 'loss', 0.25, 'train', 3)\n"
        "began = time.monotonic(); logger.close(timeout=2); assert time.monotonic() - began < 20\n"
    )
    environ = {
        **os.environ, "WANDB_API_KEY": "0" * 40, "WANDB_BASE_URL": "http://127.0.0.1:9", "HOME": str(tmp_path),
    }  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environ, check=False)
    relay = re.search(r"the relay process (\d+) continues for", done.stderr)
    assert done.returncode == 0 and relay, done.stderr
    os.kill(int(relay[1]), signal.SIGKILL)
    assert scalars("logs") == {"p/train/loss": [(3, 0.25)]}
    assert done.stderr.count("'wandb' is not complete") == 1


@pytest.mark.parametrize(
    ("environ", "silent"),
    [
        ({}, False),
        ({"WANDB_API_KEY": "k"}, True),
        ({"WANDB_MODE": "offline"}, True),
        ({"WANDB_DISABLED": "true"}, True),
        ({"WANDB_DISABLED": "false"}, False),
        ({"WANDB_BASE_URL": "https://wandb.example.com"}, True),
        ({"WANDB_BASE_URL": "https://other.example.com"}, False),
        ({"NETRC": "/nowhere"}, False),
    ],
)
def test_whether_wandb_would_have_to_ask(environ: dict[str, str], silent: bool, tmp_path: Path) -> None:
    """By variables, and by the file it keeps its key in."""
    (tmp_path / ".netrc").write_text("machine wandb.example.com login user password k\n")
    (tmp_path / ".netrc").chmod(0o600)
    assert login.is_silent({"HOME": str(tmp_path), **environ}) is silent
    assert login.is_silent({}, "offline")


def test_wandb_gets_the_values_where_it_needs_no_key(tmp_path: Path) -> None:
    """Offline, through its own SDK, in the process beside the training."""
    code = (
        "from chiplog.frontends.tunix.metrics_logger import *\n"
        "options = MetricsLoggerOptions('logs', 'my-project', backend_kwargs={'wandb': {'group': 'g', 'monitor_gym': True}})\n"
        "logger = MetricsLogger(options)\n"
        "logger.log('p', 'loss', 0.25, 'train', 3)\n"
        "logger.close()\n"
        "print(sorted(logger.run.post.away), logger.run.dir)\n"
    )
    environ = {**os.environ, "WANDB_MODE": "offline", "HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environ, check=True)
    assert "W&B is opened without monitor_gym" in done.stderr
    away, _, folder = done.stdout.strip().rpartition(" ")
    assert away == "['wandb']"
    files = list(Path(folder).rglob("*.wandb"))
    assert len(files) == 1 and b"p/train/loss" in files[0].read_bytes() and b"my-project" in files[0].read_bytes()
    assert scalars("logs") == {"p/train/loss": [(3, 0.25)]}


def test_other_processes_keep_a_history_and_write_nothing(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A8: no backend is made, no directory, no file."""
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    kept = Keeps()
    for logger in (make(), make(kept)):
        logger.log("p", "loss", 1.0, "train", 0)
        logger.close()
        assert logger.get_metric("p", "loss", "train") == 1.0
    assert MetricsLoggerOptions("logs").create_backends() == []
    assert kept.events == [] and kept.closed == 0 and list(Path().iterdir()) == []


def test_copied_options_make_loggers_that_share_nothing(make: Make) -> None:
    """A9: two directories, two event files, each with its own values."""
    options = MetricsLoggerOptions("one")
    other = copy.deepcopy(options)
    other.log_dir = "two"
    first, second = MetricsLogger(options), MetricsLogger(other)
    first.log("p", "loss", 1.0, "train", 0)
    second.log("p", "loss", 2.0, "train", 0)
    first.close()
    second.close()
    assert scalars("one") == {"p/train/loss": [(0, 1.0)]} and scalars("two") == {"p/train/loss": [(0, 2.0)]}
    assert len(list(Path("one").iterdir())) == len(list(Path("two").iterdir())) == 1
    assert not first.metric_exists("p", "other", "train")


def test_a_logger_made_twice_in_a_directory_has_two_files(make: Make) -> None:
    """Nothing of the first is written over: it has the same name, and another id."""
    runs = []
    for value in (1.0, 2.0):
        logger = make(run_name="same")
        logger.log("p", "loss", value, "train", int(value))
        logger.close()
        runs.append(logger.run)
    assert {one.name for one in runs} == {"same"} and len({one.id for one in runs}) == 2
    assert len(list(Path("logs").iterdir())) == 2


def test_a_closed_logger_is_closed_alone(make: Make) -> None:
    """A10: its backend gets nothing more, another logger's does."""
    first, second = Keeps(), Keeps()
    one, two = make(first), make(second)
    one.close()
    two.log("p", "loss", 1.0, "train", 0)
    one.log("p", "loss", 2.0, "train", 0)
    two.close()
    assert first.events == [] and second.events == [("p/train/loss", 1.0, 0)]


def test_what_jax_says_of_itself_is_not_logged(make: Make) -> None:
    """A11: a compilation while the logger lives leaves no trace in its file."""
    import jax

    logger = make()
    jax.jit(lambda x: x * 3 + 1)(2.0)
    logger.log("p", "loss", 1.0, "train", 0)
    logger.close()
    assert set(scalars("logs")) == {"p/train/loss"}


def test_a_backend_that_raises_harms_nobody(make: Make, capfd: pytest.CaptureFixture[str]) -> None:
    """A12: the training goes on, the others get every value, and it is said once."""

    class Fails(Keeps):
        def log_scalar(self, event: str, value: Any, **kwargs: Any) -> None:
            raise ConnectionError("no wind")

    kept = Keeps()
    logger = make(Fails(), kept)
    for step in range(3):
        logger.log("p", "loss", float(step), "train", step)
    logger.close()
    assert [value for _, value, _ in kept.events] == [0.0, 1.0, 2.0] and kept.closed == 1
    assert capfd.readouterr().err.count("'fails' failed (ConnectionError: no wind)") == 1


def test_a_factory_that_raises_harms_nobody(make: Make, capfd: pytest.CaptureFixture[str]) -> None:
    """A12: as if it were not there, but for a line."""

    def fails() -> Any:
        raise RuntimeError("no harbour")

    kept = Keeps()
    logger = MetricsLogger(MetricsLoggerOptions("logs", backend_factories=[fails, lambda: kept]))
    logger.log("p", "loss", 1.0, "train", 0)
    logger.close()
    assert len(kept.events) == 1 and "no harbour" in capfd.readouterr().err


def test_values_are_in_the_event_file_without_a_flush(make: Make) -> None:
    """A13: another process sees both steps while the logger is open."""
    logger = make(flush_every_n_steps=2, backend_kwargs={"tensorboard": {"flush_interval_s": 0}})
    logger.log("p", "loss", 1.0, "train", 1)
    logger.log("p", "loss", 2.0, "train", 2)
    code = (
        "from tensorboard.backend.event_processing.event_accumulator import EventAccumulator as E\n"
        "e = E('logs'); e.Reload(); print([(s.step, s.value) for s in e.Scalars('p/train/loss')])"
    )
    wait_for(lambda: scalars("logs").get("p/train/loss") == [(1, 1.0), (2, 2.0)], timeout=20)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[(1, 1.0), (2, 2.0)]"


def test_a_value_without_a_step_is_at_step_0(make: Make) -> None:
    """A14: through the logger, and through a backend on its own."""
    logger = make()
    logger.log("p", "loss", 1.0, "train", None)
    logger.close()
    (backend,) = MetricsLoggerOptions("alone").create_backends()
    backend.log_scalar("/train/loss", 2.0)
    backend.close()
    assert scalars("logs") == {"p/train/loss": [(0, 1.0)]} and scalars("alone") == {"train/loss": [(0, 2.0)]}


def test_backends_are_made_anew_with_every_call() -> None:
    """For those who want them without a logger."""
    options = MetricsLoggerOptions("logs", backend_factories=[Keeps])
    (first,), (second,) = options.create_backends(), options.create_backends()
    assert isinstance(first, Keeps) and first is not second
    backend = backends.TensorboardBackend("alone", flush_every_n_steps=5)
    backend.log_scalar("x", 1.5, step=4)
    backend.close()
    assert scalars("alone") == {"x": [(4, 1.5)]}


def test_a_logger_does_not_touch_the_current_run(make: Make) -> None:
    """A run that somebody began stays the current one."""
    with chiplog.init(project="mine", sinks="none") as run:
        logger = make(Keeps())
        logger.log("p", "loss", 1.0, "train", 0)
        assert chiplog.run is run and not run.inert
        logger.close()
        assert chiplog.run is run and not run.inert


def test_a_value_on_a_device_is_logged_when_it_has_arrived(make: Make) -> None:
    """JAX arrays as they are."""
    import jax.numpy as jnp

    kept = Keeps()
    logger = make(kept)
    logger.log("p", "loss", jnp.asarray(0.5), "train", 1)
    logger.close()
    assert kept.events == [("p/train/loss", 0.5, 1)] and logger.get_metric("p", "loss", "train") == 0.5


def test_jax_is_not_needed() -> None:
    """Neither to import the front end nor to log."""
    code = (
        "import sys\n"
        "sys.modules['jax'] = None\n"
        "from chiplog.frontends.tunix import metrics_logger\n"
        "logger = metrics_logger.MetricsLogger(metrics_logger.MetricsLoggerOptions('logs'))\n"
        "logger.log('p', 'loss', 1.0, 'train', 0); logger.close()\n"
        "assert 'numpy' not in sys.modules and 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert scalars("logs") == {"p/train/loss": [(0, 1.0)]}
