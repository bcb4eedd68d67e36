"""The thread of the ranks: forms the group, starts rounds when they are due, and writes what is complete."""

from __future__ import annotations

import threading
import time

from chiplog.core.background.wakeup import WakeUp
from chiplog.runtime.ranks.rounds.group_rounds import GroupRounds, UnderWay, do_not_wait
from chiplog.runtime.ranks.rounds.round_lock import RoundLock
from chiplog.runtime.ranks.transport.group import GroupBroken


class RoundThread:
    """Takes turns, one round at most in each, until the run has stopped; then closes the group."""

    def __init__(self, rounds: GroupRounds, lock: RoundLock, wakeup: WakeUp) -> None:
        self._rounds, self._lock, self._wakeup = rounds, lock, wakeup
        self._thread = threading.Thread(target=self._serve, name="chiplog-ranks", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def join(self, timeout: float) -> None:
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def take_turn(self) -> float:
        """Do what is due, and return the seconds until the next turn; call it with the lock held."""
        rounds = self._rounds
        try:
            exchange = rounds.exchange
            if exchange is None:
                rounds.discard_queue()
                rounds.gaps.report_if_long()
                if (exchange := rounds.join()) is None:
                    return rounds.timing.form_poll(was_formed=rounds.membership.was_formed)
            rounds.pack()
            rounds.write_complete()
            if not exchange.under_way:
                wait = rounds.timing.due - time.monotonic()
                if wait > 0 and not (exchange.outbox.left if rounds.options.sync else exchange.full):
                    return wait
                exchange.begin()
            rounds.finish_round(do_not_wait)
            rounds.write_complete()
            return 0.0
        except UnderWay:
            return rounds.round_poll(on_thread=True)
        except GroupBroken as error:
            rounds.break_up(str(error))
            return 0.0
        except Exception as error:
            # The store has gone with the rank that held it; or, in a round, an error of our own, which ends it: the
            # others would continue with rounds that this rank has lost count of.
            rounds.shutdown.stopped = rounds.shutdown.stopped or rounds.exchange is not None
            rounds.break_up(str(error))
            return 1.0

    def _serve(self) -> None:
        shutdown = self._rounds.shutdown
        while not shutdown.stopped:
            with self._lock:
                pause = self.take_turn()
            if pause > 0:
                self._wakeup.wait(pause)
        if shutdown.closing:  # what was not complete in time is worth writing, too
            self._rounds.write_rest()
        shutdown.drained.set()
        try:
            self._rounds.group.close()
        except Exception:  # the group may be gone already
            pass
