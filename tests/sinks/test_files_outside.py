"""Services get no file from outside of a run, whatever a record names: the real packages, on this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

import chiplog
from chiplog.core.records import File
from tests.sinks.conftest import png
from tests.sinks.test_contract import Case, case  # noqa: F401  a fixture

pytestmark = pytest.mark.timeout(300)

SECRET = b"swordfish-outside-of-the-run"
opened: set[str] = set()


def _note(event: str, args: tuple[Any, ...]) -> None:
    if event == "open" and isinstance(args[0], str):
        opened.add(args[0].rpartition("/")[2])


@pytest.mark.parametrize(("name", "case"), [(name, name) for name in ("wandb", "trackio", "mlflow")], indirect=["case"])
def test_no_service_gets_a_file_from_outside(name: str, case: Case, tmp_path: Path) -> None:  # noqa: F811
    """Absolute, with dots, through a link or a linked folder, or with a second name: neither opened nor stored."""
    secret = tmp_path / "outside" / "secret.png"
    secret.parent.mkdir()
    secret.write_bytes(png() + SECRET)
    sys.addaudithook(_note)
    run = chiplog.init("p", sinks={name: case.options}, dir=tmp_path / "runs", id="run", relay="thread", alerts=False)
    files = run.dir / "files"
    files.mkdir(exist_ok=True)
    (files / "link.png").symlink_to(secret)
    (files / "folder").symlink_to(secret.parent)
    os.link(secret, files / "second.png")
    (files / "kept.png").write_bytes(png())
    opened.clear()
    named = [
        str(secret),
        "../../../outside/secret.png",
        "files/link.png",
        "files/folder/secret.png",
        "files/second.png",
    ]
    for at, path in enumerate((*named, "files/folder", "files/kept.png")):
        run.log({"loss": 1.0 / (at + 1)}, step=at)
        run.write(File, name=f"picture{at}", path=path, media="image/png", step=at)
        run.write(File, name=f"artifact{at}", path=path, step=at)
    run.finish(timeout=120)
    assert opened & {"secret.png", "link.png", "second.png", "kept.png"} == {"kept.png"}
    stored = [path for path in tmp_path.rglob("*") if path.is_file() and not path.samefile(secret)]
    assert [path for path in stored if SECRET in path.read_bytes()] == []
