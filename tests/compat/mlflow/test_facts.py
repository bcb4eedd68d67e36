"""The table in which MLflow's facts are."""

from __future__ import annotations

from mlflow import MlflowClient

import chiplog
from chiplog.compat.mlflow import facts


def test_the_last_fact_counts() -> None:
    """Across attempts, and until it is deleted."""
    with chiplog.init(project="p", id="a", sinks="none") as run:
        facts.write(run, {"status": "RUNNING", "tags.a": "1", "tags.b": "nan"})
        facts.write(run, {"status": "FINISHED", "tags.a": None})
    with chiplog.init(project="p", id="a", resume="must", sinks="none") as run:
        facts.write(run, {"user": "me"})
    stored = chiplog.read(run.dir)
    kept = facts.read(stored)
    assert kept == {"status": "FINISHED", "tags.b": "nan", "user": "me"} and kept.deleted == {"tags.a"}
    assert facts.under(kept, facts.TAG) == {"b": "nan"} and stored.names() == []


def test_words_are_short_and_not_of_mlflow() -> None:
    """The others are in the table only."""
    words = [
        facts.as_word("team", "nlp"),
        facts.as_word("flag", ""),
        facts.as_word("mlflow.user", "me"),
        facts.as_word("note", "a\nb"),
    ]
    assert words == ["team=nlp", "flag", None, None] and facts.as_word("long", "x" * 200) is None


def test_a_table_of_the_same_name_is_no_fact() -> None:
    """A script may have one of its own."""
    with chiplog.init(project="p", sinks="none") as run:
        run.table(facts.TABLE, [{"a": 1}, {"key": "status", "value": 3, "time": "z"}])
        run.table("mlflow_times", [{"b": 1}])
        run.log({"x": 2.0}, step=1.5)
    assert facts.read(chiplog.read(run.dir)) == {}
    (read,) = MlflowClient().search_runs(["p"])
    assert (read.info.status, read.data.metrics) == ("FINISHED", {"x": 2.0})
