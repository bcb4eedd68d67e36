"""What the original has under its module paths, each of it used as its users do."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from chiplog.core.errors import MissingPackage
from chiplog.frontends import tunix
from chiplog.frontends.tunix.perf import perfetto, trace
from chiplog.frontends.tunix.perf.experimental import export, timeline, timeline_utils, trace_writer, tracer
from chiplog.frontends.tunix.perf.experimental.timeline import AsyncTimeline, BatchAsyncTimelines, Span, Timeline
from chiplog.frontends.tunix.perf.export import PerfMetricsExport
from chiplog.frontends.tunix.perf.metrics import MetricsBuffer
from chiplog.frontends.tunix.perf.recorder import Recording
from chiplog.frontends.tunix.perf.span import Span as OldSpan
from chiplog.frontends.tunix.perf.span import SpanGroup, merge_span_group_trees
from chiplog.frontends.tunix.rl import rl_cluster
from chiplog.frontends.tunix.sft import system_metrics_calculator
from chiplog.frontends.tunix.sft.metrics_logger import MetricsLogger
from chiplog.frontends.tunix.sft.peft_trainer import PeftTrainer, TrainingConfig
from chiplog.frontends.tunix.sft.progress_bar import ProgressBar
from tests.perfetto.processor import SLICES, ask


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("perf.experimental.timeline", ["Timeline", "AsyncTimeline", "BatchAsyncTimelines", "Span"]),
        ("perf.experimental.timeline_utils", ["sequentialize_overlapping_spans", "generate_queued_timeline_id"]),
        ("perf.experimental.trace_writer", ["TraceWriter", "NoopTraceWriter", "PerfettoTraceWriter"]),
        ("perf.experimental.export", ["DEFAULT_TRACE_DIR", "PerfMetricsExport", "log_metric_export_fn"]),
        ("perf.experimental.tracer", ["generate_host_timeline_id", "generate_device_timeline_id"]),
        ("perf.perfetto", ["PerfettoTraceWriter", "DEFAULT_TRACE_DIR", "DEFAULT_EXPORT_DIR"]),
        ("perf.metrics", ["MetricsBuffer", "MetricsT", "PerfMetricsConfig", "PerfMetricsOptions", "PerfSpanQuery"]),
        ("sft.system_metrics_calculator", ["measure_tflops_per_step", "approximate_tflops_per_second"]),
        ("sft.progress_bar", ["ProgressBar"]),
    ],
)
def test_the_names_are_there(module: str, names: list[str]) -> None:
    """Under the path that the original has."""
    found = import_module(f"chiplog.frontends.tunix.{module}")
    assert [name for name in names if not hasattr(found, name)] == []


def test_what_is_at_the_top_is_what_the_modules_have() -> None:
    """For `from tunix import MetricsLoggerOptions`; what is not there is an AttributeError."""
    for name, module in tunix.NAMES.items():
        assert getattr(tunix, name) is getattr(import_module(f"chiplog.frontends.tunix.{module}"), name)
    with pytest.raises(AttributeError, match="no attribute 'Nobody'"):
        _ = tunix.Nobody


def test_traces_go_where_the_original_puts_them() -> None:
    """By one name in all modules; a tracer's timelines are those of the module of timelines."""
    for module in (export, trace_writer, perfetto):
        assert module.DEFAULT_TRACE_DIR == "/tmp/perf_traces"
    assert tracer.Timeline is timeline.Timeline and rl_cluster.MetricsBuffer is MetricsBuffer
    assert MetricsBuffer(3) == MetricsBuffer(global_steps=3, metrics={}, mode="train")


# -- keywords ----------------------------------------------------------------------------------------------------------


def test_the_keywords_are_the_originals() -> None:
    """Of the n-th group, and of the function that gets what was buffered."""
    old = trace.PerfTracer(recording=Recording(zero=0))
    for _ in range(3):
        with old.span_group("a"):
            pass
    assert len(trace.query(old).main().nth_group(name="a", index=2).get()) == 1
    seen: list[MetricsBuffer] = []
    with rl_cluster.RLCluster(cluster_config=rl_cluster.ClusterConfig()) as cluster:
        cluster.with_external_metrics_logger(external_metrics_logger=seen.append)
        cluster.buffer_metrics({"x": (1.0, np.mean)})
        cluster.buffer_metrics({"x": (2.0, np.mean)})
    assert seen == [MetricsBuffer(0, {"x": ([1.0, 2.0], np.mean)}, "train")]


# -- timelines by hand -------------------------------------------------------------------------------------------------


def test_a_timeline_is_filled_by_hand(tmp_path: Path) -> None:
    """Spans nest in the order in which they are begun, steps are committed, and a writer takes them."""
    line = Timeline("host-worker", 1.0)
    line.start_span("outer", 2.0, tags={"step": 7})
    inner = line.start_span("inner", 3.0)
    line.stop_span(4.0)
    assert (inner.parent_id, inner.duration, line.committed_steps) == (0, 1.0, [])
    line.commit_step()
    line.stop_span(5.0)
    assert [sorted(step) for step in line.all_steps] == [[1], [0]]
    with pytest.raises(ValueError, match="no more spans to end"):
        line.stop_span(6.0)
    line.start_span("late", 7.0)
    with pytest.raises(ValueError, match=r"ended at 6\.000000 before it began at 7\.000000"):
        line.stop_span(6.0)
    line.stop_span(8.0)
    device = Timeline("tpu0", 1.0)
    device.start_span("rollout", 2.0, {"group_id": 3})
    device.stop_span(2.5)
    writer = trace_writer.PerfettoTraceWriter(str(tmp_path / "traces"), {"rollout": ["tpu0"]})
    writer.write_timelines({"host-worker": line, "tpu0": device})
    assert writer.path is not None
    (slices,) = ask(writer.path, SLICES)
    assert sorted((one["name"], one["dur"], one["track"], one["depth"]) for one in slices) == [
        ("inner", 1_000_000_000, "worker", 1),
        ("late", 1_000_000_000, "worker", 0),
        ("outer (step=7)", 3_000_000_000, "worker", 0),
        ("rollout (group_id=3)", 500_000_000, "tpu0", 0),
    ]
    found = export.PerfMetricsExport(enable_trace_writer=False).export_metrics({"tpu0": device, "host-worker": line})
    assert found["perf/rollout/device_sec"] == (0.5, None) and found["perf/outer/total_sec"] == (3.0, None)
    trace_writer.NoopTraceWriter().write_timelines({"tpu0": device})


def test_work_of_a_timeline_ends_when_it_is_done() -> None:
    """Nobody waits for it but who asks to; work that fails is marked, and several devices are as one."""
    lines = [AsyncTimeline("tpu0", 0.0), AsyncTimeline("tpu1", 0.0)]
    begin, work, broken = time.perf_counter(), Future[None](), Future[None]()
    both = BatchAsyncTimelines(lines)
    both.span("train", begin, work, tags={"step": 1})
    both.span("nothing", begin, None)
    assert [span.name for span in lines[0].cur_step.values()] == ["nothing"]
    lines[0].span("fails", begin, broken)
    broken.set_exception(RuntimeError("no wind"))
    work.set_result(None)
    for line in lines:
        line.wait_pending_spans()
    first, second = lines[0].cur_step, lines[1].cur_step
    assert {span.id: span.name for span in first.values()} == {0: "train", 1: "nothing", 2: "fails"}
    assert first[0].begin == begin and begin < first[0].end <= time.perf_counter() and first[0].tags == {"step": 1}
    assert first[2].error and sorted(second) == [0, 1]
    lines[0].commit_step()
    assert lines[0].cur_step == {} and len(lines[0].committed_steps[0]) == 3


def test_a_devices_spans_are_put_one_after_another() -> None:
    """D4: a and b overlap, then three of them; what waited is in the queue, and nothing is dropped."""
    times = {"a": (0.0, 2.0), "b": (1.0, 3.0), "c": (5.0, 8.0), "d": (6.0, 9.0), "e": (6.5, 10.0)}
    spans = {at: Span(name, begin, at, end=end) for at, (name, (begin, end)) in enumerate(times.items())}
    active, queue = timeline_utils.sequentialize_overlapping_spans(spans)
    assert [(one.name, one.begin, one.end) for one in active.values()] == [
        ("a", 0.0, 2.0), ("b", 2.0, 3.0), ("c", 5.0, 8.0), ("d", 8.0, 9.0), ("e", 9.0, 10.0),
    ]  # fmt: skip
    assert [(one.tags["name"], one.begin, one.end) for one in queue.values()] == [
        ("b", 1.0, 2.0), ("d", 6.0, 8.0), ("e", 8.0, 9.0),
    ]  # fmt: skip
    assert timeline_utils.generate_queued_timeline_id("tpu0") == "tpu0_queue"
    line = Timeline("tpu0", 0.0)
    for name in ("x", "y", "x"):
        line.start_span(name, 1.0)
        line.stop_span(2.0)
        line.commit_step()
    assert [one.id for one in timeline_utils.filter_spans_by_name(line, "x")] == [0, 2]


def test_the_first_versions_trace_is_written_by_hand(tmp_path: Path) -> None:
    """Groups of the host, and what each role's devices did, each on its track; the writer is taken by an exporter too."""
    root = SpanGroup("global_step", begin=1.0, end=9.0)
    inner = SpanGroup("mini_batch_step", root, 2.0, 8.0)
    inner.inner.append(OldSpan("rollout", 2.0, 3.0))
    writer = perfetto.PerfettoTraceWriter(str(tmp_path / "traces"))
    writer.log_trace([root], [OldSpan("rollout", 2.0, 4.0)], [OldSpan("refer_inference", 4.0, 5.0)], [inner])
    assert writer.path is not None and writer.path.name.startswith("perfetto_trace_1")
    (slices,) = ask(writer.path, SLICES)
    assert sorted((one["track"], one["name"], one["dur"] // 10**9, one["depth"]) for one in slices) == [
        ("Actor", "mini_batch_step", 6, 0),
        ("Actor", "rollout", 1, 1),
        ("Main", "global_step", 8, 0),
        ("Main", "mini_batch_step", 6, 1),
        ("Main", "rollout", 1, 2),
        ("Reference", "refer_inference", 1, 0),
        ("Rollout", "rollout", 2, 0),
    ]
    function: Any = PerfMetricsExport.from_role_to_devices({}, writer)
    old = trace.PerfTracer(export_fn=function, recording=Recording())
    with old.span_group("global_step"):
        pass
    assert "perf/global_step_time" in old.export() and function.writer is writer


def test_a_timeline_is_found_by_the_id_of_its_thread_task_or_device() -> None:
    """The id is made before there is a span, and by whoever will open it."""
    made = tracer.PerfTracer()
    ids = [tracer.generate_device_timeline_id(SimpleNamespace(platform="tpu", id=3))]

    def work() -> None:
        ids.append(tracer.generate_host_timeline_id())
        with made.span("x", devices=["tpu3"]):
            pass

    async def task() -> None:
        work()

    work()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    asyncio.run(task())
    made.synchronize()
    assert len(set(ids)) == 4 and [len(made.timelines[one].cur_step) for one in ids] == [3, 1, 1, 1]
    with pytest.raises(ValueError, match="is not a device"):
        tracer.generate_device_timeline_id(3.5)


def tree(*children: tuple[str, float, float], name: str = "global_step") -> SpanGroup:
    """A step with a group `mini` in it, and spans in that."""
    root = SpanGroup(name, begin=0.0, end=10.0)
    mini = SpanGroup("mini", root, 1.0, 9.0)
    mini.inner += [OldSpan(*child) for child in children]
    return root


def test_trees_of_two_threads_become_one() -> None:
    """What both have is there once, in order; the trees themselves stay as they are."""
    first, second = tree(("a", 1.0, 2.0), ("c", 5.0, 6.0)), tree(("a", 1.0, 2.0 + 1e-12), ("b", 3.0, 5.0))
    before = first.picture(), second.picture()
    merged = merge_span_group_trees(first, second)
    assert isinstance(merged, SpanGroup) and merged is not first
    assert merged.picture() == tree(("a", 1.0, 2.0), ("b", 3.0, 5.0), ("c", 5.0, 6.0)).picture()
    assert merged.inner[0].outer is merged  # type: ignore[attr-defined]
    assert (first.picture(), second.picture()) == before


def test_trees_that_do_not_fit_are_not_merged() -> None:
    """Other roots, or spans of both that overlap."""
    with pytest.raises(ValueError, match="Roots are not identical"):
        merge_span_group_trees(tree(), tree(name="other"))
    with pytest.raises(ValueError, match="Merge is not possible: Overlap detected"):
        merge_span_group_trees(tree(("a", 1.0, 3.0)), tree(("b", 2.0, 4.0)))


# -- operations --------------------------------------------------------------------------------------------------------


def test_the_operations_of_a_jitted_step_are_measured(capfd: pytest.CaptureFixture[str]) -> None:
    """By its compiler; of what is not jitted nothing is known, which is reported once."""
    import jax
    import jax.numpy as jnp

    def step(model: Any, optimizer: Any, batch: Any) -> Any:
        return model["w"] @ batch["x"] + optimizer

    model, batch = {"w": jnp.ones((8, 16))}, {"x": jnp.ones((16, 4))}
    measured = system_metrics_calculator.measure_tflops_per_step(
        train_step_fn=jax.jit(step), model=model, optimizer=1.0, train_example=batch
    )
    assert measured == pytest.approx(2 * 8 * 16 * 4 / 1e12, rel=0.1)
    assert system_metrics_calculator.measure_tflops_per_step(step, model, 1.0, batch) is None
    assert "not a jitted function" in capfd.readouterr().err


def test_the_rate_is_estimated_from_the_parameters() -> None:
    """6 × parameters × batch / seconds; 0 where there is nothing to divide."""
    rate = system_metrics_calculator.approximate_tflops_per_second
    assert rate(total_model_params=1_000_000, global_batch_size=8, step_time_delta=0.5) == pytest.approx(9.6e-5)
    assert rate(0, 8, 0.5) == rate(10, 8, 0.0) == 0.0


def torch_model() -> Any:
    import torch

    return torch.nn.Linear(10, 10, bias=False)


def jax_model() -> Any:
    import jax.numpy as jnp

    return {"layers": [{"w": jnp.ones((5, 10))}, {"w": jnp.ones((10, 5))}]}


@pytest.mark.parametrize("model", [torch_model, jax_model])
def test_a_known_model_has_its_operations(model: Callable[[], Any]) -> None:
    """`tflops_per_step` is there at every step without anybody counting: from tokens, or else from examples."""
    trainer = PeftTrainer(model(), None, TrainingConfig(gradient_accumulation_steps=2))
    trainer.with_step_fn(lambda batch: 1.0).train([{"input_tokens": np.ones((4, 32), dtype=np.int32)}] * 4)
    found = trainer.metrics_logger.get_metric_history("", "tflops_per_step", "train")
    assert found.tolist() == pytest.approx([6 * 100 * 4 * 32 * 2 / 1e12] * 2)
    own = PeftTrainer(model(), None, TrainingConfig(mini_batch_size=8))
    own.begin_step()
    own.end_micro_step(1.0)
    own.begin_step()
    own.end_micro_step(1.0, np.ones((3, 7)))
    own.flush()
    assert own.metrics_logger.get_metric_history("", "tflops_per_step", "train").tolist() == pytest.approx(
        [6 * 100 * 8 / 1e12, 6 * 100 * 3 / 1e12]
    )


def test_a_jitted_step_function_is_counted_by_its_compiler() -> None:
    """And of a model that nobody knows nothing is guessed."""
    import jax
    import jax.numpy as jnp

    trainer = PeftTrainer("model").with_step_fn(jax.jit(lambda x: (x @ x.T).mean()))
    trainer.train([jnp.ones((8, 16))] * 2)
    trainer.flush()
    found = trainer.metrics_logger.get_metric_history("", "tflops_per_step", "train")
    assert found.tolist() == pytest.approx([2 * 8 * 8 * 16 / 1e12] * 2, rel=0.1)
    unknown = PeftTrainer("model").with_step_fn(lambda batch: 1.0)
    unknown.train([1])
    assert not unknown.metrics_logger.metric_exists("", "tflops_per_step", "train")


# -- the bar -----------------------------------------------------------------------------------------------------------


def test_a_bar_shows_steps_and_metrics(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The means of training first, then of evaluation; one that is not there is reported, a learning rate is not."""
    logger = MetricsLogger()
    for value in (1.0, 2.0):
        logger.log("actor", "loss", value, "train", 1)
        logger.log("actor", "loss", value / 2, "eval", 1)
    bar = ProgressBar(metrics_prefix="actor", metrics_logger=logger, initial_steps=1, max_steps=4, description="GRPO")
    bar.update_metrics(["loss", "learning_rate", "kl"], "eval")
    bar.update_metrics(["loss"], "train")
    bar.update(2)
    bar.close()
    said = capfd.readouterr().err
    assert bar.tqdm_bar.n == 3 and bar.tqdm_bar.total == 4
    assert bar.tqdm_bar.postfix == "actor_train_loss=1.5, actor_eval_loss=0.75"
    assert "GRPO" in said and "no metric 'kl' (eval)" in said and "learning_rate" not in said
    monkeypatch.setitem(__import__("sys").modules, "tqdm.auto", None)
    with pytest.raises(MissingPackage, match="pip install tqdm"):
        ProgressBar(logger, 0, 1)
