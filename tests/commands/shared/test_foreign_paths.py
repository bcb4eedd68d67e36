"""Paths of other trackers among the words of a verb."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest
from torch.utils.tensorboard import SummaryWriter

from chiplog.commands.shared import foreign_paths
from chiplog.store.reader import Stored
from tests.store.foreign.formats.wandb.test_offline_runs import written as written
from tests.support.waiting import wait_for


@pytest.fixture(autouse=True)
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(foreign_paths, "EVERY", 0.05)


def following(path: Path, root: Path) -> Namespace:
    return Namespace(verb="tail", run=str(path), dir=None, root=root)


def test_an_open_verb_follows_event_files(tmp_path: Path) -> None:
    """A run that another program is writing shows its new points while the verb is open."""
    with SummaryWriter(str(tmp_path / "logs" / "first")) as writer:
        writer.add_scalar("loss", 1.0, 0)
        writer.flush()
        args = following(tmp_path / "logs" / "first", tmp_path / "runs")
        with foreign_paths.resolved(args):
            stored = Stored(args.run)
            assert len(stored.series("loss")) == 1
            writer.add_scalar("loss", 0.5, 1)
            writer.flush()
            wait_for(lambda: len(stored.series("loss")) == 2)


def test_an_open_verb_follows_json_lines(tmp_path: Path) -> None:
    """Line by line."""
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 0, "loss": 1.0}\n')
    args = following(path, tmp_path / "runs")
    with foreign_paths.resolved(args):
        stored = Stored(args.run)
        with path.open("a") as file:
            file.write('{"step": 1, "loss": 0.5}\n')
        wait_for(lambda: len(stored.series("loss")) == 2)


def test_an_open_verb_follows_a_file_of_wandb(written: Path, tmp_path: Path) -> None:
    """Record by record, as W&B's client writes them."""
    (whole,) = written.glob("*.wandb")
    data = whole.read_bytes()
    path = tmp_path / whole.name
    path.write_bytes(data[: len(data) // 2])
    args = following(path, tmp_path / "runs")
    with foreign_paths.resolved(args):
        stored = Stored(args.run)
        before = len(stored.series("loss"))
        path.write_bytes(data)
        wait_for(lambda: len(stored.series("loss")) > before)
