"""Where the ranks of a launch see who keeps its run: the first that writes its number there.

In the store of torch.distributed or JAX where one is set up, otherwise in a small file among the runs.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from chiplog.core.engine.attachments import make_place
from chiplog.runtime.ranks import detect
from chiplog.store.runs import liveness

SLACK = 5.0  # s by which the clocks of two hosts may differ
OLD = 86_400.0  # s after which a file of another launch is cleared away
WAIT = 5.0  # s for an answer of a store
_IMPORTED = time.time()
_runs: Counter[str] = Counter()  # begun in this process, by name


class Claims(Protocol):
    def keeper(self) -> int | None:
        """The rank that keeps the run; None while nobody does."""
        ...

    def claim(self, rank: int) -> int:
        """Keep the run, unless another rank does; gives the one that does."""
        ...


class SharedClaims:
    """The board of a run, by a key that is the same on all ranks; `folder` is the project's.

    What is written in a store is read there, and what was written before there was one, in the file.
    """

    def __init__(self, key: str, folder: Path, environ: Mapping[str, str]) -> None:
        self._key, self._environ = key, environ
        self._store: Claims | None = None
        self._file = FileClaims(folder / f".keeper-{_digest(key, environ)}")

    def keeper(self) -> int | None:
        store = self._find()
        kept = store.keeper() if store is not None else None
        return self._file.keeper() if kept is None else kept

    def claim(self, rank: int) -> int:
        if (kept := self.keeper()) is not None:
            return kept
        store = self._find()
        return self._file.claim(rank) if store is None else store.claim(rank)

    def _find(self) -> Claims | None:
        if self._store is None:
            self._store = _store(self._key, self._environ)
        return self._store


def numbered(name: str) -> str:
    """A key for the next run of this name in this process; the same on all ranks, as far as all begin runs alike."""
    _runs[name] += 1
    return f"{name}/{_runs[name]}"


def _store(key: str, environ: Mapping[str, str]) -> Claims | None:
    torch = sys.modules.get("torch.distributed")
    if torch is not None and torch.is_available() and torch.is_initialized():
        from chiplog.runtime.ranks.transport.torch_gloo import own_store

        try:
            launch = f"{environ.get('TORCHELASTIC_RESTART_COUNT', '0')}/{torch.get_world_size()}"
            return StoreClaims(own_store(f"chiplog/keeper/{launch}/{key}", WAIT))
        except Exception:  # another torch, or its store has gone
            return None
    jax = sys.modules.get("jax._src.distributed")
    if jax is not None and getattr(jax.global_state, "client", None) is not None:
        return JaxClaims(jax.global_state.client, f"chiplog/keeper/{key}")
    return None


class StoreClaims:
    """In a store of torch.distributed."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def keeper(self) -> int | None:
        return int(self._store.get("rank")) if self._store.check(["rank"]) else None

    def claim(self, rank: int) -> int:
        if self._store.add("claims", 1) == 1:
            self._store.set("rank", str(rank))
        return int(self._store.get("rank"))  # waits a moment where the one before has just begun to write


class JaxClaims:
    """In the key-value store of JAX's coordinator."""

    def __init__(self, client: Any, prefix: str) -> None:
        self._client, self._prefix = client, prefix

    def keeper(self) -> int | None:
        found = self._client.key_value_dir_get(f"{self._prefix}/")
        return int(found[0][1]) if found else None

    def claim(self, rank: int) -> int:
        try:
            self._client.key_value_set(f"{self._prefix}/rank", str(rank))
        except Exception:  # it is there already
            kept = self.keeper()
            return rank if kept is None else kept
        return rank


class FileClaims:
    """In a file. One that is older than this process is of another launch."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._since = _began() - SLACK

    def keeper(self) -> int | None:
        try:
            rank, written = self._path.read_text().split()
            return int(rank) if float(written) >= self._since else None
        except (OSError, ValueError):
            return None

    def claim(self, rank: int) -> int:
        if (kept := self.keeper()) is not None:
            return kept
        make_place(self._path.parent)
        self._clear()
        mine = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        mine.write_text(f"{rank} {time.time()}")
        try:
            self._path.unlink(missing_ok=True)
            os.link(mine, self._path)  # fails where another rank was quicker
        except FileExistsError:
            kept = self.keeper()
            return rank if kept is None else kept
        finally:
            mine.unlink(missing_ok=True)
        return rank

    def _clear(self) -> None:
        """Take away what launches long past have left."""
        for path in self._path.parent.glob(".keeper-*"):
            try:
                if time.time() - path.stat().st_mtime > OLD:
                    path.unlink()
            except OSError:
                continue


def _digest(key: str, environ: Mapping[str, str]) -> str:
    """The key with what the processes of this launch share and others do not have."""
    host, port = environ.get("MASTER_ADDR", ""), environ.get("MASTER_PORT", "")
    if launch := detect.launch_id(environ):
        shared = launch
    elif port:
        shared = f"{liveness.hostname() if host in ('', 'localhost', '127.0.0.1', '::1') else host}:{port}"
    else:  # all that is left: who has started them
        shared = f"{liveness.hostname()} {os.getppid()} {liveness.born(os.getppid())}"
    return hashlib.sha256(f"{shared} {key}".encode()).hexdigest()[:16]


def _began() -> float:
    """When this process began, in seconds since 1970."""
    ticks = liveness.born(os.getpid())
    if not ticks or not hasattr(time, "CLOCK_BOOTTIME"):
        return _IMPORTED
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / os.sysconf("SC_CLK_TCK")
