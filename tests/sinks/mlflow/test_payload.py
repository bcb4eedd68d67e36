"""The payload of a batch, in MLflow's terms."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import pytest

from chiplog.core.identity import Identity
from chiplog.core.records import Alert, Attempt, Eval, Event, Finish, Step, Table, TextRecord
from chiplog.sinks.shared.project_name import project

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of MLflow's own imports
    from chiplog.sinks.mlflow.login import located, variables
    from chiplog.sinks.mlflow.payload import Payload, Prefixes, pack, params_and_tags, safe
    from chiplog.sinks.mlflow.sink import EXPERIMENT, files_at_end

SECOND = 1_000_000_000


def packed(*records: Any, counter: int = 0, reduced: bool = False) -> Payload:
    return pack(records, Prefixes("chiplog."), counter, reduced)


def points(payload: Payload) -> list[tuple[str, float, int]]:
    return [(one.key, one.value, one.step) for one in payload.metrics]


def test_points_have_the_names_steps_and_times_of_their_records() -> None:
    """An eval under `eval/`, and times in milliseconds."""
    payload = packed(
        Step(1, 5 * SECOND, 3, {"loss": 2.5, "note": "x", "ok": True}), Eval(2, 6 * SECOND, 3, {"loss": 3})
    )
    assert points(payload) == [("loss", 2.5, 3), ("ok", 1.0, 3), ("eval/loss", 3.0, 3)]
    assert [one.timestamp for one in payload.metrics] == [5000, 5000, 6000]


def test_rows_without_a_step_are_counted() -> None:
    """From 0, an explicit step moves the counter on, and one that goes back does not move it back."""
    rows = [
        Event(1, 0, "host", {"load": 1}),
        Event(2, 0, "host", {"load": 2}),
        Step(3, 0, 10, {"loss": 1}),
        Event(4, 0, "host", {"load": 3}),
        Step(5, 0, 4, {"loss": 1}),
        Event(6, 0, "host", {"load": 4}),
    ]
    payload = packed(*rows)
    assert [step for name, _, step in points(payload) if name == "host/load"] == [0, 1, 11, 12]
    assert payload.counter == 13
    assert points(packed(rows[0], counter=13)) == [("host/load", 1.0, 13)]


def test_a_metric_with_rank_statistics_is_the_local_one() -> None:
    """So that MLflow groups them; one without stays as it is."""
    payload = packed(Step(1, 0, 0, {"loss": 1.0, "loss/mean": 2.0, "lr": 3.0, "x/mean": 4.0}))
    assert [name for name, _, _ in points(payload)] == ["loss/local", "loss/mean", "lr", "x/mean"]


def test_where_statistics_come_later_a_metric_is_the_local_one_from_the_start() -> None:
    """By what the run says before its first row: also at steps without statistics; not counters, evals and the
    statistics themselves. A new start reports it again."""
    statistics = {"loss/mean": 1.5, "loss/max": 2.0, "loss/min": 1.0, "loss/std": 0.5, "loss/p50": 1.0}
    payload = packed(
        Event(1, 0, "ranks", {"statistics": "async"}),
        Step(2, 0, 0, {"loss": 1.0, "lr": 0.1, "reward/mean": 3.0}),
        Step(3, 0, 0, {**statistics, "ranks/skew": 0.1}),
        Eval(4, 0, 0, {"loss": 4.0}),
        Event(5, 0, "gpu", {"id": 0, "power": 300.0}),
    )
    names = ["loss/local", "lr", "reward/mean/local", *statistics, "ranks/skew", "eval/loss", "gpu/0/power"]
    assert [name for name, _, _ in points(payload)] == names
    sync = packed(Step(6, 0, 1, {"loss": 1.0, "acc": 2.0, **statistics}), reduced=payload.reduced)
    assert [name for name, _, _ in points(sync)] == ["loss/local", "acc/local", *statistics]
    start = Attempt(
        7, 0, attempt=2, launch="l", rank=0, world=1, host="h", pid=1, monotonic=0, durability="", version=""
    )
    assert points(packed(start, Step(8, 0, 2, {"loss": 1.0}), reduced=True)) == [("loss", 1.0, 2)]


def test_numbers_that_are_none_or_too_large_break_nothing() -> None:
    """NaN and infinities go as they are, an int beyond doubles as an infinity."""
    values = [
        one.value
        for one in packed(Step(1, -5, 0, {"a": math.nan, "b": -math.inf, "c": 10**400, "d": -(10**400)})).metrics
    ]
    assert math.isnan(values[0])
    assert values[1:] == [-math.inf, math.inf, -math.inf]


@pytest.mark.parametrize(
    ("step", "expected"),
    [(3, 3), (2.9, 2), (-2.9, -2), (None, 5), (math.nan, 5), (math.inf, 5), (10**30, (1 << 63) - 2)],
)
def test_steps_are_whole(step: float | None, expected: int) -> None:
    """A fraction is cut off; a step that is missing or not finite is the next one."""
    event = Event(1, 0, "gpu", {"id": 0, "power": 1.0}, step)
    assert [one.step for one in packed(event, counter=5).metrics] == [expected]


@pytest.mark.parametrize("name", ["loss", "train/loss", "a b-c_d.e:f", "größe/µ"])
def test_names_that_mlflow_allows_stay(name: str) -> None:
    assert safe(name) == name


def test_other_names_are_changed_and_stay_apart() -> None:
    """Each as MLflow's own check demands, none equal to another, and always the same."""
    from mlflow.utils.validation import _validate_metric_name, _validate_param_name

    names = ["acc@5", "acc_5", "acc%5", "", ".", "..", "/", "/a", "a", "a/", "a//b", "a/b", "a/../b", "a/./b", "x\0y"]
    names += ["\ud800", "\ud801", "n" * 250, "n" * 251, "n" * 252, "a\nb", "a\n", "../../etc/passwd"]
    changed = [safe(name) for name in names]
    for name in changed:
        _validate_metric_name(name)
        _validate_param_name(name)
        assert len(name) <= 250
    assert len(set(changed)) == len(names)
    assert changed[0].startswith("acc_5-")
    assert safe("acc@5") == changed[0]


def test_params_keep_their_first_value_and_tags_have_a_later_one() -> None:
    """MLflow's params never change; a value that comes back is a tag again, since that is what counts now."""
    payload = packed(Event(1, 0, "config", {"lr": 1, "model": {"d": 64}}), Event(2, 0, "config", {"lr": 2}))
    assert params_and_tags(payload.params, {}, {}) == ({"lr": "1", "model.d": "64"}, {"lr": "2"})
    again = packed(Event(3, 0, "config", {"lr": 1, "model": {"d": 64}})).params
    assert params_and_tags(again, {"lr": "1", "model.d": "64"}, {}) == ({}, {})
    assert params_and_tags(again, {"lr": "1"}, {"lr": "2"}) == (
        {"model.d": "64"},
        {"lr": "1"},
    )
    long = {"text": ["x" * 7000]}
    new, changed = params_and_tags(long, {}, {})
    assert (len(new["text"]), changed) == (6000, {})
    assert params_and_tags(long, new, {}) == ({}, {})


def test_facts_of_the_run_go_under_the_prefix() -> None:
    """Host, world size and versions; lists as JSON, nothing for what is empty."""
    attempt = Attempt(0, 0, 2, "l", 0, 8, "node1", 1, 0, "process", "0.1")
    environment = {
        "host": "node1",
        "git": {"branch": "main"},
        "packages": {"torch": "2.9"},
        "device": "",
        "argv": [1, "a"],
    }
    payload = packed(attempt, Event(1, 0, "environment", environment))
    assert {name: values[0] for name, values in payload.params.items()} == {
        "chiplog.host": "node1",
        "chiplog.world_size": "8",
        "chiplog.version": "0.1",
        "chiplog.git.branch": "main",
        "chiplog.packages.torch": "2.9",
        "chiplog.argv": '[1,"a"]',
    }
    assert payload.tags == {"chiplog.attempt": "2"}
    assert payload.status == "RUNNING"


def test_a_run_that_is_renamed_or_tagged_again_is_so_here() -> None:
    """With the tags that MLflow shows; an event of the user's own that only has such a name breaks nothing."""
    assert packed(Event(1, 0, "name", {"name": "b"}), Event(2, 0, "tags", {"tags": ["x", "y"]})).tags == {
        "mlflow.runName": "b",
        "chiplog.tags": "x,y",
    }
    assert packed(Event(1, 0, "tags", {"tags": 5}), Event(2, 0, "name", {"depth": 1})).tags == {}


def test_ends_alerts_texts_and_tables() -> None:
    """Each in the place that MLflow has for it."""
    payload = packed(
        Alert(1, 0, "loss is NaN", "error"),
        TextRecord(2, 7, "sample", "once\ud800\0", 3),
        Table(3, 0, "t", [{"a": 1}]),
        Event(4, 0, "summary", {"best": {"loss": 0.5}}),
        Finish(5, 9 * SECOND, "interrupted", "SIGINT"),
    )
    assert payload.tags == {
        "chiplog.alert": "error: loss is NaN",
        "summary.best.loss": "0.5",
        "chiplog.reason": "SIGINT",
    }
    assert payload.texts == {"texts/sample/7.txt": "once?�"}
    assert payload.tables == {"t"}
    assert (payload.status, payload.ended) == ("KILLED", 9000)


# -- where to, and as whom -----------------------------------------------------------------------------------------------


def identity(tmp_path: Path, project: str = "default", script: str = "/home/me/tiny/train.py") -> Identity:
    return Identity(project, "id", tmp_path / "run", "name", "launch", cwd=str(tmp_path), script=script)


def test_the_experiment_is_named_by_the_nearest_source(tmp_path: Path) -> None:
    """MLflow's variable, those of W&B in their order, the project, the script."""
    known = {
        "MLFLOW_EXPERIMENT_NAME": "one",
        "WB_PROJECT": "two",
        "WANDB_PROJECT": "three",
        "WB_PROJECT_NAME": "four",
    }
    for name, expected in list(known.items()):
        assert project(identity(tmp_path, "tiny-lm"), known, EXPERIMENT) == expected
        del known[name]
    assert project(identity(tmp_path, "tiny-lm"), known, EXPERIMENT) == "tiny-lm"
    assert project(identity(tmp_path), known, EXPERIMENT) == "tiny.train"
    assert project(identity(tmp_path, script=""), known, EXPERIMENT) == "default"


def test_credentials_come_from_files_and_never_over_the_shell(tmp_path: Path) -> None:
    """`~/.amsc.env`, then `.env` over it; our short patience is below all of them."""
    home = tmp_path / "home"
    home.mkdir()
    (home / ".amsc.env").write_text("AMSC_API_KEY=amsc\nMLFLOW_TRACKING_URI=http://amsc\nMLFLOW_TRACKING_TOKEN=a\n")
    (tmp_path / ".env").write_text("MLFLOW_TRACKING_URI=http://project\nMLFLOW_TRACKING_TOKEN=b\n")
    environ = {"HOME": str(home), "MLFLOW_TRACKING_TOKEN": "shell", "MLFLOW_HTTP_REQUEST_TIMEOUT": "5"}
    known = variables(identity(tmp_path), environ)
    assert known["AMSC_API_KEY"] == "amsc"
    assert known["MLFLOW_TRACKING_URI"] == "http://project"
    assert known["MLFLOW_TRACKING_TOKEN"] == "shell"
    assert known["MLFLOW_HTTP_REQUEST_TIMEOUT"] == "5"
    assert known["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] == "1"


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("http://host:5000", "http://host:5000"),
        ("sqlite:///mlflow.db", "sqlite:////where/mlflow.db"),
        ("sqlite:////other/mlflow.db", "sqlite:////other/mlflow.db"),
        ("mlruns", "file:///where/mlruns"),
        ("./mlruns", "file:///where/mlruns"),
        ("file:mlruns", "file:///where/mlruns"),
        ("file:///other", "file:///other"),
        ("databricks", "databricks"),
        ("postgresql://me@host/db", "postgresql://me@host/db"),
    ],
)
def test_a_local_store_is_seen_from_the_training(uri: str, expected: str) -> None:
    """The relay runs elsewhere."""
    assert located(uri, Path("/where")) == expected


def test_files_of_the_end_are_those_no_record_has_brought(tmp_path: Path) -> None:
    """Reports, plots and datasets; not pictures and artifacts, nor files that are just being written or W&B's own."""
    names = (
        "metrics.jsonl",
        "plots/loss.png",
        "media/a.png",
        "artifacts/b/c.txt",
        ".metrics.json.abcd",
        "wandb/x/run.log",
    )
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert list(files_at_end(tmp_path)) == [
        (tmp_path / "metrics.jsonl", ""),
        (tmp_path / "plots" / "loss.png", "plots"),
    ]
