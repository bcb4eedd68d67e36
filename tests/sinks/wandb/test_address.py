"""Where a run is at W&B: one line on stderr, and nothing where W&B is disabled or silent."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chiplog.cli import main
from tests.sinks.wandb.server import Server

pytestmark = pytest.mark.timeout(300)

CODE = """
import chiplog
run = chiplog.init("tiny-lm", sinks="wandb", id="run")
run.log({"loss": 1.0}, step=1)
assert run.finish(timeout=100)
"""


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.stop()


def train(server: Server, **more: str) -> str:
    """What a training says on stderr."""
    here = str(Path.cwd())
    world = {key: value for key, value in os.environ.items() if not key.startswith(("WANDB_", "WB_"))}
    world |= {"HOME": here, "WANDB_DATA_DIR": here, "WANDB_CACHE_DIR": here, "WANDB_ERROR_REPORTING": "false"}
    world |= {"WANDB_BASE_URL": server.url, "WANDB_API_KEY": "0123456789abcdef" * 2 + "00000000", **more}
    done = subprocess.run([sys.executable, "-c", CODE], env=world, capture_output=True, text=True, check=True)
    return done.stderr


def test_the_address_of_a_run_is_one_line_and_kept(server: Server, capfd: pytest.CaptureFixture[str]) -> None:
    """Also for `chiplog show`."""
    error = train(server)
    url = f"{server.url}/tester/tiny-lm/runs/run"
    assert error == f"chiplog: W&B run: {url}\n"
    assert main(["show", "runs/tiny-lm/run"]) == 0
    assert url in capfd.readouterr().out


def test_an_offline_run_is_named_with_what_uploads_it(server: Server) -> None:
    """The directory is there, in the run's own."""
    (line,) = train(server, WANDB_MODE="offline").splitlines()
    head, _, command = line.partition("; upload it with: wandb sync ")
    folder = Path(head.removeprefix("chiplog: W&B is offline: "))
    assert str(folder) == command and list(folder.glob("run-run.wandb")) and "offline-run-" in folder.name


@pytest.mark.parametrize("world", [{"WANDB_SILENT": "true"}, {"WANDB_MODE": "disabled"}])
def test_a_wandb_that_is_silent_or_disabled_has_no_line(server: Server, world: dict[str, str]) -> None:
    """As W&B's own client."""
    assert train(server, **world) == ""
