"""Where a service shows a run: printed once, kept with its position, shown later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import chiplog
from chiplog.cli import main
from chiplog.store.journal.cursors import cursors

URL = "https://boats.example/run/7"


@pytest.mark.parametrize("where", ["auto", "thread"])
def test_where_a_run_is_shown_is_printed_once_and_kept(
    tmp_path: Path, boat: Any, where: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """By the training, from the relay as from a thread; `chiplog show` has it afterwards, also as JSON."""
    sinks = {"boat": {"path": str(boat.path), "url": URL}}
    run = chiplog.init("test", sinks=sinks, dir=tmp_path / "runs", id="run", relay=where)
    for step in range(5):
        run.log({"loss": 1.0}, step=step)
    assert run.finish()
    assert capfd.readouterr().err.count(f"chiplog: boat run: {URL}\n") == 1
    assert run.health()["sinks"]["boat"]["url"] == URL
    assert [one.url for one in cursors(run.dir)] == [URL]
    assert main(["show", str(run.dir)]) == 0
    assert f"up to date, {URL}" in capfd.readouterr().out
    assert main(["show", str(run.dir), "--json"]) == 0
    assert f'"url": "{URL}"' in capfd.readouterr().out


def test_a_service_without_an_address_has_no_line(tmp_path: Path, boat: Any, capfd: pytest.CaptureFixture[str]) -> None:
    """Nor a field in its position."""
    run = chiplog.init("test", sinks={"boat": {"path": str(boat.path)}}, dir=tmp_path / "runs", id="run")
    run.log({"loss": 1.0}, step=1)
    assert run.finish()
    assert capfd.readouterr().err == "" and '"url"' not in (run.dir / "cursors/boat.json").read_text()
