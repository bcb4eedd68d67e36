"""The trace files of the Tunix front end, read by Perfetto's trace processor; E1 to E10 are of the acceptance list."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chiplog.frontends.tunix.perf import trace, trace_files
from chiplog.frontends.tunix.perf.experimental.export import PerfMetricsExport
from chiplog.frontends.tunix.perf.experimental.tracer import PerfTracer
from chiplog.frontends.tunix.perf.export import PerfMetricsExport as OldExport
from chiplog.frontends.tunix.perf.shared_tracer import Recording
from chiplog.frontends.tunix.perf.trace_export import trace_of
from chiplog.frontends.tunix.perf.trace_files import TraceFiles
from chiplog.frontends.tunix.rl import rl_cluster
from chiplog.frontends.tunix.sft.metrics_logger import MetricsLoggerOptions
from chiplog.runtime.ranks.detect import Ranks
from chiplog.store.spans.span import StoredSpan
from tests.frontends.tunix.devices import Later, set_clock
from tests.perfetto.processor import SLICES, args_of, ask
from tests.support.waiting import wait_for

S = 10**9
BORN = 1_700_000_000 * S


def span(number: int, name: str, begin: float, end: float, **more: Any) -> StoredSpan:
    return StoredSpan(
        number,
        more.pop("parent", 0),
        name,
        more.pop("thread", "MainThread"),
        BORN + int(begin * S),
        round((end - begin) * S),
        **more,
    )


@pytest.fixture
def files() -> Iterator[TraceFiles]:
    """A writer into `traces`, of the second version."""
    made = TraceFiles("traces", "perfetto_trace_v2", {"actor": ["tpu0", "tpu1"], "rollout": ["tpu0"]})
    yield made
    made.close()


def written(made: TraceFiles, *spans: StoredSpan) -> Path:
    made.write(spans)
    assert made.flush()
    assert made.path is not None
    return made.path


@pytest.mark.parametrize(
    ("stem", "ranks", "pattern"),
    [
        ("perfetto_trace", Ranks(), r"perfetto_trace_\d+\.pb"),
        ("perfetto_trace_v2", Ranks(), r"perfetto_trace_v2_\d+\.pb"),
        ("perfetto_trace_v2", Ranks(3, 8), r"perfetto_trace_v2_\d+_r00003\.pb"),
    ],
)
def test_files_have_the_documented_names(stem: str, ranks: Ranks, pattern: str) -> None:
    """E1: the time, and the rank where there are several; two of one second do not meet."""
    names = []
    for _ in range(2):
        made = TraceFiles("traces", stem, rank=ranks, clock=lambda: 1771973518.7)
        names.append(written(made, span(1, "x", 0, 1)).name)
        made.close()
    assert all(re.fullmatch(pattern, name) for name in names) and len(set(names)) == 2
    assert "1771973518" in names[0]


def test_the_directory_is_the_documented_one_by_default() -> None:
    """E1: where nobody names another."""
    assert trace_files.DIRECTORY == "/tmp/perf_traces"


def test_nothing_is_written_for_nothing() -> None:
    """E1: no spans, no file, no directory."""
    exporter = PerfMetricsExport(trace_dir="traces")
    tracer = PerfTracer(["tpu0"], exporter.export_metrics)
    tracer.export()
    exporter.shutdown()
    assert not Path("traces").exists()


def test_the_documented_directory_is_for_its_owner_alone(files: TraceFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file too; one that a person has named follows the umask."""
    before = os.umask(0o022)
    try:
        monkeypatch.setattr(trace_files, "DIRECTORY", str(Path("documented").absolute()))
        ours = TraceFiles(None, "perfetto_trace_v2")
        path = written(ours, span(1, "x", 0, 1))
        ours.close()
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700 and stat.S_IMODE(path.stat().st_mode) == 0o600
        path = written(files, span(1, "x", 0, 1))
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o755 and stat.S_IMODE(path.stat().st_mode) == 0o644
    finally:
        os.umask(before)


def test_a_link_is_not_followed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Neither in the place of the directory nor in that of the file."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    Path("linked").symlink_to(elsewhere)
    made = TraceFiles("linked")
    made.write([span(1, "x", 0, 1)])
    made.flush()
    assert list(elsewhere.iterdir()) == [] and "is a link or a file" in capfd.readouterr().err
    Path("traces").mkdir()
    Path("traces/perfetto_trace_100.pb").symlink_to(elsewhere / "file")
    made = TraceFiles("traces", clock=lambda: 100.0)
    assert written(made, span(1, "x", 0, 1)).name == "perfetto_trace_101.pb" and list(elsewhere.iterdir()) == []
    made.close()


def test_a_directory_of_somebody_else_is_left_to_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours is then beside it."""
    monkeypatch.setattr(trace_files, "DIRECTORY", str(tmp_path / "perf_traces"))
    (tmp_path / "perf_traces").symlink_to(tmp_path / "theirs")
    made = TraceFiles()
    assert written(made, span(1, "x", 0, 1)).parent == tmp_path / f"perf_traces-{os.getuid()}"
    made.close()


# -- one picture, asked once -------------------------------------------------------------------------------------------

TAGS = {"step": 100, "group_id": 5, "pair_index": 3, "mine": "x", "score": 0.5, "ok": True}
DEVICE = {"thread": "tpu5", "kind": "device"}
PICTURE = [
    *(span(at, f"x{at}", at, at + 0.5, thread="three") for at in range(1, 4)),
    span(11, "outer", 1, 4, thread="nest"),
    span(12, "inner", 2, 3, thread="nest", parent=11),
    span(21, "span_1", 1, 5, **DEVICE),
    span(22, "span_2", 2, 6, **DEVICE),
    span(23, "span_3", 6, 10, **DEVICE),
    span(31, "rollout", 1, 2, thread="tags", tags=TAGS),
    span(32, "queue", 3, 4, thread="tags", tags={"name": "rollout"}),
    span(41, "train", 1, 2),
    span(42, "rollout", 1, 2, thread="worker"),
    span(43, "x", 1, 2, thread="tpu0", kind="device"),
    span(44, "queue", 1, 2, thread="tpu0_queue", kind="queue"),
    span(45, "x", 1, 2, thread="tpu1", kind="device"),
    span(46, "x", 1, 2, thread="tpu7", kind="device"),
]


@pytest.fixture(scope="module")
def picture(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The slices of a trace by track, and the arguments; the processor found nothing wrong with it."""
    folder = tmp_path_factory.mktemp("traces")
    made = TraceFiles(str(folder), "perfetto_trace_v2", {"actor": ["tpu0", "tpu1"], "rollout": ["tpu0"]})
    path = written(made, *PICTURE)
    made.close()
    slices, args = ask(path, SLICES.replace("s.id,", "s.id, s.track_id,"), "select * from args")
    tracks: dict[str, list[Any]] = {}
    for one in slices:
        tracks.setdefault(one["track"], []).append(one)
    return tracks, args


def test_spans_are_slices(picture: Any) -> None:
    """E2: as many, each where and as long as it was; nothing is wrong with the trace."""
    slices = picture[0]["three"]
    assert [(one["name"], one["dur"]) for one in slices] == [("x1", S // 2), ("x2", S // 2), ("x3", S // 2)]
    assert slices[1]["ts"] - slices[0]["ts"] == S and sum(map(len, picture[0].values())) == len(PICTURE)


def test_nested_spans_are_nested(picture: Any) -> None:
    """E3: on one track, depth 0 and 1, one the parent of the other."""
    outer, inner = picture[0]["nest"]
    assert (outer["depth"], inner["depth"]) == (0, 1) and inner["parent_id"] == outer["id"]
    assert outer["track_id"] == inner["track_id"]


def test_siblings_that_overlap_have_lanes(picture: Any) -> None:
    """E4: each with its own duration; the third is on the first lane again."""
    slices = picture[0]["tpu5"]
    assert [(one["name"], one["dur"]) for one in slices] == [("span_1", 4 * S), ("span_2", 4 * S), ("span_3", 4 * S)]
    first, second, third = (one["track_id"] for one in slices)
    assert first == third != second


def test_tags_are_in_the_name_and_all_of_them_in_the_arguments(picture: Any) -> None:
    """E5: those of one's own too, with their types."""
    tracks, args = picture
    rollout, queue = tracks["tags"]
    assert (rollout["name"], queue["name"]) == ("rollout (step=100, group_id=5, pair_index=3)", "queue (name=rollout)")
    assert args_of(args, rollout) == TAGS


def test_tracks_are_ordered_by_roles(picture: Any) -> None:
    """E6: hosts by what they do, devices with their queues by who uses them."""
    above = {track: slices[0]["above"] for track, slices in picture[0].items()}
    assert above == {
        **dict.fromkeys(("MainThread", "three", "nest", "tags"), "Host - Main threads"),
        "worker": "Host - Rollout threads",
        **dict.fromkeys(("tpu0", "tpu0_queue"), "Actor, Rollout Cluster"),
        "tpu1": "Actor Cluster",
        **dict.fromkeys(("tpu5", "tpu7"), "Devices"),
    }


# -- over time ---------------------------------------------------------------------------------------------------------


def test_a_directory_that_cannot_be_written_is_said_once(capfd: pytest.CaptureFixture[str]) -> None:
    """E7: and the run goes on."""
    Path("file").touch()
    exporter = PerfMetricsExport(trace_dir="file/traces")
    tracer = PerfTracer(export_fn=exporter.export_metrics)
    for _ in range(3):
        with tracer.span("x"):
            pass
        assert "perf/x/total_sec" in tracer.export()
        assert exporter.writer is not None and exporter.writer.flush()
    exporter.shutdown()
    said = capfd.readouterr().err
    assert said.count("cannot write traces to file/traces: ") == 1 and "stopped" not in said


@pytest.mark.parametrize("with_run", [False, True])
def test_a_directory_of_two_files_is_named_once_and_a_journal_where_there_is_one(
    with_run: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    """Both versions write to it; nobody is sent to a journal that does not exist."""
    Path("traces").touch()
    config = rl_cluster.RLTrainingConfig(
        metrics_logging_options=MetricsLoggerOptions(log_dir="logs") if with_run else None,
        perf_metrics_options={"enable_perf_v2": True, "trace_dir": "traces"},
    )
    cluster = rl_cluster.RLCluster(cluster_config=rl_cluster.ClusterConfig(training_config=config))
    for _ in range(2):
        with cluster.global_step():
            pass
    cluster.close()
    said = [line for line in capfd.readouterr().err.splitlines() if "trace" in line]
    assert len(said) == 1 and "cannot write traces to traces: " in said[0]
    run = cluster.metrics_logger.run
    assert (run is not None) == with_run == ("journal" in said[0])
    assert run is None or f"the journal in {run.dir} has all spans" in said[0]


def test_a_killed_program_leaves_a_whole_file() -> None:
    """E8: with all steps that were exported, on the wall clock."""
    began = time.time_ns()
    code = (
        "import os, sys, time\n"
        "from chiplog.frontends.tunix.perf.experimental.export import PerfMetricsExport\n"
        "from chiplog.frontends.tunix.perf.experimental.tracer import PerfTracer\n"
        "exporter = PerfMetricsExport(trace_dir='traces')\n"
        "tracer = PerfTracer(export_fn=exporter.export_metrics)\n"
        "for step in range(5):\n"
        "    with tracer.span('outer', tags={'step': step}), tracer.span('inner'): pass\n"
        "    tracer.export()\n"
        "exporter.writer.flush()\n"
        "with tracer.span('open'):\n"
        "    print('ready', flush=True); time.sleep(100)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None and program.stdout.readline() == "ready\n"
        program.send_signal(signal.SIGKILL)
    (path,) = Path("traces").iterdir()
    (slices,) = ask(path, SLICES)
    assert began - S <= slices[0]["ts"] <= time.time_ns()
    assert [one["name"] for one in slices if one["depth"] == 0] == [f"outer (step={step})" for step in range(5)]
    assert sum(one["name"] == "inner" for one in slices) == 5


def test_a_write_costs_what_is_new(files: TraceFiles) -> None:
    """E9: the last of many is as large as the first."""
    sizes = [0]
    for step in range(30):
        path = written(
            files, *(span(100 * step + at, "x", step + at / 100, step + (at + 1) / 100) for at in range(100))
        )
        sizes.append(path.stat().st_size)
    first, last = sizes[2] - sizes[1], sizes[-1] - sizes[-2]
    assert last < 1.5 * first
    (rows,) = ask(path, "select count(*) as n from slice")
    assert rows == [{"n": 3000}]


def test_a_late_device_span_has_the_duration_that_was_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """E10: it outlives the group it was begun in, and neither's time is changed; it comes with the last flush, below
    its role, and an arrow leads to it."""
    later = Later()
    roles = {"rollout": ["tpu0"], "actor": ["tpu0"], "refer": ["tpu0"]}
    made = TraceFiles("traces", "perfetto_trace", roles)
    export_fn = OldExport.from_role_to_devices(roles, made)
    tracer = trace.PerfTracer(export_fn=export_fn, recording=Recording(watcher=later))
    set_clock(monkeypatch, 100, 101, 102, 103)
    with tracer.span_group("global_step"), tracer.span("work", devices=["tpu0"]) as one:
        one.device_end("x")
    tracer.export()
    later.done("work", 103.5)
    late = trace_of(export_fn)
    assert late is not None
    late.flush(trace.query(tracer))
    assert made.path is not None
    flow = (
        "select a.dur as begin, b.dur as end from flow join slice a on slice_out = a.id join slice b on slice_in = b.id"
    )
    slices, arrows = ask(made.path, SLICES, flow)
    assert arrows == [{"begin": 1 * S, "end": int(2.5 * S)}]
    assert {(one["above"], one["track"], one["name"], one["dur"]) for one in slices} == {
        ("Main", "MainThread", "global_step", 3 * S),
        ("Main", "MainThread", "work", 1 * S),
        ("Actor, Refer, Rollout", "tpu0", "work", int(2.5 * S)),
    }
    made.close()


def test_an_exporter_that_was_shut_down_says_so(capfd: pytest.CaptureFixture[str]) -> None:
    """And writes nothing more."""
    with PerfMetricsExport(trace_dir="traces") as exporter:
        tracer = PerfTracer(export_fn=exporter.export_metrics)
        with tracer.span("x"):
            pass
        tracer.export()
    size = next(Path("traces").iterdir()).stat().st_size
    with tracer.span("x"):
        pass
    assert tracer.export() == {} and "after its shutdown" in capfd.readouterr().err
    assert next(Path("traces").iterdir()).stat().st_size == size > 0


def test_a_disk_that_is_too_slow_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """What cannot wait any more is dropped, and that is said."""
    monkeypatch.setattr(trace_files, "WAITING", 2)
    made = TraceFiles("traces")
    held = made._append
    gate = threading.Event()
    monkeypatch.setattr(made, "_append", lambda spans: (gate.wait(30), held(spans)))
    for at in range(10):
        made.write([span(at + 1, "x", at, at + 0.5)])
    gate.set()
    made.close()
    assert "cannot be written fast enough" in capfd.readouterr().err
    assert made.path is not None
    wait_for(lambda: made.path.stat().st_size > 0, timeout=10)  # type: ignore[union-attr]
