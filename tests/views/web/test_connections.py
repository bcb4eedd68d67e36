"""Who has to leave when there are too many connections."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

from chiplog.views.web import connections
from chiplog.views.web.connections import Connection, Connections


class _Crowd:
    """Connections whose tasks only wait."""

    def __init__(self) -> None:
        self.all = Connections()

    async def enter(self, count: int, *, trusted: bool = False) -> list[Connection]:
        made: list[Connection] = []

        async def stay() -> None:
            with self.all.admit() as one:
                if trusted:
                    self.all.trust(one)
                made.append(one)
                await asyncio.Event().wait()

        for _ in range(count):
            asyncio.ensure_future(stay())  # noqa: RUF006  the connection holds its task
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        return made


def _gone(members: list[Connection]) -> list[int]:
    return [number for number, one in enumerate(members) if one.task.cancelled()]


def test_a_stranger_displaces_the_oldest_stranger_and_nobody_else() -> None:
    """Those who have shown the token stay, however many strangers come."""

    async def main() -> None:
        crowd = _Crowd()
        friends = await crowd.enter(10, trusted=True)
        strangers = await crowd.enter(connections.STRANGERS + 5)
        assert _gone(strangers) == [0, 1, 2, 3, 4] and _gone(friends) == []
        await crowd.all.close()
        assert all(one.task.done() for one in (*friends, *strangers))

    asyncio.run(main())


def test_a_stranger_that_is_being_answered_has_to_leave_too() -> None:
    """Whoever asks and never reads holds no place."""

    async def main() -> None:
        crowd = _Crowd()
        with ExitStack() as busy:
            strangers = await crowd.enter(connections.STRANGERS)
            for one in strangers:
                busy.enter_context(crowd.all.busy(one))
            await crowd.enter(2)
            assert _gone(strangers) == [0, 1]
        await crowd.all.close()

    asyncio.run(main())


def test_idle_clients_with_the_token_make_room_first() -> None:
    """Then the one that has been busy longest: a page connects again by itself."""

    async def main() -> None:
        crowd = _Crowd()
        friends = await crowd.enter(connections.TRUSTED, trusted=True)
        with ExitStack() as busy:
            for one in (*friends[:5], *friends[6:]):
                busy.enter_context(crowd.all.busy(one))
            first = await crowd.enter(1, trusted=True)
            assert _gone(friends) == [5]
            busy.enter_context(crowd.all.busy(first[0]))
            await crowd.enter(1, trusted=True)
            assert _gone(friends) == [0, 5]
        await crowd.all.close()

    asyncio.run(main())


def test_large_responses_that_nobody_reads_are_dropped() -> None:
    """The memory for responses is limited; the newest always gets its own."""

    async def main() -> None:
        crowd = _Crowd()
        friends = await crowd.enter(5, trusted=True)
        with ExitStack() as busy:
            for one in friends:
                busy.enter_context(crowd.all.busy(one))
                crowd.all.hold(one, connections.IN_FLIGHT // 3)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert _gone(friends) == [0, 1]
            crowd.all.hold(friends[4], 10 * connections.IN_FLIGHT)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert _gone(friends) == [0, 1, 2, 3]
        await crowd.all.close()

    asyncio.run(main())
