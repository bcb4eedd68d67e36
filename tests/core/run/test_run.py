"""What `log` and its sisters take, as the people see it who write a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import chiplog
from chiplog.core import records
from tests.core.run.begun import begin


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
    assert capsys.readouterr().err.count("'note' is not a number") == 1


def test_a_step_that_is_no_number_is_refused_politely(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Training goes on unless strict."""
    run = begin(tmp_path, strict=False)
    run.log({"x": 0.0}, step=7)
    assert run.log({"x": 1.0}, step="soon") == {"x": 1.0}  # type: ignore[arg-type]
    assert "a step is a finite number" in capsys.readouterr().err
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


def test_tables_take_rows_and_data_frames(tmp_path: Path) -> None:
    """Rows are appended."""
    import pandas as pd

    run = begin(tmp_path)
    run.table("samples", [{"prompt": "a", "reward": 1.0}], step=1)
    run.table("samples", pd.DataFrame({"prompt": ["b"], "reward": [2.0]}), step=2)
    tables = list(chiplog.read(run.dir).records("table"))
    assert [row["prompt"] for table in tables for row in table.rows] == ["a", "b"]  # type: ignore[union-attr]


def test_what_is_not_rows_is_named(tmp_path: Path) -> None:
    """Not as a mistake of chiplog."""
    with pytest.raises(TypeError, match="rows are mappings or a data frame, not 5"):
        begin(tmp_path, strict=True).table("samples", 5)


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


def test_rows_of_steps_that_are_not_finite_are_kept(tmp_path: Path) -> None:
    """At the newest step, as for every other step that is not one."""
    run = begin(tmp_path, strict=False)
    for step in (1, float("nan"), float("inf")):
        run.log({"x": 5.0, "y": float("nan")}, step=step)
    assert [str(step) for step in chiplog.read(run.dir).series("x").steps.tolist()] == ["1", "1", "1"]
    with run.step() as number:
        assert number == 2


def test_changing_the_row_that_log_gave_back_changes_nothing(tmp_path: Path) -> None:
    """Though it may still wait to be written."""
    for settings in ({}, {"alerts": False}):
        run = begin(tmp_path, durability="relaxed", **settings)
        row = run.log({"x": 1.0})
        row["x"] = 777.0
        run.finish()
        assert chiplog.read(run.dir).series("x").values.tolist() == [1.0]


def test_a_run_that_keeps_nothing_asks_nothing_of_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another rank must not wait for its device to tell what nobody wants to know."""

    class Tensor:
        dtype, shape = "float32", ()

        def item(self) -> float:
            return pytest.fail("the device was waited for")  # type: ignore[no-any-return]

    monkeypatch.setenv("CHIPLOG_MODE", "disabled")
    assert begin(tmp_path).log({"x": Tensor(), "y": 1.0}) == {"y": 1.0}


def test_a_metric_may_be_called_step(tmp_path: Path) -> None:
    """In every format."""
    with begin(tmp_path) as run:
        run.log({"step": 100.0}, step=1)
    stored = chiplog.read(run.dir)
    assert stored.to_polars()["step"].to_list() == [1] and stored.to_polars()["step/value"].to_list() == [100.0]
    assert float(stored.to_xarray()["step/value"][0]) == 100.0
    assert list(stored.to_pandas().reset_index().columns) == ["step", "step/value"]


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
    ours = [record for record in heard if getattr(record, "name", "note") == "note"]  # the environment is an event too
    assert [type(record).__name__ for record in ours] == ["Step", "Eval", "Event"]
    run.finish()
    assert ours[0] in chiplog.read(run.dir).records(kind="step")
    assert capsys.readouterr().err.count("deaf") == 1


def test_a_metric_called_step_is_no_second_column(tmp_path: Path) -> None:
    """Where it says the same as the step, the index says it; a column of its own has its own name."""
    with begin(tmp_path) as run:
        run.log({"step": 1, "loss": 0.5}, step=1)
    frame = chiplog.read(run.dir).to_pandas()
    assert list(frame.columns) == ["loss"] and list(frame.reset_index().columns) == ["step", "loss"]


def test_what_cannot_be_tags_or_a_config_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Training continues, and the run keeps what it had; a state of the end may be any object."""
    run = begin(tmp_path, tags=["a"], config={"lr": 1}, strict=False)
    run.tags = 5  # type: ignore[assignment]
    run.config = 5
    run.summary = 5  # type: ignore[assignment]
    run.finish(state=7)  # type: ignore[arg-type]
    reported = capsys.readouterr().err
    assert "tags are a list of words, not 5" in reported and reported.count("training continues") == 3
    stored = chiplog.read(run.dir)
    assert (stored.tags, stored.config, stored.state) == (("a",), {"lr": 1}, "7")


def test_an_attribute_that_is_not_stored_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a suggestion, and it keeps its value here; what init decides stays; without a name, the id is shown."""
    run = begin(tmp_path, name="a", strict=False)
    run.notes = "so far so good"  # type: ignore[attr-defined]
    run.tag = ["a"]  # type: ignore[attr-defined]
    run.id = "other"  # type: ignore[misc]
    run.name = None  # type: ignore[assignment]
    run._private = run.log = print  # type: ignore[attr-defined,method-assign]
    said = capsys.readouterr().err
    assert "run.notes: this is not stored; a run stores what is in its config, name, summary and tags" in said
    assert "run.tag: this is not stored; did you mean 'tags'?" in said
    assert "run.id: it cannot be changed during the run; pass it to init()" in said and said.count("chiplog:") == 3
    assert run.notes == "so far so good" and run.id == run.name != "other"  # type: ignore[attr-defined]
    run.finish()
    assert chiplog.read(run.dir).name == run.id
    with begin(tmp_path) as strict, pytest.raises(AttributeError, match=r"run.config\['notes'\] = ... is stored"):
        strict.notes = ""  # type: ignore[attr-defined]


def test_repeated_mistakes_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first of each kind is reported at once, and the end of the run has the number of the others."""
    with chiplog.init("p", id="mistakes", dir=tmp_path, sinks="none") as run:
        run.log({"x": 1}, step=7)
        for step in ("3", [1], float("nan"), float("inf")):
            run.log({"x": 1}, step=step)  # type: ignore[arg-type]
        for _ in range(3):
            run.log({"image": chiplog.Image("nowhere.png")}, step=8)
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(" (")[0] for line in lines[:2]] == [
        "chiplog: log: a step is a finite number, not '3'; the newest step, 7, is used; training continues",
        "chiplog: cannot record 'image'",
    ]
    assert lines[2:] == [
        "chiplog: run mistakes: 5 more problems like those that were reported: log (BadStep) 3x, log ('image') 2x"
    ]
    assert {row.step for row in chiplog.read(run.dir).records("step")} == {7}  # type: ignore[union-attr]


def test_text_as_a_table_is_one_row_and_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not a row for each letter."""
    with chiplog.init("p", dir=tmp_path, sinks="none") as run:
        run.table("t", "abc")
    (table,) = chiplog.read(run.dir).records("table")
    assert table.rows == [{"value": "abc"}]  # type: ignore[union-attr]
    assert "rows are mappings or a data frame, not 'abc'; it is stored as one row" in capsys.readouterr().err


def test_an_alert_by_hand_is_stored_as_the_message_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown level becomes a warning, and without a text there is none."""
    with chiplog.init("p", dir=tmp_path, sinks="none") as run:
        run.alert("hot", level="fatal", text=None)
    (alert,) = chiplog.read(run.dir).records("alert")
    assert (alert.level, alert.text) == ("warn", "")  # type: ignore[union-attr]
    assert "no alert level 'fatal'; it is stored as 'warn'; available: info, warn, error" in capsys.readouterr().err
