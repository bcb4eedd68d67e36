"""Training runs that send to a W&B server of the test, and what arrives there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sinks.wandb.server import Server

KEY = "0123456789abcdef" * 2 + "secret00"
QUICK = {"x_file_stream_transmit_interval": 1.0}
PRELUDE = """
import os, sys, time
import chiplog
from pathlib import Path

def init(**more):
    sinks = {**more.pop("sinks", {"wandb": {"settings": %r}}), "-console": {}}
    return chiplog.init("tiny-lm", id="run", dir="runs", sinks=sinks, **more)

def end(run, timeout=100):
    done = run.finish(timeout=timeout)
    assert done, done.missing
"""


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.weather = made.stream_weather = None
    made.stop()


def environ(server: Server | None = None, **more: str) -> dict[str, str]:
    """A world with the endpoint in it, or an offline one; W&B's own files go to the test's directory, and its reports
    about errors, on which the end of a process waits, nowhere."""
    here = str(Path.cwd())
    base = {key: value for key, value in os.environ.items() if not key.startswith(("WANDB_", "WB_"))}
    where = {"WANDB_BASE_URL": server.url, "WANDB_API_KEY": KEY} if server else {"WANDB_MODE": "offline"}
    own = {"HOME": here, "WANDB_DATA_DIR": here, "WANDB_CACHE_DIR": here, "WANDB_ERROR_REPORTING": "false"}
    return {**base, **own, **where, **more}


def train(code: str, world: dict[str, str], expect: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a training script to its end, in the test's directory."""
    Path("train.py").write_text(PRELUDE % QUICK + textwrap.dedent(code))
    done = subprocess.run(
        [sys.executable, "train.py"], env=world, capture_output=True, text=True, timeout=150, check=False
    )
    assert done.returncode == expect, done.stderr
    return done


def sync(world: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    """`chiplog sync` of the run."""
    return subprocess.run(
        [sys.executable, "-m", "chiplog", "sync", "runs/tiny-lm/run", *words],
        env=world,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


def cursor() -> dict[str, Any]:
    return json.loads(Path("runs/tiny-lm/run/cursors/wandb.json").read_text())


def offline_rows(run: Path = Path("runs/tiny-lm/run")) -> list[dict[str, Any]]:
    """The rows in the `.wandb` files of a run, one file after the other."""
    code = """
    import json, sys
    from pathlib import Path
    from chiplog.sinks.wandb.offline_log import OfflineLog
    for path in sorted(Path(sys.argv[1]).glob("files/wandb/offline-run-*/run-*.wandb")):
        for record in OfflineLog(path).read():
            if record.WhichOneof("record_type") == "history":
                items = {item.key or "/".join(item.nested_key): item.value_json for item in record.history.item}
                print(json.dumps({key: json.loads(text) for key, text in items.items()}))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(run)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def relay_pids(run: Path) -> list[int]:
    """The relays of a run, by their command line: one that is still importing has written nothing yet."""
    words = f"chiplog.commands.sync.relay\0{run.absolute()}\0".encode()
    pids = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if words in path.read_bytes():
                pids.append(int(path.parent.name))
        except OSError:
            continue
    return pids


def kill_relay() -> None:
    for pid in relay_pids(Path("runs/tiny-lm/run")):
        kill_tree(pid)


def kill_tree(pid: int) -> None:
    """SIGKILL for a relay and the SDK's process, which is in its session."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
