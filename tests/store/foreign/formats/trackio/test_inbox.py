"""trackio's inbox, written by its own writer of fragments."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.foreign_stores import opened, values

Written = tuple[Path, list[dict[str, object]]]
WHOLE = [(step, step / 7) for step in range(10)]
MERGE = "from pathlib import Path; from trackio import fragments; fragments.import_inbox_dir(Path('inbox'))"


def test_fragments_are_a_run(everything: Written, tmp_path: Path) -> None:
    """Before trackio has merged them into a database."""
    shutil.copytree(everything[0] / "static" / "inbox", tmp_path / "source" / "inbox")
    (run,) = opened(tmp_path / "source", tmp_path / "cache")
    assert (run.project, run.id, run.name, run.config) == ("late", "abc", "second", {"lr": 1})
    assert values(run)["loss"] == WHOLE and [one.title for one in run.records("alert")] == ["careful"]  # type: ignore[union-attr]


def test_merged_by_trackio_it_stays_one_run(everything: Written, tmp_path: Path) -> None:
    """The rows then come from the database, under the same keys; none twice."""
    source = tmp_path / "source"
    shutil.copytree(everything[0] / "static" / "inbox", source / "inbox")
    opened(source, tmp_path / "cache")
    environ = {"TRACKIO_DIR": str(source), "HF_HUB_OFFLINE": "1", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", MERGE], cwd=source, env=environ, check=True, timeout=100, capture_output=True)
    assert not list((source / "inbox").rglob("*.jsonl"))
    (run,) = opened(source, tmp_path / "cache")
    assert values(run)["loss"] == WHOLE and len(run.attempts) == 1 and len(list(run.records("alert"))) == 1


def test_damaged_fragments_are_left_out(everything: Written, tmp_path: Path) -> None:
    """Cut lines, other JSON, and a link."""
    inbox = tmp_path / "source" / "inbox"
    shutil.copytree(everything[0] / "static" / "inbox", inbox)
    (first,) = inbox.rglob("00000000.jsonl")
    first.write_bytes(first.read_bytes()[:-40] + b"\n[1]\n")
    (inbox / "link").symlink_to("/")
    (run,) = opened(tmp_path / "source", tmp_path / "cache")
    assert values(run)["loss"] == [pair for pair in WHOLE if pair[0] != 5]
