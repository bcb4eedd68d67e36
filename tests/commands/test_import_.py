"""`chiplog import`, and the verbs on another tracker's files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from torch.utils.tensorboard import SummaryWriter

import chiplog
from chiplog.cli import main
from chiplog.store.foreign import conversion
from tests.commands.conftest import Cli
from tests.support.foreign_stores import snapshot, values


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs of torch, written an hour ago, and a cache of their own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    for name, factor in (("first", 1.0), ("second", 2.0)):
        with SummaryWriter(str(tmp_path / "logs" / name)) as writer:
            for step in range(5):
                writer.add_scalar("train/loss", factor / (step + 1), step, walltime=1.7e9 + factor + step)
    return tmp_path / "logs"


def append(folder: Path, step: int) -> None:
    with SummaryWriter(str(folder), filename_suffix=f".{step}") as writer:
        writer.add_scalar("train/loss", 9.0, step)


def test_a_second_import_adds_only_what_is_new(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Runs are recognised by their identity: none twice, and no point twice."""
    for new, more in ((2, 10), (0, 0), (0, 1)):
        assert main(["import", str(logs), "--dir", "runs", "--json"]) == 0
        imported = json.loads(capsys.readouterr().out)
        assert sum(one["change"] == "new" for one in imported) == new
        assert sum(one["points"] for one in imported) == more
        if not more:
            append(logs / "first", 5)
    runs = chiplog.runs("runs")
    assert sorted(len(run.series("train/loss")) for run in runs) == [5, 6]
    assert {run.project for run in runs} == {"logs"}


def test_a_dry_run_reads_everything_and_writes_nothing(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The table is that of the import to come."""
    before = snapshot(logs)
    assert main(["import", str(logs), "--dir", "runs", "--dry-run"]) == 0
    assert "2 runs (2 new), 10 points would be written" in capsys.readouterr().out
    assert not Path("runs").exists() and snapshot(logs) == before


def test_a_project_of_the_users_choice(logs: Path) -> None:
    """`--project` is where the runs go."""
    assert main(["import", str(logs), "--dir", "runs", "--project", "old"]) == 0
    assert {run.project for run in chiplog.runs("runs", "old")} == {"old"}


def test_a_folder_without_runs_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message lists what would be known."""
    assert main(["import", str(tmp_path)]) == 2
    assert "tensorboard" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["import", "show", "plot", "ui"])
def test_every_verb_says_why_a_table_is_not_a_run(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the path exists, `no run 'bad.csv'` would send its owner to search for a typo."""
    monkeypatch.chdir(tmp_path)
    Path("bad.csv").write_text("loss,acc\n1,2\n")
    assert main([verb, "bad.csv"]) == 2
    error = capsys.readouterr().err
    assert "none of its columns (loss, acc) is a step; rename one to 'step'" in error and error.count("\n") == 1


def test_what_could_not_be_kept_is_listed(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Per source, with the reason."""
    (file,) = (logs / "first").iterdir()
    data = file.read_bytes()
    file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert main(["import", str(logs), "--dir", "runs"]) == 0
    assert f"! {logs / 'first'}: not kept: {file.name}: damaged bytes" in capsys.readouterr().out


def test_in_place_every_verb_takes_the_path(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Listing, showing, drawing, comparing and exporting need no import."""
    before = snapshot(logs)
    assert main(["ls", str(logs)]) == 0
    assert "first" in capsys.readouterr().out
    for words in (
        ["show", str(logs / "first")],
        ["plot", str(logs / "first"), "loss"],
        ["plot", f"{logs / 'first'},{logs / 'second'}", "loss"],
        ["compare", str(logs)],
        ["cat", str(logs / "first")],
        ["report", str(logs / "first"), "-o", "report", "--only", "report"],
        ["export", str(logs / "first"), "--to", "csv", "-o", "-"],
        ["watch", str(logs / "first"), "--once"],
        ["show", "second", "--dir", str(logs)],
        ["ui", str(logs), "--export", "page"],
    ):
        assert main(words) == 0, words
        assert capsys.readouterr().out
    assert snapshot(logs) == before and not Path("runs").exists()


def test_runs_of_chiplog_need_no_import(cli: Cli, path: Path) -> None:
    """The message names what lists them."""
    code, _, err = cli("import", str(path.parent.parent))
    assert code == 2 and "has runs of chiplog, which need no import: `chiplog ls " in err


def test_in_python_a_path_is_read_and_a_folder_listed(logs: Path) -> None:
    """`chiplog.read` takes one run of another tracker, `chiplog.runs` all of them."""
    assert values(chiplog.read(logs / "first"))["train/loss"][0] == (0, 1.0)
    assert sorted(run.name for run in chiplog.runs(logs)) == ["first", "second"]
    assert chiplog.read("second", dir=logs).name == "second"


def test_500_runs_open_again_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has not changed is not read again."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with SummaryWriter(str(tmp_path / "logs" / "0")) as writer:
        writer.add_scalar("x", 1.0, 1)
    (file,) = (tmp_path / "logs" / "0").iterdir()
    for number in range(500):
        (tmp_path / "logs" / str(number)).mkdir(exist_ok=True)
        copy = tmp_path / "logs" / str(number) / file.name
        copy.write_bytes(file.read_bytes())
        os.utime(copy, (1.7e9, 1.7e9))
    assert len(chiplog.runs(tmp_path / "logs")) == 500
    monkeypatch.setattr(conversion, "convert", None)
    assert len(chiplog.runs(tmp_path / "logs")) == 500
