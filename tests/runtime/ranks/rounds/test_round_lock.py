"""The lock of whoever runs a round."""

from __future__ import annotations

import threading

from chiplog.runtime.ranks.rounds.round_lock import RoundLock


def test_the_thread_that_holds_it_cannot_take_it_again_and_does_not_wait() -> None:
    """As in a signal handler that logs, while the code it interrupted holds the lock."""
    lock = RoundLock()
    with lock:
        assert not lock.acquire(60.0)
    assert lock.acquire()
    lock.release()


def test_another_thread_takes_it_only_when_it_is_free() -> None:
    """Without a timeout it does not wait."""
    lock, taken = RoundLock(), []
    lock.acquire()
    for _ in range(2):
        thread = threading.Thread(target=lambda: taken.append(lock.acquire()))
        thread.start()
        thread.join()
        if not taken[-1]:
            lock.release()
    assert taken == [False, True]
