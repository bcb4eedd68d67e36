"""What several tests of sinks need: a shared MLflow server, and a service of another package that keeps what it gets."""

from __future__ import annotations

import json
import os
import struct
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sinks.mlflow.server import Server, shared

MODULE = '''
import atexit, json, os, tempfile, time
from pathlib import Path


class Boat:
    """Keeps every batch as a line; does what the file `weather` beside it says."""

    commits = True

    def __init__(self, path, secret="", url=None):
        self.path = Path(path)
        self.secret = secret
        self.url = url

    def write(self, batch):
        weather = self.path.with_name("weather")
        while weather.exists():
            what = weather.read_text()
            if what == "raise":
                raise ConnectionError(f"no wind, {self.secret}")
            if what == "reject" and any(getattr(one, "step", None) == 3 for one in batch):
                from chiplog.core.errors import Rejected
                raise Rejected("step 3 is not wanted")
            if what == "cling":
                atexit.register(time.sleep, 600)
            if what == "litter":
                tempfile.mkdtemp()
            if what == f"not {os.getpid()}":
                from chiplog.core.errors import NeedsRelay
                raise NeedsRelay("no mooring here")
            if what in ("reject", "cling", "litter") or what.startswith("not "):
                break
            time.sleep(0.05)
        rows = [[one.step, one.metrics] for one in batch if hasattr(one, "metrics")]
        with self.path.open("a") as file:
            file.write(json.dumps(rows) + "\\n")

    def close(self):
        self.path.with_name("closed").touch()

    def state(self):
        return {"pid": os.getpid()}

    def restore(self, state):
        pass


def open_sink(identity, environ, path="", secret="", url=None):
    if path == "broken":
        raise RuntimeError("no such harbour")
    return Boat(path, secret, url)
'''


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers of this test run share."""
    base = tmp_path_factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "mlflow"


@pytest.fixture(scope="session")
def sqlite(place: Path) -> Iterator[Server]:
    with shared(place / "sqlite", lambda folder: Server(folder).start(), Server.stop) as server:
        yield server


@pytest.fixture
def boat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Boat]:
    """The service `boat`, found in this process and in the relay."""
    packages = tmp_path / "packages"
    about = packages / "boat-1.dist-info"
    about.mkdir(parents=True)
    (packages / "boat.py").write_text(MODULE)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: boat\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[chiplog.services]\nboat = boat:open_sink\n")
    monkeypatch.syspath_prepend(str(packages))
    monkeypatch.delitem(sys.modules, "boat", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(packages), prepend=":")
    folder = tmp_path / "harbour"
    folder.mkdir()
    yield Boat(folder)


class Boat:
    def __init__(self, folder: Path) -> None:
        self.path = folder / "cargo"
        self._weather = folder / "weather"

    def weather(self, what: str | None) -> None:
        """`raise`, `reject` step 3, `cling` to the process, `litter` its place, `not PID`: not from this process,
        anything else: hang; None: fair."""
        if what is None:
            self._weather.unlink(missing_ok=True)
        else:
            self._weather.write_text(what)

    @property
    def closed(self) -> bool:
        return self.path.with_name("closed").exists()

    @property
    def cargo(self) -> list[tuple[Any, Any]]:
        """What has arrived, (step, metrics) each, in order."""
        if not self.path.exists():
            return []
        return [tuple(row) for line in self.path.read_text().splitlines() for row in json.loads(line)]


def png() -> bytes:
    """A picture: one red pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        chunk(*one) for one in ((b"IHDR", head), (b"IDAT", zlib.compress(b"\0\xff\0\0")), (b"IEND", b""))
    )
