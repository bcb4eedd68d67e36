"""The programs of Tunix's documentation, run with nothing changed but the imports and where `/tmp` is."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chiplog.frontends.tunix.perf import trace_files
from chiplog.frontends.tunix.perf.metrics import PerfMetricsOptions
from tests.frontends.tunix.devices import mesh

LOGGER = """
from tunix.sft import metrics_logger

options = metrics_logger.MetricsLoggerOptions(
    log_dir="/tmp/logs",
    project_name="my-project",
    run_name="experiment-1",
)

logger = metrics_logger.MetricsLogger(metrics_logger_options=options)
"""
SFT = """
from tunix.sft import metrics_logger
from tunix.sft import peft_trainer

options = metrics_logger.MetricsLoggerOptions(
    log_dir="/tmp/logs",
    project_name="my-sft-project",
)

training_config = peft_trainer.TrainingConfig(
    eval_every_n_steps=100,
    metrics_logging_options=options,
)

trainer = peft_trainer.PeftTrainer(
    model=model,
    optimizer=optimizer,
    training_config=training_config,
)
"""
RL = """
from tunix.rl import rl_cluster
from tunix.sft import metrics_logger

options = metrics_logger.MetricsLoggerOptions(
    log_dir="/tmp/logs",
    project_name="my-rl-project",
)

training_config = rl_cluster.RLTrainingConfig(
    actor_optimizer=optimizer,
    metrics_logging_options=options,
)

cluster_config = rl_cluster.ClusterConfig(
    role_to_mesh=role_to_mesh,
    training_config=training_config,
    rollout_config=rollout_config,
)

cluster = rl_cluster.RLCluster(
    actor=actor_model,
    tokenizer=tokenizer,
    cluster_config=cluster_config,
)
"""
PROTOCOL = """
from typing import Protocol
import numpy as np

class LoggingBackend(Protocol):
    def log_scalar(self, event: str, value: float | np.ndarray, **kwargs):
        ...

    def close(self):
        ...
"""
PRINTS = """
class SimplePrintBackend:
    def log_scalar(self, event, value, **kwargs):
        print(f"Logged {event}: {value}")

    def close(self):
        print("Closing backend.")
"""
CASE_A = """
options = metrics_logger.MetricsLoggerOptions(
    log_dir="/tmp/logs",
    backend_factories=[SimplePrintBackend],
)
logger = metrics_logger.MetricsLogger(metrics_logger_options=options)
"""
CASE_B = """
class FileBackend:
    def __init__(self, filename):
        self.file = open(filename, 'w')

    def log_scalar(self, event, value, **kwargs):
        self.file.write(f"{event},{value}\\n")

    def close(self):
        self.file.close()

my_file_factory = lambda: FileBackend(filename="/tmp/metrics.csv")

options = metrics_logger.MetricsLoggerOptions(
    log_dir="/tmp/logs",
    backend_factories=[my_file_factory]
)
logger = metrics_logger.MetricsLogger(metrics_logger_options=options)
"""
YAML = """
rl_training_config:
  perf_metrics_options:
    enable_perf_v1: true
    enable_perf_v2: false
    enable_trace_writer: true
    trace_dir: "/tmp/perf_trace"
    custom_export_fn_path: "path.to.my.custom_fn"
    custom_export_fn_path_v2: "path.to.my.custom_fn_v2"
"""
PERF_V1 = """
from tunix.perf import metrics as perf_metrics
from tunix.perf import export as perf_export
from tunix.rl import rl_cluster
from tunix.sft import metrics_logger

metric_logger_options = metrics_logger.MetricsLoggerOptions(
    log_dir="/tmp/tensorboard/grpo",
    project_name="my-rl-project",
)

training_config = rl_cluster.RLTrainingConfig(
    metrics_logging_options=metric_logger_options,
)

cluster_config = rl_cluster.ClusterConfig(
    training_config=training_config,
)

perf_config = perf_metrics.PerfMetricsConfig()
perf_config.custom_export_fn = (
    perf_export.PerfMetricsExport.from_cluster_config(cluster_config)
)

cluster = rl_cluster.RLCluster(
    actor=actor_model,
    tokenizer=tokenizer,
    cluster_config=cluster_config,
    perf_config=perf_config,
)
"""
PERF_V2 = """
from tunix.perf import metrics as perf_metrics
from tunix.perf.experimental import export as perf_export_v2
from tunix.rl import rl_cluster

perf_config = perf_metrics.PerfMetricsConfig()

perf_config.custom_export_fn_v2 = (
    perf_export_v2.PerfMetricsExport(trace_dir="/tmp/perf_trace").export_metrics
)

cluster = rl_cluster.RLCluster(
    actor=actor_model,
    tokenizer=tokenizer,
    cluster_config=cluster_config,
    perf_config=perf_config,
)
"""
CUSTOM_V1 = """
from tunix.perf import metrics as perf_metrics

def my_custom_export_fn(query: perf_metrics.PerfSpanQuery) -> perf_metrics.MetricsT:
    global_steps = query().main().last_group("global_step").get()

    if global_steps:
        return {"perf/custom_step_time": (global_steps[0].duration, None)}
    return {}

perf_config.custom_export_fn = my_custom_export_fn
"""
CUSTOM_V2 = """
from tunix.perf import metrics as perf_metrics
from tunix.perf.experimental import tracer

def my_custom_export_fn_v2(timelines: dict[str, tracer.Timeline]) -> perf_metrics.MetricsT:
    for tl_id, timeline in timelines.items():
        pass
    return {}

perf_config.custom_export_fn_v2 = my_custom_export_fn_v2
"""


class Program:
    """A program in pieces, which all see what the ones before have made."""

    def __init__(self, tmp: Path) -> None:
        self._tmp = tmp
        self.names: dict[str, Any] = {
            "model": "model",
            "actor_model": "model",
            "tokenizer": "tokenizer",
            "optimizer": None,
            "rollout_config": None,
            "role_to_mesh": {"actor": mesh(0), "rollout": mesh(0), "reference": mesh(0)},
        }

    def run(self, *pieces: str) -> None:
        for piece in pieces:
            ours = re.sub(r"^from tunix", "from chiplog.frontends.tunix", piece, flags=re.MULTILINE)
            exec(compile(ours.replace('"/tmp/', f'"{self._tmp}/'), "documented", "exec"), self.names)

    def __getattr__(self, name: str) -> Any:
        return self.names[name]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Program]:
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert trace_files.DIRECTORY == "/tmp/perf_traces"
    monkeypatch.setattr(trace_files, "DIRECTORY", str(tmp_path / "perf_traces"))
    made = Program(tmp_path)
    yield made
    for name in ("logger", "trainer", "cluster"):
        if name in made.names:
            made.names[name].close()


def event_files(folder: Path) -> list[Path]:
    return list(folder.glob("events.out.tfevents.*"))


def test_a_logger(program: Program, tmp_path: Path) -> None:
    """It writes into the directory it was given, under the names it was given."""
    program.run(LOGGER)
    program.logger.log("p", "loss", 0.1, "train", 1)
    program.logger.close()
    assert len(event_files(tmp_path / "logs")) == 1
    assert (program.logger.run.project, program.logger.run.name) == ("my-project", "experiment-1")


def test_fine_tuning(program: Program, tmp_path: Path) -> None:
    """A trainer with the metrics of its steps."""
    program.run(SFT)
    program.trainer.with_step_fn(lambda batch: 2.0).train(range(3))
    program.trainer.close()
    assert program.trainer.metrics_logger.get_metric("", "loss", "train") == 2.0
    assert len(event_files(tmp_path / "logs")) == 1 and program.training_config.eval_every_n_steps == 100


def test_reinforcement_learning(program: Program, tmp_path: Path) -> None:
    """A cluster with the metrics of its global steps."""
    program.run(RL)
    program.cluster.buffer_metrics({"rewards/mean": (1.0, None)})
    program.cluster.close()
    assert program.cluster.metrics_logger.get_metric("rewards", "mean", "train") == 1.0
    assert program.cluster.metrics_logger.run.project == "my-rl-project" and len(event_files(tmp_path / "logs")) == 1


def test_a_backend_without_arguments(program: Program, capsys: pytest.CaptureFixture[str]) -> None:
    """Its class is the factory."""
    program.run("from tunix.sft import metrics_logger", PROTOCOL, PRINTS, CASE_A)
    program.logger.log("p", "loss", 0.1, "train", 1)
    program.logger.close()
    assert capsys.readouterr().out == "Logged p/train/loss: 0.1\nClosing backend.\n"


def test_a_backend_with_arguments(program: Program, tmp_path: Path) -> None:
    """A6: a lambda is the factory, and the file has a line for every value."""
    program.run("from tunix.sft import metrics_logger", CASE_B)
    program.logger.log("p", "loss", 0.1, "train", 1)
    program.logger.log("p", "loss", 0.05, "train", 2)
    program.logger.close()
    assert (tmp_path / "metrics.csv").read_text() == "p/train/loss,0.1\np/train/loss,0.05\n"


def test_the_options_in_a_config_file(capfd: pytest.CaptureFixture[str]) -> None:
    """The function of the version that is off is not used, which is said; with both on it is."""
    off = PerfMetricsOptions.from_yaml(YAML)
    assert off == PerfMetricsOptions(custom_export_fn_path="path.to.my.custom_fn", trace_dir="/tmp/perf_trace")
    assert "custom_export_fn_path_v2 = 'path.to.my.custom_fn_v2' is not used" in capfd.readouterr().err
    both = PerfMetricsOptions.from_yaml(YAML.replace("enable_perf_v2: false", "enable_perf_v2: true"))
    assert both is not None and both.custom_export_fn_path_v2 == "path.to.my.custom_fn_v2"


def test_the_first_version_of_tracing(program: Program, tmp_path: Path) -> None:
    """The metrics of each global step, through the logger; and, by default, a trace file in the documented directory."""
    program.run(PERF_V1)
    for _ in range(2):
        with program.cluster.global_step(), program.cluster.perf.span("rollout"):
            pass
    program.cluster.close()
    history = program.cluster.metrics_logger.get_metric_history("perf", "global_step_time", "train")
    assert len(history) == 2 and len(event_files(tmp_path / "tensorboard" / "grpo")) == 1
    (trace,) = (tmp_path / "perf_traces").iterdir()
    assert re.fullmatch(r"perfetto_trace_\d+\.pb", trace.name) and trace.stat().st_size > 0


def test_a_directory_for_the_first_version(program: Program, tmp_path: Path) -> None:
    """By the options in the training config; without the writer there is no file."""
    program.run("from tunix.perf.metrics import PerfMetricsOptions")
    for options in (f"trace_dir={str(tmp_path / 'mine')!r}", "enable_trace_writer=False"):
        said = f"    perf_metrics_options=PerfMetricsOptions({options}),\n)\n\ncluster_config"
        program.run(PERF_V1.replace(")\n\ncluster_config", said, 1))
        with program.cluster.global_step():
            pass
        program.cluster.close()
    assert len(list((tmp_path / "mine").iterdir())) == 1 and not (tmp_path / "perf_traces").exists()


def test_the_second_version_of_tracing(program: Program, tmp_path: Path) -> None:
    """A trace file in the directory that was named, and metrics; without a name it is in the documented one."""
    program.run(RL)
    program.cluster.close()
    program.run(PERF_V2)
    with program.cluster.global_step(), program.cluster.perf_v2.span("rollout", tags={"group_id": 1}):
        pass
    program.cluster.close()
    assert [path.suffix for path in (tmp_path / "perf_trace").iterdir()] == [".pb"]
    assert program.cluster.metrics_logger.metric_exists("perf", "rollout/total_sec", "train")
    program.run(PERF_V2.replace('PerfMetricsExport(trace_dir="/tmp/perf_trace")', "PerfMetricExport()"))
    with program.cluster.global_step():
        pass
    program.cluster.close()
    assert [path.name[:18] for path in (tmp_path / "perf_traces").iterdir()] == ["perfetto_trace_v2_"]


def test_export_functions_of_ones_own(program: Program) -> None:
    """Of both versions at once; what they return is logged."""
    program.run(RL)
    program.cluster.close()
    program.run("from tunix.perf import metrics as m\nperf_config = m.PerfMetricsConfig()", CUSTOM_V1, CUSTOM_V2)
    program.run(PERF_V1.split("perf_config = ")[0] + "\ncluster = rl_cluster.RLCluster(actor=actor_model, "
                "tokenizer=tokenizer, cluster_config=cluster_config, perf_config=perf_config)")  # fmt: skip
    with program.cluster.global_step():
        pass
    assert "host-MainThread" in program.cluster.perf_v2.timelines
    assert program.cluster.perf_v2.timelines["host-MainThread"].root.children[0].name == "global_step"
    program.cluster.close()
    assert program.cluster.metrics_logger.get_metric("perf", "custom_step_time", "train") > 0
