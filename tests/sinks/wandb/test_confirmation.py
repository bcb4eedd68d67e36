"""What W&B has of a run: counted at the server, whatever steps others have given their rows."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from pathlib import Path

from tests.sinks.wandb.server import Server
from tests.support.wandb_runs import QUICK, cursor, environ, server, sync, train

__all__ = ["server"]

OTHERS = """
import wandb
run = wandb.init(project="tiny-lm", id="old", settings=wandb.Settings(silent=True))
for step in range(0, 210, 10):
    run.log({"loss": step / 7}, step=step)
run.finish()
"""
OURS = """
run = init(sinks={{"wandb": {{"id": "{0}", "settings": {2}}}}})
for step in range({1}, {1} + 30, 10):
    run.log({{"loss": step / 7}}, step=step)
began = time.monotonic()
end(run)
print(time.monotonic() - began)
"""


def test_a_run_whose_steps_have_gaps_is_gone_on_with(server: Server) -> None:
    """Rows are counted, not steps: confirmed and marked finished, in two attempts and a sync, and closed as soon as a
    run without gaps."""
    world = environ(server)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(OTHERS)],
        env=world,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    run = server.runs["old"]
    assert len(run.lines) == 21, done.stderr
    usual = float(train(OURS.format("plain", 0, QUICK), world).stdout)
    assert server.runs["plain"].exit == 0
    Path("runs").rename("plain")
    for first in (210, 240):
        run.exit = None
        took = float(train(OURS.format("old", first, QUICK), world).stdout)
        assert run.exit == 0 and took < 2 * usual + 3
    assert run.series("loss")[-6:] == [(step, step / 7) for step in range(210, 270, 10)]
    assert len(run.lines) == run.sent == 27
    assert (cursor()["state"]["foreign"], cursor()["state"]["rows"]) == (21, 6)
    began = time.monotonic()
    assert sync(world).returncode == 0
    assert time.monotonic() - began < 20 and len(run.lines) == 27
