"""Decides which rank keeps a run by default: rank 0, or if it logs nothing, the first rank that does.

Every other rank holds its records until that is decided, on a thread that starts with its first row.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from chiplog.core import messages
from chiplog.core.background import forks
from chiplog.core.journals.memory_journal import MemoryJournal
from chiplog.core.records import Record
from chiplog.runtime.ranks.run_claims import Claims

POLL = 1.0  # s between two polls of the claims
PATIENCE = 30.0  # s that rank 0 has to log something after the first row of another rank
AT_END = 2.0  # s that it has if this rank finishes first
MOST = 10_000  # records held


class Successor:
    """A rank other than 0: keeps the run if rank 0 logs nothing."""

    def __init__(
        self, rank: int, claims: Claims, keep: Callable[[], None], let_go: Callable[[list[Record]], None]
    ) -> None:
        self._rank, self._claims, self._keep, self._let_go = rank, claims, keep, let_go
        self.pages = MemoryJournal(self._start)
        self._deciding = threading.RLock()
        self._ended = threading.Event()
        self._failed = False  # once; then the claims are left alone until the end, as torch prints a page each time
        forks.watch(self)

    def _start(self) -> None:
        threading.Thread(target=self._serve, name="chiplog-keeping", daemon=True).start()

    def _serve(self) -> None:
        until = time.monotonic() + PATIENCE
        while not self._ended.is_set() and self.pages.undecided:
            self._decide(last=time.monotonic() > until or len(self.pages) > MOST)
            self._ended.wait(POLL)

    def decide(self) -> None:
        """Decide now, because the run ends."""
        until = time.monotonic() + AT_END
        self._ended.set()
        while self.pages.undecided and self.pages.logged:
            self._decide(last=time.monotonic() > until)
            if self.pages.undecided:
                time.sleep(0.05)
        if self.pages.undecided:
            self.pages.release()

    def _decide(self, *, last: bool) -> None:
        """Find out which rank keeps the run; at the `last` time, this rank does if no other does."""
        with self._deciding:
            if not self.pages.undecided:
                return
            keeper = self._keeper(last)
            if keeper == self._rank:
                try:
                    self._keep()
                except Exception as error:
                    messages.say(f"rank {self._rank} logs and rank 0 does not, but the run cannot be kept: {error}")
                    self.pages.lose(str(error))
            elif keeper is not None:
                self._let_go(self.pages.release())

    def _keeper(self, last: bool) -> int | None:
        if self._failed and not last:
            return None
        try:
            return self._claims.claim(self._rank) if last else self._claims.keeper()
        except Exception:  # the store has gone with its rank, or the disk fails: better kept twice than never
            self._failed = True
            return self._rank if last else None

    def forked(self) -> None:
        self._ended.set()
        self._deciding = threading.RLock()


class Main:
    """Rank 0: claims the run when it logs its first row, or notices that another rank keeps it."""

    def __init__(self, claims: Claims, hand_over: Callable[[int], None]) -> None:
        self._claims, self._hand_over = claims, hand_over
        self._wake = threading.Event()
        self._logs = self._ended = False
        self._thread = threading.Thread(target=self._serve, name="chiplog-keeping", daemon=True)
        forks.watch(self)

    def start(self) -> None:
        self._thread.start()

    def log(self) -> None:
        """Rank 0 has logged its first row."""
        self._logs = True
        self._wake.set()

    def end(self) -> None:
        """End the thread; a first row is published before."""
        self._ended = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(POLL)

    def _serve(self) -> None:
        logs = False
        while not logs and not self._ended:
            self._wake.wait(POLL)
            logs = self._logs
            try:
                keeper = self._claims.claim(0) if logs else self._claims.keeper()
            except Exception:  # the store or the disk fails: other ranks keep their own rows then
                continue
            if keeper:
                self._hand_over(keeper)
                return

    def forked(self) -> None:
        self._ended = True
