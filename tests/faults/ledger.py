"""What must hold of a run whatever happened to it: an account of its journal, kept as it grows.

Threads log rows `{"t<thread>": n, "x": n / 7}` at step n and acknowledge n when `log` has returned. The account is
kept with the reference reader: every row once, as it was logged, in its thread's order; what was acknowledged and is
not there is a gap, and counted.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import reference

Key = tuple[int, int]


class Account:
    """What one rank wrote in one attempt, as far as it has been read."""

    def __init__(self) -> None:
        self.seen = bytearray()  # by `seq`
        self.rows: dict[int, array[int]] = {}  # by thread and n: the row's `seq`, or -1
        self.finish: dict[str, Any] | None = None

    def enter(self, record: dict[str, Any]) -> None:
        seq = record["seq"]
        self.seen.extend(bytes(max(0, seq + 1 - len(self.seen))))
        assert not self.seen[seq], f"seq {seq} is there twice: {record}"
        self.seen[seq] = 1
        if record["log"] == "step":
            self._enter_row(record)
        elif record["log"] == "finish":
            self.finish = record
        assert (record["log"] == "attempt") == (seq == 0), record

    def _enter_row(self, record: dict[str, Any]) -> None:
        [(name, n), (x, value), *_] = record["metrics"].items()
        assert (name[0], x) == ("t", "x"), record
        assert value == n / 7, record
        assert record["step"] == n, record
        rows = self.rows.setdefault(int(name[1:]), array("q"))
        rows.extend([-1] * (n + 1 - len(rows)))
        assert rows[n] < 0, f"row {n} of thread {name} is there twice: {record}"
        rows[n] = record["seq"]

    @property
    def holes(self) -> int:
        """How many numbers are missing from `seq`, up to the newest."""
        return self.seen.count(0)

    @property
    def kept(self) -> int:
        """How many rows there are."""
        return sum(int((np.frombuffer(rows, "q") >= 0).sum()) for rows in self.rows.values())

    def absent(self, acked: Sequence[int]) -> int:
        """How many rows were acknowledged and are not there; `acked` is the last one of each thread."""
        nothing = array("q", [-1])
        return sum(
            upto + 1 - int((np.frombuffer(self.rows.get(thread, nothing), "q")[: upto + 1] >= 0).sum())
            for thread, upto in enumerate(acked)
        )

    def check_order(self) -> None:
        """Each thread's rows have their `seq` in the order they were logged in."""
        for thread, rows in self.rows.items():
            seqs = np.frombuffer(rows, "q")
            assert (np.diff(seqs[seqs >= 0]) > 0).all(), f"thread {thread} is out of order"

    def check_nothing_invented(self, acked: Sequence[int]) -> None:
        """Nobody has a row more than the one that was being acknowledged."""
        for thread, rows in self.rows.items():
            assert len(rows) <= acked[thread] + 2, f"thread {thread}: {len(rows)} rows, {acked[thread] + 1} logged"


class Ledger:
    """The accounts of a run, by rank and attempt; `read` enters what has come since."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.accounts: dict[Key, Account] = {}
        self.damage = 0  # byte ranges that hold no record
        self._read: dict[str, int] = {}

    def read(self) -> None:
        for path in sorted((self.run / "journal").iterdir()):
            if match := reference.SEGMENT.fullmatch(path.name):
                account = self.accounts.setdefault((int(match[1]), int(match[2])), Account())
                with path.open("rb") as file:
                    file.seek(self._read.get(path.name, 0))
                    data = file.read()
                whole = data[: data.rfind(b"\n") + 1]  # a line under way is for the next time
                self._read[path.name] = self._read.get(path.name, 0) + len(whole)
                found = reference.segment(whole)
                self.damage += len(found.damage)
                for record in found.records:
                    account.enter(record)
