"""A run while it lives: spans, steps, alerts, stages, probes, summary and health."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import chiplog
from chiplog.core import records
from chiplog.core.errors import UnknownSink
from tests.core.run.begun import begin


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


def test_the_summary_has_last_values_and_what_was_set(tmp_path: Path) -> None:
    """Live and stored alike."""
    run = begin(tmp_path)
    run.log({"loss": 2.0})
    run.log({"loss": 1.0})
    run.summary["best"] = 1.0
    assert dict(run.summary) == {"loss": 1.0, "best": 1.0}
    run.finish()
    assert chiplog.read(run.dir).summary == {"loss": 1.0, "best": 1.0}


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


def test_health_tells_how_recording_goes(tmp_path: Path) -> None:
    """The journal, the device, the spans and each sink."""
    run = begin(tmp_path, sinks="memory")
    assert run.health()["journal"] == {"waiting": 0, "dropped": 0, "trouble": None}
    assert run.health()["sinks"]["memory"]["state"] == "ok"
    with pytest.raises(UnknownSink, match="available: memory"):
        run.sink("wandb")


def test_a_stage_that_fails_costs_nothing_but_its_own_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The row is written as it was before."""
    run = begin(tmp_path, strict=False, stages=[lambda row, step: 1 / 0, lambda row, step: None])
    assert run.log({"x": 1.0}) == {"x": 1.0}
    assert "stage" in capsys.readouterr().err and len(chiplog.read(run.dir).series("x")) == 1


def test_setting_the_summary_reads_nothing(tmp_path: Path) -> None:
    """It may be done every step."""
    run = begin(tmp_path)
    run.engine.read_back._read = lambda: pytest.fail("the journal was read")
    run.summary["best"] = 1.0
    assert run.summary["best"] == 1.0


def test_a_loader_without_a_length_is_walked_all_the_same(tmp_path: Path) -> None:
    """A torch DataLoader over an endless dataset has `__len__`, and raises."""

    class Endless:
        def __len__(self) -> int:
            raise TypeError("no length")

        def __iter__(self) -> object:
            return iter([1, 2])

    run = begin(tmp_path)
    assert list(run.steps(Endless())) == [1, 2]  # type: ignore[arg-type]


def test_settle_waits_until_sinks_here_have_everything(tmp_path: Path) -> None:
    """What was logged before the call is in the file when it returns."""
    run = begin(tmp_path, sinks="jsonl")
    for step in range(50):
        run.log({"loss": 1.0}, step=step)
    assert run.settle(20.0)
    written = (run.dir / "files" / "metrics.jsonl").read_text()
    assert written.count('"log":"step"') == 50
    run.finish()
