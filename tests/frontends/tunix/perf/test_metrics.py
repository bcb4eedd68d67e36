"""The options of performance tracing and the cluster that has them; C5 and F1 to F4 are of the acceptance list."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

import chiplog
from chiplog.core.errors import BadSetting
from chiplog.frontends.tunix.perf import config, trace, trace_files
from chiplog.frontends.tunix.perf.experimental import tracer as v2
from chiplog.frontends.tunix.perf.experimental.export import PerfMetricsExport as ExportV2
from chiplog.frontends.tunix.perf.export import PerfMetricsExport
from chiplog.frontends.tunix.perf.metrics import PerfMetricsConfig, PerfMetricsOptions, PerfSpanQuery
from chiplog.frontends.tunix.rl.rl_cluster import ClusterConfig, RLCluster, RLTrainingConfig, Role
from chiplog.frontends.tunix.sft.metrics_logger import MetricsLoggerOptions
from chiplog.runtime.devices.watcher import DeviceWatcher
from tests.frontends.tunix.backend import Keeps
from tests.frontends.tunix.devices import mesh

FUNCTIONS = """
seen = []

def first(query):
    seen.append(query)
    return {"perf/mine": (1.0, None)}

def second(timelines):
    seen.append(timelines)
    return {"perf/mine_v2": (2.0, None)}

number = 3
"""


@pytest.fixture(autouse=True)
def _default_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_files, "DIRECTORY", str(tmp_path / "perf_traces"))


@pytest.fixture
def kept() -> Keeps:
    return Keeps()


@pytest.fixture
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module with export functions."""
    (tmp_path / "my_exports.py").write_text(FUNCTIONS)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "my_exports"
    sys.modules.pop("my_exports", None)


def config_of(options: Any, kept: Keeps | None = None, **more: Any) -> ClusterConfig:
    logging = None if kept is None else MetricsLoggerOptions("logs", backend_factories=[lambda: kept])
    training = RLTrainingConfig(metrics_logging_options=logging, perf_metrics_options=options)
    return ClusterConfig(training_config=training, **more)


# -- options -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"enable_perf_v1": False, "custom_export_fn_path": "a.b"},
            "custom_export_fn_path is set but enable_perf_v1 is False.",
        ),
        ({"custom_export_fn_path_v2": "a.b"}, "custom_export_fn_path_v2 is set but enable_perf_v2 is False."),
        ({"enable_perf_v1": False}, "enable_trace_writer is True but neither perf v1 nor v2 is enabled."),
    ],
)
def test_options_that_contradict_each_other_are_an_error(given: dict[str, Any], words: str) -> None:
    """F1: of the class, of a mapping, and in a training config."""
    with pytest.raises(ValueError, match=words):
        PerfMetricsOptions(**given)
    if given.get("enable_perf_v1") is False:  # then a mapping may name its function
        words = "enable_trace_writer is True but neither perf v1 nor v2 is enabled."
    for make in (PerfMetricsOptions.of, config_of):
        with pytest.raises(ValueError, match=f"Invalid perf metrics options: {words}"):
            make(given)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("nodots", "it has no dot"),
        ("my_exports.nobody", "AttributeError"),
        ("no.such.module", "ModuleNotFoundError"),
        ("my_exports.number", "it is not a function, but 3"),
        ("broken_exports.first", "NameError"),
    ],
)
def test_a_function_that_cannot_be_loaded_is_named(path: str, why: str, functions: str, tmp_path: Path) -> None:
    """F2: before any training, with the key, the path and the reason."""
    (tmp_path / "broken_exports.py").write_text("nonsense")
    with pytest.raises(BadSetting, match=rf"Could not load custom export function from {path} \(custom_.*{why}"):
        RLCluster(cluster_config=config_of({"custom_export_fn_path": path}))
    options = {"enable_perf_v2": True, "custom_export_fn_path_v2": path}
    with pytest.raises(BadSetting, match=f"Could not load custom export function v2 from {path}"):
        RLCluster(cluster_config=config_of(options))


def test_functions_are_loaded_by_their_paths(functions: str, kept: Keeps) -> None:
    """F2: and what they return is logged at its global step."""
    options = {
        "enable_perf_v2": True,
        "custom_export_fn_path": f"{functions}.first",
        "custom_export_fn_path_v2": f"{functions}.second",
    }
    with RLCluster(cluster_config=config_of(options, kept)) as cluster:
        for _ in range(2):
            with cluster.global_step():
                pass
    assert kept.named("perf/train/mine") == [(0, 1.0), (1, 1.0)]
    assert kept.named("perf/train/mine_v2") == [(0, 2.0), (1, 2.0)]


@pytest.mark.parametrize("by", ["path", "code", "no writer"])
def test_functions_of_ones_own_have_their_trace_files(by: str, functions: str, kept: Keeps) -> None:
    """Where the options ask for some: of each version, with every span, also one that comes after the last call."""
    paths = {"custom_export_fn_path": f"{functions}.first", "custom_export_fn_path_v2": f"{functions}.second"}
    options: dict[str, Any] = {"enable_perf_v2": True, "trace_dir": "traces", **(paths if by == "path" else {})}
    perf_config = None
    if by != "path":
        perf_config = PerfMetricsConfig(lambda query: {"perf/mine": (1.0, None)}, lambda timelines: {})
    if by == "no writer":
        options = {"enable_trace_writer": False}
    with RLCluster(cluster_config=config_of(options, kept), perf_config=perf_config) as cluster:
        with cluster.global_step(), cluster.perf.span("rollout"), cluster.perf_v2.span("rollout"):
            pass
        with cluster.perf.span("late"), cluster.perf_v2.span("late"):
            pass
    assert kept.named("perf/train/mine") == [(0, 1.0)]
    files = sorted(Path("traces").iterdir()) if Path("traces").exists() else []
    assert [path.name.rstrip("0123456789.pb") for path in files] == (
        [] if by == "no writer" else ["perfetto_trace_", "perfetto_trace_v2_"]
    )
    for path in files:
        assert b"rollout" in path.read_bytes() and b"late" in path.read_bytes()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"typo": 1}, "no 'typo'; available: enable_perf_v1, enable_perf_v2, custom_export_fn_path, custom_exp"),
        ({"enable_perf_v1": "yes"}, "enable_perf_v1 = 'yes': must be a bool"),
        ({"trace_dir": 3}, "trace_dir = 3: must be a str"),
        ("on", "must be a mapping, not 'on'; its keys are: enable_perf_v1"),
    ],
)
def test_a_mistake_in_the_options_is_named(given: Any, words: str) -> None:
    """F3: the key, and the keys there are."""
    with pytest.raises(BadSetting, match=words):
        config_of(given)


def test_the_defaults_are_the_documented_ones() -> None:
    """F4: all six."""
    assert dataclasses.asdict(PerfMetricsOptions()) == {
        "enable_perf_v1": True,
        "enable_perf_v2": False,
        "custom_export_fn_path": "",
        "custom_export_fn_path_v2": "",
        "enable_trace_writer": True,
        "trace_dir": "",
    }


def test_options_come_from_a_yaml_file() -> None:
    """Under `rl_training_config`, or where the original looks for mistakes in them; what is not there is off."""
    text = "rl_training_config:\n  perf_metrics_options:\n    enable_perf_v2: true\n    trace_dir: /tmp/perf_trace\n"
    assert PerfMetricsOptions.from_yaml(text) == PerfMetricsOptions(enable_perf_v2=True, trace_dir="/tmp/perf_trace")
    assert PerfMetricsOptions.from_yaml(text.removeprefix("rl_")) == PerfMetricsOptions.from_yaml(text)
    for nothing in (
        "",
        "rl_training_config: 3\n",
        "rl_training_config:\n",
        "rl_training_config:\n  perf_metrics_options: {}\n",
        "- a\n",
    ):
        assert PerfMetricsOptions.from_yaml(nothing) is None
    with pytest.raises(BadSetting, match="no 'typo'"):
        PerfMetricsOptions.from_yaml("rl_training_config: {perf_metrics_options: {typo: 1}}")


# -- the cluster -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("second", [True, False])
def test_versions_are_on_alone_together_or_not_at_all(first: bool, second: bool, kept: Keeps) -> None:
    """Each with its metrics and its file, or with nothing."""
    options = {
        "enable_perf_v1": first,
        "enable_perf_v2": second,
        "enable_trace_writer": first or second,
        "trace_dir": "traces",
    }
    if not (first or second):
        options.pop("trace_dir")
    with RLCluster(cluster_config=config_of(options, kept)) as cluster:
        assert isinstance(cluster.perf, trace.PerfTracer if first else trace.NoopTracer)
        assert isinstance(cluster.perf_v2, v2.PerfTracer if second else v2.NoopTracer)
        with cluster.global_step(), cluster.perf.span("rollout"), cluster.perf_v2.span("rollout"):
            pass
    assert bool(kept.named("perf/train/global_step_time")) is first
    assert bool(kept.named("perf/train/rollout/total_sec")) is second
    names = sorted(path.name.rstrip("0123456789.pb") for path in Path("traces").iterdir()) if first or second else []
    assert names == ["perfetto_trace_"] * first + ["perfetto_trace_v2_"] * second


def test_no_options_mean_no_tracing(kept: Keeps) -> None:
    """An empty mapping too."""
    for options in (None, {}):
        cluster = RLCluster(cluster_config=config_of(options, kept))
        assert isinstance(cluster.perf, trace.NoopTracer) and isinstance(cluster.perf_v2, v2.NoopTracer)
        assert config.create_perf_config(cluster.cluster_config) is None
        cluster.close()


def test_the_documented_export_function_works(kept: Keeps) -> None:
    """C5: it gets a list of groups, and its metric reaches the logger."""
    found: list[Any] = []

    def my_custom_export_fn(query: PerfSpanQuery) -> Any:
        global_steps = query().main().last_group("global_step").get()
        found.append(global_steps)
        if global_steps:
            return {"perf/custom_step_time": (global_steps[0].duration, None)}
        return {}

    perf_config = PerfMetricsConfig()
    perf_config.custom_export_fn = my_custom_export_fn
    with RLCluster(cluster_config=config_of(None, kept), perf_config=perf_config) as cluster, cluster.global_step():
        pass
    assert isinstance(found[0], list) and len(found[0]) == 1
    assert kept.named("perf/train/custom_step_time") == [(0, found[0][0].duration)]


def test_a_loop_may_count_its_steps_itself(kept: Keeps) -> None:
    """And have its metrics made when a step has ended."""
    perf_config = PerfMetricsConfig(custom_export_fn=lambda query: {"perf/n": (len(query().main().get()), None)})
    cluster = RLCluster(cluster_config=config_of(None, kept), perf_config=perf_config)
    for step in range(3):
        cluster.global_steps = step
        with cluster.perf.span_group("global_step"):
            pass
        cluster.export_perf()
    cluster.close()
    assert kept.named("perf/train/n") == [(0, 1), (1, 1), (2, 1)]


def test_spans_are_in_the_run_with_their_steps(kept: Keeps) -> None:
    """Also while what earlier steps said is being logged."""
    perf_config = PerfMetricsConfig(custom_export_fn=lambda query: {"perf/n": (1.0, None)})
    with RLCluster(cluster_config=config_of(None, kept), perf_config=perf_config) as cluster:
        for _ in range(3):
            with cluster.global_step():
                cluster.buffer_metrics({"x": (1.0, None)})
                cluster.actor_trainer.end_micro_step(1.0)
                with cluster.perf.span("rollout", devices=["tpu0"]):
                    pass
    run = cluster.metrics_logger.run
    assert run is not None
    spans = chiplog.read(run.dir).spans()
    assert [span.step for span in spans.named("rollout").device()] == [0, 1, 2]
    assert [span.step for span in spans.named("global_step")] == [0, 1, 2]


def test_what_a_device_has_done_when_a_step_ends_is_in_its_metrics(
    kept: Keeps, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of both versions, whenever the watcher would have looked at it."""
    monkeypatch.setattr(DeviceWatcher, "_loop", lambda self: None)
    options = {"enable_perf_v2": True, "enable_trace_writer": False}
    roles = {Role.ROLLOUT: mesh(1), Role.ACTOR: mesh(0), Role.REFERENCE: mesh(0)}
    with RLCluster(cluster_config=config_of(options, kept, role_to_mesh=roles)) as cluster:
        for _ in range(3):
            with cluster.global_step():
                work: Future[None] = Future()
                with (
                    cluster.perf.span("rollout", devices=["tpu1"]) as first,
                    cluster.perf_v2.span("rollout", devices=["tpu1"]) as second,
                ):
                    first.device_end(work)
                    second.async_end(work)
                work.set_result(None)
    for name in ("sum/rollout_time", "rollout/device_sec"):
        assert [step for step, _ in kept.named(f"perf/train/{name}")] == [0, 1, 2]


def test_export_functions_may_serve_one_cluster_after_another(kept: Keeps) -> None:
    """Each has its metrics and its files, as in a notebook where a cell is run again."""
    logging = config_of({"trace_dir": "traces"}, kept)
    perf_config = PerfMetricsConfig(
        PerfMetricsExport.from_cluster_config(logging), ExportV2(trace_dir="traces").export_metrics
    )
    for _ in range(2):
        kept.closed = 0
        with (
            RLCluster(cluster_config=logging, perf_config=perf_config) as cluster,
            cluster.global_step(),
            cluster.perf.span("rollout"),
            cluster.perf_v2.span("rollout"),
        ):
            pass
    for name in ("sum/rollout_time", "rollout/total_sec"):
        assert [step for step, _ in kept.named(f"perf/train/{name}")] == [0, 0]
    files = list(Path("traces").iterdir())
    assert len(files) == 4 and all(b"rollout" in path.read_bytes() for path in files)


def test_a_step_that_is_not_traced_has_no_metrics(kept: Keeps) -> None:
    """Least of all those of the one before it."""
    options = {"enable_perf_v2": True, "enable_trace_writer": False}
    with RLCluster(cluster_config=config_of(options, kept)) as cluster:
        run = cluster.metrics_logger.run
        assert run is not None
        run.trace(every=2)
        for step in range(6):
            if step == 4:
                run.trace(False)
            with cluster.global_step():
                pass
    for name in ("global_step_time", "global_step/total_sec"):
        assert [step for step, _ in kept.named(f"perf/train/{name}")] == [0, 2]


def test_a_failed_step_is_marked_and_not_counted(kept: Keeps) -> None:
    """The exception goes on."""
    perf_config = PerfMetricsConfig(custom_export_fn=lambda query: {})
    cluster = RLCluster(cluster_config=config_of(None, kept), perf_config=perf_config)
    with pytest.raises(RuntimeError), cluster.global_step():
        raise RuntimeError("no")
    (group,) = trace.query(cluster.perf).main().all_groups("global_step").get()
    assert cluster.global_steps == 0 and group.ended
    cluster.close()


def test_without_a_logger_there_is_tracing_all_the_same() -> None:
    """With a tracer of its own."""
    perf_config = PerfMetricsConfig(custom_export_fn_v2=lambda timelines: {"perf/n": (len(timelines), None)})
    cluster = RLCluster(cluster_config=ClusterConfig(role_to_mesh={Role.ACTOR: mesh(0, 1)}), perf_config=perf_config)
    with cluster.global_step(), cluster.perf_v2.span("x", devices=mesh(0, 1)):
        pass
    cluster.close()
    assert cluster.metrics_logger.get_metric("perf", "n", "train") == 5  # two devices, their queues, the main thread


FORKS = """
import os
from chiplog.frontends.tunix.rl.rl_cluster import ClusterConfig, RLCluster, RLTrainingConfig
from chiplog.frontends.tunix.sft.metrics_logger import MetricsLoggerOptions

training = RLTrainingConfig(
    metrics_logging_options=MetricsLoggerOptions("logs"),
    perf_metrics_options={"enable_perf_v2": True, "trace_dir": "traces"},
)
cluster = RLCluster(cluster_config=ClusterConfig(training_config=training))

def step(value):
    with cluster.global_step(), cluster.perf.span("x"), cluster.perf_v2.span("x") as span:
        span.async_end(None)
        cluster.buffer_metrics({"value": (value, None)})

step(1.0)
child = os.fork()
if child == 0:
    step(-1.0)
    cluster.close()
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
step(2.0)
cluster.close()
print(cluster.metrics_logger.run.dir)
"""


def test_a_forked_child_traces_and_logs_nothing(tmp_path: Path) -> None:
    """It does not hang, and the parent has everything."""
    done = subprocess.run(
        [sys.executable, "-c", FORKS],
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    stored = chiplog.read(done.stdout.strip())
    assert stored.series("global/train/value").values.tolist() == [1.0, 2.0]
    assert [span.step for span in stored.spans().named("global_step")] == [0, 1]
    assert len(list(Path("traces").iterdir())) == 2


def test_perf_is_there_directly() -> None:
    """With its modules and its names."""
    from chiplog.frontends.tunix import perf

    assert perf.metrics.PerfMetricsConfig is perf.PerfMetricsConfig is PerfMetricsConfig
    assert perf.export.PerfMetricsExport and perf.experimental


def test_a_directory_that_is_not_used_is_said(capfd: pytest.CaptureFixture[str]) -> None:
    """Where no trace is written."""
    RLCluster(cluster_config=config_of({"enable_trace_writer": False, "trace_dir": "x"})).close()
    assert "trace_dir = 'x' is not used" in capfd.readouterr().err


def test_a_url_is_no_directory_for_traces(capfd: pytest.CaptureFixture[str]) -> None:
    """It is said, nothing of that name is made here, and the run goes on."""
    with RLCluster(cluster_config=config_of({"trace_dir": "gs://bucket/x"})) as cluster, cluster.global_step():
        pass
    assert "is a URL" in capfd.readouterr().err and not Path("gs:").exists()
