"""`run.json` while a run goes on."""

from __future__ import annotations

from pathlib import Path

import duckdb

import chiplog
from chiplog.store import manifest
from chiplog.store.runs.summary_cache import SummaryCache
from tests.support.waiting import wait_for


def test_what_changes_after_init_is_in_run_json_during_the_run(tmp_path: Path) -> None:
    """Config, tags, name and summary; so are they in the list of runs, which reads nothing else."""
    with chiplog.init("p", dir=tmp_path, sinks="none", config={"lr": 1, "layers": [1]}, tags="a") as run:
        run.config.update({"batch": 4, "token": "hf_abcdefghijklmnopqrstuvwxyz012345"})
        run.config = {"seed": 5}
        run.tags.append("b")
        run.name = "better"
        run.summary["best_acc"] = 0.5
        wait_for(lambda: manifest.load(run.dir).summary == {"best_acc": 0.5})
        about = manifest.load(run.dir)
        query = f"SELECT id, config.lr, config.batch FROM read_json_auto('{tmp_path}/*/*/run.json')"
        assert duckdb.sql(query).fetchall() == [(run.id, 1, 4)]  # as docs/format.md has it
        assert (about.name, about.tags) == ("better", ("a", "b"))
        assert about.config.items() >= {"lr": 1, "batch": 4, "seed": 5}.items()
        assert "abcdefghij" not in str(about.config)
        run.config["layers"].append(2)
        run.tags = ["c"]
    summaries = SummaryCache(tmp_path)
    summaries.refresh()
    (entry,) = summaries.entries()
    assert entry.config["layers"] == "[1,2]" and entry.config["batch"] == 4 and entry.tags == ["c"]
    stored = chiplog.read(run.dir)
    assert stored.summary["best_acc"] == 0.5 and stored.config["layers"] == [1, 2] and stored.name == "better"
