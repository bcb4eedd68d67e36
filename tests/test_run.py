"""A run, as the people see it who write one: through `chiplog.init`."""

from __future__ import annotations

import argparse
import dataclasses
import os
import pickle
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import chiplog
from chiplog.core import records
from chiplog.core.errors import BadSetting, RunExists, RunNotFound, UnknownSink, Unwritable


def begin(path: Path, **settings: object) -> chiplog.Run:
    return chiplog.init("p", **{"sinks": "none", "dir": path, "strict": True, **settings})  # type: ignore[arg-type]


def test_a_row_is_on_disk_when_log_returns(tmp_path: Path) -> None:
    """Read by somebody else, before anything is flushed."""
    run = begin(tmp_path)
    run.log({"train/loss": 2.5}, step=7)
    series = chiplog.read(run.dir).series("train/loss")
    assert series.steps.tolist() == [7] and series.values.tolist() == [2.5]


def test_log_gives_the_row_back(tmp_path: Path) -> None:
    """The row holds what this call wrote, as plain numbers."""
    assert begin(tmp_path).log({"a": np.float32(0.5), "b": {"c": 1}}) == {"a": 0.5, "b/c": 1}


def test_without_a_step_each_call_is_its_own(tmp_path: Path) -> None:
    """As somebody who comes from wandb expects."""
    run = begin(tmp_path)
    for _ in range(3):
        run.log({"x": 1.0})
    assert chiplog.read(run.dir).series("x").steps.tolist() == [0, 1, 2]


def test_once_a_step_was_given_a_call_without_joins_the_newest(tmp_path: Path) -> None:
    """Several calls for one step are several records of it."""
    run = begin(tmp_path)
    run.log({"x": 1.0}, step=10)
    run.log({"y": 2.0})
    run.eval({"loss": 3.0})
    stored = chiplog.read(run.dir)
    assert stored.series("y").steps.tolist() == [10] and stored.series("eval/loss").steps.tolist() == [10]


def test_a_bad_value_costs_only_itself_and_is_said_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The rest of the row is kept; the value is kept as text."""
    run = begin(tmp_path)
    for _ in range(3):
        run.log({"loss": 1.0, "note": "hello"})
    assert len(chiplog.read(run.dir).series("loss")) == 3
    assert [record.text for record in chiplog.read(run.dir).records("text")] == ["hello"] * 3  # type: ignore[union-attr]
    assert capsys.readouterr().err.count("'note' is no number") == 1


def test_a_step_that_is_no_number_is_refused_politely(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Training goes on unless strict."""
    run = begin(tmp_path, strict=False)
    run.log({"x": 0.0}, step=7)
    assert run.log({"x": 1.0}, step="soon") == {"x": 1.0}  # type: ignore[arg-type]
    assert "a step is a number" in capsys.readouterr().err
    assert chiplog.read(run.dir).series("x").steps.tolist() == [7, 7], "the row is kept, at the newest step"
    strict = begin(tmp_path)
    with pytest.raises(TypeError):
        strict.log({"x": 1.0}, step="soon")  # type: ignore[arg-type]


def test_numpy_steps_are_steps(tmp_path: Path) -> None:
    """As they come out of array code."""
    run = begin(tmp_path)
    run.log({"x": 1.0}, step=np.int64(5))  # type: ignore[arg-type]
    assert chiplog.read(run.dir).series("x").steps.tolist() == [5]


def test_media_become_records_of_their_own(tmp_path: Path) -> None:
    """Text, histogram, matrix and image, beside the numbers of the same row."""
    pixels = np.zeros((2, 3, 3), np.uint8)
    with begin(tmp_path) as run:
        run.log(
            {
                "loss": 1.0,
                "sample": chiplog.Text("words"),
                "weights": chiplog.Histogram(np.arange(100), bins=10),
                "load": chiplog.Matrix([[1, 2], [3, 4]]),
                "picture": chiplog.Image(pixels, caption="black"),
            },
            step=4,
        )
    stored = chiplog.read(run.dir)
    by_kind = {records.kind_of(record): record for record in stored.records()}
    assert by_kind["text"].text == "words"  # type: ignore[union-attr]
    assert by_kind["histogram"].counts == [10] * 10  # type: ignore[union-attr]
    assert by_kind["matrix"].values == [[1, 2], [3, 4]]  # type: ignore[union-attr]
    file = by_kind["file"]
    assert isinstance(file, records.File) and file.step == 4 and file.caption == "black"
    assert (run.dir / file.path).read_bytes().startswith(b"\x89PNG")


def test_artifacts_are_copied_into_the_run(tmp_path: Path) -> None:
    """Under a safe name, whatever the artifact is called."""
    (tmp_path / "report.md").write_text("done")
    with begin(tmp_path) as run:
        run.artifact(tmp_path / "report.md", name="../../etc/report")
    (file,) = chiplog.read(run.dir).records("file")
    assert isinstance(file, records.File)
    assert (run.dir / file.path).resolve().is_relative_to(run.dir.resolve())
    assert (run.dir / file.path).read_text() == "done"


def test_spans_nest_and_a_failed_one_is_marked(tmp_path: Path) -> None:
    """By context, with the step they belong to."""
    with begin(tmp_path) as run:
        run.begin_step(3)
        with run.span("outer", tags={"micro": 1}):
            with pytest.raises(KeyError), run.span("inner"):
                raise KeyError

            @run.span("called")
            def work() -> int:
                return 5

            assert work() == 5
    spans = {span.name: span for span in chiplog.read(run.dir).spans()}
    assert spans["inner"].parent == spans["outer"].id == spans["called"].parent
    assert spans["inner"].failed and not spans["outer"].failed
    assert spans["outer"].tags == {"micro": 1} and spans["outer"].step == 3
    assert spans["outer"].duration >= spans["inner"].duration + spans["called"].duration


def test_tracing_can_be_switched_off(tmp_path: Path) -> None:
    """And on again, at run time."""
    with begin(tmp_path) as run:
        run.trace(False)
        with run.span("hidden"):
            pass
        run.trace(True)
        with run.span("seen"):
            pass
        assert [span.name for span in run.spans()] == ["seen"]


def test_steps_go_through_a_loader_and_time_it(tmp_path: Path) -> None:
    """What is logged inside joins the step; the plan says how many there will be."""
    with begin(tmp_path) as run:
        for batch in run.steps([10, 20, 30], tokens=100):
            run.log({"train/loss": batch})
    stored = chiplog.read(run.dir)
    assert stored.series("train/loss").steps.tolist() == [0, 1, 2]
    assert stored.series("train/tokens_per_sec").steps.tolist() == [0, 1, 2]
    assert stored.series("train/data_time_sec").values.min() >= 0
    (plan,) = [event for event in stored.records("event") if event.name == "plan"]  # type: ignore[union-attr]
    assert plan.data == {"steps": 3}  # type: ignore[union-attr]


def test_a_step_of_a_loop_of_ones_own(tmp_path: Path) -> None:
    """`with run.step()` counts on from the newest."""
    with begin(tmp_path) as run:
        for _ in range(2):
            with run.step(tokens=5) as number:
                run.log({"x": number})
    assert chiplog.read(run.dir).series("x").steps.tolist() == [0, 1]


def test_alerts_are_recorded_and_told(tmp_path: Path) -> None:
    """Those of the rules too: NaN in a loss is an error."""
    told: list[str] = []
    with begin(tmp_path) as run:
        run.on_alert(lambda alert: told.append(alert.title))
        run.alert("look here", level="info")
        run.log({"train/loss": float("nan"), "train/grad_norm": 1.0}, step=5)
        run.log({"train/loss": float("nan")}, step=6)
    alerts = list(chiplog.read(run.dir).records("alert"))
    assert [alert.title for alert in alerts] == told == ["look here", "train/loss is nan"]  # type: ignore[union-attr]
    assert alerts[1].step == 5 and alerts[1].level == "error"  # type: ignore[union-attr]


def test_a_callback_that_raises_does_no_harm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is reported, and the alert is kept."""
    run = begin(tmp_path, strict=False)
    run.on_alert(lambda alert: 1 / 0)
    run.alert("look here")
    assert len(list(chiplog.read(run.dir).records("alert"))) == 1
    assert "on_alert" in capsys.readouterr().err


def test_a_stage_changes_the_row_before_it_is_written(tmp_path: Path) -> None:
    """Smoothing is one; your own is a function."""
    run = begin(tmp_path, smooth=0.5, stages=[lambda row, step: {**row, "double": 2 * row["loss"]}])
    run.log({"loss": 4.0})
    assert run.log({"loss": 2.0}) == {"loss": 2.0, "smoothed/loss": pytest.approx(8 / 3), "double": 4.0}


def test_a_probe_is_sampled_on_its_own_thread(tmp_path: Path) -> None:
    """What it says are events, and so series."""
    sampled = threading.Event()

    class Thermometer:
        name = "room"
        interval = 0.01

        def sample(self) -> list[dict[str, float]]:
            sampled.set()
            return [{"temperature": 21.5}]

    with begin(tmp_path, probes=[Thermometer()]) as run:
        assert sampled.wait(10)
    assert chiplog.read(run.dir).series("room/temperature").values[0] == 21.5


def test_config_comes_from_anything_and_is_redacted_on_disk(tmp_path: Path) -> None:
    """A dict, a namespace or a dataclass; secrets stay in memory."""

    @dataclasses.dataclass
    class Options:
        lr: float = 0.1

    assert begin(tmp_path, config=Options()).config == {"lr": 0.1}
    assert begin(tmp_path, config=argparse.Namespace(lr=0.2)).config == {"lr": 0.2}
    run = begin(tmp_path, config={"lr": 0.3, "api_key": "abc", "net": {"heads": 8}})
    assert run.config["api_key"] == "abc" and run.config.lr == 0.3
    run.config["batch"] = 32
    run.config.update(lr=0.4)
    assert chiplog.read(run.dir).config == {"lr": 0.4, "api_key": "[redacted]", "net": {"heads": 8}, "batch": 32}
    with pytest.raises(BadSetting, match="config is a mapping"):
        begin(tmp_path, config=5)


def test_the_summary_has_last_values_and_what_was_set(tmp_path: Path) -> None:
    """Live and stored alike."""
    run = begin(tmp_path)
    run.log({"loss": 2.0})
    run.log({"loss": 1.0})
    run.summary["best"] = 1.0
    assert dict(run.summary) == {"loss": 1.0, "best": 1.0}
    run.finish()
    assert chiplog.read(run.dir).summary == {"loss": 1.0, "best": 1.0}


def test_finish_twice_and_log_afterwards_are_harmless(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Said once, not kept, not raised."""
    run = begin(tmp_path)
    assert run.finish() and run.finish()
    assert run.log({"x": 1.0}) == {"x": 1.0}
    run.log({"x": 1.0})
    run.event("late")
    assert capsys.readouterr().err.count("the run has finished") == 1
    assert chiplog.read(run.dir).names() == []


@pytest.mark.parametrize(
    ("error", "state"), [(None, "finished"), (ValueError("no"), "failed"), (KeyboardInterrupt(), "interrupted"), (SystemExit(3), "finished")]
)  # fmt: skip
def test_the_state_says_how_it_ended(tmp_path: Path, error: BaseException | None, state: str) -> None:
    """From the exception that left the `with` block."""
    try:
        with begin(tmp_path) as run:
            if error is not None:
                raise error
    except BaseException as raised:
        assert raised is error
    assert chiplog.read(run.dir).state == state


def test_a_run_is_running_until_it_ends(tmp_path: Path) -> None:
    """And its attempts say who writes them."""
    run = begin(tmp_path)
    stored = chiplog.read(run.dir)
    assert stored.state == "running"
    (attempt,) = stored.attempts
    assert attempt.start is not None and attempt.start.pid == os.getpid()
    run.finish()
    assert stored.state == "finished"


def test_a_second_launch_hides_the_first_from_its_first_step_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All points are kept; the default view is the line a person expects."""
    for launch, steps in enumerate([range(10), range(6, 12)]):
        with begin(tmp_path, id="r") as run:
            for step in steps:
                run.log({"x": launch}, step=step)
    assert "new attempt" in capsys.readouterr().err
    stored = chiplog.read(run.dir)
    series = stored.series("x")
    assert series.steps.tolist() == [*range(6), *range(6, 12)] and series.values.tolist() == [0] * 6 + [1] * 6
    assert len(stored.series("x", attempt=1)) == 10
    assert len(list(stored.records("step"))) == 16


def test_two_writers_at_once_are_both_shown(tmp_path: Path) -> None:
    """Lifetimes that overlap hide nothing from each other."""
    first = begin(tmp_path, id="r")
    chiplog.core.run.current = None
    second = begin(tmp_path, id="r")
    second.log({"x": 2.0}, step=0)
    first.log({"x": 1.0}, step=0)
    second.finish()
    first.finish()
    assert sorted(chiplog.read(first.dir).series("x").values.tolist()) == [1.0, 2.0]


def test_resume_is_a_token_must_or_never(tmp_path: Path) -> None:
    """Each with an error that says what to do."""
    first = begin(tmp_path)
    token = first.resume_token()
    first.finish()
    again = begin(tmp_path, resume=token)
    assert again.id == first.id and again.identity.attempt == 2
    assert begin(tmp_path, id=first.id, resume="must").id == first.id
    with pytest.raises(RunExists, match="resume='never'"):
        begin(tmp_path, id=first.id, resume="never")
    with pytest.raises(RunNotFound, match="resume='must'"):
        begin(tmp_path, id="none-such", resume="must")
    with pytest.raises(BadSetting, match="token"):
        begin(tmp_path, resume="maybe")


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"sinks": "csvv"}, UnknownSink, ["csvv", "console, csv, jsonl, json, tensorboard, memory"]),
        ({"id": "../x"}, BadSetting, ["../x", "a-z"]),
        ({"id": "Ω"}, BadSetting, ["directory name"]),
        ({"durability": "never"}, BadSetting, ["'process', 'relaxed', 'disk'"]),
        ({"nonsense": 1}, BadSetting, ["nonsense", "project"]),
    ],
)
def test_a_mistake_at_the_door_fails_there(
    tmp_path: Path, settings: dict[str, object], error: type[Exception], words: list[str]
) -> None:
    """With the value in the message, and the choices."""
    with pytest.raises(error) as raised:
        begin(tmp_path, **settings)
    assert all(word in str(raised.value) for word in words)
    assert not list(tmp_path.rglob("*.jsonl"))


def test_an_unwritable_place_is_told_at_once(tmp_path: Path) -> None:
    """With the way out."""
    (tmp_path / "file").write_text("")
    with pytest.raises(Unwritable, match=r"init\(dir=\.\.\.\) or CHIPLOG_DIR"):
        begin(tmp_path / "file")


def test_the_module_speaks_to_the_current_run(tmp_path: Path) -> None:
    """`chiplog.log`, `chiplog.run` and `chiplog.finish`."""
    chiplog.core.run.previous = None
    with pytest.raises(chiplog.ChiplogError, match=r"chiplog\.init"):
        chiplog.log({"x": 1})
    run = begin(tmp_path)
    assert chiplog.run is run
    chiplog.log({"x": 1.0})
    assert chiplog.finish() and chiplog.run is None
    assert chiplog.finish()
    chiplog.log({"x": 2.0})
    assert len(chiplog.read(run.dir).series("x")) == 1


def test_disabled_switches_all_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is written, nothing is said, and the code runs as it is."""
    monkeypatch.setenv("CHIPLOG_MODE", "disabled")
    with begin(tmp_path / "runs", sinks="console,csv") as run:
        assert run.log({"x": 1.0}) == {"x": 1.0}
        with run.span("a"):
            run.event("b")
        run.summary["c"] = 1
    assert not (tmp_path / "runs").exists() and capsys.readouterr() == ("", "")


def test_other_ranks_write_nothing_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rank 0 owns the journal and the sinks."""
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")
    with begin(tmp_path / "runs") as run:
        run.log({"x": 1.0})
    assert not (tmp_path / "runs").exists() and capsys.readouterr().err == ""


def test_with_journals_on_all_ranks_rank_is_an_axis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The launch ties them together; the reader makes a step × rank matrix."""
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    for rank in range(3):
        monkeypatch.setenv("SLURM_PROCID", str(rank))
        monkeypatch.setenv("SLURM_NTASKS", "3")
        with begin(tmp_path, ranks="all") as run:
            for step in range(2):
                run.log({"loss": 10 * rank + step}, step=step)
    assert run.id == "77"
    matrix = chiplog.read(run.dir).series("loss").by_rank()
    assert matrix.ranks.tolist() == [0, 1, 2] and matrix.values.tolist() == [[0, 10, 20], [1, 11, 21]]
    assert chiplog.read(run.dir).series("loss", rank=1).values.tolist() == [10, 11]


def test_ranks_that_cannot_agree_are_told_how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a launch id, journals on all ranks are an error at the door."""
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(BadSetting, match="CHIPLOG_RUN_ID"):
        begin(tmp_path, ranks="all")


def test_a_pickled_run_is_inert_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And says how to open a journal of its own."""
    run = begin(tmp_path)
    copy = pickle.loads(pickle.dumps(run))
    copy.log({"x": 1.0})
    assert "chiplog.attach" in capsys.readouterr().err
    assert chiplog.read(run.dir).names() == []


def test_attach_opens_a_journal_of_ones_own_in_a_run(tmp_path: Path) -> None:
    """Of the same launch, so that nobody hides anybody."""
    run = begin(tmp_path)
    run.log({"x": 1.0}, step=0)
    chiplog.core.run.current = None
    worker = chiplog.attach(run.dir)
    worker.log({"x": 2.0}, step=0)
    worker.finish()
    run.finish()
    assert chiplog.read(run.dir).series("x").values.tolist() == [1.0, 2.0]
    with pytest.raises(RunNotFound):
        chiplog.attach(tmp_path / "nowhere")


def test_tables_take_rows_and_data_frames(tmp_path: Path) -> None:
    """Rows are appended."""
    import pandas as pd

    run = begin(tmp_path)
    run.table("samples", [{"prompt": "a", "reward": 1.0}], step=1)
    run.table("samples", pd.DataFrame({"prompt": ["b"], "reward": [2.0]}), step=2)
    tables = list(chiplog.read(run.dir).records("table"))
    assert [row["prompt"] for table in tables for row in table.rows] == ["a", "b"]  # type: ignore[union-attr]


def test_runs_are_found_by_id_prefix_name_and_latest(tmp_path: Path) -> None:
    """And an unknown one lists what there is."""
    for number in range(3):
        begin(tmp_path, id=f"run-{number}", name=f"name {number}").finish()
    assert [stored.id for stored in chiplog.runs(tmp_path)] == ["run-0", "run-1", "run-2"]
    for text in ("run-1", "p/run-1", "name 1", tmp_path / "p" / "run-1"):
        assert chiplog.read(text, dir=tmp_path).id == "run-1"
    assert chiplog.read(dir=tmp_path).id == "run-2"
    with pytest.raises(RunNotFound, match="any of 3 runs"):
        chiplog.read("run", dir=tmp_path)
    with pytest.raises(RunNotFound, match="p/run-0"):
        chiplog.read("other", dir=tmp_path)


def test_follow_ends_with_the_run(tmp_path: Path) -> None:
    """It yields what comes, from another thread's point of view, and stops at the end."""
    run = begin(tmp_path)
    seen: list[int] = []
    heard = threading.Event()

    def listen() -> None:
        for record in chiplog.read(run.dir).follow(poll=0.01):
            if isinstance(record, records.Step):
                seen.append(int(record.step))
                heard.set()

    listener = threading.Thread(target=listen)
    listener.start()
    run.log({"x": 1.0}, step=0)
    assert heard.wait(10)
    run.log({"x": 1.0}, step=1)
    run.finish()
    listener.join(10)
    assert seen == [0, 1] and not listener.is_alive()


def test_the_environment_is_gathered_and_kept(tmp_path: Path) -> None:
    """Command, versions and host; also for a run that ends at once."""
    with begin(tmp_path) as run:
        pass
    environment = chiplog.read(run.dir).environment
    assert environment["host"] == os.uname().nodename and environment["packages"]["numpy"] == np.__version__


def test_health_tells_how_recording_goes(tmp_path: Path) -> None:
    """The journal, the device, the spans and each sink."""
    run = begin(tmp_path, sinks="memory")
    assert run.health()["journal"] == {"waiting": 0, "dropped": 0, "trouble": None}
    assert run.health()["sinks"]["memory"]["state"] == "ok"
    with pytest.raises(UnknownSink, match="it has: memory"):
        run.sink("wandb")


def test_a_row_too_wide_for_a_line_becomes_several_records(tmp_path: Path) -> None:
    """Nothing of it is cut."""
    row = {f"metric/{number:06d}/{'x' * 80}": float(number) for number in range(20_000)}
    with begin(tmp_path) as run:
        run.log(row, step=3)
        run.table("big", ({"text": "x" * 1000, "number": number} for number in range(5000)))
    stored = chiplog.read(run.dir)
    steps = list(stored.records("step"))
    assert len(steps) > 1 and {name: value for step in steps for name, value in step.metrics.items()} == row  # type: ignore[union-attr]
    rows = [row["number"] for table in stored.records("table") for row in table.rows]  # type: ignore[union-attr]
    assert rows == list(range(5000))


def test_pictures_of_two_attempts_do_not_overwrite_each_other(tmp_path: Path) -> None:
    """Nor do artifacts of the same name; and all are for the owner only."""
    (tmp_path / "a.txt").write_text("a")
    for shade in (0, 255):
        with begin(tmp_path, id="r") as run:
            run.log({"picture": chiplog.Image(np.full((2, 2), shade, np.uint8))})
            run.artifact(tmp_path / "a.txt", name="note")
    files = [run.dir / record.path for record in chiplog.read(run.dir).records("file")]  # type: ignore[union-attr]
    assert len(set(files)) == 4 and all(file.stat().st_mode & 0o777 == 0o600 for file in files)


def test_what_cannot_be_copied_in_time_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow copy holds up neither the journal nor the end."""
    import shutil

    go = threading.Event()
    monkeypatch.setattr(shutil, "copyfileobj", lambda *_: go.wait(30))
    (tmp_path / "big.bin").write_text("big")
    run = begin(tmp_path, durability="relaxed")
    run.artifact(tmp_path / "big.bin")
    run.log({"x": 1.0})
    done = run.finish(timeout=1)
    go.set()
    assert not done and "big" in done.missing["files"]
    assert chiplog.read(run.dir).state == "finished" and len(chiplog.read(run.dir).series("x")) == 1


def test_one_thing_that_fails_at_the_end_keeps_nothing_else_from_it(tmp_path: Path) -> None:
    """The finish record is written, sinks are closed, whatever a hook or a span's tags do."""
    run = begin(tmp_path, sinks="memory")
    run.before_finish(lambda: 1 / 0)  # type: ignore[arg-type,return-value]
    run.at_finish(lambda: 1 / 0)  # type: ignore[arg-type,return-value]
    with run.span("odd", tags=np.arange(3)):  # type: ignore[arg-type]
        pass
    with run.span("even"):
        pass
    assert run.finish()
    stored = chiplog.read(run.dir)
    assert stored.state == "finished" and [span.name for span in stored.spans()] == ["odd", "even"]


def test_a_stage_that_fails_costs_nothing_but_its_own_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The row is written as it was before."""
    run = begin(tmp_path, strict=False, stages=[lambda row, step: 1 / 0, lambda row, step: None])
    assert run.log({"x": 1.0}) == {"x": 1.0}
    assert "stage" in capsys.readouterr().err and len(chiplog.read(run.dir).series("x")) == 1


def test_steps_that_are_not_finite_are_kept(tmp_path: Path) -> None:
    """A NaN among the steps is data too."""
    run = begin(tmp_path)
    for step in (1, float("nan"), float("inf")):
        run.log({"x": 5.0, "y": float("nan")}, step=step)
    assert [str(step) for step in chiplog.read(run.dir).series("x").steps.tolist()] == ["1.0", "nan", "inf"]
    with run.step() as number:
        assert number == 0


def test_a_row_without_a_step_hides_nothing_after_a_resume(tmp_path: Path) -> None:
    """Only steps that were given say where a newer launch begins."""
    with begin(tmp_path, id="r") as run:
        for step in range(5):
            run.log({"loss": step}, step=step)
    with begin(tmp_path, id="r") as run:
        run.log({"startup/sec": 1.0})
        run.log({"loss": 50}, step=5)
    assert chiplog.read(run.dir).series("loss").values.tolist() == [0, 1, 2, 3, 4, 50]


def test_long_integers_stay_with_their_own_attempt(tmp_path: Path) -> None:
    """Though another attempt counts its records from 0 again."""
    for value, step in ((2**60 + 1, 0), (0.5, 1)):
        with begin(tmp_path, id="r") as run:
            run.log({"x": value}, step=step)
    assert chiplog.read(run.dir).series("x").exact == [2**60 + 1, 0.5]


def test_the_view_does_not_depend_on_the_clocks_of_the_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An attempt that begins an hour before the one it follows is still the newer one."""
    with begin(tmp_path, id="r") as run:
        for step in range(10):
            run.log({"x": 1.0}, step=step)
    import time

    now = time.time_ns()
    monkeypatch.setattr(
        chiplog.core.clock.Clock.__init__, "__defaults__", (lambda: now - 3600 * 10**9, time.monotonic_ns)
    )
    with pytest.raises(RuntimeError), begin(tmp_path, id="r") as run:
        run.log({"x": 2.0}, step=5)
        raise RuntimeError
    stored = chiplog.read(run.dir)
    assert stored.series("x").values.tolist() == [1.0] * 5 + [2.0] and stored.state == "failed"


def test_a_worker_that_attached_itself_does_not_decide_the_state(tmp_path: Path) -> None:
    """Workers often end without a word."""
    run = begin(tmp_path)
    code = f"import chiplog, os; chiplog.attach({str(run.dir)!r}).log({{'x': 1.0}}); os._exit(0)"
    subprocess.run([sys.executable, "-c", code], check=True)
    run.finish()
    assert chiplog.read(run.dir).state == "finished" and len(chiplog.read(run.dir).series("x")) == 1


def test_changing_the_row_that_log_gave_back_changes_nothing(tmp_path: Path) -> None:
    """Though it may still wait to be written."""
    for settings in ({}, {"alerts": False}):
        run = begin(tmp_path, durability="relaxed", **settings)
        row = run.log({"x": 1.0})
        row["x"] = 777.0
        run.finish()
        assert chiplog.read(run.dir).series("x").values.tolist() == [1.0]


def test_setting_the_summary_reads_nothing(tmp_path: Path) -> None:
    """It may be done every step."""
    run = begin(tmp_path)
    run._reread = lambda: pytest.fail("the journal was read")
    run.summary["best"] = 1.0
    assert run.summary["best"] == 1.0


def test_the_config_is_a_dict_to_everybody_else(tmp_path: Path) -> None:
    """It can be pickled into a checkpoint, and all ways of changing it are recorded."""
    run = begin(tmp_path, config={"lr": 0.1})
    run.config.setdefault("batch", 8)
    run.config |= {"depth": 3}
    run.config.update(argparse.Namespace(width=4), allow_val_change=True)
    copy = pickle.loads(pickle.dumps(run.config))
    assert type(copy) is dict and copy == {"lr": 0.1, "batch": 8, "depth": 3, "width": 4}
    assert chiplog.read(run.dir).config == copy


def test_a_run_that_keeps_nothing_asks_nothing_of_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another rank must not wait for its device to tell what nobody wants to know."""

    class Tensor:
        dtype, shape = "float32", ()

        def item(self) -> float:
            return pytest.fail("the device was waited for")  # type: ignore[no-any-return]

    monkeypatch.setenv("CHIPLOG_MODE", "disabled")
    assert begin(tmp_path).log({"x": Tensor(), "y": 1.0}) == {"y": 1.0}


def test_a_loader_without_a_length_is_walked_all_the_same(tmp_path: Path) -> None:
    """A torch DataLoader over an endless dataset has `__len__`, and raises."""

    class Endless:
        def __len__(self) -> int:
            raise TypeError("no length")

        def __iter__(self) -> object:
            return iter([1, 2])

    run = begin(tmp_path)
    assert list(run.steps(Endless())) == [1, 2]  # type: ignore[arg-type]


def test_a_stored_run_may_be_asked_by_several_threads(tmp_path: Path) -> None:
    """Each gets the whole series."""
    with begin(tmp_path) as run:
        for step in range(3000):
            run.log({"x": step}, step=step)
    stored = chiplog.read(run.dir)
    lengths: list[int] = []
    threads = [threading.Thread(target=lambda: lengths.append(len(stored.series("x").times))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lengths == [3000] * 8


def test_a_signal_handler_is_given_back_at_the_end(tmp_path: Path) -> None:
    """Many runs in one process do not pile them up."""
    before = signal.getsignal(signal.SIGTERM)
    with begin(tmp_path, on_signal="flush"):
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_metric_may_be_called_step(tmp_path: Path) -> None:
    """In every format."""
    with begin(tmp_path) as run:
        run.log({"step": 100.0}, step=1)
    stored = chiplog.read(run.dir)
    assert stored.to_polars()["step"].to_list() == [1] and stored.to_polars()["step/value"].to_list() == [100.0]
    assert float(stored.to_xarray()["step/value"][0]) == 100.0


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"sinks": 5}, "console,csv"), ({"smooth": 2.0}, "smooth"), ({"reduce": "often"}, "every=N")],
)
def test_more_mistakes_at_the_door(tmp_path: Path, settings: dict[str, object], words: str) -> None:
    """Each says what was given and what can be."""
    with pytest.raises(BadSetting, match=words):
        begin(tmp_path, **settings)


def test_a_function_hears_every_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """When it is written, on the thread that wrote it; one that raises is reported once and changes nothing."""
    run = chiplog.init("p", sinks="none", dir=tmp_path)
    heard: list[records.Record] = []

    def hear(record: records.Record) -> None:
        heard.append(record)
        raise RuntimeError("deaf")

    run.on_record(hear)
    assert run.log({"loss": 1.0}, step=1) == {"loss": 1.0}
    run.eval({"loss": 2.0})
    run.event("note", text="x")
    assert [type(record).__name__ for record in heard] == ["Step", "Eval", "Event"]
    run.finish()
    assert heard[0] in chiplog.read(run.dir).records(kind="step")
    assert capsys.readouterr().err.count("deaf") == 1
