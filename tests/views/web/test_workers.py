"""The threads that read runs for the server."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

import pytest

from chiplog.views.web.workers import Workers
from tests.support.waiting import wait_for


def test_a_job_returns_and_raises_like_a_call() -> None:
    """Its result or its exception reaches the one who waits, and the thread goes on to the next."""

    async def main() -> None:
        workers = Workers(1)
        assert await workers.run("a", divmod, 7, 2) == (3, 1)
        with pytest.raises(ZeroDivisionError):
            await workers.run("a", divmod, 7, 0)
        assert await workers.run("a", divmod, 9, 2) == (4, 1)

    asyncio.run(main())


def test_one_group_never_has_all_threads() -> None:
    """While the jobs of one run wait for its lock, another run is answered."""

    async def main() -> None:
        workers, go = Workers(3, share=2), threading.Event()
        slow = [asyncio.create_task(workers.run("large", go.wait, 20)) for _ in range(10)]
        await asyncio.sleep(0)
        assert await asyncio.wait_for(workers.run("small", lambda: "answer"), 10) == "answer"
        assert not any(task.done() for task in slow)
        go.set()
        assert all(await asyncio.gather(*slow))

    asyncio.run(main())


def test_a_job_whose_client_has_left_is_not_started() -> None:
    """A page that was closed costs nothing but what had already begun."""

    async def main() -> None:
        workers, go, started = Workers(1), threading.Event(), []
        first = asyncio.create_task(workers.run("a", go.wait, 20))
        second = asyncio.create_task(workers.run("a", started.append, 2))
        await _until(lambda: workers._busy.total() == len(workers._waiting) == 1)
        second.cancel()
        await asyncio.sleep(0)
        go.set()
        await first
        assert await workers.run("a", lambda: "next") == "next"
        assert started == []

    asyncio.run(main())


async def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0)


def test_the_end_waits_no_longer_than_it_is_told() -> None:
    """Whoever stops a server learns whether a read is still under way."""
    workers, go = Workers(2), threading.Event()
    thread = threading.Thread(target=workers.map, args=(lambda _: go.wait(20), range(2)))
    thread.start()
    wait_for(lambda: workers._busy.total() == 2)
    assert not workers.join(0.05)
    go.set()
    assert workers.join(10)
    thread.join(10)


def test_results_come_in_the_order_of_the_items() -> None:
    """However many threads there are."""
    assert Workers(4).map(lambda n: n * n, range(50)) == [n * n for n in range(50)]
