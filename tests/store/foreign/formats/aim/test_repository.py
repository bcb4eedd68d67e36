"""Aim's repositories, written by its client."""

from __future__ import annotations

import math
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from chiplog.store.foreign.formats.aim import repository
from tests.support import foreign_stores
from tests.support.foreign_stores import lost, opened, values

pytest.importorskip("aim", exc_type=ImportError)
WRITE = """
import math, sys
from aim import Distribution, Run, Text
run = Run(sys.argv[2] if len(sys.argv) > 2 else None, repo=sys.argv[1], experiment="exp", system_tracking_interval=None, capture_terminal_logs=False)
if len(sys.argv) > 2:
    run.track(2.5, name="loss", step=20, context={"subset": "train"})
else:
    run["hparams"] = {"lr": 0.1, "layers": [1, 2]}
    run["other"] = {"a": 1}
    run.name = "a name"
    run.add_tag("blue")
    for step in range(20):
        value = math.nan if step == 3 else math.inf if step == 4 else 1 / (step + 1)
        run.track(value, name="loss", step=step, context={"subset": "train"})
    run.track(0.5, name="bare", step=7)
    run.track(0.25, name="at", step=8, context={"layer": 3})
    run.track(Text("hello"), name="words", step=1)
    run.track(Distribution(range(10), bin_count=4), name="spread", step=2)
run.close()
print(run.hash)
"""


def write(folder: Path, *run: str) -> str:
    folder.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WRITE, str(folder), *run],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    return done.stdout.split()[-1]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("aim") / "work"
    return folder, write(folder)


def test_every_value_is_that_of_aim(written: tuple[Path, str], tmp_path: Path) -> None:
    """Sequences by name and context, params as config, texts, histograms, tags, end; nothing is written into it."""
    (run,) = opened(written[0], tmp_path / "cache")
    assert [one.id for one in opened(written[0] / ".aim", tmp_path / "other")] == [run.id]
    whole = values(run)
    assert [pair for pair in whole["train/loss"] if pair[0] != 3] == sorted(
        [(step, math.inf if step == 4 else 1 / (step + 1)) for step in range(20) if step != 3], key=repr
    )
    assert (
        math.isnan(dict(whole["train/loss"])[3]) and whole["bare"] == [(7, 0.5)] and whole["at/layer=3"] == [(8, 0.25)]
    )
    assert (run.project, run.id, run.name, run.tags, run.state) == ("exp", written[1], "a name", ("blue",), "finished")
    assert run.config == {"other": {"a": 1}, "lr": 0.1, "layers": [1, 2]}
    assert [one.text for one in run.records("text")] == ["hello"]  # type: ignore[union-attr]
    (spread,) = run.records("histogram")
    assert sum(spread.counts) == 10 and lost(run) == {}  # type: ignore[union-attr]


def test_a_run_that_goes_on_adds_what_is_new(written: tuple[Path, str], tmp_path: Path) -> None:
    """The points from before are not read a second time."""
    source = tmp_path / "work"
    shutil.copytree(written[0], source)
    opened(source, tmp_path / "cache")
    write(source, written[1])
    (run,) = opened(source, tmp_path / "cache")
    assert len(values(run)["train/loss"]) == 21 and values(run)["bare"] == [(7, 0.5)]
    assert len(list(run.records("text"))) == 1


@pytest.mark.parametrize("file", ["*.sst", "MANIFEST-*", "*.log"])
def test_damage_is_named(written: tuple[Path, str], tmp_path: Path, file: str) -> None:
    """RocksDB may crash on it; that is another process."""
    (whole,) = opened(written[0], tmp_path / "whole")
    source = tmp_path / "work"
    shutil.copytree(written[0], source)
    for path in (source / ".aim" / "seqs" / "chunks").rglob(file):
        data = path.read_bytes()
        path.write_bytes(data[: len(data) // 2])
    for run in opened(source, tmp_path / "cache"):
        foreign_stores.assert_part_of(values(run), values(whole))


def test_without_its_package_a_run_has_a_name(
    written: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is missing is said; once it is installed, the run is read."""
    with monkeypatch.context() as patch:
        patch.setattr(repository, "find_spec", lambda name: None)
        (run,) = opened(written[0], tmp_path / "cache")
        assert run.name == "a name" and "pip install 'chiplog[aim]'" in str(lost(run))
    (run,) = opened(written[0], tmp_path / "cache")
    assert len(values(run)["train/loss"]) == 20 and lost(run) == {}
