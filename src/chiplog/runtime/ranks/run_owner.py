"""Which rank keeps a run by default: rank 0, or where it logs nothing, the first rank that does.

A rank other than 0 holds what it logs until it has seen which it is. All of it is on a thread of its own, which begins
with the first row and ends when that is clear.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from chiplog.core import messages
from chiplog.core.background import forks
from chiplog.core.engine.held_journal import HeldJournal
from chiplog.runtime.ranks.run_claims import Claims

LOOK = 1.0  # s between two looks
PATIENCE = 30.0  # s that rank 0 has to log something, from the first row of another rank on
AT_END = 2.0  # s that it has where this rank ends before
MOST = 10_000  # records that are held


class Successor:
    """A rank other than 0: keeps the run where rank 0 logs nothing."""

    def __init__(self, rank: int, board: Claims, keep: Callable[[], None], let_go: Callable[[], None]) -> None:
        self._rank, self._board, self._keep, self._let_go = rank, board, keep, let_go
        self.pages = HeldJournal(self._start)
        self._deciding = threading.RLock()
        self._ended = threading.Event()
        forks.watch(self)

    def _start(self) -> None:
        threading.Thread(target=self._serve, name="chiplog-keeping", daemon=True).start()

    def _serve(self) -> None:
        until = time.monotonic() + PATIENCE
        while not self._ended.is_set() and self.pages.undecided:
            self._decide(last=time.monotonic() > until or len(self.pages) > MOST)
            self._ended.wait(LOOK)

    def settle(self) -> None:
        """The run ends: what is held is kept or let go now."""
        until = time.monotonic() + AT_END
        self._ended.set()
        while self.pages.undecided and self.pages.logged:
            self._decide(last=time.monotonic() > until)
            if self.pages.undecided:
                time.sleep(0.05)
        if self.pages.undecided:
            self.pages.release()

    def _decide(self, *, last: bool) -> None:
        """See who keeps the run; where nobody does for the `last` time, this rank."""
        with self._deciding:
            if not self.pages.undecided:
                return
            kept = self._ask(last)
            if kept == self._rank:
                try:
                    self._keep()
                except Exception as error:
                    messages.say(f"rank {self._rank} logs, rank 0 does not, and what it logs cannot be kept: {error}")
                    self.pages.lose(str(error))
            elif kept is not None:
                self.pages.release()
                self._let_go()

    def _ask(self, last: bool) -> int | None:
        try:
            return self._board.claim(self._rank) if last else self._board.keeper()
        except Exception:  # the store has gone with the rank that held it, or the disk refuses: better twice than never
            return self._rank if last else None

    def forked(self) -> None:
        self._ended.set()
        self._deciding = threading.RLock()


class Main:
    """Rank 0: says that it keeps the run when it logs its first row, or sees that another rank does."""

    def __init__(self, board: Claims, hand_over: Callable[[int], None]) -> None:
        self._board, self._hand_over = board, hand_over
        self._wake = threading.Event()
        self._logs = self._ended = False
        self._thread = threading.Thread(target=self._serve, name="chiplog-keeping", daemon=True)
        forks.watch(self)

    def start(self) -> None:
        self._thread.start()

    def log(self) -> None:
        """The first row has been logged."""
        self._logs = True
        self._wake.set()

    def end(self) -> None:
        """The run ends; that it has logged something is published before."""
        self._ended = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(LOOK)

    def _serve(self) -> None:
        logs = False
        while not logs and not self._ended:
            self._wake.wait(LOOK)
            logs = self._logs
            try:
                kept = self._board.claim(0) if logs else self._board.keeper()
            except Exception:  # the store or the disk does not answer: other ranks keep their own then
                continue
            if kept:
                self._hand_over(kept)
                return

    def forked(self) -> None:
        self._ended = True
