"""Claims on a run: the first rank of a launch that writes its number keeps the run.

In the store of torch.distributed or JAX if one is set up, otherwise in a small file next to the runs.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from chiplog.runtime.ranks import detect
from chiplog.runtime.ranks.transport.torch_gloo import own_store
from chiplog.runtime.ranks.write_once_file import WriteOnceFile
from chiplog.store.runs import liveness

SLACK = 5.0  # s by which the clocks of two hosts may differ
OLD = 86_400.0  # s after which a file of another launch is deleted
WAIT = 5.0  # s to wait for a store
_IMPORTED = time.time()
_runs: Counter[str] = Counter()  # started in this process, by name


class KeyValueStore(Protocol):
    """A key-value store of torch.distributed."""

    def check(self, keys: list[str]) -> bool: ...

    def get(self, key: str) -> bytes: ...

    def set(self, key: str, value: str) -> None: ...

    def add(self, key: str, amount: int) -> int: ...


class JaxClient(Protocol):
    """A client of JAX's coordinator."""

    def key_value_dir_get(self, prefix: str) -> list[tuple[str, str]]: ...

    def key_value_set(self, key: str, value: str) -> None: ...


class Claims(Protocol):
    def keeper(self) -> int | None:
        """The rank that keeps the run; None while no rank does."""
        ...

    def claim(self, rank: int) -> int:
        """Claim the run for a rank; returns the rank that keeps it."""
        ...


class SharedClaims:
    """The claims of a run, by a key that is the same on all ranks; `folder` is that of the project.

    A claim made before a store was set up is in the file, later ones are in the store; both are read.
    """

    def __init__(self, key: str, folder: Path, environ: Mapping[str, str]) -> None:
        self._key, self._environ = key, environ
        self._store: Claims | None = None
        self._file = FileClaims(folder / f".keeper-{_digest(key, environ)}")

    def keeper(self) -> int | None:
        store = self._find_store()
        keeper = store.keeper() if store is not None else None
        return self._file.keeper() if keeper is None else keeper

    def claim(self, rank: int) -> int:
        if (keeper := self.keeper()) is not None:
            return keeper
        store = self._find_store()
        return self._file.claim(rank) if store is None else store.claim(rank)

    def _find_store(self) -> Claims | None:
        if self._store is None:
            self._store = _store(self._key, self._environ)
        return self._store


def numbered(name: str) -> str:
    """A key for the next run of this name in this process; the same on all ranks if all start the same runs."""
    _runs[name] += 1
    return f"{name}/{_runs[name]}"


def _store(key: str, environ: Mapping[str, str]) -> Claims | None:
    torch = sys.modules.get("torch.distributed")
    if torch is not None and torch.is_available() and torch.is_initialized():
        try:
            launch = f"{environ.get('TORCHELASTIC_RESTART_COUNT', '0')}/{torch.get_world_size()}"
            return StoreClaims(own_store(f"chiplog/keeper/{launch}/{key}", WAIT))
        except Exception:  # another version of torch, or its store has gone
            return None
    jax = sys.modules.get("jax._src.distributed")
    if jax is not None and getattr(jax.global_state, "client", None) is not None:
        return JaxClaims(jax.global_state.client, f"chiplog/keeper/{key}")
    return None


class StoreClaims:
    """Claims in a store of torch.distributed."""

    def __init__(self, store: KeyValueStore) -> None:
        self._store = store

    def keeper(self) -> int | None:
        return int(self._store.get("rank")) if self._store.check(["rank"]) else None

    def claim(self, rank: int) -> int:
        if self._store.add("claims", 1) == 1:
            self._store.set("rank", str(rank))
        return int(self._store.get("rank"))  # waits if the rank that came first is still writing


class JaxClaims:
    """Claims in the key-value store of JAX's coordinator."""

    def __init__(self, client: JaxClient, prefix: str) -> None:
        self._client, self._prefix = client, prefix

    def keeper(self) -> int | None:
        entries = self._client.key_value_dir_get(f"{self._prefix}/")
        return int(entries[0][1]) if entries else None

    def claim(self, rank: int) -> int:
        try:
            self._client.key_value_set(f"{self._prefix}/rank", str(rank))
        except Exception:  # the key exists
            keeper = self.keeper()
            return rank if keeper is None else keeper
        return rank


class FileClaims:
    """Claims in a file. A file that is older than this process belongs to another launch."""

    def __init__(self, path: Path) -> None:
        self._file = WriteOnceFile(path, started(os.getpid()) - SLACK, OLD)

    def keeper(self) -> int | None:
        keeper = self._file.read()
        return None if keeper is None else int(keeper)

    def claim(self, rank: int) -> int:
        return int(self._file.offer(str(rank)))


def _digest(key: str, environ: Mapping[str, str]) -> str:
    """The key, combined with what identifies this launch in all its processes."""
    host, port = environ.get("MASTER_ADDR", ""), environ.get("MASTER_PORT", "")
    if launch := detect.launch_id(environ):
        shared = launch
    elif port:
        shared = f"{liveness.hostname() if host in ('', 'localhost', '127.0.0.1', '::1') else host}:{port}"
    else:  # only the parent process is left
        shared = f"{liveness.hostname()} {os.getppid()} {liveness.born(os.getppid())}"
    return hashlib.sha256(f"{shared} {key}".encode()).hexdigest()[:16]


def started(pid: int) -> float:
    """When a process of this host started, in seconds since 1970; if unknown, when this module was imported."""
    ticks = liveness.born(pid)
    if not ticks or not hasattr(time, "CLOCK_BOOTTIME"):
        return _IMPORTED
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / os.sysconf("SC_CLK_TCK")
